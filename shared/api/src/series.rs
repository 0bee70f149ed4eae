//! Figures over time, for charts.

use assay_records::SeriesPoint;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a miner's devices showed, and what is known of their models.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Series {
    /// Oldest first.
    pub points: Vec<SeriesPoint>,
    /// What devices of these models show.
    pub bands: Vec<Band>,
}

/// What a figure is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// 2 · multiply-accumulates per second / 10¹².
    Tops,
    /// What the probe reads per second / 10⁹.
    GbPerS,
    /// Memory shown, in bytes.
    BytesHeld,
}

/// Between what a figure of a model is expected to lie.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Band {
    /// The model.
    pub model: String,
    /// The kind of work that it holds for, by its number; null for all.
    pub precision: Option<u32>,
    /// The matrix size that it holds at; null for all.
    pub n: Option<u32>,
    /// Of what.
    pub quantity: Quantity,
    /// At least; null: no bound.
    pub low: Option<f64>,
    /// The usual value.
    pub middle: Option<f64>,
    /// At most; null: no bound.
    pub high: Option<f64>,
    /// `profile`: by the model's data sheet; `fleet`: by what other hosts of the fleet show.
    pub by: String,
}
