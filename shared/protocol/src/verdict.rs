//! Outcomes, reasons and their classes: the words that both sides and the user share.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::claims::Telemetry;
use assay_work::{ChallengeId, DeviceId, Precision, PublicKey};

/// What a challenge ended in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Everything checked held.
    Pass,
    /// The miner forged something, was late, or showed less than it must.
    Fail,
    /// It could not be judged: neither a pass nor the miner's failure.
    Inconclusive,
}

impl Outcome {
    /// The worst of several: a fail before what could not be judged, and that before a pass. None at all shows nothing.
    #[must_use]
    pub fn worst(outcomes: impl IntoIterator<Item = Self>) -> Self {
        let outcomes: Vec<_> = outcomes.into_iter().collect();
        let is_there = |wanted| outcomes.contains(&wanted);
        match outcomes.is_empty() {
            _ if is_there(Self::Fail) => Self::Fail,
            true => Self::Inconclusive,
            false if is_there(Self::Inconclusive) => Self::Inconclusive,
            false => Self::Pass,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Inconclusive => "inconclusive",
        })
    }
}

/// Whose doing a reason is. Only [`Class::Forged`], [`Class::Late`], [`Class::Evasive`] and [`Class::Short`] can fail a
/// miner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// The miner sent something that no honest miner sends.
    Forged,
    /// The miner let a deadline pass.
    Late,
    /// The miner broke off challenges too often once it knew what would be checked.
    Evasive,
    /// The work held, but was less than the operator of the validator expects of this key.
    Short,
    /// A device of the miner failed.
    Sick,
    /// The miner had other things to do, or too little memory.
    Busy,
    /// The connection broke.
    Network,
    /// The program could not do its part, on either side.
    Ours,
}

impl Class {
    /// The stable name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Forged => "forged",
            Self::Late => "late",
            Self::Evasive => "evasive",
            Self::Short => "short",
            Self::Sick => "sick",
            Self::Busy => "busy",
            Self::Network => "network",
            Self::Ours => "ours",
        }
    }

    /// Whether a reason of this class fails the miner.
    #[must_use]
    pub const fn fails(self) -> bool {
        matches!(self, Self::Forged | Self::Late | Self::Evasive | Self::Short)
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

macro_rules! reason_codes {
    ($($variant:ident $name:literal $class:ident $about:literal $advice:literal;)*) => {
        /// Why a challenge did not pass: stable names, each with its class.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum ReasonCode {
            $(#[doc = $about] #[serde(rename = $name)] $variant,)*
        }

        impl ReasonCode {
            /// Every code there is.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The stable, machine-readable name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The code with a name.
            #[must_use]
            pub fn named(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|code| code.name() == name)
            }

            /// Whose doing it is.
            #[must_use]
            pub const fn class(self) -> Class {
                match self { $(Self::$variant => Class::$class,)* }
            }

            /// What it means, in one sentence.
            #[must_use]
            pub const fn about(self) -> &'static str {
                match self { $(Self::$variant => $about,)* }
            }

            /// What whoever reads the verdict should do.
            #[must_use]
            pub const fn advice(self) -> &'static str {
                match self { $(Self::$variant => $advice,)* }
            }
        }
    };
}

