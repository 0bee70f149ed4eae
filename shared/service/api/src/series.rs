//! Figures over time, for charts.

use crate::record::SeriesPoint;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Results of a miner's devices, with the bands of their models.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Series)]
pub struct MinerSeries {
    /// Oldest first.
    pub points: Vec<SeriesPoint>,
    /// Expected ranges for these models.
    pub bands: Vec<SeriesBand>,
}

/// The quantity of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// 2 · multiply-accumulates per second / 10¹².
    Tops,
    /// Bytes read by the probe per second / 10⁹.
    GbPerS,
    /// Memory shown, in bytes.
    BytesHeld,
}

/// The expected range of a figure of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Band)]
pub struct SeriesBand {
    /// The model.
    pub model: String,
    /// The kind of work that it holds for, by its number; null for all.
    pub precision: Option<u32>,
    /// The matrix size that it holds at; null for all.
    pub n: Option<u32>,
    /// The quantity.
    pub quantity: Quantity,
    /// Lower bound; null: no bound.
    pub low: Option<f64>,
    /// The usual value.
    pub middle: Option<f64>,
    /// Upper bound; null: no bound.
    pub high: Option<f64>,
    /// `profile`: from the model's data sheet; `fleet`: from other hosts of the fleet.
    pub by: String,
}
