//! Verdicts as they were concluded, and the speeds of devices that they show.

use assay_work::Precision;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sqlx::any::AnyRow;

use crate::column::{get, read};
use crate::document::json;
use crate::standing::finding_of;
use crate::{CommitmentRecord, FullVerdict, MAX_ROWS, Records, Result, VerdictRecord, receipts};

cursor! {
    /// Where a page of verdicts ended.
    VerdictCursor after VerdictRecord: at_ms, challenge
}

/// A selection of verdicts; an empty field selects all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VerdictFilter {
    /// Any key of the miner.
    pub miner: Option<String>,
    pub outcome: Option<String>,
    pub code: Option<String>,
    pub round: Option<String>,
    /// Not before this time.
    pub since_ms: Option<i64>,
    /// Before this time.
    pub until_ms: Option<i64>,
    /// The page after this one.
    pub before: Option<VerdictCursor>,
    /// The most rows, [`MAX_ROWS`] at most.
    pub limit: Option<u32>,
}

/// A device's results in a challenge whose work held.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeviceSample {
    pub challenge: String,
    pub miner: String,
    /// The operator of the host; empty where it has none.
    pub operator: String,
    pub device_id: String,
    /// The name that the miner gives it.
    pub model: String,
    /// The time, in ms since 1970.
    pub at_ms: i64,
    /// The matrix size: speeds at different sizes do not compare.
    pub n: i64,
    /// 2 · multiply-accumulates per second / 10¹².
    pub tops: f64,
    /// The rate of the probe's reads, in bytes per second / 10⁹.
    pub gb_per_s: f64,
    /// Bytes of memory shown.
    pub bytes: i64,
}

/// The most samples of one operator's hosts: enough for a median, and no more than others can bring.
pub const MAX_SAMPLES_PER_OPERATOR: u32 = 256;

const COLUMNS: &str = "SELECT v.challenge, v.miner, v.at_ms, v.outcome, v.document, c.grp, c.kind, c.asked, c.round, \
     c.device_ms, c.session FROM";
const JOIN: &str = "verdicts v JOIN challenges c ON c.id = v.challenge";

impl Records {
    pub async fn verdicts(&self, filter: &VerdictFilter) -> Result<Vec<VerdictRecord>> {
        let miner = match &filter.miner {
            Some(key) => match self.miner_id(key).await? {
                Some(miner) => miner,
                None => return Ok(Vec::new()),
            },
            None => String::new(),
        };
        // Only the conditions in use are in the statement: then the database can choose an index by them. SQLite keeps
        // no statistics here, so a query by round or code starts there: SQLite reads the left side of CROSS JOIN first.
        let (from, at, id) = match (&filter.round, &filter.code) {
            (Some(_), _) => ("challenges c CROSS JOIN verdicts v", "v.at_ms", "v.challenge"),
            (None, Some(_)) => ("reasons r CROSS JOIN verdicts v CROSS JOIN challenges c", "r.first_ms", "r.challenge"),
            (None, None) => (JOIN, "v.at_ms", "v.challenge"),
        };
        let mut sql = format!("{COLUMNS} {from} WHERE {at} >= $1 AND {at} < $2 AND c.id = v.challenge");
        let after = format!(" AND ({at} < $7 OR ({at} = $7 AND {id} < $8))");
        // Of a round's few verdicts the reasons are read, and not the verdicts of a code.
        let has_code = match filter.round {
            Some(_) => " AND EXISTS (SELECT 1 FROM reasons r WHERE r.challenge = v.challenge AND r.code || '' = $5)",
            None => " AND r.code = $5 AND v.challenge = r.challenge",
        };
        let conditions = [
            (!miner.is_empty(), " AND v.miner = $3"),
            (filter.outcome.is_some(), " AND v.outcome = $4"),
            (filter.code.is_some(), has_code),
            (filter.round.is_some(), " AND c.round = $6"),
            (filter.before.is_some(), after.as_str()),
        ];
        for (_, condition) in conditions.iter().filter(|(is_asked, _)| *is_asked) {
            sql.push_str(condition);
        }
        // Names every parameter, so that PostgreSQL knows the types of those that are not asked for.
        sql.push_str(&format!(
            " AND COALESCE($3, '') <> '-' AND COALESCE($4, '') <> '-' AND COALESCE($5, '') <> '-' \
             AND COALESCE($6, '') <> '-' AND $7 > -2 AND COALESCE($8, '') <> '-' \
             ORDER BY {at} DESC, {id} DESC LIMIT $9"
        ));
        let before = filter.before.clone().unwrap_or(VerdictCursor { at_ms: -1, challenge: String::new() });
        let query = sqlx::query(sql!("{sql}"))
            .bind(filter.since_ms.unwrap_or(0))
            .bind(filter.until_ms.unwrap_or(i64::MAX))
            .bind(miner)
            .bind(filter.outcome.as_deref().unwrap_or(""))
            .bind(filter.code.as_deref().unwrap_or(""))
            .bind(filter.round.as_deref().unwrap_or(""))
            .bind(before.at_ms)
            .bind(before.challenge)
            .bind(i64::from(filter.limit.unwrap_or(MAX_ROWS).min(MAX_ROWS)));
        self.list("list verdicts", query, verdict_of).await
    }

