//! Miners: their records, and the validator's other facts about them.

use crate::record::flat::Document;
use crate::record::{Approval, DeviceRecord, MinerRecord, NotedFinding, OperatorAction, SessionRecord};
use assay_protocol::claims::Hardware;
use assay_protocol::verdict::NamedDevice;
use assay_work::{DeviceId, PublicKey};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use crate::ChallengeProgress;

/// A miner.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Miner {
    /// The record.
    #[serde(flatten)]
    pub record: MinerRecord,
    /// Further data of the validator.
    #[serde(flatten)]
    pub known: MinerSnapshot,
}

/// A validator's data about a miner beside its record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Known)]
pub struct MinerSnapshot {
    /// The reason why its newest key is admitted here, or is not.
    pub admitted: String,
    /// Its name: its label `name`.
    pub name: Option<String>,
    /// Number of devices that it lists.
    pub device_count: u32,
    /// The models of its devices, each once, in order of their names: claims.
    pub models: Vec<String>,
    /// The reason why it is not attested; null where it is.
    pub reason: Option<AttestationGap>,
}

/// The reason why a miner is not attested, in words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = WhyNot)]
pub struct AttestationGap {
    /// The reason.
    pub why: String,
    /// The remedy.
    pub remedy: String,
}

/// A miner with its related records.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct MinerDetail {
    /// The miner.
    #[serde(flatten)]
    pub miner: Miner,
    /// The group of the policy that takes it.
    pub group: String,
    /// The reason why its due challenge is delayed while the miner is connected, for the role to operate.
    pub delayed: Option<String>,
    /// Its devices, also those that are gone.
    pub devices: Vec<DeviceRecord>,
    /// Its last sessions, newest first.
    pub sessions: Vec<SessionRecord>,
    /// The last findings about it, newest first.
    pub findings: Vec<NotedFinding>,
    /// The last actions of operators on it, newest first.
    pub actions: Vec<OperatorAction>,
    /// Its connection to this validator.
    pub connection: Option<MinerConnection>,
}

/// A miner after a decision about it.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct MinerChanged {
    /// The miner.
    #[serde(flatten)]
    pub miner: Miner,
    /// Its status before.
    pub before: Approval,
    /// Where settings and decision differ, the one in force.
    pub note: Option<String>,
}

/// A miner that is connected to this validator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Connected)]
pub struct MinerConnection {
    /// Its key.
    pub miner_key: PublicKey,
    /// Its program and version: a claim.
    pub agent: String,
    /// Address of its connection.
    pub address: String,
    /// Number of its devices: a claim.
    pub devices: u32,
    /// Its description of each device: claims.
    pub claimed_devices: Vec<ClaimedDevice>,
    /// Free memory of all devices, in bytes: a claim.
    pub free_bytes: u64,
    /// Whether a challenge runs, or just begins.
    pub challenged_now: bool,
    /// The running challenge.
    pub challenge: Option<ChallengeProgress>,
    /// Seconds since it connected.
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
    /// The name given by the miner.
    pub name: String,
    /// The miner's compute backend.
    pub backend: String,
    /// Its memory in bytes.
    pub total_bytes: u64,
    /// Bytes of memory that a challenge can use now.
    pub free_bytes: u64,
    /// The most slots of a challenge at each matrix size, the smallest first.
    pub slots: Vec<u32>,
    /// Data of its management library.
    pub hardware: Option<Hardware>,
}

/// The devices of a miner that were forgotten.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Forgotten)]
pub struct ForgottenDevices {
    /// The miner's key.
    pub miner: String,
    /// Number of devices.
    pub devices: u32,
}

impl<'de> Deserialize<'de> for Miner {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let document = Document::deserialize(deserializer)?;
        Ok(Self { record: document.part()?, known: document.part()? })
    }
}

/// The parts of a [`MinerDetail`] beside the miner.
#[derive(Deserialize)]
struct MinerDetailParts {
    #[serde(default)]
    group: String,
    delayed: Option<String>,
    devices: Vec<DeviceRecord>,
    sessions: Vec<SessionRecord>,
    findings: Vec<NotedFinding>,
    actions: Vec<OperatorAction>,
    connection: Option<MinerConnection>,
}

impl<'de> Deserialize<'de> for MinerDetail {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let document = Document::deserialize(deserializer)?;
        let MinerDetailParts { group, delayed, devices, sessions, findings, actions, connection } = document.part()?;
        Ok(Self { miner: document.part()?, group, delayed, devices, sessions, findings, actions, connection })
    }
}