reason_codes! {
    CommitmentChallenge "commitment_challenge" Forged "The commitment names another challenge." "Treat the host as dishonest: it answered with an old or a foreign commitment.";
    CommitmentSplit "commitment_split" Forged "The commitment is over another split than the specification's." "Treat the host as dishonest, or its software as not Assay's.";
    CommitmentRoots "commitment_roots" Forged "A device has another number of roots than there are iterations." "Treat the host as dishonest, or its software as not Assay's.";
    CommitmentChecksum "commitment_checksum" Forged "A checksum is not that of the roots." "Treat the host as dishonest: what it signed and what it sent differ.";
    CommitmentSignature "commitment_signature" Forged "The signature of the commitment is not the miner's." "Treat the host as dishonest: the work was signed by another key.";
    CommitmentTwice "commitment_twice" Forged "A second commitment came." "Treat the host as dishonest: a commitment is final.";
    ProbeChallenge "probe_challenge" Forged "The probe answer names another challenge." "Treat the host as dishonest: it answered another probe.";
    ProbeDigests "probe_digests" Forged "The probe answer has other devices or another number of digests than asked." "Treat the host as dishonest, or its software as not Assay's.";
    ProbeChecksum "probe_checksum" Forged "The checksum of the probe answer is not that of its digests." "Treat the host as dishonest: what it signed and what it sent differ.";
    ProbeSignature "probe_signature" Forged "The signature of the probe answer is not the miner's." "Treat the host as dishonest: the answer was signed by another key.";
    ProbeTwice "probe_twice" Forged "A second probe answer came." "Treat the host as dishonest: an answer is final.";
    RootMismatch "root_mismatch" Forged "Re-execution gives another root." "Treat the work of this device as not done.";
    AuditDigests "audit_digests" Forged "The digests opened do not hash to the root committed to." "Treat the work of this device as not done.";
    AuditRows "audit_rows" Forged "Other rows were opened than those asked for." "Treat the work of this device as not done.";
    AuditRange "audit_range" Forged "An opened range has another position or length." "Treat the work of this device as not done.";
    AuditSiblings "audit_siblings" Forged "An opened range has another number of siblings." "Treat the work of this device as not done.";
    AuditPath "audit_path" Forged "An opened range does not lead to its digest." "Treat the work of this device as not done.";
    AuditLeaf "audit_leaf" Forged "A leaf's row is not the keystream." "Treat the work of this device as not done.";
    AuditElement "audit_element" Forged "An element is not what its formula gives." "Treat the work of this device as not done.";
    ResidencyDigests "residency_digests" Forged "The digests opened for the probe do not hash to the root committed to." "Treat the memory of this device as not shown.";
    ResidencyRows "residency_rows" Forged "Other segments were opened than those asked for." "Treat the memory of this device as not shown.";
    ResidencyRange "residency_range" Forged "An opened state or line has another position or length." "Treat the memory of this device as not shown.";
    ResidencySiblings "residency_siblings" Forged "An opened state or line has another number of siblings." "Treat the memory of this device as not shown.";
    ResidencyPath "residency_path" Forged "An opened state or line does not lead to its digest." "Treat the memory of this device as not shown.";
    ResidencyState "residency_state" Forged "A walk does not end in the state opened." "Treat the memory of this device as not shown.";
    Protocol "protocol" Forged "A message came that an honest miner does not send then." "Check that the host runs an unmodified assay-miner of the same version.";
    CommitmentLate "commitment_late" Late "No commitment came before the deadline." "Ask again with a longer deadline if the host is known to be slow; else treat the claimed hardware as not there.";
    ProbeLate "probe_late" Late "No probe answer came before the deadline." "Treat the memory as not resident, or not of the claimed bandwidth.";
    RootsLate "roots_late" Late "The roots behind the commitment did not come before their deadline." "Check the link if it is known to be slow; else treat the work as not done.";
    DigestsLate "digests_late" Late "The digests behind the probe answer did not come before their deadline." "Check the link if it is known to be slow; else treat the memory as not shown.";
    ResidencyShare "residency_share" Late "The probe took so long that more of the memory may have been elsewhere than the policy allows." "Treat the memory as not shown to the share that the policy asks for; ask with larger matrices if the device is known to be fast.";
    OpeningsLate "openings_late" Late "The openings did not come before their deadline." "Ask again with a longer deadline if the link is known to be slow; else treat the work as not done.";
    AbandonedRepeatedly "abandoned_repeatedly" Evasive "The miner broke off too many of its last challenges after positions were named." "Treat the host as dishonest, or its link as unfit to be judged over.";
    DeviceGone "device_gone" Short "A device that the key showed before took no part." "Look for the device on the host; if it was removed on purpose, run `assay-validator forget` for the key.";
    ExpectationMissed "expectation_missed" Short "The host showed less than the operator expects of this key." "Compare the host with the expectations file of the validator.";
    LinkSlow "link_slow" Short "The devices reach the memory of one another more slowly than the policy asks for, or did not show it." "Compare the host with others of its kind: its devices may be in several hosts, or their links down.";
    TooSlow "too_slow" Short "The work took longer than a device of the model that is claimed takes." "Compare the device with others of its model: it may be throttled, shared, or not that model.";
    MemoryBelowClaim "memory_below_claim" Short "Less memory was shown than a device of the model that is claimed has." "Look for what else holds the memory of the device; else treat the claimed model as not there.";
    BandwidthBelowClaim "bandwidth_below_claim" Short "The probe read slower than a device of the model that is claimed reads." "Compare the device with others of its model: its memory may be shared, or elsewhere.";
    TooFast "too_fast" Forged "The work or the probe was faster than a device of the model that is claimed can be." "Treat the claim as false: other or more hardware did the work.";
    ModelMismatch "model_mismatch" Forged "The speed is not that of the model that is claimed, but that of another one." "Treat the claimed model as not there.";
    DeviceAtTwoMiners "device_at_two_miners" Forged "Another miner showed the same device at the same time." "Challenge both miners in one round; forbid one of them the device.";
    KeyAtTwoAddresses "key_at_two_addresses" Forged "The key spoke for two hosts at the same time." "Give each host a key of its own, and revoke this one if it was copied without leave.";
    DeviceSick "device_sick" Sick "A device of the miner failed." "Look at the device: the miner's log says what its driver reported.";
    MinerBusy "miner_busy" Busy "The miner is busy." "Ask again later.";
    MinerDraining "miner_draining" Busy "The miner is shutting down." "Ask again when it is back.";
    MinerDeclined "miner_declined" Busy "A limit of the miner's operator was reached." "Ask again at other hours, or ask for less; the detail names the limit.";
    NotEnoughMemory "not_enough_memory" Busy "The miner has too little free memory for the challenge." "Ask again later, for a smaller share of the memory, or with smaller matrices.";
    NothingToChallenge "nothing_to_challenge" Busy "No device of the miner has as many slots as the policy asks for." "Free memory on the host, or lower the policy's min_slots.";
    StaleInventory "stale_inventory" Busy "The miner's devices changed while the challenge was on its way." "Ask again.";
    MinerUnsupported "miner_unsupported" Busy "The miner's devices cannot do what the challenge asks." "Ask for another n or a smaller probe.";
    MinerStopped "miner_stopped" Busy "The miner stopped without a fault of its devices." "Look at the miner's log, and ask again.";
    DeviceMissing "device_missing" Busy "A device that the key showed before took no part." "Ask the host's operator; if the device was removed on purpose, run `assay-validator forget` for the key.";
    Disconnected "disconnected" Network "The connection broke." "Ask again when the miner is back.";
    NotReading "not_reading" Network "The miner did not read what the validator sent." "Check the link and the miner, and ask again.";
    Abandoned "abandoned" Network "The miner broke the challenge off after positions were named." "Ask again; a host that does so repeatedly fails.";
    PeerSilent "peer_silent" Network "The miner no longer answers pings." "Check the link, and ask again.";
    MinerInternal "miner_internal" Ours "The miner's program met an error of its own, or a process of it was killed." "Look at the miner's log, and ask again.";
    ValidatorDevices "validator_devices" Ours "The validator's own devices failed or do not suffice." "Look at the validator's log; ask for an audit, which needs no device.";
    ValidatorOverloaded "validator_overloaded" Ours "The validator had too much to do to judge." "Give the validator fewer miners or more cores, and ask again.";
    ValidatorDraining "validator_draining" Ours "The validator is shutting down." "Ask again when it is back.";
    ValidatorLost "validator_lost" Ours "The validator ended in mid-challenge, without a verdict." "Look at why the validator ended; the miner is challenged again by itself.";
    Cancelled "cancelled" Ours "An operator cancelled the challenge." "Ask again when the host is to be judged.";
    ValidatorInternal "validator_internal" Ours "The validator met an error of its own." "Look at the validator's log.";
}

