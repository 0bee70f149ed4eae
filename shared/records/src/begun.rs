//! What begins: a challenge, and a round.

use serde::{Deserialize, Serialize};

/// A challenge that begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Begun {
    /// Its id.
    pub challenge: String,
    /// The key of the miner's session.
    pub miner: String,
    /// The validator's key.
    pub validator: String,
    /// Which run of the validator's process.
    pub instance: String,
    /// The session.
    pub session: String,
    /// The group of the policy.
    pub group: String,
    /// The kind of challenge in the policy.
    pub kind: String,
    /// Why: `schedule`, `connect`, `operator`, `round` or `renter`.
    pub asked: String,
    /// The round it belongs to.
    pub round: Option<String>,
    /// When.
    pub begun_ms: i64,
    /// Device time that it is expected to take, in milliseconds over all devices: counted until the verdict says more.
    pub device_ms: i64,
}

/// A synchronised round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RoundRecord {
    /// Its id.
    pub id: String,
    /// The group of the policy, or what else its members have in common.
    pub group: String,
    /// Why: `operator` or `schedule`.
    pub asked: String,
    /// The validator that began it.
    pub validator: String,
    /// When its members were to start.
    pub begun_ms: i64,
    /// When the last one was judged.
    pub ended_ms: Option<i64>,
    /// The circumstances, as its validator tells them.
    pub detail: String,
}
