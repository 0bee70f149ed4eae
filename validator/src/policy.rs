//! What is asked of miners, and how it is checked: as written ([`RawPolicy`]), and once checked ([`Policy`]).

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use assay_program::settings::{AUTO, Settings, SettingsError, Switch};
use assay_protocol::verdict::Mode;
use assay_work::Precision;
use assay_work::challenge::{MAX_ITERATIONS, MAX_N, MAX_TOTAL, MIN_COUNT, MIN_N};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use crate::expectations::Expectations;

/// The most samples of a device and iteration: each opens up to seven rows.
pub const MAX_SAMPLES: u32 = 4096;
/// The most of the free memory that a challenge fills: a device needs some for itself.
pub const MAX_FILL_PERCENT: u32 = 97;
/// The matrix size for devices whose rate is not known, or is at most [`FAST_DEVICE_PER_S`] (WORK.md, What can hide).
const DEFAULT_N: u32 = 2048;
/// The matrix size for faster devices, which could compute smaller slots again in the time of a probe.
const FAST_DEVICE_N: u32 = 8192;
/// Multiply-accumulates per second of a fast device.
const FAST_DEVICE_PER_S: f64 = 200e12;
/// The most challenges of a miner that are remembered to count the abandoned ones.
pub const MAX_ABANDONED_WINDOW: u32 = 20;
/// Doublings of the pause after which a busy miner is challenged again: the devices are kept for a validator that was
/// declined for 90 s, and it asks again after a minute.
const MAX_BUSY_DOUBLINGS: u32 = 2;
/// The longest time of openings, in seconds, unless their deadline is longer.
const DEFAULT_OPENINGS_LIMIT_S: u64 = 3600;
/// The least factor from a rate that was shown in F16 to the one that a device may have (WORK.md, What can hide).
const LEAST_F16_FACTOR: f64 = 2.5;
/// The longest wait for anything: a day.
const MAX_WAIT_S: u64 = 86_400;

/// All modes.
pub const MODES: [Mode; 3] = [Mode::Replay, Mode::ReplaySample, Mode::Audit];

/// A mode by name; `None` for `auto`.
pub type ModeOrAuto = Option<Mode>;

/// Reads one of these modes.
pub fn mode_parser(modes: &'static [Mode]) -> impl TypedValueParser<Value = Mode> {
    let named = |name: String| modes.iter().copied().find(|mode| mode.name() == name).ok_or("no such mode");
    PossibleValuesParser::new(modes.iter().copied().map(possible_mode)).try_map(named)
}

fn mode_or_auto_parser() -> impl TypedValueParser<Value = ModeOrAuto> {
    let auto = "Replay if it is expected to fit in the replay budget, otherwise audit";
    let values: Vec<_> = std::iter::once(PossibleValue::new(AUTO).help(auto)).chain(MODES.map(possible_mode)).collect();
    PossibleValuesParser::new(values).map(|name| MODES.into_iter().find(|mode| mode.name() == name))
}

fn possible_mode(mode: Mode) -> PossibleValue {
    PossibleValue::new(mode.name()).help(match mode {
        Mode::Replay => "Recompute every pass on the validator's devices",
        Mode::ReplaySample => "Recompute some iterations on the validator's devices",
        Mode::Audit => "Check random elements from rows the miner opens",
    })
}

/// What a verdict says of a device that the key showed before and that takes no part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceMissing {
    /// Name it in the verdict, and pass
    Warn,
    /// No pass, and no failure: device_missing
    #[default]
    Inconclusive,
    /// Fail the miner: device_gone
    Fail,
}

