//! The results of a miner's devices over time, for charts.

use assay_protocol::claims::Telemetry;
use sqlx::any::AnyRow;

use crate::column::{get, read};
use crate::document::json;
use crate::{MAX_ROWS, Records, RecordsError, Result, SeriesPoint};

impl Records {
    /// The results of a miner's devices since a time: the newest `limit` points, the oldest of them first.
    pub async fn series(&self, miner: &str, since_ms: i64, limit: u32) -> Result<Vec<SeriesPoint>> {
        let sql = "SELECT d.*, v.outcome AS outcome, t.document AS telemetry FROM verdicts v \
             JOIN device_results d ON d.challenge = v.challenge \
             LEFT JOIN telemetry t ON t.challenge = d.challenge AND t.device_id = d.device_id \
             WHERE v.miner = (SELECT k.miner FROM miner_keys k WHERE k.key = $1) AND v.at_ms >= $2 \
             ORDER BY v.at_ms DESC, d.challenge DESC, d.device_id DESC LIMIT $3";
        let query = sqlx::query(sql).bind(miner).bind(since_ms).bind(i64::from(limit.min(MAX_ROWS)));
        let rows = query.fetch_all(self.read()).await;
        let rows = rows.map_err(|e| RecordsError::from(e).doing("read what devices showed"))?;
        rows.iter().rev().map(point_of).collect()
    }
}

fn point_of(row: &AnyRow) -> Result<SeriesPoint> {
    let telemetry: Option<String> = get(row, "telemetry")?;
    let telemetry: Option<Telemetry> = telemetry.map(|text| json(&text, "telemetry")).transpose()?;
    let telemetry = telemetry.unwrap_or_default();
    Ok(read!(row => SeriesPoint {
        challenge, device_id, model, at_ms, outcome, precision, n, tops, bytes_held;
        work_held: get::<i64>(row, "work_held")? == 1,
        gb_per_s: get(row, "probe_gb_per_s")?,
        temperature_c: telemetry.temperature_c.map(|spread| f64::from(spread.mean)),
        power_w: telemetry.power_mw.map(|spread| f64::from(spread.mean) / 1000.0),
    }))
}
