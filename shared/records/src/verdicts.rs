//! Verdicts as they were concluded, and what they showed of devices' speed.

use assay_work::Precision;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use sqlx::any::AnyRow;

use crate::column::get;
use crate::document::json;
use crate::flat::Document;
use crate::standing::finding_of;
use crate::{CommitmentRecord, FindingRecord, KeptEvidence, MAX_ROWS, ReceiptRecord, Records, RecordsError, receipts};

/// A verdict, and what is known with it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct VerdictRecord {
    /// The challenge.
    pub challenge: String,
    /// The miner's id; the key that answered is in the verdict.
    pub miner: String,
    /// When the challenge was sent.
    pub at_ms: i64,
    /// What it ended in.
    pub outcome: String,
    /// The group of the policy.
    pub group: String,
    /// The kind of challenge.
    pub kind: String,
    /// Why it was made.
    pub asked: String,
    /// The round it belongs to.
    pub round: Option<String>,
    /// Device time that it took.
    pub device_ms: i64,
    /// The verdict, as `--json` prints it.
    #[cfg_attr(feature = "schema", schema(value_type = assay_protocol::verdict::Verdict))]
    pub verdict: Box<RawValue>,
}

/// A verdict with everything behind it.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct FullVerdict {
    /// The verdict.
    #[serde(flatten)]
    pub record: VerdictRecord,
    /// The session.
    pub session: String,
    /// What the miner signed.
    pub commitment: Option<CommitmentRecord>,
    /// Its evidence.
    pub evidence: Option<KeptEvidence>,
    /// What else was found.
    pub findings: Vec<FindingRecord>,
    /// Its receipts.
    pub receipts: Vec<ReceiptRecord>,
}

/// What a [`FullVerdict`] has beside its record.
#[derive(Deserialize)]
struct Behind {
    session: String,
    commitment: Option<CommitmentRecord>,
    evidence: Option<KeptEvidence>,
    findings: Vec<FindingRecord>,
    receipts: Vec<ReceiptRecord>,
}

impl<'de> Deserialize<'de> for FullVerdict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let document = Document::deserialize(deserializer)?;
        let Behind { session, commitment, evidence, findings, receipts } = document.part()?;
        Ok(Self { record: document.part()?, session, commitment, evidence, findings, receipts })
    }
}

/// Where a page of verdicts ended: the next one begins there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerdictCursor {
    /// [`VerdictRecord::at_ms`] of the last one.
    pub at_ms: i64,
    /// [`VerdictRecord::challenge`] of the last one.
    pub challenge: String,
}

/// Which verdicts; what is empty leaves none out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct VerdictFilter {
    /// Any key of the miner.
    pub miner: Option<String>,
    /// The outcome.
    pub outcome: Option<String>,
    /// A reason's code.
    pub code: Option<String>,
    /// The round.
    pub round: Option<String>,
    /// Not before this time.
    pub since_ms: Option<i64>,
    /// Before this time.
    pub until_ms: Option<i64>,
    /// The page after this one.
    pub before: Option<VerdictCursor>,
    /// At most so many, and at most [`MAX_ROWS`].
    pub limit: Option<u32>,
}

/// What a device of a model showed in a challenge whose work held.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The challenge.
    pub challenge: String,
    /// The miner's id.
    pub miner: String,
    /// The operator of the host; empty where it has none.
    pub operator: String,
    /// The device.
    pub device_id: String,
    /// The name that the miner gives it.
    pub model: String,
    /// When.
    pub at_ms: i64,
    /// The matrix size: speeds at different sizes do not compare.
    pub n: i64,
    /// 2 · multiply-accumulates per second / 10¹².
    pub tops: f64,
    /// What the probe read per second / 10⁹.
    pub gb_per_s: f64,
    /// Memory shown.
    pub bytes: i64,
}

/// The most samples of one operator's hosts: enough for a median, and no more than others can bring.
pub const MAX_SAMPLES_PER_OPERATOR: u32 = 256;

