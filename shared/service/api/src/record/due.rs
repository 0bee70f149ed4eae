//! When a miner is challenged next.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The next challenge of a miner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Due)]
pub struct NextChallenge {
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    /// The kind of challenge.
    pub kind: String,
}
