//! The fleet in numbers.

use sqlx::any::AnyRow;

use crate::column::get;
use crate::miner::status_of;
use crate::{MAX_ROWS, MinerCount, ModelCount, Records, RecordsError};

impl Records {
    /// Miners by status, state and last outcome.
    pub async fn miner_counts(&self) -> Result<Vec<MinerCount>, RecordsError> {
        let sql = "SELECT status, state, last_outcome, COUNT(*) AS miners FROM miners \
             GROUP BY status, state, last_outcome ORDER BY status, state, last_outcome";
        let rows = sqlx::query(sql).fetch_all(self.read()).await;
        let rows = rows.map_err(|e| RecordsError::from(e).doing("count miners"))?;
        let count = |row: &AnyRow| {
            Ok(MinerCount {
                status: status_of(&get::<String>(row, "status")?)?,
                state: get(row, "state")?,
                outcome: get(row, "last_outcome")?,
                miners: get(row, "miners")?,
            })
        };
        rows.iter().map(count).collect()
    }

    /// Connected miners whose challenge has been due since before `since_ms`.
    pub async fn overdue_miners(&self, since_ms: i64) -> Result<i64, RecordsError> {
        let sql = "SELECT COUNT(*) FROM miners WHERE due_ms < $1 AND status NOT IN ('suspended', 'revoked') AND EXISTS \
             (SELECT 1 FROM sessions WHERE sessions.miner = miners.id AND sessions.disconnected_ms IS NULL)";
        let overdue = sqlx::query_scalar(sql).bind(since_ms).fetch_one(self.read()).await;
        overdue.map_err(|error| RecordsError::from(error).doing("count overdue miners"))
    }

    /// The models of the devices that miners list now, the most frequent first.
    pub async fn model_counts(&self, limit: u32) -> Result<Vec<ModelCount>, RecordsError> {
        let sql = "SELECT model, COUNT(*) AS devices, COUNT(DISTINCT miner) AS miners FROM devices \
             WHERE gone_ms IS NULL GROUP BY model ORDER BY 2 DESC, model LIMIT $1";
        let rows = sqlx::query(sql).bind(i64::from(limit.min(MAX_ROWS))).fetch_all(self.read()).await;
        let rows = rows.map_err(|e| RecordsError::from(e).doing("count devices"))?;
        let count = |row: &AnyRow| {
            Ok(ModelCount { model: get(row, "model")?, devices: get(row, "devices")?, miners: get(row, "miners")? })
        };
        rows.iter().map(count).collect()
    }
}
