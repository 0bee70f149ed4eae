//! The authors of changes.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Author of an action: an operator, or the validator itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Actor {
    /// The name of the user, `validator`, or `token` with its name and id.
    pub name: String,
    /// The id of the user.
    pub uid: Option<u32>,
}

impl Actor {
    /// The validator itself.
    pub fn validator() -> Self {
        Self { name: "validator".to_owned(), uid: None }
    }

    /// The holder of a token of the API. Names need not differ, ids do.
    pub fn token(name: &str, id: &str) -> Self {
        Self { name: format!("token {name} ({id})"), uid: None }
    }

    /// The token that it has by its name; no user of a system has a name like that.
    pub fn token_id(&self) -> Option<&str> {
        let named = self.name.strip_prefix("token ").filter(|_| self.uid.is_none())?;
        named.strip_suffix(')')?.rsplit_once(" (").map(|(_, id)| id)
    }
}

/// An operator's action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Action)]
pub struct OperatorAction {
    /// Its id.
    pub id: String,
    /// Time of the action.
    pub at_ms: i64,
    /// Author of the action.
    pub actor: Actor,
    /// Kind of action: `approve`, `suspend`, `revoke`, `label`, `enroll`, `redeem`, `rotate`, `round`, `forget` ….
    pub action: String,
    /// The miner that it concerns, if any.
    pub miner: Option<String>,
    /// Details of the action.
    pub detail: String,
}
