//! What is asked of miners, and how it is checked: as written ([`RawPolicy`]), and once checked ([`Policy`]).

use std::time::Duration;

use assay_program::settings::{AUTO, Settings, SettingsError, Switch};
use assay_protocol::verdict::Mode;
use assay_work::challenge::{MAX_ITERATIONS, MAX_N, MAX_TOTAL, MIN_COUNT, MIN_N};
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

/// The most samples of a device and iteration: each opens up to seven rows.
pub const MAX_SAMPLES: u32 = 4096;
/// The most of the free memory that a challenge fills: a device needs some for itself.
pub const MAX_FILL_PERCENT: u32 = 97;
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

/// The policy, as written.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Policy")]
pub struct RawPolicy {
    /// Verification mode
    #[arg(long, value_parser = mode_or_auto_parser(), default_value = AUTO)]
    pub mode: ModeOrAuto,
    /// Longest expected replay that auto chooses, in seconds
    #[arg(long, value_name = "S", default_value_t = 60)]
    pub replay_budget_s: u64,
    /// Matrix size
    #[arg(long, default_value_t = 2048)]
    pub n: u32,
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
    /// Iterations per device checked by replay-sample and audit
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    pub sampled_iterations: u32,
    /// Deadline for the commitment, in seconds
    #[arg(long, value_name = "S", default_value_t = 600)]
    pub commit_deadline_s: u64,
    /// Target duration of a probe at the expected bandwidth, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 250)]
    pub probe_target_ms: u64,
    /// Minimum expected memory bandwidth of a device, in GB/s
    #[arg(long, value_name = "GB_PER_S", default_value_t = 4.0)]
    pub probe_expect_gb_per_s: f64,
    /// Number of walks of a probe
    #[arg(long, value_name = "COUNT", default_value_t = 262_144)]
    pub probe_walks: u32,
    /// Steps per walk and round
    #[arg(long, value_name = "COUNT", default_value_t = 64)]
    pub probe_steps: u32,
    /// Deadline for the answer to a probe, in milliseconds [default: 10 times probe_target_ms]
    #[arg(long, value_name = "MS")]
    pub probe_deadline_ms: Option<u64>,
    /// Deadline for the openings, in seconds
    #[arg(long, value_name = "S", default_value_t = 120)]
    pub openings_deadline_s: u64,
    /// Challenge every miner when it connects
    #[arg(long, default_value_t = Switch(true))]
    pub challenge_on_connect: Switch,
    /// Seconds between challenges of a miner; 0: on demand only
    #[arg(long, value_name = "S", default_value_t = 600)]
    pub challenge_interval_s: u64,
}

/// What is asked of miners, and how it is checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// How work is checked; `None`: replay when it fits in the replay budget, else audit.
    pub mode: Option<Mode>,
    /// How long a replay may be expected to take for it to be chosen.
    pub replay_budget: Duration,
    /// The matrix size: a power of two, 256 … 32768.
    pub n: u32,
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
    /// Iterations of each device that are checked, 1 … 65536: all, when there are fewer.
    pub sampled_iterations: u32,
    /// From the challenge to the commitment.
    pub commit_deadline: Duration,
    /// What a probe is sized for.
    pub probe: ProbePolicy,
    /// From the request for openings to the last of them.
    pub openings_deadline: Duration,
    /// Whether a miner is challenged when it connects.
    pub challenge_on_connect: bool,
    /// Between two challenges; `None`: only when asked to.
    pub challenge_interval: Option<Duration>,
}

/// What a probe is sized for.
#[derive(Debug, Clone, PartialEq)]
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

/// Checks a matrix size.
///
/// # Errors
/// [`SettingsError::Value`] naming the setting `n`.
fn check_n<R: Args>(settings: &Settings<R>, n: u32) -> Result<u32, SettingsError> {
    settings.power_of_two("n", n, MIN_N..=MAX_N, "the work is defined for these, above them sums leave 32 bits")
}

impl Policy {
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
            mode: raw.mode,
            replay_budget: wait("replay_budget_s", raw.replay_budget_s, 0)?,
            n: check_n(settings, raw.n)?,
            iterations: settings.in_range("iterations", raw.iterations, 1..=MAX_ITERATIONS, passes)?,
            fill_percent: settings.in_range("fill_percent", raw.fill_percent, 1..=MAX_FILL_PERCENT, fill)?,
            max_matrices: max_matrices(settings, raw.max_matrices)?,
            samples: settings.in_range("samples", raw.samples, 1..=MAX_SAMPLES, samples)?,
            segments: settings.in_range("segments", raw.segments, 1..=1024, segments)?,
            sampled_iterations: settings.in_range(
                "sampled_iterations",
                raw.sampled_iterations,
                1..=MAX_ITERATIONS,
                "0 checks nothing, and a challenge has no more",
            )?,
            commit_deadline: wait("commit_deadline_s", raw.commit_deadline_s, 1)?,
            probe: ProbePolicy::check(settings, raw)?,
            openings_deadline: wait("openings_deadline_s", raw.openings_deadline_s, 1)?,
            challenge_on_connect: raw.challenge_on_connect.0,
            challenge_interval: Some(interval).filter(|i| !i.is_zero()),
        })
    }
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
            mode: None,
            replay_budget: Duration::from_secs(60),
            n: 2048,
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
            openings_deadline: Duration::from_secs(120),
            challenge_on_connect: true,
            challenge_interval: Some(Duration::from_secs(600)),
        }
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