/// The policy, as written.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Policy")]
pub struct RawPolicy {
    /// Kinds of work to ask for, as a comma-separated list: int8, f16, fp8, fp4. Of several, each challenge of a miner has
    /// the next one that its devices compute
    #[arg(long, value_name = "KIND", value_delimiter = ',', default_value = "int8")]
    pub kinds: Vec<Precision>,
    /// Verification mode
    #[arg(long, value_parser = mode_or_auto_parser(), default_value = AUTO)]
    pub mode: ModeOrAuto,
    /// Longest expected replay that auto chooses, in seconds
    #[arg(long, value_name = "S", default_value_t = 60)]
    pub replay_budget_s: u64,
    /// Matrix size [default: 2048, and 8192 for miners with a device above 200 T multiply-accumulates/s]
    #[arg(long)]
    pub n: Option<u32>,
    /// Smallest matrix size to fall back to where the devices hold too few larger matrices [default: n]
    #[arg(long, value_name = "N")]
    pub n_min: Option<u32>,
    /// Fewest matrices that a device must hold to be challenged; docs/WORK.md asks for 64 on GPUs
    #[arg(long, value_name = "COUNT", default_value_t = 3)]
    pub min_slots: u32,
    /// Passes of each device; one proves speed and memory best, more prove endurance
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    pub iterations: u32,
    /// Percentage of the miner's free memory that a challenge fills
    #[arg(long, value_name = "PERCENT", default_value_t = 90)]
    pub fill_percent: u32,
    /// Maximum number of matrices in a challenge, over all devices of a miner
    #[arg(long, value_name = "COUNT")]
    pub max_matrices: Option<u32>,
    /// Samples per device and iteration checked by audit
    #[arg(long, value_name = "COUNT", default_value_t = 128)]
    pub samples: u32,
    /// Segments of the probe checked per device
    #[arg(long, value_name = "COUNT", default_value_t = 32)]
    pub segments: u32,
    /// Iterations per device checked by replay-sample and audit, besides the last one
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    pub sampled_iterations: u32,
    /// Deadline for the commitment, in seconds
    #[arg(long, value_name = "S", default_value_t = 600)]
    pub commit_deadline_s: u64,
    /// Target duration of a probe at the expected bandwidth, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 250)]
    pub probe_target_ms: u64,
    /// Expected memory bandwidth of a device, in GB/s; probes grow with what a miner showed last
    #[arg(long, value_name = "GB_PER_S", default_value_t = 4.0)]
    pub probe_expect_gb_per_s: f64,
    /// Largest number of walks of a probe; their states take at most 1/256 of the smallest share
    #[arg(long, value_name = "COUNT", default_value_t = 262_144)]
    pub probe_walks: u32,
    /// Steps per walk and round
    #[arg(long, value_name = "COUNT", default_value_t = 64)]
    pub probe_steps: u32,
    /// Deadline for the answer to a probe, in milliseconds [default: 10 times probe_target_ms]
    #[arg(long, value_name = "MS")]
    pub probe_deadline_ms: Option<u64>,
    /// Have the devices of a host walk over the memory of one another too, after the probe of each device's own: shows how
    /// fast they reach it
    #[arg(long, default_value_t = Switch(false))]
    pub linked_probe: Switch,
    /// Expected rate of a device in a linked probe, in GB/s of lines read; linked probes grow with what a miner showed last
    #[arg(long, value_name = "GB_PER_S", default_value_t = LinkedPolicy::default().expect_gb_per_s)]
    pub linked_expect_gb_per_s: f64,
    /// Least rate at which the devices of a host must reach the memory of one another for a pass, in GB/s into each; 0:
    /// report only
    #[arg(long, value_name = "GB_PER_S", default_value_t = 0.0)]
    pub linked_min_gb_per_s: f64,
    /// Factor from the compute rate that a device showed to the one it may have
    #[arg(long, value_name = "FACTOR", default_value_t = 2.0)]
    pub rate_factor: f64,
    /// Peak INT8 rate of the devices' model, in TOPS, where it is known
    #[arg(long, value_name = "TOPS")]
    pub peak_tops: Option<f64>,
    /// Peak FP16 or BF16 rate of the devices' model, in TOPS, where it is known
    #[arg(long, value_name = "TOPS")]
    pub peak_tops_f16: Option<f64>,
    /// Peak FP8 rate of the devices' model, in TOPS, where it is known
    #[arg(long, value_name = "TOPS")]
    pub peak_tops_fp8: Option<f64>,
    /// Peak FP4 rate of the devices' model, in TOPS, where it is known
    #[arg(long, value_name = "TOPS")]
    pub peak_tops_fp4: Option<f64>,
    /// Rate of all ways from memory outside the challenge into a device, in GB/s: 32, 64, 128 for PCIe 4, 5, 6
    #[arg(long, value_name = "GB_PER_S", default_value_t = 64.0)]
    pub bus_gb_per_s: f64,
    /// Least percentage of each device's challenged memory that a pass must show; 0: report only
    #[arg(long, value_name = "PERCENT", default_value_t = 0)]
    pub min_held_percent: u32,
    /// Deadline for the openings, in seconds, beside the time in which they arrive at link_min_kb_per_s or faster
    #[arg(long, value_name = "S", default_value_t = 120)]
    pub openings_deadline_s: u64,
    /// Longest time of the openings in all, in seconds [default: 3600, or openings_deadline_s where that is longer]
    #[arg(long, value_name = "S")]
    pub openings_limit_s: Option<u64>,
    /// Least rate of a miner's link, in kB/s: openings, roots and digests may take as long as they need at this rate
    #[arg(long, value_name = "KB_PER_S", default_value_t = 8)]
    pub link_min_kb_per_s: u64,
    /// Challenge every miner when it connects
    #[arg(long, default_value_t = Switch(true))]
    pub challenge_on_connect: Switch,
    /// Seconds between challenges of a miner; 0: on demand only
    #[arg(long, value_name = "S", default_value_t = 600)]
    pub challenge_interval_s: u64,
    /// Seconds until a miner is challenged again that was busy with another validator's challenge, doubled each time up
    /// to four times as long; 0: not before the next challenge is due
    #[arg(long, value_name = "S", default_value_t = 15)]
    pub busy_retry_s: u64,
    /// Abandoned challenges, among the last abandoned_window of a miner, that fail it
    #[arg(long, value_name = "COUNT", default_value_t = 3)]
    pub abandoned_limit: u32,
    /// Last challenges of a miner that abandoned ones are counted over
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    pub abandoned_window: u32,
    /// Verdict on a host where a device takes no part that its key showed before; see `assay-validator forget`
    #[arg(long, value_enum, default_value = "inconclusive")]
    pub device_missing: DeviceMissing,
    /// File with what is expected of the hosts of miners: devices, models, least TOPS, memory and bandwidth
    #[arg(long, value_name = "FILE")]
    pub expectations: Option<PathBuf>,
}

