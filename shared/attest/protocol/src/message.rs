//! The messages of the two sides, in the domain's types. `wire` carries them; both sessions use them.

use std::time::Duration;

use crate::claims::{Hardware, Telemetry};
use crate::join_token::JoinToken;
use crate::successor::Successor;
use crate::verdict::{ReasonCode, Verdict};
use assay_work::commitment::DeviceEvidence;
use assay_work::opening::{PassSample, SampleOpenings};
use assay_work::probe::{DeviceAnswer, Link, MemoryProbe, Probe, Sweep, SweepSample};
use assay_work::segment::{Segment, SegmentOpenings};
use assay_work::split::{SplitError, Weight, split};
use assay_work::sums::SweepOpenings;
use assay_work::{
    Challenge, ChallengeError, ChallengeId, Checksum, DeviceId, Digest, Nonce, Precision, PublicKey, Signature,
    UncheckedChallenge,
};

/// The protocol versions that this build speaks, lowest first.
pub const PROTOCOL_VERSIONS: &[u32] = &[2];

/// The matrix sizes, each with its place in [`DeviceClaim::slots`].
pub const MATRIX_SIZES: [u32; 8] = [256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768];

/// One device as its miner describes it: all of it a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceClaim {
    /// Stable over restarts, distinct on one host.
    pub id: DeviceId,
    /// The model.
    pub name: String,
    /// The backend's name.
    pub backend: String,
    /// The backend's choices for the device.
    pub detail: String,
    /// All its memory, in bytes.
    pub total_bytes: u64,
    /// Bytes that a challenge could take now, the memory of slots that are still held included.
    pub free_bytes: u64,
    /// How many slots fit into the free bytes, for each of [`MATRIX_SIZES`].
    pub slots: [u32; MATRIX_SIZES.len()],
    /// The kinds of work that it computes, ascending.
    pub precisions: Vec<Precision>,
    /// The claims of its management library.
    pub claimed_hardware: Option<Hardware>,
}

impl DeviceClaim {
    /// The model that it claims to be: by its management library, else by its name.
    pub fn claimed_model(&self) -> &str {
        self.claimed_hardware.as_ref().and_then(|hardware| hardware.model.as_deref()).unwrap_or(&self.name)
    }

    /// Number of n-by-n slots that fit by its claim; 0 for an n outside [`MATRIX_SIZES`].
    pub fn slots_of(&self, n: u32) -> u32 {
        MATRIX_SIZES.iter().position(|size| *size == n).map_or(0, |size| self.slots[size])
    }

    /// The most n-by-n slots that `free_bytes` hold, for each of [`MATRIX_SIZES`].
    pub fn max_slots(free_bytes: u64) -> [u32; MATRIX_SIZES.len()] {
        MATRIX_SIZES.map(|n| u32::try_from(free_bytes / (u64::from(n) * u64::from(n))).unwrap_or(u32::MAX))
    }

    /// The claim without its contradictions: free bytes beyond all, slots beyond the free bytes. A device counts the
    /// three at different moments, while other programs take and give memory.
    pub fn consistent(mut self) -> Self {
        self.free_bytes = self.free_bytes.min(self.total_bytes);
        let most = Self::max_slots(self.free_bytes);
        self.slots.iter_mut().zip(most).for_each(|(slots, most)| *slots = (*slots).min(most));
        self
    }
}

/// The devices of a host, in order of id.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Inventory {
    /// Grows with each inventory of a connection.
    pub sequence: u32,
    /// In order of id, ids distinct.
    pub devices: Vec<DeviceClaim>,
    /// The furthest link of a probe that the miner walks.
    pub max_link: Link,
    /// Whether the miner answers a sweep.
    pub sweeps: bool,
}

impl Inventory {
    /// The weights that split a challenge over n-by-n matrices: each device that computes its kind of work and has at
    /// least `min_slots` slots, and at least one, weighs its number of slots.
    ///
    /// An n outside [`MATRIX_SIZES`] gives no weights.
    pub fn weights(&self, precision: Precision, n: u32, min_slots: u32) -> Vec<Weight> {
        let computes = |d: &&DeviceClaim| d.precisions.contains(&precision);
        let weight = |d: &DeviceClaim| Weight { device_id: d.id, weight: u64::from(d.slots_of(n)) };
        let devices = self.devices.iter().filter(computes).map(weight);
        devices.filter(|w| w.weight >= u64::from(min_slots.max(1))).collect()
    }

