//! A miner as it is recorded.

pub use assay_policy::Labels;
use assay_policy::Standing;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::NextChallenge;

assay_work::names! {
    /// Whether a miner takes part.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
    #[schema(as = MinerStatus)]
    #[serde(rename_all = "snake_case")]
    pub enum Approval {
        /// No decision yet.
        Pending = "pending",
        /// It takes part.
        Approved = "approved",
        /// It is not challenged until it is resumed.
        Suspended = "suspended",
        /// It is excluded permanently.
        Revoked = "revoked",
    } else String = |text| format!("no status {text:?}: there are pending, approved, suspended and revoked")
}

impl Approval {
    /// The stricter of two, for records that turn out to be one miner's.
    pub fn stricter(self, other: Self) -> Self {
        let strictness = |status| match status {
            // No decision: the other one's counts.
            Self::Pending => 0,
            Self::Approved => 1,
            Self::Suspended => 2,
            Self::Revoked => 3,
        };
        if strictness(other) > strictness(self) { other } else { self }
    }
}

/// The last verdict about a miner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LastVerdict {
    /// The challenge.
    pub challenge: String,
    /// Its outcome.
    pub outcome: String,
    /// When it was judged.
    pub at_ms: i64,
}

/// A miner.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct MinerRecord {
    /// Its id: the first of its keys that the records know.
    pub id: String,
    /// Its newest key.
    pub key: String,
    /// Every key of it, oldest first.
    pub keys: Vec<String>,
    /// Whether it takes part.
    pub status: Approval,
    /// Labels set by operators.
    pub labels: Labels,
    /// Its attestation state.
    pub state: String,
    /// The data behind its state, as of its last conclusion.
    #[schema(value_type = Option<Object>)]
    pub standing: Option<Box<RawValue>>,
    /// Time of its first connection.
    pub first_seen_ms: i64,
    /// Time of its last connection or disconnection.
    pub last_seen_ms: i64,
    /// Address of its last connection.
    pub address: String,
    /// Software named in its last connection: a claim.
    pub software: String,
    /// Its next challenge, for the role to operate.
    pub due: Option<NextChallenge>,
    /// Its last verdict.
    pub last_verdict: Option<LastVerdict>,
    /// The validator that it is connected to.
    pub connected_to: Option<String>,
}

impl MinerRecord {
    /// The data behind its state.
    pub fn standing(&self) -> Standing {
        let read = self.standing.as_ref().and_then(|standing| serde_json::from_str(standing.get()).ok());
        read.unwrap_or_else(|| Standing::enrolled(u64::try_from(self.first_seen_ms / 1000).unwrap_or(0)))
    }
}
