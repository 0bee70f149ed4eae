//! Challenges from their beginning on, when the next one of a miner is due, and the device time that they take.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::ChallengeStart;

/// A challenge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChallengeRecord {
    /// The data of its beginning.
    #[serde(flatten)]
    pub begun: ChallengeStart,
    /// When it was concluded; `None` while it runs.
    pub ended_ms: Option<i64>,
}
