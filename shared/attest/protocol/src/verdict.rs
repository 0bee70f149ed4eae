//! A verdict: the outcome of a challenge, the figures that it showed, and their certainty.

mod reason;

use serde::{Deserialize, Serialize};

use crate::claims::Telemetry;
use assay_work::{ChallengeId, DeviceId, Precision, PublicKey};

pub use reason::{Class, Outcome, Reason, ReasonCode, outcome_of};

assay_work::names! {
    /// How a validator checks the work. Names are those of the command line.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
    #[serde(rename_all = "kebab-case")]
    pub enum Mode {
        /// Every pass of every device again, on devices of its own.
        Replay = "replay",
        /// Some iterations again.
        ReplaySample = "replay-sample",
        /// Elements drawn at random, from opened rows.
        Audit = "audit",
    }
}

/// Measured work of one device, or of the whole host. Zero where the challenge ended before.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Work {
    /// Slots filled in the last iteration.
    pub matrices: u64,
    /// Bytes proved to be in memory: the part of `(count - 2) · n²` that [`Hiding::share`] and the audit leave. Leaves
    /// can be computed instead of stored.
    pub bytes_held: u64,
    /// Multiply-accumulates over all iterations.
    pub multiply_accumulates: u128,
    /// From the challenge out to the commitment in, of a device to its word that it is done, on the validator's clock.
    pub seconds: f64,
    /// 2 · multiply-accumulates / seconds / 10¹², less the part that the audit leaves open.
    pub tops: f64,
    /// Bytes read by the probe.
    pub probe_bytes: u64,
    /// From the probe out to its answer in, of a device to its word, on the validator's clock.
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

/// Measured work of one device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "FlatDeviceWork")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct DeviceWork {
    /// The device.
    pub device_id: DeviceId,
    /// The name given by the miner: a claim.
    pub name: String,
    /// Its work.
    #[serde(flatten)]
    pub work: Work,
    /// Sensor readings of the device during the work, as the miner reports them: a claim, which no judgement uses.
    pub claimed_telemetry: Option<Telemetry>,
    /// The part of its memory that may have been elsewhere; `None` without an answer to a probe.
    pub hiding: Option<Hiding>,
    /// The rates that it showed, in order of kind: in this challenge where it passed, and in the last one of every other
    /// kind that it passed.
    pub rates: Vec<KindRate>,
    /// Result of the sweep; `None` where no sweep was answered and held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sweep: Option<SweepWork>,
}

/// Result of a sweep: the whole memory of a device is read in order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SweepWork {
    /// Bytes of the slots that were summed, over all rounds.
    pub bytes: u64,
    /// Seconds from the sweep out to its answer in, on the validator's clock, with the round trip in it.
    pub seconds: f64,
    /// Bytes / seconds / 10⁹.
    pub gb_per_s: f64,
    /// h: the share of its memory that may have been elsewhere during the sweep, at most 1.
    pub share: f64,
    /// μ: the assumed bytes per second that processors elsewhere read.
    pub elsewhere_bytes_per_s: f64,
    /// f: the share of the sums that the samples leave open.
    pub open_sums: f64,
    /// Samples checked.
    pub samples: u32,
    /// Rounds: how often each byte was read.
    pub rounds: u32,
}

impl SweepWork {
    /// The meaning of the figures, with their weakness.
    pub fn meaning(&self) -> String {
        format!(
            "its memory was read whole and in order at {:.1} GB/s. A model that fills it and is read once for a token \
             gives at most {:.1} tokens a second. At most {:.1} % of the memory was elsewhere meanwhile; where it was, the \
             probe shows, not the sweep",
            self.gb_per_s,
            f64::from(self.rounds) / self.seconds.max(1e-9),
            100.0 * self.share
        )
    }
}

/// The rate that a device showed in a kind of work. It can be understated, never overstated; the unit that computed it
/// is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct KindRate {
    /// The kind of work, by its number.
    #[cfg_attr(feature = "schema", schema(value_type = u32))]
    pub precision: Precision,
    /// 2 · multiply-accumulates of this kind per second / 10¹².
    pub tops: f64,
    /// The factor by which a known detour over another unit may be faster than the unit made for the kind: 1 or more.
    pub detour: f64,
    /// Sending time of the challenge that showed it: seconds since 1970, by the validator's clock.
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
    #[serde(default)]
    sweep: Option<SweepWork>,
}

impl From<FlatDeviceWork> for DeviceWork {
    fn from(flat: FlatDeviceWork) -> Self {
        let FlatDeviceWork { device_id, name, matrices, bytes_held, multiply_accumulates, seconds, tops, .. } = flat;
        let FlatDeviceWork { probe_bytes, probe_seconds, probe_gb_per_s, samples, segments, claimed_seconds, .. } =
            flat;
        let FlatDeviceWork { claimed_telemetry, hiding, rates, sweep, .. } = flat;
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
        Self { device_id, name, work, claimed_telemetry, hiding, rates, sweep }
    }
}