impl ReasonCode {
    /// Whether the work held all the same: only what else is known of the key speaks against a pass.
    #[must_use]
    pub const fn leaves_work_standing(self) -> bool {
        matches!(
            self,
            Self::DeviceMissing
                | Self::DeviceGone
                | Self::ExpectationMissed
                | Self::LinkSlow
                | Self::TooSlow
                | Self::MemoryBelowClaim
                | Self::BandwidthBelowClaim
                | Self::TooFast
                | Self::ModelMismatch
                | Self::DeviceAtTwoMiners
                | Self::KeyAtTwoAddresses
        )
    }
}

// utoipa does not see names that a macro gives.
#[cfg(feature = "schema")]
impl utoipa::PartialSchema for ReasonCode {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        let names = Self::ALL.iter().map(|code| code.name());
        utoipa::openapi::schema::ObjectBuilder::new()
            .schema_type(utoipa::openapi::schema::Type::String)
            .description(Some("Why a challenge did not pass."))
            .enum_values(Some(names))
            .into()
    }
}

#[cfg(feature = "schema")]
impl utoipa::ToSchema for ReasonCode {}

impl fmt::Display for ReasonCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One reason behind an outcome. Its document says also what follows from the code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "ReasonDocument", from = "ReasonDocument")]
pub struct Reason {
    /// What happened.
    pub code: ReasonCode,
    /// The circumstances, with figures.
    pub detail: String,
    /// The device, where one is meant.
    pub device_id: Option<DeviceId>,
}

