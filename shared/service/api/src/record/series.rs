//! The results of a miner's devices over time, for charts.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Results of a device in a challenge.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SeriesPoint {
    /// The challenge.
    pub challenge: String,
    /// The device.
    pub device_id: String,
    /// The name given by the miner: a claim.
    pub model: String,
    /// Time of the challenge's conclusion.
    pub at_ms: i64,
    /// The outcome.
    pub outcome: String,
    /// Whether all checked work held: otherwise the figures are not speeds.
    pub work_held: bool,
    /// The kind of work, by its number: speeds of different kinds are not comparable.
    pub precision: i64,
    /// The matrix size: speeds at different sizes are not comparable.
    pub n: i64,
    /// 2 · multiply-accumulates per second / 10¹², measured.
    pub tops: f64,
    /// Memory shown, in bytes.
    pub bytes_held: i64,
    /// Bytes read by the probe per second / 10⁹, measured.
    pub gb_per_s: f64,
    /// Its mean temperature: a claim.
    pub temperature_c: Option<f64>,
    /// Its mean power draw: a claim.
    pub power_w: Option<f64>,
}
