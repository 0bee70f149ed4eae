//! Which evidence is kept, and for which challenges.

use sqlx::any::AnyRow;

use crate::column::{get, read};
use crate::tx::Tx;
use crate::{EvidenceRecord, KeptEvidence, MAX_ROWS, Records, Result};

/// Whose share of the room an object of evidence takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvidenceShare {
    pub digest: String,
    /// Its bytes, compressed.
    pub stored_bytes: i64,
    pub miner: String,
    /// No device of the miner ever passed.
    pub is_stranger: bool,
}

impl Records {
    /// The evidence that is kept, oldest first, from a time and challenge on.
    pub async fn kept_evidence(&self, after: Option<(i64, &str)>, limit: u32) -> Result<Vec<KeptEvidence>> {
        let (at_ms, challenge) = after.unwrap_or((-1, ""));
        let sql = "SELECT * FROM evidence WHERE dropped_ms IS NULL AND (at_ms > $1 OR (at_ms = $1 AND challenge > $2)) \
             ORDER BY at_ms, challenge LIMIT $3";
        let query = sqlx::query(sql).bind(at_ms).bind(challenge).bind(i64::from(limit.min(MAX_ROWS)));
        self.list("list evidence", query, kept_of).await
    }

    /// The names of the evidence that an attestation state rests on: of each miner that is suspect, failed or
    /// quarantined, that of its latest failing verdict.
    pub async fn needed_evidence(&self) -> Result<Vec<String>> {
        // CASE keeps the planner from the index of outcomes: a miner has fewer verdicts than the fleet has fails.
        let sql = "SELECT e.digest FROM miners m CROSS JOIN evidence e WHERE m.state IN ('suspect', 'failed', \
             'quarantined') AND e.dropped_ms IS NULL AND e.challenge = (SELECT v.challenge FROM verdicts v \
             WHERE v.miner = m.id AND CASE v.outcome WHEN 'fail' THEN 1 END = 1 ORDER BY v.at_ms DESC LIMIT 1)";
        self.list("list needed evidence", sqlx::query(sql), |row| get(row, "digest")).await
    }

    /// The shares of all evidence that is kept, of all validators, newest first.
    pub async fn evidence_shares(&self) -> Result<Vec<EvidenceShare>> {
        let sql = "SELECT e.digest, e.stored_bytes, v.miner, CASE WHEN EXISTS (SELECT 1 FROM devices d \
             WHERE d.miner = v.miner AND d.last_pass_ms IS NOT NULL) THEN 0 ELSE 1 END AS is_stranger \
             FROM evidence e JOIN verdicts v ON v.challenge = e.challenge WHERE e.dropped_ms IS NULL \
             ORDER BY e.at_ms DESC, e.challenge";
        self.list("list the shares of evidence", sqlx::query(sql), |row| {
            let is_stranger = get::<i64>(row, "is_stranger")? == 1;
            Ok(read!(row => EvidenceShare { digest, stored_bytes, miner; is_stranger }))
        })
        .await
    }

    /// Notes that evidence of this name was removed.
    pub async fn evidence_dropped(&self, digest: &str, at_ms: i64) -> Result<()> {
        let sql = "UPDATE evidence SET dropped_ms = $2 WHERE digest = $1 AND dropped_ms IS NULL";
        self.execute("note removed evidence", sqlx::query(sql).bind(digest).bind(at_ms)).await.map(drop)
    }

    pub async fn evidence_of(&self, challenge: &str) -> Result<Option<KeptEvidence>> {
        let query = sqlx::query("SELECT * FROM evidence WHERE challenge = $1").bind(challenge);
        self.find_row("look for evidence", query, kept_of).await
    }
}

pub(crate) async fn insert(tx: &mut Tx, challenge: &str, evidence: &EvidenceRecord, at_ms: i64) -> Result<()> {
    let EvidenceRecord { digest, bytes, stored_bytes, why } = evidence;
    let sql =
        "INSERT INTO evidence (challenge, digest, bytes, stored_bytes, why, at_ms) VALUES ($1, $2, $3, $4, $5, $6)";
    let insert = sqlx::query(sql).bind(challenge).bind(digest).bind(*bytes).bind(*stored_bytes);
    insert.bind(why).bind(at_ms).execute(&mut **tx).await?;
    Ok(())
}

fn kept_of(row: &AnyRow) -> Result<KeptEvidence> {
    let evidence = read!(row => EvidenceRecord { digest, bytes, stored_bytes, why });
    Ok(read!(row => KeptEvidence { challenge, at_ms, dropped_ms; evidence }))
}