impl Reason {
    /// A reason about the whole host.
    #[must_use]
    pub fn new(code: ReasonCode, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into(), device_id: None }
    }

    /// A reason about one device.
    #[must_use]
    pub fn on_device(code: ReasonCode, device_id: DeviceId, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into(), device_id: Some(device_id) }
    }
}

/// A reason as it is printed.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = Reason))]
struct ReasonDocument {
    /// What happened.
    code: ReasonCode,
    /// Whose doing it is.
    class: Class,
    /// The device, where one is meant.
    device_id: Option<DeviceId>,
    /// The circumstances, with figures.
    detail: String,
    /// What whoever reads the verdict should do.
    #[serde(skip_deserializing)]
    advice: Cow<'static, str>,
}

impl From<Reason> for ReasonDocument {
    fn from(Reason { code, detail, device_id }: Reason) -> Self {
        Self { code, class: code.class(), device_id, detail, advice: code.advice().into() }
    }
}

impl From<ReasonDocument> for Reason {
    fn from(ReasonDocument { code, class: _, device_id, detail, advice: _ }: ReasonDocument) -> Self {
        Self { code, detail, device_id }
    }
}

#[cfg(feature = "schema")]
impl utoipa::PartialSchema for Reason {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        ReasonDocument::schema()
    }
}

#[cfg(feature = "schema")]
impl utoipa::ToSchema for Reason {
    fn schemas(schemas: &mut Vec<(String, utoipa::openapi::RefOr<utoipa::openapi::schema::Schema>)>) {
        ReasonDocument::schemas(schemas);
    }
}

/// The outcome that reasons lead to: none is a pass; any that fails is a fail; else it is inconclusive.
#[must_use]
pub fn outcome_of(reasons: &[Reason]) -> Outcome {
    if reasons.is_empty() {
        Outcome::Pass
    } else if reasons.iter().any(|r| r.code.class().fails()) {
        Outcome::Fail
    } else {
        Outcome::Inconclusive
    }
}

/// How a validator checks the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Every pass of every device again, on devices of its own.
    Replay,
    /// Some iterations again.
    ReplaySample,
    /// Elements drawn at random, from opened rows.
    Audit,
}

