//! Join tokens: each lets one miner in. The store has only their hashes.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Labels;

/// A join token, without the token itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenRecord {
    /// BLAKE3 of the token.
    pub hash: String,
    /// Labels for the miner.
    pub labels: Labels,
    /// Time of its creation.
    pub created_ms: i64,
    /// Its creator.
    pub created_by: String,
    /// End of its validity.
    pub expires_ms: i64,
    /// Time of its use.
    pub used_ms: Option<i64>,
    /// The id of the miner that used it.
    pub used_by: Option<String>,
}
