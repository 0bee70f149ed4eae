//! Tokens of callers of the API, each with a role. The store has only their hashes.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Role;

/// A token of the API, without the token itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ApiTokenRecord {
    /// Its id.
    pub id: String,
    /// Role of its callers.
    pub role: Role,
    /// Name given by its creator.
    pub name: String,
    /// Time of its creation.
    pub created_ms: i64,
    /// Its creator.
    pub created_by: String,
    /// End of its validity.
    pub expires_ms: i64,
    /// Time of its revocation.
    pub revoked_ms: Option<i64>,
    /// Time of its last use, to the minute.
    pub last_used_ms: Option<i64>,
}

impl ApiTokenRecord {
    /// Whether it can be used at this time.
    pub const fn is_good(&self, now_ms: i64) -> bool {
        self.revoked_ms.is_none() && now_ms < self.expires_ms
    }
}