impl Mode {
    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Replay => "replay",
            Self::ReplaySample => "replay-sample",
            Self::Audit => "audit",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What one device, or the whole host, showed. Zero where it did not come so far.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Work {
    /// Slots filled in the last iteration.
    pub matrices: u64,
    /// Bytes shown to be in memory: of `(count - 2) · n²` what [`Hiding::share`] and the audit leave. Leaves can be
    /// computed instead of stored.
    pub bytes_held: u64,
    /// Multiply-accumulates over all iterations.
    pub multiply_accumulates: u128,
    /// From the challenge out to the commitment in, on the validator's clock.
    pub seconds: f64,
    /// 2 · multiply-accumulates / seconds / 10¹², less what the audit leaves open.
    pub tops: f64,
    /// Bytes that the probe read.
    pub probe_bytes: u64,
    /// From the probe out to its answer in, on the validator's clock.
    pub probe_seconds: f64,
    /// Probe bytes / seconds / 10⁹.
    pub probe_gb_per_s: f64,
    /// Samples checked, over all iterations drawn.
    pub samples: u32,
    /// Segments checked.
    pub segments: u32,
    /// The miner's own time for the work: a claim.
    pub claimed_seconds: Option<f64>,
}

/// What one device showed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "FlatDeviceWork")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct DeviceWork {
    /// The device.
    pub device_id: DeviceId,
    /// The name that the miner gives it: a claim.
    pub name: String,
    /// What it showed.
    #[serde(flatten)]
    pub work: Work,
    /// What the miner says that the device's sensors showed during the work: a claim, on which nothing rests.
    pub claimed_telemetry: Option<Telemetry>,
    /// How much of its memory may have been elsewhere; `None` without an answer to a probe.
    pub hiding: Option<Hiding>,
    /// The rates that it showed, in order of kind: in this challenge where it passed, and in the last one of every other
    /// kind that it passed.
    pub rates: Vec<KindRate>,
}

/// The rate that a device showed in a kind of work. It can be understated, never overstated; which unit computed it does
/// not show.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct KindRate {
    /// The kind of work, by its number.
    #[cfg_attr(feature = "schema", schema(value_type = u32))]
    pub precision: Precision,
    /// 2 · multiply-accumulates of this kind per second / 10¹².
    pub tops: f64,
    /// By how much a known detour over another unit may be faster than the unit made for the kind: 1 or more.
    pub detour: f64,
    /// When the challenge was sent that showed it: seconds since 1970, by the validator's clock.
    pub unix_seconds: u64,
}

/// A device's work as it is read: serde keeps no u128 of a flattened part.
#[derive(Deserialize)]
struct FlatDeviceWork {
    device_id: DeviceId,
    name: String,
    matrices: u64,
    bytes_held: u64,
    multiply_accumulates: u128,
    seconds: f64,
    tops: f64,
    probe_bytes: u64,
    probe_seconds: f64,
    probe_gb_per_s: f64,
    samples: u32,
    segments: u32,
    claimed_seconds: Option<f64>,
    claimed_telemetry: Option<Telemetry>,
    hiding: Option<Hiding>,
    #[serde(default)]
    rates: Vec<KindRate>,
}

impl From<FlatDeviceWork> for DeviceWork {
    fn from(flat: FlatDeviceWork) -> Self {
        let FlatDeviceWork { device_id, name, matrices, bytes_held, multiply_accumulates, seconds, tops, .. } = flat;
        let FlatDeviceWork { probe_bytes, probe_seconds, probe_gb_per_s, samples, segments, claimed_seconds, .. } =
            flat;
        let FlatDeviceWork { claimed_telemetry, hiding, rates, .. } = flat;
        let work = Work {
            matrices,
            bytes_held,
            multiply_accumulates,
            seconds,
            tops,
            probe_bytes,
            probe_seconds,
            probe_gb_per_s,
            samples,
            segments,
            claimed_seconds,
        };
        Self { device_id, name, work, claimed_telemetry, hiding, rates }
    }
}