/// The fewest steps of a linked probe: the first one of a round need not cross.
const MIN_LINKED_STEPS: u32 = 2;

/// What is asked of miners, and how it is checked. Its serde form is the one that is kept with a challenge.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    /// The kinds of work that are asked for in turn: at least one, each once.
    #[serde(default = "int8_alone")]
    pub kinds: Vec<Precision>,
    /// How work is checked; `None`: replay when it fits in the replay budget, else audit.
    pub mode: Option<Mode>,
    /// How long a replay may be expected to take for it to be chosen.
    pub replay_budget: Duration,
    /// The matrix size: a power of two, 256 … 32768; `None`: by the rate that the devices showed.
    pub n: Option<u32>,
    /// The smallest matrix size; `None`: the matrix size itself.
    pub n_min: Option<u32>,
    /// The fewest slots of a device that is challenged, 3 … 2²⁰.
    pub min_slots: u32,
    /// Passes of each device, 1 … 65536.
    pub iterations: u32,
    /// How much of the free memory a challenge fills, 1 … 97 percent.
    pub fill_percent: u32,
    /// The most matrices of a challenge.
    pub max_matrices: u32,
    /// Samples of each device and iteration, 1 … 4096.
    pub samples: u32,
    /// Segments of each device's probe, 1 … 1024.
    pub segments: u32,
    /// Iterations of each device that are checked besides the last, 0 … 65536: all, when there are fewer.
    pub sampled_iterations: u32,
    /// From the challenge to the commitment.
    pub commit_deadline: Duration,
    /// What a probe is sized for.
    pub probe: ProbePolicy,
    /// What a linked probe is sized for and must show; `None`: there is none.
    #[serde(default)]
    pub linked: Option<LinkedPolicy>,
    /// What may hide from it.
    pub hiding: HidingPolicy,
    /// From the request for openings to the last of them.
    pub openings: OpeningsPolicy,
    /// Whether a miner is challenged when it connects.
    pub challenge_on_connect: bool,
    /// Between two challenges; `None`: only when asked to.
    pub challenge_interval: Option<Duration>,
    /// How soon a miner that was busy is challenged again; `None`: not before the next challenge is due.
    pub busy_retry: Option<Duration>,
    /// When a miner has abandoned too many challenges.
    pub abandoned: AbandonedPolicy,
    /// What a verdict says of a device that the key showed before and that takes no part.
    pub device_missing: DeviceMissing,
    /// What is expected of miners. [`Policy::check`] leaves it empty: whoever serves reads the file.
    #[serde(skip)]
    pub expectations: Arc<Expectations>,
}