/// The part of a device's memory that may have been elsewhere during the probe (WORK.md, What can hide).
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Hiding {
    /// ρ: the multiply-accumulates per second that the device may have.
    pub rate_per_s: f64,
    /// Whether ρ is only the shown rate times the policy's factor: no peak rate of a model is known.
    pub rate_is_shown_only: bool,
    /// x_c: the share of the lines read that it could compute again.
    pub computed: f64,
    /// x_b: the share that it could move over its buses.
    pub over_buses: f64,
    /// h: the share of its lines that may have been hidden, at most 1. Devices of a host can hide for one another: it then
    /// holds for their mean.
    pub share: f64,
    /// β: the assumed bytes per second of its buses.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub bus_bytes_per_s: f64,
    /// μ: the assumed bytes per second that processors elsewhere read of a copy of its slots.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub copy_bytes_per_s: f64,
    /// m: the share of the steps that could be made in that copy.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub elsewhere: f64,
    /// f: the share of the walks that the segments leave open.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub open_walks: f64,
    /// s: the assumed bytes per second of operands that come onto the chip; 0 where they are no bound.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub operand_bytes_per_s: f64,
    /// Z: the assumed bytes that the chip holds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub chip_bytes: f64,
    /// x_r: the share of blocks of lines whose operands it could read again.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub operands: f64,
    /// Whether h is that of the operands to be read again, and not of the lines to be computed again.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_by_operands: bool,
    /// The rule that h follows from: [`HIDING_RULE`], or one of earlier evidence; 1 takes one round at a time.
    #[serde(default = "first_rule", skip_serializing_if = "is_first_rule")]
    pub rule: u32,
}

/// The current rule for memory that may hide from a probe: rounds after an invented digest run beside the others, walks
/// may end in a copy elsewhere (both since 2), and operands that have to be read again bound hidden memory too (since 3).
pub const HIDING_RULE: u32 = 3;
/// The rule that took walks elsewhere into account first.
pub const WALKS_ELSEWHERE_RULE: u32 = 2;

/// The rule of evidence that does not name one.
pub const fn first_rule() -> u32 {
    1
}

/// Whether a rule is [`first_rule`], which evidence leaves out.
#[must_use]
pub const fn is_first_rule(rule: &u32) -> bool {
    *rule == first_rule()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(figure: &f64) -> bool {
    *figure == 0.0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
const fn is_false(flag: &bool) -> bool {
    !*flag
}

/// Result of a linked probe: all devices reach the memory of one another at once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct LinkWork {
    /// Seconds from the linked probe out to its answer in, on the validator's clock, with the round trip in it.
    pub seconds: f64,
    /// Seconds of one step of all walks: `seconds / (steps · rounds)`.
    pub step_seconds: f64,
    /// The least bytes that crossed between devices: 64 for each step but the first of a round whose line is on another
    /// device than the one before, by the devices' shares of the slots.
    pub crossed_bytes: u64,
    /// Mean rate into each device: crossed bytes / devices / seconds / 10⁹.
    pub gb_per_s: f64,
    /// GB/s that the network cards of a host must carry in one direction, had two hosts half of the slots each.
    pub half_gb_per_s: f64,
    /// GB/s that they must carry, were the device with the fewest slots alone in another host: the slowest network that
    /// passes.
    pub least_gb_per_s: f64,
    /// Segments checked of each device.
    pub segments: u32,
    /// The bounds for 1 %, 5 % and 10 % of the lines wrong.
    pub bounds: Vec<Bound>,
}

/// A device of the inventory that was not challenged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = NotChallenged))]
pub struct UnchallengedDevice {
    /// The device.
    pub device_id: DeviceId,
    /// The name given by the miner: a claim.
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
    /// The name given by the miner: a claim.
    pub name: String,
}

/// The probability that a host would have passed although a fraction of its work was wrong.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Bound {
    /// The fraction that was wrong.
    pub fraction: f64,
    /// log2 of the probability.
    pub log2_probability: f64,
}

