//! The fleet in numbers.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Approval;

/// Number of miners with this status, state and outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MinerCount {
    /// Their status.
    pub status: Approval,
    /// Their attestation state.
    pub state: String,
    /// Outcome of their last verdicts.
    pub outcome: Option<String>,
    /// Number of miners.
    pub miners: i64,
}

/// The currently listed devices of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ModelCount {
    /// The product name: a claim; empty where it is unknown.
    pub model: String,
    /// Number of devices.
    pub devices: i64,
    /// Number of miners that list them.
    pub miners: i64,
}
