//! Challenges that are asked for, and as they run.

use assay_protocol::verdict::{Mode, Verdict};
use assay_records::{ChallengeRecord, FullVerdict};
use assay_work::{ChallengeId, Precision, PublicKey};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A challenge to begin; what is left out is as the validator's policy has it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BeginChallenge {
    /// The miner: one of its keys, or the first digits of one, at least 4. Without it the only one that is connected.
    #[schema(min_length = 4, max_length = 64, pattern = "^[0-9a-fA-F]*$")]
    pub miner: Option<String>,
    /// The kind of work, by its number. Without it the one of the policy's kinds whose turn it is.
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 6)]
    pub precision: Option<Precision>,
    /// How the work is checked.
    pub mode: Option<Mode>,
    /// The matrix size: a power of two.
    #[schema(minimum = 256, maximum = 32768)]
    pub n: Option<u32>,
    /// Passes of each device.
    #[schema(minimum = 1, maximum = 65536)]
    pub iterations: Option<u32>,
    /// Elements drawn from each device and pass.
    #[schema(minimum = 1, maximum = 4096)]
    pub samples: Option<u32>,
    /// The share of the free memory that is filled.
    #[schema(minimum = 1, maximum = 97)]
    pub fill_percent: Option<u32>,
    /// Goes into the verdict's receipt: 8 to 64 bytes in base64url.
    #[schema(min_length = 11, max_length = 86, pattern = "^[A-Za-z0-9_-]*$")]
    pub eat_nonce: Option<String>,
}

/// A challenge under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Running {
    /// The challenge.
    pub challenge_id: ChallengeId,
    /// The key of its miner's session.
    pub miner_key: PublicKey,
    /// What happens now.
    pub phase: String,
    /// Slots filled, by what the miner says.
    pub done_slots: u64,
    /// Of so many.
    pub all_slots: u64,
    /// Seconds since its start.
    pub seconds: u64,
}

/// A challenge: what is known of it, and what becomes of it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Challenge {
    /// What was known at its beginning.
    pub record: ChallengeRecord,
    /// How far it is; null where it does not run at this validator.
    pub running: Option<Running>,
    /// Its verdict; null until it is judged.
    pub verdict: Option<FullVerdict>,
}

/// What happens in a challenge: an event of its stream. The last one is its verdict.
#[derive(Debug, Clone, PartialEq)]
pub enum ChallengeUpdate {
    /// Event `running`: how far it is, once per second at most.
    Running(Running),
    /// Event `verdict`: it was judged. Nothing follows.
    Verdict(Box<Verdict>),
}

impl ChallengeUpdate {
    /// The event of its stream.
    #[must_use]
    pub const fn event(&self) -> &'static str {
        match self {
            Self::Running(_) => "running",
            Self::Verdict(_) => "verdict",
        }
    }

    /// Reads an event with its data; `None` for an event of another kind, which a later release may send.
    ///
    /// # Errors
    /// The data is not that of the event.
    pub fn read(event: &str, data: &str) -> serde_json::Result<Option<Self>> {
        Ok(match event {
            "running" => Some(Self::Running(serde_json::from_str(data)?)),
            "verdict" => Some(Self::Verdict(serde_json::from_str(data)?)),
            _ => None,
        })
    }

    /// The data of the event.
    ///
    /// # Errors
    /// Never: texts and numbers always become JSON.
    pub fn data(&self) -> serde_json::Result<String> {
        match self {
            Self::Running(running) => serde_json::to_string(running),
            Self::Verdict(verdict) => serde_json::to_string(verdict),
        }
    }
}