/// What is assumed of a device when the probe's time is judged (WORK.md, What can hide).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct HidingPolicy {
    /// From the compute rate that a device showed to the one that it may have: 1 or more.
    pub rate_factor: f64,
    /// The peak INT8 rate of the devices' model in multiply-accumulates per second, where it is known.
    pub peak_per_s: Option<f64>,
    /// The same of F16.
    pub peak_f16_per_s: Option<f64>,
    /// The same of FP8.
    pub peak_fp8_per_s: Option<f64>,
    /// The same of FP4.
    pub peak_fp4_per_s: Option<f64>,
    /// The bytes per second of all ways into a device.
    pub bus_bytes_per_s: f64,
    /// The least share of a device's memory that a pass shows, 0 … 1.
    pub min_held: f64,
}

/// When a miner has abandoned too many challenges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AbandonedPolicy {
    /// So many fail it: 1 or more.
    pub limit: u32,
    /// Among so many of its last challenges.
    pub window: u32,
}

/// How long openings may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpeningsPolicy {
    /// Beside the time in which they arrive.
    pub deadline: Duration,
    /// The bytes per second of the slowest link that a miner may have: above zero. Time in which less arrives counts
    /// against the deadline.
    pub least_rate_per_s: u64,
    /// In all: not below the deadline.
    pub limit: Duration,
}

/// What a probe is sized for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProbePolicy {
    /// How long it should take.
    pub target: Duration,
    /// At this bandwidth.
    pub expect_gb_per_s: f64,
    /// Walks: a power of two, 64 … 2²².
    pub walks: u32,
    /// Steps of each walk in a round, 1 … 1024.
    pub steps: u32,
    /// From the probe to its answer.
    pub deadline: Duration,
}

/// What a linked probe is sized for, beside its walks, steps and deadline, which are the other probe's.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LinkedPolicy {
    /// So many GB/s of lines read by each device.
    pub expect_gb_per_s: f64,
    /// The least GB/s into each device that a pass shows; 0: it is reported alone.
    pub min_gb_per_s: f64,
}

/// Checks a matrix size.
///
/// # Errors
/// [`SettingsError::Value`] naming the setting.
fn check_n<R: Args>(settings: &Settings<R>, name: &'static str, n: u32) -> Result<u32, SettingsError> {
    settings.power_of_two(name, n, MIN_N..=MAX_N, "the work is defined for these, above them sums leave 32 bits")
}

impl Policy {
    /// Whether a challenge fills its share of the memory, whatever number of matrices that is.
    #[must_use]
    pub fn fills_memory(&self) -> bool {
        u64::from(self.max_matrices) >= MAX_TOTAL
    }

    /// Checks what was written.
    ///
    /// # Errors
    /// [`SettingsError::Value`] for the first value out of bounds, with the bound and its reason.
    pub fn check<R: Args>(settings: &Settings<R>, raw: &RawPolicy) -> Result<Self, SettingsError> {
        let wait = |key, value, least| {
            let reason = "less never suffices, and a day is the longest wait";
            settings.in_range(key, value, least..=MAX_WAIT_S, reason).map(Duration::from_secs)
        };
        let passes = "the work is defined for no more";
        let fill = "0 is no challenge, and a device needs some memory for itself";
        let samples = "0 checks nothing, and each sample opens up to seven rows";
        let segments = "0 checks nothing, and each segment opens a state and all lines of its walk";
        let interval = wait("challenge_interval_s", raw.challenge_interval_s, 0)?;
        Ok(Self {
            kinds: kinds(settings, &raw.kinds)?,
            mode: raw.mode,
            replay_budget: wait("replay_budget_s", raw.replay_budget_s, 0)?,
            n: raw.n.map(|n| check_n(settings, "n", n)).transpose()?,
            n_min: n_min(settings, raw)?,
            min_slots: min_slots(settings, raw.min_slots)?,
            iterations: settings.in_range("iterations", raw.iterations, 1..=MAX_ITERATIONS, passes)?,
            fill_percent: settings.in_range("fill_percent", raw.fill_percent, 1..=MAX_FILL_PERCENT, fill)?,
            max_matrices: max_matrices(settings, raw.max_matrices)?,
            samples: settings.in_range("samples", raw.samples, 1..=MAX_SAMPLES, samples)?,
            segments: settings.in_range("segments", raw.segments, 1..=1024, segments)?,
            sampled_iterations: settings.in_range(
                "sampled_iterations",
                raw.sampled_iterations,
                0..=MAX_ITERATIONS,
                "a challenge has no more",
            )?,
            commit_deadline: wait("commit_deadline_s", raw.commit_deadline_s, 1)?,
            probe: ProbePolicy::check(settings, raw)?,
            linked: LinkedPolicy::check(settings, raw)?,
            hiding: HidingPolicy::check(settings, raw)?,
            openings: OpeningsPolicy::check(settings, raw)?,
            challenge_on_connect: raw.challenge_on_connect.0,
            challenge_interval: Some(interval).filter(|i| !i.is_zero()),
            busy_retry: Some(wait("busy_retry_s", raw.busy_retry_s, 0)?).filter(|pause| !pause.is_zero()),
            abandoned: AbandonedPolicy::check(settings, raw)?,
            device_missing: raw.device_missing,
            expectations: Arc::default(),
        })
    }