const SELECT: &str = "SELECT v.challenge, v.miner, v.at_ms, v.outcome, v.document, c.grp, c.kind, c.asked, c.round, \
     c.device_ms, c.session FROM verdicts v JOIN challenges c ON c.id = v.challenge";

impl Records {
    /// Verdicts, newest first.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn verdicts(&self, filter: &VerdictFilter) -> Result<Vec<VerdictRecord>, RecordsError> {
        let miner = match &filter.miner {
            Some(key) => match self.miner_id(key).await? {
                Some(miner) => miner,
                None => return Ok(Vec::new()),
            },
            None => String::new(),
        };
        // Only what is asked for is in the statement: then the database can choose an index by it.
        let mut sql = format!("{SELECT} WHERE v.at_ms >= $1 AND v.at_ms < $2");
        let conditions = [
            (!miner.is_empty(), " AND v.miner = $3"),
            (filter.outcome.is_some(), " AND v.outcome = $4"),
            (filter.code.is_some(), " AND v.challenge IN (SELECT r.challenge FROM reasons r WHERE r.code = $5)"),
            (filter.round.is_some(), " AND c.round = $6"),
            (filter.before.is_some(), " AND (v.at_ms < $7 OR (v.at_ms = $7 AND v.challenge < $8))"),
        ];
        for (_, condition) in conditions.iter().filter(|(is_asked, _)| *is_asked) {
            sql.push_str(condition);
        }
        // Names every parameter, so that PostgreSQL knows the types of those that are not asked for.
        sql.push_str(
            " AND COALESCE($3, '') <> '-' AND COALESCE($4, '') <> '-' AND COALESCE($5, '') <> '-' \
             AND COALESCE($6, '') <> '-' AND $7 > -2 AND COALESCE($8, '') <> '-' \
             ORDER BY v.at_ms DESC, v.challenge DESC LIMIT $9",
        );
        let before = filter.before.clone().unwrap_or(VerdictCursor { at_ms: -1, challenge: String::new() });
        let query = sqlx::query(&sql)
            .bind(filter.since_ms.unwrap_or(0))
            .bind(filter.until_ms.unwrap_or(i64::MAX))
            .bind(miner)
            .bind(filter.outcome.as_deref().unwrap_or(""))
            .bind(filter.code.as_deref().unwrap_or(""))
            .bind(filter.round.as_deref().unwrap_or(""))
            .bind(before.at_ms)
            .bind(before.challenge)
            .bind(i64::from(filter.limit.unwrap_or(MAX_ROWS).min(MAX_ROWS)));
        let rows = query.fetch_all(self.read()).await.map_err(|e| RecordsError::from(e).doing("list verdicts"))?;
        rows.iter().map(verdict_of).collect()
    }

    /// The verdict of a challenge, with everything behind it.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn verdict(&self, challenge: &str) -> Result<Option<FullVerdict>, RecordsError> {
        let sql = format!("{SELECT} WHERE v.challenge = $1");
        let row = sqlx::query(&sql).bind(challenge).fetch_optional(self.read()).await;
        let row = row.map_err(|e| RecordsError::from(e).doing("look up a verdict"))?;
        let Some(row) = row else { return Ok(None) };
        let record = verdict_of(&row)?;
        let sql = "SELECT * FROM commitments WHERE challenge = $1";
        let commitment = sqlx::query(sql).bind(challenge).fetch_optional(self.read()).await?;
        let findings = sqlx::query("SELECT * FROM findings WHERE challenge = $1 ORDER BY id").bind(challenge);
        let findings = findings.fetch_all(self.read()).await?;
        Ok(Some(FullVerdict {
            record,
            session: get(&row, "session")?,
            commitment: commitment.as_ref().map(commitment_of).transpose()?,
            evidence: self.evidence_of(challenge).await?,
            findings: findings.iter().map(|row| Ok(finding_of(row)?.finding)).collect::<Result<_, RecordsError>>()?,
            receipts: receipts::of_challenge(self, challenge).await?,
        }))
    }

    /// The verdict of a challenge alone, as `--json` prints it.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn verdict_document(&self, challenge: &str) -> Result<Option<Box<RawValue>>, RecordsError> {
        let found = sqlx::query_scalar("SELECT document FROM verdicts WHERE challenge = $1").bind(challenge);
        let found: Option<String> = found.fetch_optional(self.read()).await?;
        found.map(|document| json(&document, "verdict")).transpose()
    }

    /// Challenges with a verdict whose ids begin with these digits, at most `limit`.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn verdicts_by_prefix(&self, prefix: &str, limit: u32) -> Result<Vec<String>, RecordsError> {
        let sql = "SELECT challenge FROM verdicts WHERE challenge >= $1 AND challenge < $2 ORDER BY challenge LIMIT $3";
        let found = sqlx::query_scalar(sql).bind(prefix).bind(format!("{prefix}g")).bind(i64::from(limit));
        let found = found.fetch_all(self.read()).await;
        found.map_err(|e| RecordsError::from(e).doing("look up a verdict"))
    }

    /// What devices of a model showed since a time in challenges of a kind of work that held: of each device the newest `each`, of
    /// each operator the newest [`MAX_SAMPLES_PER_OPERATOR`], and at most [`MAX_ROWS`] in all, shared by the operators:
    /// nobody pushes others out by bringing more hosts. A host without an operator is one of its own.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn samples(
        &self,
        model: &str,
        precision: Precision,
        since_ms: i64,
        each: u32,
    ) -> Result<Vec<Sample>, RecordsError> {
        let sql = "SELECT * FROM (SELECT latest.*, ROW_NUMBER() OVER (PARTITION BY CASE WHEN operator = '' THEN miner \
             ELSE operator END, operator ORDER BY at_ms DESC, challenge, device_id) AS of_operator \
             FROM (SELECT d.*, ROW_NUMBER() OVER (PARTITION BY d.miner, d.device_id \
             ORDER BY d.at_ms DESC, d.challenge) AS nth FROM device_results d \
             WHERE d.model = $1 AND d.work_held = 1 AND d.at_ms >= $2 AND d.precision = $6) AS latest WHERE nth <= $3) AS shared \
             WHERE of_operator <= $4 ORDER BY of_operator, at_ms DESC, challenge, device_id LIMIT $5";
        let query = sqlx::query(sql).bind(model).bind(since_ms).bind(i64::from(each));
        let query = query.bind(i64::from(MAX_SAMPLES_PER_OPERATOR)).bind(i64::from(MAX_ROWS));
        let query = query.bind(i64::from(precision.code()));
        let rows =
            query.fetch_all(self.read()).await.map_err(|e| RecordsError::from(e).doing("read measured speeds"))?;
        rows.iter().map(sample_of).collect()
    }
}

