//! Challenges from their beginning on, when the next one of a miner is due, and the device time that they take.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use sqlx::any::AnyRow;

use crate::NextChallenge;
use crate::column::{get, read};
use crate::due::due_of;
use crate::keys::ensure_miners;
use crate::kind::DatabaseKind;
use crate::rows::{ColumnValue, Rows};
use crate::tx::Tx;
use crate::validators::is_alive;
use crate::{ChallengeRecord, ChallengeStart, EventDocument, MAX_ROWS, Records, RecordsError, Result};

/// A challenge without a driver: the run of the validator that began it has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrphanChallenge {
    #[serde(flatten)]
    pub begun: ChallengeStart,
    /// When its validator was heard of last, by the database's clock; `None` where it never was.
    pub heard_ms: Option<i64>,
}

/// Device time that challenges of a miner took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceDuty {
    /// In milliseconds, over all devices; running challenges count with their expected time.
    pub device_ms: i64,
    pub challenges: i64,
}

impl Records {
    pub async fn challenge(&self, id: &str) -> Result<Option<ChallengeRecord>> {
        let query = sqlx::query("SELECT * FROM challenges WHERE id = $1").bind(id);
        self.find_row("look up a challenge", query, challenge_of).await
    }

    /// Challenges that were begun and not concluded, and whose validator's process lives no more: its heartbeat has
    /// ended, or it runs anew. Oldest first.
    pub async fn orphans(&self, limit: u32) -> Result<Vec<OrphanChallenge>> {
        let query = sqlx::query(sql!("{}", orphans_sql(self.store.kind))).bind(i64::from(limit.min(MAX_ROWS)));
        self.list("look for challenges of lost validators", query, |row| {
            Ok(read!(row => OrphanChallenge { heard_ms; begun: begun_of(row)? }))
        })
        .await
    }

    /// Makes the challenge of a session an orphan, whose task has ended without a verdict.
    pub async fn orphan(&self, session: &str) -> Result<()> {
        let sql = "UPDATE challenges SET instance = '' WHERE session = $1 AND ended_ms IS NULL";
        self.execute("give a challenge up", sqlx::query(sql).bind(session)).await.map(drop)
    }

    pub async fn due(&self, miner: &str) -> Result<Option<NextChallenge>> {
        let sql = "SELECT due_ms, due_kind FROM miners \
             WHERE id = (SELECT k.miner FROM miner_keys k WHERE k.key = $1)";
        let due = self.find_row("look up the next challenge", sqlx::query(sql).bind(miner), due_of).await?;
        Ok(due.flatten())
    }

    /// Sets when a miner is challenged next: it survives restarts, and moves between validators.
    pub async fn set_due(&self, miner: &str, due: Option<&NextChallenge>) -> Result<()> {
        let sql = "UPDATE miners SET due_ms = $2, due_kind = $3 \
             WHERE id = (SELECT k.miner FROM miner_keys k WHERE k.key = $1)";
        let update = sqlx::query(sql).bind(miner).bind(due.map(|due| due.at_ms));
        self.execute("set the next challenge", update.bind(due.map(|due| due.kind.clone()))).await.map(drop)
    }

    /// Device time that a miner's challenges took that began since a time.
    pub async fn duty(&self, miner: &str, since_ms: i64) -> Result<DeviceDuty> {
        let sql = "SELECT CAST(COALESCE(SUM(device_ms), 0) AS BIGINT) AS device_ms, COUNT(*) AS challenges \
             FROM challenges WHERE miner = (SELECT k.miner FROM miner_keys k WHERE k.key = $1) AND begun_ms >= $2";
        let row = sqlx::query(sql).bind(miner).bind(since_ms).fetch_one(self.read()).await;
        let row = row.map_err(|e| RecordsError::from(e).doing("sum device time"))?;
        Ok(read!(&row => DeviceDuty { device_ms, challenges }))
    }
}

fn orphans_sql(kind: DatabaseKind) -> String {
    format!(
        "SELECT c.*, v.heartbeat_ms AS heard_ms FROM challenges c LEFT JOIN validators v ON v.key = c.validator \
         WHERE c.ended_ms IS NULL AND (v.key IS NULL OR v.instance <> c.instance OR NOT ({})) \
         ORDER BY c.begun_ms, c.id LIMIT $1",
        is_alive(&kind.now())
    )
}

