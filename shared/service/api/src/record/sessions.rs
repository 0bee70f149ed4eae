//! Sessions of miners, and the devices that each listed.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

/// A session of a miner.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct SessionRecord {
    /// Its id.
    pub id: String,
    /// The miner's id.
    pub miner: String,
    /// The key that it connected with.
    pub key: String,
    /// The validator.
    pub validator: String,
    /// Id of this run of the validator's process.
    pub instance: String,
    /// Address of its connection.
    pub address: String,
    /// Software that it named: a claim.
    pub software: String,
    /// The miner's description of its host; null without one.
    #[schema(value_type = Option<Object>)]
    pub inventory: Box<RawValue>,
    /// Time of its start.
    pub connected_ms: i64,
    /// Time of its end.
    pub disconnected_ms: Option<i64>,
    /// Reason for its end.
    pub why: Option<String>,
}