/// How much of a device's memory may have been elsewhere during the probe (WORK.md, What can hide).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Hiding {
    /// ρ: the multiply-accumulates per second that the device may have.
    pub rate_per_s: f64,
    /// Whether ρ is only what the device showed times the policy's factor: no peak rate of a model is known.
    pub rate_is_shown_only: bool,
    /// x_c: the share of the lines read that it could compute again.
    pub computed: f64,
    /// x_b: the share that it could move over its buses.
    pub over_buses: f64,
    /// h: the share of its lines that may have been hidden, at most 1.
    pub share: f64,
}

/// What a linked probe showed: that all devices reach the memory of one another at once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct LinkWork {
    /// From the linked probe out to its answer in, on the validator's clock, with the round trip in it.
    pub seconds: f64,
    /// Those of one step of all walks: `seconds / (steps · rounds)`.
    pub step_seconds: f64,
    /// Bytes that at least crossed between devices: 64 for each step but the first of a round whose line is on another
    /// device than the one before, by the devices' shares of the slots.
    pub crossed_bytes: u64,
    /// Into each device, in the mean: crossed bytes / devices / seconds / 10⁹.
    pub gb_per_s: f64,
    /// What the network cards of a host must carry in one direction, had two hosts half of the slots each.
    pub half_gb_per_s: f64,
    /// The same, were the device with the fewest slots alone in another host: the slowest network that passes.
    pub least_gb_per_s: f64,
    /// Segments checked of each device.
    pub segments: u32,
    /// The bounds for 1 %, 5 % and 10 % of the lines wrong.
    pub bounds: Vec<Bound>,
}

/// A device of the inventory that was not challenged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NotChallenged {
    /// The device.
    pub device_id: DeviceId,
    /// The name that the miner gives it: a claim.
    pub name: String,
    /// The slots at n that it claims.
    pub slots: u32,
}

/// A device of a key's host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NamedDevice {
    /// The device.
    pub device_id: DeviceId,
    /// The name that the miner gives it: a claim.
    pub name: String,
}

/// With which probability a host would have passed although a fraction of its work was wrong.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Bound {
    /// The fraction that was wrong.
    pub fraction: f64,
    /// log2 of the probability.
    pub log2_probability: f64,
}

/// What a challenge ended in, and everything that a reader needs to judge that for himself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Verdict {
    /// The challenge.
    pub challenge_id: ChallengeId,
    /// Who answered.
    pub miner_key: PublicKey,
    /// Who asked.
    pub validator_key: PublicKey,
    /// What it ended in.
    pub outcome: Outcome,
    /// Why, when not a pass.
    pub reasons: Vec<Reason>,
    /// How the work was checked; `None` when it did not come so far.
    pub mode: Option<Mode>,
    /// The kind of work, by its number; INT8 in verdicts of before there were others.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(value_type = u32))]
    pub precision: Precision,
    /// The matrix size.
    pub n: u32,
    /// Passes of each device.
    pub iterations: u32,
    /// Passes of each device that were checked.
    pub iterations_checked: u32,
    /// Each device, in order of id.
    pub devices: Vec<DeviceWork>,
    /// All together.
    pub whole: Work,
    /// The work's bounds, for 1 %, 5 % and 10 %.
    pub work_bounds: Vec<Bound>,
    /// The bounds of drawing iterations, for 1 %, 5 % and 10 % of them faked; empty when all were checked.
    pub iteration_bounds: Vec<Bound>,
    /// The memory's bounds, for 1 %, 5 % and 10 % of the lines.
    pub probe_bounds: Vec<Bound>,
    /// The round trip of the connection, measured by ping.
    pub round_trip_ms: Option<f64>,
    /// The longest wait of a message of the challenge for the miner to read.
    pub handover_ms: Option<f64>,
    /// From the commitment to the last of the roots behind it.
    pub roots_ms: Option<f64>,
    /// From the probe answer to the last of the digests behind it.
    pub digests_ms: Option<f64>,
    /// The devices that hold fewer slots at n than the policy's least, in order of id.
    pub not_challenged: Vec<NotChallenged>,
    /// The devices that the key showed before and that took no part, in order of id.
    pub missing_devices: Vec<NamedDevice>,
    /// The devices that took part and that the key never showed before, in order of id; none where it has shown none.
    pub new_devices: Vec<NamedDevice>,
    /// How many of the key's last [`Verdict::recent_challenges`], this one included, were abandoned by the miner.
    pub abandoned_recently: u32,
    /// How many of the key's challenges that counts over.
    pub recent_challenges: u32,
    /// When the challenge was sent, or files were judged: seconds since 1970, by the validator's clock.
    pub unix_seconds: u64,
    /// What the devices showed of the memory of one another; `None` where no linked probe was answered and held.
    #[serde(default)]
    pub link: Option<LinkWork>,
    /// The signed receipt of this verdict, where one was issued: a token, which has the verdict in it.
    #[serde(skip)]
    pub receipt: Option<String>,
}