    /// Bytes that the devices may fill, by their claims.
    pub fn free_bytes(&self) -> u64 {
        self.devices.iter().fold(0, |sum, device| sum.saturating_add(device.free_bytes))
    }

    /// The device with an id.
    pub fn device(&self, id: DeviceId) -> Option<&DeviceClaim> {
        self.devices.iter().find(|d| d.id == id)
    }
}

/// A challenge as it is sent: both sides make the same [`Challenge`] of it and an inventory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// The version of the work.
    pub version: u32,
    /// Random, never used twice.
    pub challenge_id: ChallengeId,
    /// From the operating system's random source, never used twice.
    pub nonce: Nonce,
    /// The code of the precision.
    pub precision: u32,
    /// The matrix size.
    pub n: u32,
    /// Number of passes.
    pub iterations: u32,
    /// Number of matrices, over all devices.
    pub total: u32,
    /// The inventory that it was sized from.
    pub inventory_sequence: u32,
    /// How long the validator waits for the commitment.
    pub deadline: Duration,
    /// Devices with fewer slots at n take no part; 0 means 1.
    pub min_slots: u32,
}

/// Why no valid challenge can be made of an offer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The matrices cannot be split over the devices.
    #[error("no split: {0}")]
    Split(#[from] SplitError),
    /// The split gives a challenge that breaks a rule.
    #[error("{0}")]
    Challenge(#[from] ChallengeError),
}

impl Offer {
    /// The challenge that this offer is for a host with `inventory`, between these two.
    ///
    /// # Errors
    /// [`PlanError`] when there is nothing to split over, or a rule of WORK.md is broken.
    pub fn plan(
        &self,
        inventory: &Inventory,
        validator_key: PublicKey,
        miner_key: PublicKey,
    ) -> Result<Challenge, PlanError> {
        let unknown = || ChallengeError::Precision(self.precision);
        let precision = Precision::from_code(self.precision).ok_or_else(unknown)?;
        let shares = split(self.total, &inventory.weights(precision, self.n, self.min_slots))?;
        Ok(Challenge::try_from(UncheckedChallenge {
            version: self.version,
            challenge_id: self.challenge_id,
            nonce: self.nonce,
            validator_key,
            miner_key,
            precision: self.precision,
            n: self.n,
            iterations: self.iterations,
            shares,
        })?)
    }
}

assay_work::names! {
    /// Why a side does not start, or does not go on with, a challenge.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum StopCode {
        /// The miner works for another challenge.
        Busy = "busy",
        /// The program is shutting down.
        Draining = "draining",
        /// Less memory is free than the challenge needs.
        NotEnoughMemory = "not_enough_memory",
        /// A device failed.
        DeviceLost = "device_lost",
        /// The request breaks a rule.
        Invalid = "invalid",
        /// The inventory named is no longer the current one.
        StaleInventory = "stale_inventory",
        /// No device can compute the request.
        Unsupported = "unsupported",
        /// A deadline passed.
        Deadline = "deadline",
        /// An error of the side that stops.
        Internal = "internal",
        /// A limit of the miner's operator, such as how long a challenge takes.
        Declined = "declined",
    }
}

impl StopCode {
    /// The reason that a validator gives when a miner stops with this code.
    pub const fn reason(self) -> ReasonCode {
        match self {
            Self::Busy => ReasonCode::MinerBusy,
            Self::Draining => ReasonCode::MinerDraining,
            Self::NotEnoughMemory => ReasonCode::NotEnoughMemory,
            Self::DeviceLost => ReasonCode::DeviceSick,
            Self::StaleInventory => ReasonCode::StaleInventory,
            Self::Unsupported => ReasonCode::MinerUnsupported,
            Self::Internal => ReasonCode::MinerInternal,
            Self::Declined => ReasonCode::MinerDeclined,
            Self::Invalid | Self::Deadline => ReasonCode::MinerStopped,
        }
    }
}

