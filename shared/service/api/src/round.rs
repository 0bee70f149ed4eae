//! Synchronised rounds.

use crate::record::{RoundMember, RoundRecord};
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

/// The detail of a round that has ended, as JSON.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoundDetail {
    /// Milliseconds from the round's start until the first probes went out; `None`: no probe did.
    pub probed_ms: Option<u64>,
    /// Number of probes sent at that time.
    pub probed_together: u32,
}

impl RoundDetail {
    /// The detail of a round; empty for one that has not ended.
    pub fn of(record: &RoundRecord) -> Self {
        serde_json::from_str(&record.detail).unwrap_or_default()
    }
}

/// A round to begin.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BeginRound {
    /// A group of the fleet's policy; without it all miners.
    #[schema(min_length = 1)]
    pub group: Option<String>,
}

/// A round that began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = RoundBegun)]
pub struct StartedRound {
    /// Its id. The round continues: `GET /api/v1/rounds/{id}` shows its progress.
    pub round: String,
}
