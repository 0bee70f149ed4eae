//! Synchronised rounds.

use assay_records::{RoundMember, RoundRecord};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A round with its members.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Round {
    /// The round.
    #[serde(flatten)]
    pub record: RoundRecord,
    /// Its members, in order of the miners' ids.
    pub members: Vec<RoundMember>,
}

/// What the detail of a round that has ended says, as JSON.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoundDetail {
    /// When the first probes went out: milliseconds after the round began; `None`: none did.
    pub probed_ms: Option<u64>,
    /// How many were sent in that moment.
    pub probed_together: u32,
}

impl RoundDetail {
    /// That of a round; nothing of one that has not ended.
    #[must_use]
    pub fn of(record: &RoundRecord) -> Self {
        serde_json::from_str(&record.detail).unwrap_or_default()
    }
}

/// By what the members of a round are parted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RoundScope {
    /// All in one round.
    All,
    /// Those of each operator.
    Operator,
    /// Those that connect from the same address.
    Address,
    /// Those that claim the same model.
    Model,
}

/// A round to begin.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BeginRound {
    /// A group of the fleet's policy; without it all miners.
    pub group: Option<String>,
    /// By what its members are parted into rounds; without it as the group's policy says, else all in one.
    pub by: Option<RoundScope>,
}

/// Rounds that began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RoundsBegun {
    /// Their ids. They go on: `GET /api/v1/rounds/{id}` says how far they are.
    pub rounds: Vec<String>,
}
