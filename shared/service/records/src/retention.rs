//! Retention: verdicts older than an operator keeps them are removed with their rows, rounds, changes of state and
//! findings too.

use std::time::Duration;

use assay_policy::MAX_ENDS;

use crate::column::get;
use crate::rows::Rows;
use crate::{Records, RecordsError, Result, id};

/// Rows that one transaction removes of a table: other writers wait for it.
const BATCH: i64 = 128;

/// Tables with rows of a challenge, and their column with its id; rows that refer to others come before them.
pub(crate) const OF_A_CHALLENGE: [(&str, &str); 8] = [
    ("telemetry", "challenge"),
    ("commitments", "challenge"),
    ("reasons", "challenge"),
    ("device_results", "challenge"),
    ("evidence", "challenge"),
    ("receipts", "challenge"),
    ("verdicts", "challenge"),
    ("challenges", "id"),
];

/// The same of a round.
const OF_A_ROUND: [(&str, &str); 2] = [("round_members", "round"), ("rounds", "id")];

impl Records {
    /// Removes verdicts and what else is older at `now_ms`, unless something rests on it: kept evidence, a valid receipt,
    /// the last verdict of a miner or a device, the ends that count of a miner's challenges, a log that lacks it or ends
    /// with it. Gives the count of verdicts.
    pub async fn remove_old(&self, max_age: Duration, now_ms: i64) -> Result<u64> {
        let before_ms = now_ms.saturating_sub_unsigned(max_age.as_millis().try_into().unwrap_or(u64::MAX));
        let sql = format!(
            "SELECT v.challenge, v.at_ms FROM verdicts v WHERE v.at_ms < $1 \
             AND (v.at_ms > $3 OR (v.at_ms = $3 AND v.challenge > $4)) \
             AND v.log_index < (SELECT MAX(l.log_index) FROM verdicts l WHERE l.validator = v.validator \
             AND l.log_index IS NOT NULL) \
             AND (v.ended IS NULL OR v.at_ms < (SELECT w.at_ms FROM verdicts w WHERE w.miner = v.miner \
             AND w.ended IS NOT NULL ORDER BY w.at_ms DESC, w.challenge DESC LIMIT 1 OFFSET {MAX_ENDS})) \
             AND NOT EXISTS (SELECT 1 FROM evidence e WHERE e.challenge = v.challenge AND e.dropped_ms IS NULL) \
             AND NOT EXISTS (SELECT 1 FROM receipts r WHERE r.challenge = v.challenge AND r.expires_ms > $2) \
             AND NOT EXISTS (SELECT 1 FROM miners m WHERE m.id = v.miner AND m.last_challenge = v.challenge) \
             AND NOT EXISTS (SELECT 1 FROM devices d WHERE d.miner = v.miner AND d.last_challenge = v.challenge) \
             ORDER BY v.at_ms, v.challenge LIMIT {BATCH}"
        );
        let (mut removed, mut last) = (0, (i64::MIN, String::new()));
        loop {
            let old = sqlx::query(sql!("{sql}")).bind(before_ms).bind(now_ms).bind(last.0).bind(last.1);
            let old =
                old.fetch_all(self.read()).await.map_err(|e| RecordsError::from(e).doing("look for old verdicts"))?;
            let Some(row) = old.last() else { break };
            last = (get(row, "at_ms")?, get(row, "challenge")?);
            let old = old.iter().map(|row| get(row, "challenge")).collect::<Result<Vec<String>, _>>()?;
            self.remove_rows(&old, &OF_A_CHALLENGE).await?;
            removed += old.len() as u64;
        }
        let id = id::first_at(before_ms);
        for (rows, tables) in [
            (
                format!("rounds WHERE begun_ms < {before_ms} AND ended_ms IS NOT NULL ORDER BY begun_ms"),
                &OF_A_ROUND[..],
            ),
            (format!("transitions WHERE id < '{id}' ORDER BY id"), &[("transitions", "id")]),
            (format!("findings WHERE id < '{id}' ORDER BY id"), &[("findings", "id")]),
        ] {
            loop {
                let sql = sql!("SELECT id FROM {rows} LIMIT {BATCH}");
                let old = sqlx::query_scalar(sql).persistent(false).fetch_all(self.read()).await?;
                if old.is_empty() {
                    break;
                }
                self.remove_rows(&old, tables).await?;
            }
        }
        if removed > 0 {
            tracing::info!(removed, "old verdicts were removed");
        }
        Ok(removed)
    }

    /// Removes the rows of these ids from tables, each by its column.
    async fn remove_rows(&self, ids: &[String], tables: &[(&str, &str)]) -> Result<()> {
        transaction!(self, "remove old records", |tx| {
            for (table, column) in tables {
                let mut delete = Rows::new(format!("DELETE FROM {table} WHERE {column} IN (VALUES"), ")");
                ids.iter().for_each(|id| delete.push([id.as_str().into()]));
                delete.execute(&mut tx).await?;
            }
        })
    }
}