/// The first message of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// The protocol versions that the miner speaks.
    pub versions: Vec<u32>,
    /// The miner's key.
    pub miner_key: PublicKey,
    /// Random, for the validator to sign.
    pub miner_nonce: Nonce,
    /// The program and its version.
    pub agent: String,
    /// The devices.
    pub inventory: Inventory,
    /// By which earlier keys of the miner are followed to this one: not verified yet.
    pub successors: Vec<Successor>,
    /// The nonce of the session that this one goes on from, which lost its connection.
    pub resumes: Option<Nonce>,
}

/// The validator's answer to a hello.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Welcome {
    /// The version agreed on.
    pub version: u32,
    /// The validator's key.
    pub validator_key: PublicKey,
    /// Random, for the miner to sign.
    pub nonce: Nonce,
    /// The validator's, over [`crate::identity::SessionTranscript::welcome_message`].
    pub signature: Signature,
    /// The program and its version.
    pub agent: String,
    /// By which earlier keys of the validator are followed to this one: not verified yet.
    pub successors: Vec<Successor>,
}

/// A reason to refuse a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusedCode {
    /// No protocol version in common.
    Version,
    /// The proof is not the key's.
    Signature,
    /// The key is not on the validator's list.
    NotAllowed,
    /// The validator has as many miners as it may.
    Full,
    /// The validator is shutting down.
    Draining,
    /// A message out of order, or without a meaning there.
    Malformed,
    /// A challenge of the key is under way in another session.
    InChallenge,
    /// The validator has too much to do, or the miner dials too often.
    Overloaded,
    /// The key waits for the validator's operator to approve it.
    Pending,
    /// The validator's operator suspended the key.
    Suspended,
    /// The join token is not valid, or none was given where the key needs one.
    JoinToken,
}

impl RefusedCode {
    /// Whether it answers a proof alone; the others may come at once.
    pub const fn answers_proof(self) -> bool {
        !matches!(self, Self::Version | Self::Draining | Self::Malformed | Self::Overloaded)
    }
}

/// The miner's commitment at the end of a stage: sent alone and first, so that its arrival can be timed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedChecksum {
    /// The challenge answered.
    pub challenge_id: ChallengeId,
    /// Over all devices: of [`Evidence`](assay_work::Evidence) or of an [`Answer`](assay_work::Answer).
    pub checksum: Checksum,
    /// The miner's, over the message of WORK.md that holds the checksum.
    pub signature: Signature,
    /// The miner's own time for the stage: a claim.
    pub claimed: Duration,
}

/// The roots of one device, and the miner's claims about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceRoots {
    /// The challenge answered.
    pub challenge_id: ChallengeId,
    /// Nothing in it is checked yet, its share included.
    pub evidence: DeviceEvidence,
    /// The device's own time: a claim.
    pub claimed: Duration,
    /// Its sensors during the work: a claim.
    pub claimed_telemetry: Option<Box<Telemetry>>,
}

/// The answer of one device to the probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceDigests {
    /// The challenge answered.
    pub challenge_id: ChallengeId,
    /// Nothing in it is checked yet.
    pub answer: DeviceAnswer,
    /// The device's own time: a claim.
    pub claimed: Duration,
}

/// One device's part of a request for openings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenItem {
    /// The device that opens.
    pub device_id: DeviceId,
    /// The segments or samples to open.
    pub what: OpenTarget,
}

/// Segments of a probe, or samples of the sweep or of one iteration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenTarget {
    /// Segments of the probe over the device's own slots.
    Segments(Vec<Segment>),
    /// Segments of the linked probe.
    LinkedSegments(Vec<Segment>),
    /// Samples of the sweep.
    Sums(Vec<SweepSample>),
    /// Samples of one iteration.
    Samples {
        /// The iteration.
        iteration: u32,
        /// The samples.
        samples: Vec<PassSample>,
    },
}