/// The outcome of a challenge, with all data that a reader needs to judge it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Verdict {
    /// The challenge.
    pub challenge_id: ChallengeId,
    /// Key of the miner.
    pub miner_key: PublicKey,
    /// Key of the validator.
    pub validator_key: PublicKey,
    /// Its outcome.
    pub outcome: Outcome,
    /// The reasons, when not a pass.
    pub reasons: Vec<Reason>,
    /// How the work was checked; `None` when the challenge ended before.
    pub mode: Option<Mode>,
    /// The kind of work, by its number; INT8 in verdicts from before other kinds existed.
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
    /// The work of all devices together.
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
    pub not_challenged: Vec<UnchallengedDevice>,
    /// The devices that the key showed before and that took no part, in order of id.
    pub missing_devices: Vec<NamedDevice>,
    /// The devices that took part and that the key never showed before, in order of id; empty where it has shown no
    /// device.
    pub new_devices: Vec<NamedDevice>,
    /// How many of the key's last [`Verdict::recent_challenges`], this one included, were abandoned by the miner.
    pub abandoned_recently: u32,
    /// Number of the key's challenges considered.
    pub recent_challenges: u32,
    /// Sending time of the challenge, or time of judging files: seconds since 1970, by the validator's clock.
    pub unix_seconds: u64,
    /// Result of the linked probe; `None` where no linked probe was answered and held.
    #[serde(default)]
    pub link: Option<LinkWork>,
    /// The signed receipt of this verdict, where one was issued: a token, which has the verdict in it.
    #[serde(skip)]
    pub receipt: Option<String>,
}

impl Verdict {
    /// The verdict on a challenge of which no work is known: it was not made, or its course is lost.
    pub fn without_work(
        challenge_id: ChallengeId,
        miner_key: PublicKey,
        validator_key: PublicKey,
        reasons: Vec<Reason>,
        unix_seconds: u64,
    ) -> Self {
        Self {
            challenge_id,
            miner_key,
            validator_key,
            outcome: outcome_of(&reasons),
            reasons,
            mode: None,
            precision: Precision::Int8,
            n: 0,
            iterations: 0,
            iterations_checked: 0,
            devices: Vec::new(),
            whole: Work::default(),
            work_bounds: Vec::new(),
            iteration_bounds: Vec::new(),
            probe_bounds: Vec::new(),
            round_trip_ms: None,
            handover_ms: None,
            roots_ms: None,
            digests_ms: None,
            not_challenged: Vec::new(),
            missing_devices: Vec::new(),
            new_devices: Vec::new(),
            abandoned_recently: 0,
            recent_challenges: 0,
            unix_seconds,
            link: None,
            receipt: None,
        }
    }

    /// The results of a device.
    pub fn device(&self, id: DeviceId) -> Option<&DeviceWork> {
        self.devices.iter().find(|device| device.device_id == id)
    }

    /// Field operations per second in work of this challenge; 0 in kinds other than `field`.
    pub fn field_operations_per_s(&self, work: &Work) -> f64 {
        self.precision.field_operations_per_s(self.n, work.tops * 1e12 / 2.0)
    }

    /// Whether a probe was answered and showed no memory at all: a pass with it is a weak one.
    #[must_use]
    pub fn lacks_memory(&self) -> bool {
        self.whole.bytes_held == 0 && self.devices.iter().any(|device| device.hiding.is_some())
    }

    /// The time of work, probes and sweep, in seconds; 0 without a commitment. The miner's openings take as long as it
    /// wants.
    #[must_use]
    pub fn timed_seconds(&self) -> f64 {
        let linked = self.link.as_ref().map_or(0.0, |link| link.seconds);
        let sweeps = self.devices.iter().filter_map(|device| Some(device.sweep?.seconds));
        self.whole.seconds + self.whole.probe_seconds + linked + sweeps.fold(0.0, f64::max)
    }

    /// Whether all work that was checked held: a pass, or an outcome that rests only on other knowledge about the key.
    #[must_use]
    pub fn work_held(&self) -> bool {
        self.reasons.iter().all(|reason| reason.code.leaves_work_standing())
    }

    /// The meaning of the outcome here, in a few words.
    pub fn meaning(&self) -> &'static str {
        let has = |class| self.reasons.iter().any(|r| r.code.class() == class);
        match self.outcome {
            Outcome::Pass if self.lacks_memory() => "all checks passed, but no memory was shown",
            Outcome::Pass => "all checks passed",
            Outcome::Fail if has(Class::Forged) && self.work_held() => {
                "the work held, but not what the miner claims to be"
            }
            Outcome::Fail if has(Class::Forged) => "the miner sent invalid data",
            Outcome::Fail if has(Class::Late) => "the miner was too late, or too slow to show its memory",
            Outcome::Fail if has(Class::Evasive) => "the miner broke off too many challenges",
            Outcome::Fail => "the host showed less than is expected of it",
            Outcome::Inconclusive if has(Class::Ours) && self.work_held() => {
                "all checks passed, but another miner showed the same device"
            }
            Outcome::Inconclusive if self.work_held() => {
                "all checks passed, but not on all devices that the key showed before"
            }
            Outcome::Inconclusive => "not judged: neither a pass nor the miner's failure",
        }
    }
}