pub(crate) fn verdict_of(row: &AnyRow) -> Result<VerdictRecord, RecordsError> {
    Ok(VerdictRecord {
        challenge: get(row, "challenge")?,
        miner: get(row, "miner")?,
        at_ms: get(row, "at_ms")?,
        outcome: get(row, "outcome")?,
        group: get(row, "grp")?,
        kind: get(row, "kind")?,
        asked: get(row, "asked")?,
        round: get(row, "round")?,
        device_ms: get(row, "device_ms")?,
        verdict: json(&get::<String>(row, "document")?, "verdict")?,
    })
}

fn commitment_of(row: &AnyRow) -> Result<CommitmentRecord, RecordsError> {
    Ok(CommitmentRecord {
        checksum: get(row, "checksum")?,
        signature: get(row, "signature")?,
        probe_checksum: get(row, "probe_checksum")?,
        probe_signature: get(row, "probe_signature")?,
    })
}

fn sample_of(row: &AnyRow) -> Result<Sample, RecordsError> {
    Ok(Sample {
        challenge: get(row, "challenge")?,
        miner: get(row, "miner")?,
        operator: get(row, "operator")?,
        device_id: get(row, "device_id")?,
        model: get(row, "model")?,
        at_ms: get(row, "at_ms")?,
        n: get(row, "n")?,
        tops: get(row, "tops")?,
        gb_per_s: get(row, "probe_gb_per_s")?,
        bytes: get(row, "bytes_held")?,
    })
}
