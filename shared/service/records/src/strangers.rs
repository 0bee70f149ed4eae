//! Strangers: miners that no operator decided about and that never showed work. Where anyone may connect, keys cost
//! nothing, so their rows are bounded.

use crate::column::get;
use crate::retention::OF_A_CHALLENGE;
use crate::tx::Tx;
use crate::{Records, RecordsError, Result};

/// Strangers that are kept, those that came last. The rows of one take at most some hundred kB.
pub const MAX_STRANGERS: i64 = 10_000;
/// How long one is kept that does not come again, in milliseconds: thirty days.
pub const STRANGER_AGE_MS: i64 = 30 * 86_400_000;
/// Strangers that one transaction removes: others wait for it.
const BATCH: i64 = 32;

/// Neither connected nor decided about, and no device showed work. Where what was checked held, work was shown, whatever
/// the outcome; any other verdict costs a key nothing, and keeps no miner.
pub(crate) const IS_STRANGER: &str = "m.status = 'pending' AND m.labels = '{}' \
     AND NOT EXISTS (SELECT 1 FROM devices d WHERE d.miner = m.id AND d.last_pass_ms IS NOT NULL) \
     AND NOT EXISTS (SELECT 1 FROM sessions s WHERE s.miner = m.id AND s.disconnected_ms IS NULL) \
     AND NOT EXISTS (SELECT 1 FROM challenges c WHERE c.miner = m.id AND c.ended_ms IS NULL)";

/// No log lacks a verdict of it, or ends with one: a log that ended with less would pass for the newest.
const IS_LOGGED: &str = "NOT EXISTS (SELECT 1 FROM verdicts v WHERE v.miner = m.id AND (v.log_index IS NULL OR v.log_index = \
     (SELECT MAX(l.log_index) FROM verdicts l WHERE l.validator = v.validator AND l.log_index IS NOT NULL)))";

/// The other tables with rows of a miner and the condition that finds them; rows that refer to others come before them.
const OF_A_STRANGER: [(&str, &str); 9] = [
    ("transitions", "miner = $1"),
    ("findings", "miner = $1"),
    ("device_events", "miner = $1"),
    ("devices", "miner = $1"),
    ("shown", "miner = $1"),
    ("round_members", "miner = $1"),
    ("sessions", "miner = $1"),
    ("miner_keys", "miner = $1"),
    ("miners", "id = $1"),
];

/// Strangers that were removed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RemovedStrangers {
    pub miners: usize,
    /// The names of their evidence, which nothing in the records names any more.
    pub evidence: Vec<String>,
}

impl Records {
    /// Removes strangers with all that is known of them: some of those that came last before [`STRANGER_AGE_MS`], or
    /// that are more than `most`. When it removes none, no more are left.
    pub async fn remove_strangers(&self, most: i64, now_ms: i64) -> Result<RemovedStrangers> {
        let sql = sql!("SELECT COUNT(*) FROM miners m WHERE {IS_STRANGER}");
        let strangers: i64 = sqlx::query_scalar(sql).fetch_one(self.read()).await?;
        let over = (strangers - most).clamp(0, BATCH);
        let sql = sql!(
            "SELECT id, last_seen_ms FROM miners m WHERE {IS_STRANGER} AND {IS_LOGGED} ORDER BY last_seen_ms, id LIMIT $1"
        );
        let oldest = sqlx::query(sql).bind(BATCH).fetch_all(self.read()).await;
        let oldest = oldest.map_err(|e| RecordsError::from(e).doing("look for strangers"))?;
        let mut ids = Vec::new();
        for (number, row) in (0..).zip(&oldest) {
            if number < over || get::<i64>(row, "last_seen_ms")? < now_ms - STRANGER_AGE_MS {
                ids.push(get::<String>(row, "id")?);
            }
        }
        if ids.is_empty() {
            return Ok(RemovedStrangers::default());
        }
        transaction!(self, "remove strangers", |tx| {
            let mut removed = RemovedStrangers::default();
            for id in &ids {
                // One that is being changed now stays: it is a decision, or work.
                let sql = sql!("SELECT id FROM miners WHERE id = $1 {}", self.store.kind.skip_locked());
                if sqlx::query(sql).bind(id).fetch_optional(&mut *tx).await?.is_some() {
                    remove(&mut tx, id, &mut removed).await?;
                }
            }
            removed
        })
    }
}

/// Removes a miner, where it is still a stranger.
async fn remove(tx: &mut Tx, id: &str, removed: &mut RemovedStrangers) -> Result<()> {
    let sql = sql!("SELECT COUNT(*) FROM miners m WHERE m.id = $1 AND {IS_STRANGER} AND {IS_LOGGED}");
    let is_stranger: i64 = sqlx::query_scalar(sql).bind(id).fetch_one(&mut **tx).await?;
    if is_stranger == 0 {
        return Ok(());
    }
    let sql = "SELECT e.digest FROM evidence e JOIN verdicts v ON v.challenge = e.challenge \
         WHERE v.miner = $1 AND e.dropped_ms IS NULL";
    removed.evidence.extend(sqlx::query_scalar::<_, String>(sql).bind(id).fetch_all(&mut **tx).await?);
    let of_challenges = OF_A_CHALLENGE.map(|(table, column)| {
        sql!("DELETE FROM {table} WHERE {column} IN (SELECT c.id FROM challenges c WHERE c.miner = $1)")
    });
    let others = OF_A_STRANGER.map(|(table, condition)| sql!("DELETE FROM {table} WHERE {condition}"));
    for sql in of_challenges.into_iter().chain(others) {
        sqlx::query(sql).bind(id).execute(&mut **tx).await?;
    }
    removed.miners += 1;
    Ok(())
}