    /// The verdict of a challenge, with everything behind it.
    pub async fn verdict(&self, challenge: &str) -> Result<Option<FullVerdict>> {
        let sql = sql!("{COLUMNS} {JOIN} WHERE v.challenge = $1");
        let found = self.find_row("look up a verdict", sqlx::query(sql).bind(challenge), |row| {
            Ok((verdict_of(row)?, get(row, "session")?))
        });
        let Some((record, session)) = found.await? else { return Ok(None) };
        let sql = "SELECT * FROM commitments WHERE challenge = $1";
        let commitment = sqlx::query(sql).bind(challenge).fetch_optional(self.read()).await?;
        let findings = sqlx::query("SELECT * FROM findings WHERE challenge = $1 ORDER BY id").bind(challenge);
        let findings = findings.fetch_all(self.read()).await?;
        Ok(Some(FullVerdict {
            record,
            session,
            commitment: commitment.as_ref().map(commitment_of).transpose()?,
            evidence: self.evidence_of(challenge).await?,
            findings: findings.iter().map(|row| Ok(finding_of(row)?.finding)).collect::<Result<_>>()?,
            receipts: receipts::of_challenge(self, challenge).await?,
        }))
    }

    /// The verdict of a challenge alone, as `--json` prints it.
    pub async fn verdict_document(&self, challenge: &str) -> Result<Option<Box<RawValue>>> {
        let found = sqlx::query_scalar("SELECT document FROM verdicts WHERE challenge = $1").bind(challenge);
        let found: Option<String> = found.fetch_optional(self.read()).await?;
        found.map(|document| json(&document, "verdict")).transpose()
    }

    /// Challenges with a verdict whose ids begin with these digits, at most `limit`.
    pub async fn verdicts_by_prefix(&self, prefix: &str, limit: u32) -> Result<Vec<String>> {
        let sql = "SELECT challenge FROM verdicts WHERE challenge >= $1 AND challenge < $2 ORDER BY challenge LIMIT $3";
        let query = sqlx::query(sql).bind(prefix).bind(format!("{prefix}g")).bind(i64::from(limit));
        self.list("look up a verdict", query, |row| get(row, "challenge")).await
    }

    /// The results of devices of a model since a time, in challenges of a kind of work that held: of each device the
    /// newest `each`, of each operator the newest [`MAX_SAMPLES_PER_OPERATOR`], and at most [`MAX_ROWS`] in all, shared
    /// by the operators: an operator displaces no other by bringing more hosts. A host without an operator counts as an
    /// operator. A host of several models shows the speed of none: older
    /// miners give its devices one time.
    pub async fn samples(
        &self,
        model: &str,
        precision: Precision,
        since_ms: i64,
        each: u32,
    ) -> Result<Vec<DeviceSample>> {
        // From device to device and to the newest results of each, by the index: the cost does not grow with the
        // history. Both databases read the left side of CROSS JOIN first.
        let of_model = "model = $1 AND precision = $6 AND work_held = 1";
        let first =
            |column: &str, among: &str| format!("(SELECT MIN({column}) FROM device_results WHERE {of_model} {among})");
        let sql = sql!(
            "WITH RECURSIVE host (of_miner) AS (SELECT {} UNION ALL SELECT {} FROM host WHERE of_miner IS NOT NULL), \
             device (of_miner, id) AS (SELECT of_miner, {} FROM host WHERE of_miner IS NOT NULL \
             UNION ALL SELECT of_miner, {} FROM device WHERE id IS NOT NULL) \
             SELECT * FROM (SELECT latest.*, ROW_NUMBER() OVER (PARTITION BY CASE WHEN operator = '' THEN miner \
             ELSE operator END, operator ORDER BY at_ms DESC, challenge, device_id) AS of_operator \
             FROM (SELECT d.*, ROW_NUMBER() OVER (PARTITION BY d.miner, d.device_id \
             ORDER BY d.at_ms DESC, d.challenge) AS nth FROM device CROSS JOIN device_results d \
             WHERE d.model = $1 AND d.precision = $6 AND d.work_held = 1 AND d.miner = device.of_miner \
             AND d.device_id = device.id AND d.at_ms >= COALESCE((SELECT at_ms FROM device_results \
             WHERE {of_model} AND miner = device.of_miner AND device_id = device.id AND at_ms >= $2 \
             ORDER BY at_ms DESC LIMIT 1 OFFSET $3 - 1), $2)) AS latest WHERE nth <= $3 AND NOT EXISTS \
             (SELECT 1 FROM device_results o WHERE o.challenge = latest.challenge AND o.model <> latest.model)) AS shared \
             WHERE of_operator <= $4 ORDER BY of_operator, at_ms DESC, challenge, device_id LIMIT $5",
            first("miner", ""),
            first("miner", "AND miner > host.of_miner"),
            first("device_id", "AND miner = host.of_miner"),
            first("device_id", "AND miner = device.of_miner AND device_id > device.id"),
        );
        let query = sqlx::query(sql).bind(model).bind(since_ms).bind(i64::from(each));
        let query = query.bind(i64::from(MAX_SAMPLES_PER_OPERATOR)).bind(i64::from(MAX_ROWS));
        let query = query.bind(i64::from(precision.code()));
        self.list("read measured speeds", query, sample_of).await
    }
}

pub(crate) fn verdict_of(row: &AnyRow) -> Result<VerdictRecord> {
    Ok(read!(row => VerdictRecord {
        challenge, miner, at_ms, outcome, kind, asked, round, device_ms;
        group: get(row, "grp")?,
        verdict: json(&get::<String>(row, "document")?, "verdict")?,
    }))
}

fn commitment_of(row: &AnyRow) -> Result<CommitmentRecord> {
    Ok(read!(row => CommitmentRecord { checksum, signature, probe_checksum, probe_signature }))
}

fn sample_of(row: &AnyRow) -> Result<DeviceSample> {
    Ok(read!(row => DeviceSample {
        challenge, miner, operator, device_id, model, at_ms, n, tops;
        gb_per_s: get(row, "probe_gb_per_s")?,
        bytes: get(row, "bytes_held")?,
    }))
}