impl Verdict {
    /// What a device showed.
    #[must_use]
    pub fn device(&self, id: DeviceId) -> Option<&DeviceWork> {
        self.devices.iter().find(|device| device.device_id == id)
    }

    /// Whether all work that was checked held: a pass, or one but for what else is known of the key.
    #[must_use]
    pub fn work_held(&self) -> bool {
        self.reasons.iter().all(|reason| reason.code.leaves_work_standing())
    }

    /// What the outcome means here, in a few words.
    #[must_use]
    pub fn meaning(&self) -> &'static str {
        let has = |class| self.reasons.iter().any(|r| r.code.class() == class);
        match self.outcome {
            Outcome::Pass => "all checks passed",
            Outcome::Fail if has(Class::Forged) && self.work_held() => {
                "the work held, but not what the miner claims to be"
            }
            Outcome::Fail if has(Class::Forged) => "the miner sent invalid data",
            Outcome::Fail if has(Class::Late) => "the miner was too late, or too slow to show its memory",
            Outcome::Fail if has(Class::Evasive) => "the miner broke off too many challenges",
            Outcome::Fail => "the host showed less than is expected of it",
            Outcome::Inconclusive if self.work_held() => {
                "all checks passed, but not on all devices that the key showed before"
            }
            Outcome::Inconclusive => "not judged: neither a pass nor the miner's failure",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_outcome_counts() {
        use Outcome::{Fail, Inconclusive, Pass};
        assert_eq!(Outcome::worst([Pass, Pass]), Pass);
        assert_eq!(Outcome::worst([Pass, Inconclusive]), Inconclusive);
        assert_eq!(Outcome::worst([Inconclusive, Fail, Pass]), Fail);
        assert_eq!(Outcome::worst([]), Inconclusive, "nothing was shown");
    }

    #[test]
    fn only_forged_late_evasive_and_short_fail() {
        for code in ReasonCode::ALL {
            let outcome = outcome_of(&[Reason::new(*code, "")]);
            let fails = matches!(code.class(), Class::Forged | Class::Late | Class::Evasive | Class::Short);
            assert_eq!(outcome, if fails { Outcome::Fail } else { Outcome::Inconclusive }, "{code}");
        }
        assert_eq!(outcome_of(&[]), Outcome::Pass);
    }

    #[test]
    fn codes_are_distinct_and_machine_readable() {
        let mut names: Vec<_> = ReasonCode::ALL.iter().map(|c| c.name()).collect();
        assert!(names.iter().all(|n| n.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ReasonCode::ALL.len());
    }

    #[test]
    fn a_failure_outweighs_what_could_not_be_judged() {
        let reasons = [Reason::new(ReasonCode::Disconnected, ""), Reason::new(ReasonCode::AuditElement, "")];
        assert_eq!(outcome_of(&reasons), Outcome::Fail);
    }
}