/// A part of the answer to one item of an open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpeningsChunk {
    /// The challenge answered.
    pub challenge_id: ChallengeId,
    /// Index of the item in the request.
    pub item: u32,
    /// The part.
    pub part: OpeningsPart,
}

/// The content of a chunk of openings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpeningsPart {
    /// The next digests of the pass.
    SlotDigests(Vec<Digest>),
    /// The next sample.
    Sample(SampleOpenings),
    /// The next segment.
    Segment(SegmentOpenings),
    /// The next sample of the sweep.
    Sum(SweepOpenings),
    /// The item is complete.
    End,
}

/// The end of a challenge by one side, with its code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stop {
    /// The challenge that ends.
    pub challenge_id: ChallengeId,
    /// The reason.
    pub code: StopCode,
    /// The circumstances, for a person.
    pub detail: String,
}

/// A message of a miner.
#[derive(Debug, Clone, PartialEq)]
pub enum MinerMessage {
    /// The first message of a session.
    Hello(Hello),
    /// The miner's signature over the session, and the token that admits a miner which the validator does not know.
    Proof(Signature, Option<JoinToken>),
    /// The devices changed.
    Inventory(Inventory),
    /// The answer to a ping, with its number.
    Pong(u64),
    /// The miner does not take the challenge up.
    Declined(Stop),
    /// The progress of the work.
    Progress {
        /// The challenge under way.
        challenge_id: ChallengeId,
        /// Slots filled, over all iterations.
        done_slots: u64,
        /// Slots to fill.
        all_slots: u64,
        /// The device that has just done its share, with the checksum of its roots.
        finished: Option<(DeviceId, Checksum)>,
    },
    /// The work is done.
    Commitment(SignedChecksum),
    /// The roots behind the commitment, of one device.
    DeviceRoots(DeviceRoots),
    /// The probe or the sweep is done.
    ProbeAnswer(SignedChecksum),
    /// The digests behind the answer, of one device.
    DeviceDigests(DeviceDigests),
    /// A part of the answer to an open.
    OpeningsChunk(OpeningsChunk),
    /// The miner breaks the challenge off.
    Abort(Stop),
    /// The miner ends the session.
    Goodbye(StopCode, String),
}

/// A message of a validator.
#[derive(Debug, Clone, PartialEq)]
pub enum ValidatorMessage {
    /// The answer to a hello.
    Welcome(Welcome),
    /// The session stands; the validator pings this often.
    Accepted(Duration),
    /// The validator refuses the session.
    Refused {
        /// The reason.
        code: RefusedCode,
        /// For a person.
        detail: String,
        /// The pause before the miner dials again; `None`: by its own rule.
        retry_after: Option<Duration>,
    },
    /// A request for a pong with this number.
    Ping(u64),
    /// A challenge to take up.
    Challenge(Offer),
    /// A probe to answer.
    Probe {
        /// The challenge that it belongs to.
        challenge_id: ChallengeId,
        /// The probe.
        probe: Probe,
        /// How long the validator waits for the answer.
        deadline: Duration,
    },
    /// A sweep to answer.
    Sweep {
        /// The challenge that it belongs to.
        challenge_id: ChallengeId,
        /// The sweep.
        sweep: Sweep,
        /// How long the validator waits for the answer.
        deadline: Duration,
    },
    /// A request for openings.
    Open {
        /// The challenge that it belongs to.
        challenge_id: ChallengeId,
        /// The items to open, answered in this order.
        items: Vec<OpenItem>,
        /// How long the validator waits for all of it.
        deadline: Duration,
    },
    /// The end of a challenge.
    Verdict(Box<Verdict>),
    /// The validator ends the session.
    Goodbye(StopCode, String),
}

impl ValidatorMessage {
    /// The message that asks for a probe of any stage.
    pub const fn asking(challenge_id: ChallengeId, probe: MemoryProbe, deadline: Duration) -> Self {
        match probe {
            MemoryProbe::Walks(probe) => Self::Probe { challenge_id, probe, deadline },
            MemoryProbe::Sweep(sweep) => Self::Sweep { challenge_id, sweep, deadline },
        }
    }
}
