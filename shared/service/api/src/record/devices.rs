//! Devices as miners list them, and their history.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

/// A device of a miner.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct DeviceRecord {
    /// The miner's id.
    pub miner: String,
    /// Its id: a claim.
    pub device_id: String,
    /// The name given by the miner: a claim.
    pub name: String,
    /// The product name: a claim; empty where it is unknown.
    pub model: String,
    /// The total memory: a claim; 0 where it is unknown.
    pub memory_bytes: i64,
    /// Further claims of the miner about it.
    #[schema(value_type = Option<Object>)]
    pub claims: Box<RawValue>,
    /// Time of its first listing by the miner.
    pub first_seen_ms: i64,
    /// Time of its last listing by the miner.
    pub last_seen_ms: i64,
    /// Time since which the miner no longer lists it.
    pub gone_ms: Option<i64>,
    /// The last challenge that it took part in.
    pub last_challenge: Option<String>,
    /// Time of its last work that held.
    pub last_pass_ms: Option<i64>,
    /// The other miners that list or listed this id.
    pub also_at: Vec<String>,
}

/// A change of a miner's devices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeviceEvent {
    /// Its id.
    pub id: String,
    /// The miner's id.
    pub miner: String,
    /// The device.
    pub device_id: String,
    /// Time of the change.
    pub at_ms: i64,
    /// `seen`, `returned`, `gone`, `renamed`, or `elsewhere`: another miner lists it too, or did.
    pub what: String,
    /// The other miner.
    pub other_miner: Option<String>,
    /// The session that showed the change.
    pub session: Option<String>,
    /// Details of the change.
    pub detail: String,
}
