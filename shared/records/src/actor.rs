//! Who did what.

use serde::{Deserialize, Serialize};

/// Who does something: an operator, or the validator itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Actor {
    /// The name of the user, or `validator`, or `token`.
    pub name: String,
    /// The number of the user.
    pub uid: Option<u32>,
}

impl Actor {
    /// The validator itself.
    #[must_use]
    pub fn validator() -> Self {
        Self { name: "validator".to_owned(), uid: None }
    }
}

/// Something an operator did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Action {
    /// Its id.
    pub id: String,
    /// When.
    pub at_ms: i64,
    /// Who.
    pub actor: Actor,
    /// What: `approve`, `suspend`, `revoke`, `label`, `enroll`, `redeem`, `round`, `forget` ….
    pub action: String,
    /// The miner, where one is meant.
    pub miner: Option<String>,
    /// The circumstances.
    pub detail: String,
}
