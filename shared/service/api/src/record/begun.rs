//! Beginnings: of a challenge, and of a round.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A challenge that begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Begun)]
pub struct ChallengeStart {
    /// Its id.
    pub challenge: String,
    /// The key of the miner's session.
    pub miner: String,
    /// The validator's key.
    pub validator: String,
    /// Id of this run of the validator's process.
    pub instance: String,
    /// The session.
    pub session: String,
    /// The group of the policy.
    pub group: String,
    /// The kind of challenge in the policy.
    pub kind: String,
    /// Origin: `schedule` or `operator`.
    pub asked: String,
    /// The round that it belongs to.
    pub round: Option<String>,
    /// Time of its beginning.
    pub begun_ms: i64,
    /// Time that counts until the verdict has the measured one, in milliseconds over all devices.
    pub device_ms: i64,
}

/// A synchronised round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RoundRecord {
    /// Its id.
    pub id: String,
    /// The group of the policy, or the common property of its members.
    pub group: String,
    /// Origin: `operator` or `schedule`.
    pub asked: String,
    /// The validator that began it.
    pub validator: String,
    /// Scheduled start of its members.
    pub begun_ms: i64,
    /// Time of its last verdict.
    pub ended_ms: Option<i64>,
    /// Details from its validator.
    pub detail: String,
}
