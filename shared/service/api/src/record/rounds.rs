//! Synchronised rounds: who was asked to start in the same moment, and who did.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A member of a round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RoundMember {
    /// Any key of the miner; its id in documents read from the records.
    pub miner: String,
    /// `invited`, `started`, `late`, `declined`, `absent` or `judged`.
    pub state: String,
    /// Its challenge.
    pub challenge: Option<String>,
    /// Time since which it is in this state.
    pub at_ms: i64,
    /// Details of the state.
    pub detail: String,
}
