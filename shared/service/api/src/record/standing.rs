//! Attestation states of miners, their changes, and findings.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{FindingRecord, Transition};

/// A finding with its record data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NotedFinding {
    /// Its id.
    pub id: String,
    /// Time of the finding.
    pub at_ms: i64,
    /// The challenge of its verdict.
    pub challenge: Option<String>,
    /// The finding.
    #[serde(flatten)]
    pub finding: FindingRecord,
}

/// A change of state with its record data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NotedTransition {
    /// Its id.
    pub id: String,
    /// The challenge of its verdict.
    pub challenge: Option<String>,
    /// The change.
    #[serde(flatten)]
    pub transition: Transition,
}