    /// How long to wait before a miner is challenged again that was busy so many times in a row, where that is sooner than
    /// the interval.
    #[must_use]
    pub fn busy_pause(&self, times: u32) -> Option<Duration> {
        let pause = self.busy_retry? * (1 << times.saturating_sub(1).min(MAX_BUSY_DOUBLINGS));
        Some(self.challenge_interval.map_or(pause, |interval| pause.min(interval)))
    }

    /// The matrix size to begin with, and the smallest to fall back to, for devices that showed this rate at most.
    #[must_use]
    pub fn sizes(&self, precision: Precision, rate_per_s: f64) -> (u32, u32) {
        let rate = self.hiding.peak_per_s(precision).unwrap_or(0.0).max(rate_per_s);
        let by_rate = if rate > FAST_DEVICE_PER_S { FAST_DEVICE_N } else { DEFAULT_N };
        let n = self.n.unwrap_or_else(|| by_rate.max(self.n_min.unwrap_or(0)));
        (n, self.n_min.unwrap_or(n))
    }
}

fn kinds<R: Args>(settings: &Settings<R>, kinds: &[Precision]) -> Result<Vec<Precision>, SettingsError> {
    if kinds.is_empty() {
        return Err(settings.wrong("kinds", "none is named, and a challenge has one"));
    }
    if kinds.iter().enumerate().any(|(at, kind)| kinds[..at].contains(kind)) {
        return Err(settings.wrong("kinds", "one is named twice, and they come in turn"));
    }
    Ok(kinds.to_vec())
}

/// What policies of before there were other kinds ask for.
fn int8_alone() -> Vec<Precision> {
    vec![Precision::Int8]
}

fn n_min<R: Args>(settings: &Settings<R>, raw: &RawPolicy) -> Result<Option<u32>, SettingsError> {
    let Some(n_min) = raw.n_min else { return Ok(None) };
    if raw.n.is_some_and(|n| n_min > n) {
        return Err(settings.wrong("n_min", "larger than n"));
    }
    check_n(settings, "n_min", n_min).map(Some)
}

fn min_slots<R: Args>(settings: &Settings<R>, min_slots: u32) -> Result<u32, SettingsError> {
    let most = u32::try_from(MAX_TOTAL).unwrap_or(u32::MAX);
    let reason = "the smallest share has two leaves and a product, and a challenge has no more than 2^20";
    settings.in_range("min_slots", min_slots, MIN_COUNT..=most, reason)
}

fn max_matrices<R: Args>(settings: &Settings<R>, raw: Option<u32>) -> Result<u32, SettingsError> {
    let most = u32::try_from(MAX_TOTAL).unwrap_or(u32::MAX);
    let reason = "the smallest share has three, and a challenge has no more than 2^20";
    raw.map_or(Ok(most), |value| settings.in_range("max_matrices", value, MIN_COUNT..=most, reason))
}