/// Notes challenges that begin, with their events.
pub(crate) async fn begin(tx: &mut Tx, begun: &[&ChallengeStart]) -> Result<()> {
    let keys = begun.iter().map(|begun| (begun.miner.clone(), begun.begun_ms));
    let miners = ensure_miners(tx, keys.collect()).await?;
    let mut insert = Rows::new(INSERT, " ON CONFLICT (id) DO NOTHING RETURNING id");
    for (begun, miner) in begun.iter().zip(&miners) {
        insert.push(row(miner, begun, None));
    }
    let inserted = insert.fetch(tx).await?;
    let mut inserted = inserted.iter().map(|row| get(row, "id")).collect::<Result<BTreeSet<String>, _>>()?;
    for (begun, miner) in begun.iter().zip(&miners) {
        if inserted.remove(&begun.challenge) {
            let told = EventDocument::ChallengeStarted((*begun).clone());
            tx.tell(begun.begun_ms, Some(miner), Some(&begun.challenge), told);
        }
    }
    Ok(())
}

/// Notes challenges as ended, each with its miner's id and when; those that were not noted before, too.
pub(crate) async fn insert_ended(tx: &mut Tx, ended: impl Iterator<Item = (&str, ChallengeStart, i64)>) -> Result<()> {
    // A challenge that an operator asked for is judged by its miner's group.
    let update = " ON CONFLICT (id) DO UPDATE SET ended_ms = excluded.ended_ms, device_ms = excluded.device_ms, \
         grp = excluded.grp";
    let mut insert = Rows::new(INSERT, update);
    for (miner, begun, ended_ms) in ended {
        insert.push(row(miner, &begun, Some(ended_ms)));
    }
    insert.execute(tx).await.map(drop)
}

const INSERT: &str = "INSERT INTO challenges (id, miner, key, validator, instance, session, grp, kind, asked, round, \
     begun_ms, device_ms, ended_ms) VALUES";

fn row(miner: &str, begun: &ChallengeStart, ended_ms: Option<i64>) -> [ColumnValue; 13] {
    let ChallengeStart {
        challenge,
        miner: key,
        validator,
        instance,
        session,
        group,
        kind,
        asked,
        round,
        begun_ms,
        device_ms,
    } = begun;
    let texts = [challenge, miner, key, validator, instance, session, group, kind, asked].map(ColumnValue::from);
    let [challenge, miner, key, validator, instance, session, group, kind, asked] = texts;
    let (round, begun_ms, device_ms) = (round.clone().into(), (*begun_ms).into(), (*device_ms).into());
    let ended_ms = ended_ms.into();
    [challenge, miner, key, validator, instance, session, group, kind, asked, round, begun_ms, device_ms, ended_ms]
}

fn challenge_of(row: &AnyRow) -> Result<ChallengeRecord> {
    Ok(ChallengeRecord { begun: begun_of(row)?, ended_ms: get(row, "ended_ms")? })
}

fn begun_of(row: &AnyRow) -> Result<ChallengeStart> {
    Ok(read!(row => ChallengeStart {
        validator, instance, session, kind, asked, round, begun_ms, device_ms;
        challenge: get(row, "id")?,
        miner: get(row, "key")?,
        group: get(row, "grp")?,
    }))
}

#[cfg(test)]
mod tests {
    use sqlx::Row;

    use super::*;
    use crate::Location;
    use crate::strangers::IS_STRANGER;

    #[tokio::test]
    async fn challenges_that_run_are_found_by_an_index_that_has_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::open(&Location::File(folder.path().join("validator.db"))).await.unwrap();
        let sql = "SELECT sql FROM sqlite_master WHERE name = 'challenges_open'";
        let index: String = sqlx::query_scalar(sql).fetch_one(records.store.writers()).await.unwrap();
        assert!(index.ends_with("WHERE ended_ms IS NULL"), "{index}");
        let strangers = format!("SELECT COUNT(*) FROM miners m WHERE {IS_STRANGER}");
        for (sql, expected) in [
            (orphans_sql(DatabaseKind::Sqlite), "challenges_open (ended_ms=?)"),
            (strangers, "challenges_open (ended_ms=? AND miner=?)"),
            // And a miner's open session without a walk over those of others.
            (crate::miners::select(DatabaseKind::Sqlite), "sessions_open (disconnected_ms=? AND miner=?)"),
        ] {
            let plan = sqlx::query(sql!("EXPLAIN QUERY PLAN {sql}")).fetch_all(records.store.writers()).await.unwrap();
            let plan: Vec<String> = plan.iter().map(|row| row.get("detail")).collect();
            assert!(plan.iter().any(|step| step.contains(expected)), "{plan:#?}");
        }
    }
}
