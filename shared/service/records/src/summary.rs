//! The facts of each miner in a list, beside its record.

use std::collections::BTreeMap;

use sqlx::any::AnyRow;

use crate::column::get;
use crate::rows::placeholders;
use crate::{MAX_ROWS, Records, RecordsError, Result};

/// The facts of a miner in a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MinerSummary {
    /// The devices that it lists now, by their models: claims.
    pub models: BTreeMap<String, u32>,
    /// The reasons behind its last verdict, in their order: code and circumstances.
    pub reasons: Vec<(String, String)>,
}

impl Records {
    /// The summaries of these miners, by their ids; of at most [`MAX_ROWS`].
    pub async fn miner_summaries(&self, ids: &[&str]) -> Result<BTreeMap<String, MinerSummary>> {
        let ids = &ids[..ids.len().min(MAX_ROWS as usize)];
        let mut found = BTreeMap::<String, MinerSummary>::new();
        if ids.is_empty() {
            return Ok(found);
        }
        let within = placeholders(1, ids.len());
        let devices = sql!(
            "SELECT miner, model, COUNT(*) AS devices FROM devices WHERE gone_ms IS NULL AND miner IN ({within}) \
             GROUP BY miner, model ORDER BY miner, model"
        );
        for row in self.rows_of(devices, ids).await? {
            let devices: i64 = get(&row, "devices")?;
            let summary = found.entry(get(&row, "miner")?).or_default();
            summary.models.insert(get(&row, "model")?, u32::try_from(devices).unwrap_or(u32::MAX));
        }
        let reasons = sql!(
            "SELECT m.id AS miner, r.code, r.detail FROM miners m JOIN reasons r ON r.challenge = m.last_challenge \
             WHERE m.id IN ({within}) ORDER BY m.id, r.position"
        );
        for row in self.rows_of(reasons, ids).await? {
            let summary = found.entry(get(&row, "miner")?).or_default();
            summary.reasons.push((get(&row, "code")?, get(&row, "detail")?));
        }
        Ok(found)
    }

    async fn rows_of(&self, sql: sqlx::AssertSqlSafe<String>, ids: &[&str]) -> Result<Vec<AnyRow>> {
        let query = ids.iter().fold(sqlx::query(sql), |query, id| query.bind(*id));
        query.fetch_all(self.read()).await.map_err(|e| RecordsError::from(e).doing("summarise miners"))
    }
}