impl Default for Policy {
    /// What the flags default to: a test holds the two equal.
    fn default() -> Self {
        Self {
            kinds: int8_alone(),
            mode: None,
            replay_budget: Duration::from_secs(60),
            n: None,
            n_min: None,
            min_slots: MIN_COUNT,
            iterations: 1,
            fill_percent: 90,
            max_matrices: MAX_TOTAL as u32,
            samples: 128,
            segments: 32,
            sampled_iterations: 1,
            commit_deadline: Duration::from_secs(600),
            probe: ProbePolicy {
                target: Duration::from_millis(250),
                expect_gb_per_s: 4.0,
                walks: 1 << 18,
                steps: 64,
                deadline: Duration::from_millis(2500),
            },
            linked: None,
            hiding: HidingPolicy {
                rate_factor: 2.0,
                peak_per_s: None,
                peak_f16_per_s: None,
                peak_fp8_per_s: None,
                peak_fp4_per_s: None,
                bus_bytes_per_s: 64e9,
                min_held: 0.0,
            },
            openings: OpeningsPolicy {
                deadline: Duration::from_secs(120),
                least_rate_per_s: 8000,
                limit: Duration::from_secs(DEFAULT_OPENINGS_LIMIT_S),
            },
            challenge_on_connect: true,
            challenge_interval: Some(Duration::from_secs(600)),
            busy_retry: Some(Duration::from_secs(15)),
            abandoned: AbandonedPolicy { limit: 3, window: MAX_ABANDONED_WINDOW },
            device_missing: DeviceMissing::Inconclusive,
            expectations: Arc::default(),
        }
    }
}

impl OpeningsPolicy {
    fn check<R: Args>(settings: &Settings<R>, raw: &RawPolicy) -> Result<Self, SettingsError> {
        let reason = "less never suffices, and a day is the longest wait";
        let deadline_s = settings.in_range("openings_deadline_s", raw.openings_deadline_s, 1..=MAX_WAIT_S, reason)?;
        let reason = "at least openings_deadline_s, and a day is the longest wait";
        let limit_s = raw.openings_limit_s.unwrap_or(DEFAULT_OPENINGS_LIMIT_S.max(deadline_s));
        let limit_s = settings.in_range("openings_limit_s", limit_s, deadline_s..=MAX_WAIT_S, reason)?;
        let reason = "a slower link carries no openings in a day, and no link is faster than 1 TB/s";
        let rate = settings.in_range("link_min_kb_per_s", raw.link_min_kb_per_s, 1..=1_000_000_000, reason)?;
        Ok(Self {
            deadline: Duration::from_secs(deadline_s),
            least_rate_per_s: 1000 * rate,
            limit: Duration::from_secs(limit_s),
        })
    }

    /// How long so many bytes take at the least rate.
    #[must_use]
    pub fn time_of(&self, bytes: u64) -> Duration {
        Duration::from_millis(bytes.saturating_mul(1000) / self.least_rate_per_s)
    }

    /// The longest that openings of so many bytes may take.
    #[must_use]
    pub fn longest(&self, bytes: u64) -> Duration {
        (self.deadline + self.time_of(bytes)).min(self.limit)
    }
}

impl ProbePolicy {
    fn check<R: Args>(settings: &Settings<R>, raw: &RawPolicy) -> Result<Self, SettingsError> {
        let reason = "a shorter probe drowns in the round trip, a longer one keeps the devices from their work";
        let target_ms = settings.in_range("probe_target_ms", raw.probe_target_ms, 10..=60_000, reason)?;
        let reason = "an answer that takes less than the target does not come before it, nor is a longer wait a probe";
        let deadline_ms = raw.probe_deadline_ms.unwrap_or(10 * target_ms);
        let deadline_ms = settings.in_range("probe_deadline_ms", deadline_ms, target_ms..=600_000, reason)?;
        let reason = "outside the range of real memory";
        let expect = settings.in_range("probe_expect_gb_per_s", raw.probe_expect_gb_per_s, 0.01..=100_000.0, reason)?;
        let walks = "the probe is defined for powers of two from 64, and more states do not fit beside the slots";
        let steps = "a round has at least one, and a segment opens a line for each";
        Ok(Self {
            target: Duration::from_millis(target_ms),
            expect_gb_per_s: expect,
            walks: settings.power_of_two("probe_walks", raw.probe_walks, 64..=1 << 22, walks)?,
            steps: settings.in_range("probe_steps", raw.probe_steps, 1..=1024, steps)?,
            deadline: Duration::from_millis(deadline_ms),
        })
    }
}

