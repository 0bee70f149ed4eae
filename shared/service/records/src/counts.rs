//! The fleet in numbers.

use crate::column::{get, read};
use crate::miner::status_of;
use crate::{MAX_ROWS, MinerCount, ModelCount, Records, RecordsError, Result};

impl Records {
    /// Miners by status, state and last outcome.
    pub async fn miner_counts(&self) -> Result<Vec<MinerCount>> {
        let sql = "SELECT status, state, last_outcome, COUNT(*) AS miners FROM miners \
             GROUP BY status, state, last_outcome ORDER BY status, state, last_outcome";
        self.list("count miners", sqlx::query(sql), |row| {
            let (status, outcome) = (status_of(&get::<String>(row, "status")?)?, get(row, "last_outcome")?);
            Ok(read!(row => MinerCount { state, miners; status, outcome }))
        })
        .await
    }

    /// Connected miners whose challenge has been due since before `since_ms`.
    pub async fn overdue_miners(&self, since_ms: i64) -> Result<i64> {
        let sql = "SELECT COUNT(*) FROM miners WHERE due_ms < $1 AND status NOT IN ('suspended', 'revoked') AND EXISTS \
             (SELECT 1 FROM sessions WHERE sessions.miner = miners.id AND sessions.disconnected_ms IS NULL)";
        let overdue = sqlx::query_scalar(sql).bind(since_ms).fetch_one(self.read()).await;
        overdue.map_err(|error| RecordsError::from(error).doing("count overdue miners"))
    }

    /// The models of the devices that miners list now, the most frequent first.
    pub async fn model_counts(&self, limit: u32) -> Result<Vec<ModelCount>> {
        let sql = "SELECT model, COUNT(*) AS devices, COUNT(DISTINCT miner) AS miners FROM devices \
             WHERE gone_ms IS NULL GROUP BY model ORDER BY 2 DESC, model LIMIT $1";
        self.list("count devices", sqlx::query(sql).bind(i64::from(limit.min(MAX_ROWS))), |row| {
            Ok(read!(row => ModelCount { model, devices, miners }))
        })
        .await
    }
}
