//! Miners: what the records have of them, and what the validator knows beside that.

use assay_protocol::claims::Hardware;
use assay_protocol::verdict::NamedDevice;
use assay_records::flat::Document;
use assay_records::{Action, DeviceRecord, Labels, MinerRecord, NotedFinding, SessionRecord, Status};
use assay_work::{DeviceId, PublicKey};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use crate::Running;

/// A miner.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Miner {
    /// What the records have.
    #[serde(flatten)]
    pub record: MinerRecord,
    /// What the validator knows beside that.
    #[serde(flatten)]
    pub known: Known,
}

/// What a validator knows of a miner beside its record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Known {
    /// By what its newest key is let in here, or why it is not.
    pub admitted: String,
    /// What its operator calls it: its label `name`.
    pub name: Option<String>,
    /// How many devices it lists.
    pub device_count: u32,
    /// The models of its devices, each once, in order of their names: claims.
    pub models: Vec<String>,
    /// Why it is not attested; null where it is.
    pub reason: Option<WhyNot>,
}

/// Why a miner is not attested, in words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WhyNot {
    /// What is the case.
    pub why: String,
    /// What to do.
    pub remedy: String,
}

/// A miner with all that lies behind it.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct MinerDetail {
    /// The miner.
    #[serde(flatten)]
    pub miner: Miner,
    /// Its devices, also those that are gone.
    pub devices: Vec<DeviceRecord>,
    /// Its last sessions, newest first.
    pub sessions: Vec<SessionRecord>,
    /// What was found about it last, newest first.
    pub findings: Vec<NotedFinding>,
    /// What operators did last, newest first.
    pub actions: Vec<Action>,
    /// Its connection to this validator.
    pub connection: Option<Connected>,
}

/// A miner after a decision about it.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct MinerChanged {
    /// The miner.
    #[serde(flatten)]
    pub miner: Miner,
    /// Its status before.
    pub before: Status,
    /// Where the settings say otherwise than the decision, which of them counts.
    pub note: Option<String>,
}

/// A miner that is connected to this validator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Connected {
    /// Its key.
    pub miner_key: PublicKey,
    /// Its program and version: a claim.
    pub agent: String,
    /// Where it connects from.
    pub address: String,
    /// How many devices it has: a claim.
    pub devices: u32,
    /// What it says of each: claims.
    pub claimed_devices: Vec<ClaimedDevice>,
    /// All their free memory: a claim.
    pub free_bytes: u64,
    /// Whether a challenge runs, or just begins.
    pub challenged_now: bool,
    /// The challenge that runs.
    pub challenge: Option<Running>,
    /// For how long it has been connected.
    pub connected_seconds: u64,
    /// The devices that it showed before and does not list now.
    pub missing_devices: Vec<NamedDevice>,
    /// The last measured round trip. A miner can make it longer, never shorter.
    pub round_trip_ms: Option<f64>,
}

/// A device as its miner describes it: claims.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClaimedDevice {
    /// The device.
    pub device_id: DeviceId,
    /// The name that the miner gives it.
    pub name: String,
    /// What the miner computes with.
    pub backend: String,
    /// Its memory.
    pub total_bytes: u64,
    /// Memory that a challenge can use now.
    pub free_bytes: u64,
    /// The most slots of a challenge at each matrix size, the smallest first.
    pub slots: Vec<u32>,
    /// What its management library says.
    pub hardware: Option<Hardware>,
}

/// Labels to set, and to take away.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ChangeLabels {
    /// To be set.
    pub set: Labels,
    /// Names of those to be taken away.
    pub remove: Vec<String>,
}

/// What was forgotten of a miner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Forgotten {
    /// The miner's key.
    pub miner: String,
    /// How many devices.
    pub devices: u32,
}

impl<'de> Deserialize<'de> for Miner {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let document = Document::deserialize(deserializer)?;
        Ok(Self { record: document.part()?, known: document.part()? })
    }
}

/// What a [`MinerDetail`] has beside the miner.
#[derive(Deserialize)]
struct Behind {
    devices: Vec<DeviceRecord>,
    sessions: Vec<SessionRecord>,
    findings: Vec<NotedFinding>,
    actions: Vec<Action>,
    connection: Option<Connected>,
}

impl<'de> Deserialize<'de> for MinerDetail {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let document = Document::deserialize(deserializer)?;
        let Behind { devices, sessions, findings, actions, connection } = document.part()?;
        Ok(Self { miner: document.part()?, devices, sessions, findings, actions, connection })
    }
}

/// What a [`MinerChanged`] has beside the miner.
#[derive(Deserialize)]
struct Change {
    before: Status,
    note: Option<String>,
}

impl<'de> Deserialize<'de> for MinerChanged {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let document = Document::deserialize(deserializer)?;
        let Change { before, note } = document.part()?;
        Ok(Self { miner: document.part()?, before, note })
    }
}