impl Default for LinkedPolicy {
    /// What the flags default to.
    fn default() -> Self {
        Self { expect_gb_per_s: 1.0, min_gb_per_s: 0.0 }
    }
}

impl LinkedPolicy {
    fn check<R: Args>(settings: &Settings<R>, raw: &RawPolicy) -> Result<Option<Self>, SettingsError> {
        let reason = "outside the range of real links";
        let key = "linked_expect_gb_per_s";
        let expect_gb_per_s = settings.in_range(key, raw.linked_expect_gb_per_s, 0.001..=100_000.0, reason)?;
        let key = "linked_min_gb_per_s";
        let min_gb_per_s = settings.in_range(key, raw.linked_min_gb_per_s, 0.0..=100_000.0, reason)?;
        if !raw.linked_probe.0 {
            let asked = min_gb_per_s > 0.0;
            let alone = || settings.wrong(key, "above zero without linked_probe, which would show it");
            return if asked { Err(alone()) } else { Ok(None) };
        }
        if raw.probe_steps < MIN_LINKED_STEPS {
            return Err(settings.wrong("probe_steps", "1 with linked_probe: in a round of one step nothing crosses"));
        }
        Ok(Some(Self { expect_gb_per_s, min_gb_per_s }))
    }
}

impl HidingPolicy {
    /// The peak rate of the devices' model in a kind of work, where it is known.
    #[must_use]
    pub const fn peak_per_s(&self, precision: Precision) -> Option<f64> {
        match precision {
            Precision::Int8 => self.peak_per_s,
            Precision::F16 => self.peak_f16_per_s,
            Precision::Fp8 => self.peak_fp8_per_s,
            Precision::Fp4 => self.peak_fp4_per_s,
        }
    }

    /// From the rate that a device showed in a kind of work to the one that it may have: a GeForce computes F16 faster by
    /// a detour, which may have been left out when the rate was shown.
    #[must_use]
    pub const fn rate_factor(&self, precision: Precision) -> f64 {
        match precision {
            Precision::F16 => self.rate_factor.max(LEAST_F16_FACTOR),
            _ => self.rate_factor,
        }
    }

    fn check<R: Args>(settings: &Settings<R>, raw: &RawPolicy) -> Result<Self, SettingsError> {
        let factor = "a device may be as fast as it showed, or faster";
        let rate_factor = settings.in_range("rate_factor", raw.rate_factor, 1.0..=1000.0, factor)?;
        let peak = |name, tops: Option<f64>| {
            let within = |tops| settings.in_range(name, tops, 0.001..=1e9, "outside the range of real devices");
            // Two operations are one multiply-accumulate.
            tops.map(within).transpose().map(|tops| tops.map(|tops| tops * 1e12 / 2.0))
        };
        let bus = "outside the range of real buses";
        let bus_gb_per_s = settings.in_range("bus_gb_per_s", raw.bus_gb_per_s, 0.0..=1_000_000.0, bus)?;
        let held = "the leaves aside, no probe shows all of the memory";
        let min_held_percent = settings.in_range("min_held_percent", raw.min_held_percent, 0..=99, held)?;
        Ok(Self {
            rate_factor,
            peak_per_s: peak("peak_tops", raw.peak_tops)?,
            peak_f16_per_s: peak("peak_tops_f16", raw.peak_tops_f16)?,
            peak_fp8_per_s: peak("peak_tops_fp8", raw.peak_tops_fp8)?,
            peak_fp4_per_s: peak("peak_tops_fp4", raw.peak_tops_fp4)?,
            bus_bytes_per_s: bus_gb_per_s * 1e9,
            min_held: f64::from(min_held_percent) / 100.0,
        })
    }
}

impl AbandonedPolicy {
    fn check<R: Args>(settings: &Settings<R>, raw: &RawPolicy) -> Result<Self, SettingsError> {
        let reason = "no more challenges of a miner are remembered";
        let window = settings.in_range("abandoned_window", raw.abandoned_window, 1..=MAX_ABANDONED_WINDOW, reason)?;
        let reason = "the first one may be the link's fault, and there are no more in the window";
        let limit = settings.in_range("abandoned_limit", raw.abandoned_limit, 1..=window, reason)?;
        Ok(Self { limit, window })
    }
}
