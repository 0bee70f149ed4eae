//! Challenges that are asked for, and as they run.

use crate::record::{ChallengeRecord, FullVerdict};
use assay_protocol::message::MATRIX_SIZES;
use assay_protocol::verdict::{Mode, Verdict};
use assay_work::{ChallengeId, Precision, PublicKey};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use utoipa::openapi::schema::{ObjectBuilder, Schema, SchemaType, Type};

/// The phase of a challenge whose verdict is on its way to the disk.
pub const VERDICT_PHASE: &str = "verdict";

/// A challenge to begin; absent fields follow the validator's policy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BeginChallenge {
    /// The miner: one of its keys, or the first digits of one, at least 4. Default: the only connected one.
    #[schema(min_length = 4, max_length = 64, pattern = "^[0-9a-fA-F]*$")]
    pub miner: Option<String>,
    /// The kind of work, by its number. Default: the next of the policy's kinds in turn.
    #[schema(schema_with = kinds_of_work)]
    pub precision: Option<Precision>,
    /// How the work is checked.
    pub mode: Option<Mode>,
    /// The matrix size: a power of two.
    #[schema(schema_with = matrix_sizes)]
    pub n: Option<u32>,
    /// Passes of each device.
    #[schema(minimum = 1, maximum = 65536)]
    pub iterations: Option<u32>,
    /// Elements drawn from each device and pass.
    #[schema(minimum = 1, maximum = 4096)]
    pub samples: Option<u32>,
    /// Percentage of the free memory that is filled.
    #[schema(minimum = 1, maximum = 97)]
    pub fill_percent: Option<u32>,
    /// Goes into the verdict's receipt: 9 to 64 bytes in base64url.
    #[schema(
        min_length = 12,
        max_length = 86,
        pattern = "^([A-Za-z0-9_-]{4})+([A-Za-z0-9_-][AQgw]|[A-Za-z0-9_-]{2}[AEIMQUYcgkosw048])?$"
    )]
    pub eat_nonce: Option<String>,
}

fn matrix_sizes() -> Schema {
    one_of(MATRIX_SIZES)
}

fn kinds_of_work() -> Schema {
    one_of(Precision::ALL.map(Precision::code))
}

/// One of some numbers, or null.
fn one_of<const N: usize>(numbers: [u32; N]) -> Schema {
    let types = SchemaType::from_iter([Type::Integer, Type::Null]);
    let numbers = numbers.map(|number| Some(Value::from(number))).into_iter().chain([None]);
    ObjectBuilder::new().schema_type(types).enum_values(Some(numbers)).into()
}

/// A challenge under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Running)]
pub struct ChallengeProgress {
    /// The challenge.
    pub challenge_id: ChallengeId,
    /// The key of its miner's session.
    pub miner_key: PublicKey,
    /// The current phase.
    pub phase: String,
    /// Slots filled, by the miner's claim.
    pub done_slots: u64,
    /// Number of slots in all.
    pub all_slots: u64,
    /// Seconds since its start.
    pub seconds: u64,
}

/// A challenge, with its progress and its verdict.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Challenge)]
pub struct ChallengeDetail {
    /// The data of its beginning.
    pub record: ChallengeRecord,
    /// Its progress; null where it does not run at this validator.
    pub running: Option<ChallengeProgress>,
    /// Its verdict; null until it is judged.
    pub verdict: Option<FullVerdict>,
}

/// An event of a challenge's stream. The last one is its verdict.
#[derive(Debug, Clone, PartialEq)]
pub enum ChallengeUpdate {
    /// Event `running`: its progress, once per second at most.
    Running(ChallengeProgress),
    /// Event `verdict`: its verdict. No event follows.
    Verdict(Box<Verdict>),
}

impl ChallengeUpdate {
    /// The event of its stream.
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
