//! Settings of a challenge and its verification: the fields with their values, and values derived from them.

use std::sync::Arc;
use std::time::Duration;

use assay_protocol::message::DeviceClaim;
use assay_protocol::verdict::{HIDING_RULE, Mode, first_rule};
use assay_work::Precision;
use assay_work::bounds::OperandReads;
use assay_work::challenge::{MAX_TOTAL, MIN_COUNT, MIN_N};
use serde::{Deserialize, Serialize};

use crate::expectations::Expectations;
use crate::fields::{
    Bounds, DAY_S, DeviceMissing, FIELDS, MAX_ABANDONED_WINDOW, MAX_PROBE_DEADLINE_MS, MAX_PROBE_STEPS, OutOfBounds,
    Overrides,
};
use crate::profile::{Profile, ProfileFigure};

/// The matrix size for devices of unknown rate, or of at most [`FAST_DEVICE_PER_S`] (WORK.md, What can hide).
const DEFAULT_N: u32 = 2048;
/// The matrix size for the kind field, in which squarings take the time.
const FIELD_N: u32 = 1024;
/// The matrix size for faster devices, which could compute smaller slots again in the time of a probe.
const FAST_DEVICE_N: u32 = 8192;
/// Multiply-accumulates per second of a fast device.
const FAST_DEVICE_PER_S: f64 = 200e12;
/// Doublings of the pause after which a busy miner is challenged again: a declined validator has the devices reserved
/// for 90 s, and asks again after a minute.
const MAX_BUSY_DOUBLINGS: u32 = 2;
/// The longest time of openings, unless their deadline is longer.
const DEFAULT_OPENINGS_LIMIT: Duration = Duration::from_secs(3600);
/// The least factor from a shown rate to the one that a device may have, in kinds with a detour (WORK.md, Residency probe).
const LEAST_DETOUR_FACTOR: f64 = 2.5;
/// Products of F16 for one of INT8, by two of INT8 and one of 1 bit (WORK.md, the known detours).
const F16_BY_INT8: f64 = 0.475;
/// The default deadline of a probe, in multiples of its target.
pub const PROBE_DEADLINE_TARGETS: u32 = 10;
/// The fewest steps of a linked probe: the first one of a round need not cross.
const MIN_LINKED_STEPS: u32 = 2;
const LINKED_ALONE: &str = "linked_probe is off, which would show more";
const LINKED_STEPS: &str = "with linked_probe, in a round of one step nothing crosses";

/// Settings of challenges and of their verification. Its serde form is stored with each challenge.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    /// Kinds of work, requested in turn: at least one, each once.
    #[serde(default = "int8_alone")]
    pub kinds: Vec<Precision>,
    /// Mode of checking work; `None`: replay when it fits in the replay budget, else audit.
    pub mode: Option<Mode>,
    /// The longest expected replay that automatic mode selects.
    pub replay_budget: Duration,
    /// The matrix size: a power of two, 256 … 32768; `None`: by the rate shown by the devices.
    pub n: Option<u32>,
    /// The smallest matrix size; `None`: the matrix size itself.
    pub n_min: Option<u32>,
    /// The least slots of a challenged device, 3 … 2²⁰.
    pub min_slots: u32,
    /// Passes of each device, 1 … 65536.
    pub iterations: u32,
    /// Percentage of the free memory that a challenge fills, 1 … 97.
    pub fill_percent: u32,
    /// The most matrices of a challenge, over all devices.
    pub max_matrices: u32,
    /// Samples of each device and iteration, 1 … 4096.
    pub samples: u32,
    /// Segments of each device's probe, 1 … 1024.
    pub segments: u32,
    /// Iterations of each device that are checked besides the last, 0 … 65536: all, when there are fewer.
    pub sampled_iterations: u32,
    /// Time from the challenge to the commitment.
    pub commit_deadline: Duration,
    pub probe: ProbePolicy,
    /// Size and required results of a linked probe; `None`: no linked probe.
    #[serde(default)]
    pub linked: Option<LinkedPolicy>,
    /// Whether each device sums over its memory after the probes.
    #[serde(default)]
    pub sweep: bool,
    /// Assumptions about hidden memory.
    pub hiding: HidingPolicy,
    /// Time limits of the openings.
    pub openings: OpeningsPolicy,
    /// Whether a miner is challenged when it connects.
    pub challenge_on_connect: bool,
    /// Interval between challenges; `None`: only on demand.
    pub challenge_interval: Option<Duration>,
    /// First wait before a busy miner is challenged again; `None`: until the next challenge is due.
    pub busy_retry: Option<Duration>,
    /// Limit on abandoned challenges.
    pub abandoned: AbandonedPolicy,
    /// The verdict's treatment of a device that the key showed before and that takes no part.
    pub device_missing: DeviceMissing,
    /// Expectations of miners, from the file that the server reads.
    #[serde(skip)]
    pub expectations: Arc<Expectations>,
}

/// Name of the backend that computes on processors.
const PROCESSOR_BACKEND: &str = "cpu";
/// Z of most GPUs, in bytes.
const fn chip_bytes() -> f64 {
    256e6
}

/// PCIe 5 with 16 lanes, in bytes per second.
const GPU_BUS_PER_S: f64 = 64e9;
/// A disk, or a network of 10 Gbit/s, in bytes per second.
const PROCESSOR_BUS_PER_S: f64 = 1e9;
/// The memory of a host of GPUs, read by its processors, in bytes per second (WORK.md, Sweep).
const HOST_MEMORY_PER_S: f64 = 500e9;

/// Assumptions about a device when the probe's time is judged (WORK.md, What can hide).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct HidingPolicy {
    /// Factor from the shown compute rate to the rate that a device may have: 1 or more.
    pub rate_factor: f64,
    /// The peak INT8 rate of the devices' model in multiply-accumulates per second, if known.
    pub peak_per_s: Option<f64>,
    /// The peak F16 rate likewise.
    pub peak_f16_per_s: Option<f64>,
    /// The peak FP8 rate likewise.
    pub peak_fp8_per_s: Option<f64>,
    /// The peak FP4 rate likewise.
    pub peak_fp4_per_s: Option<f64>,
    /// B: the peak rate of the devices' memory in bytes per second, if known.
    #[serde(default)]
    pub memory_bytes_per_s: Option<f64>,
    /// Z: bytes that a chip holds in caches, shared memory and registers.
    #[serde(default = "chip_bytes")]
    pub chip_bytes: f64,
    /// Peak of the devices' model in field operations per second, if known.
    #[serde(default)]
    pub peak_field_per_s: Option<f64>,
    /// The peaks are of some of the host's models, and those of the others unknown.
    #[serde(default)]
    pub has_unknown_models: bool,
    /// Bytes per second of all paths into a device; `None`: by its backend.
    pub bus_bytes_per_s: Option<f64>,
    /// Bytes per second that processors elsewhere read of a copy of a device's slots.
    #[serde(default)]
    pub copy_bytes_per_s: f64,
    /// Version of the rule on hidden memory: [`HIDING_RULE`], or an older one in earlier evidence.
    #[serde(default = "first_rule")]
    pub rule: u32,
    /// The least share of a device's memory that a pass shows, 0 … 1.
    pub min_held: f64,
}

/// Limit on a miner's abandoned challenges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AbandonedPolicy {
    /// Abandoned challenges that fail the miner: 1 or more.
    pub limit: u32,
    /// Number of its last challenges considered.
    pub window: u32,
}

/// Time limits of openings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpeningsPolicy {
    /// Deadline in addition to the transfer time.
    pub deadline: Duration,
    /// The bytes per second of the slowest link that a miner may have: above zero. Time with a lower rate counts
    /// against the deadline.
    pub least_rate_per_s: u64,
    /// Limit on the whole time: not below the deadline.
    pub limit: Duration,
}

/// Size of a probe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProbePolicy {
    /// Target duration.
    pub target: Duration,
    /// Expected memory bandwidth in GB/s.
    pub expect_gb_per_s: f64,
    /// Number of walks: a power of two, 64 … 2²².
    pub walks: u32,
    /// Steps of each walk in a round, 1 … 1024.
    pub steps: u32,
    /// Time from the probe to its answer.
    pub deadline: Duration,
}

/// Size of a linked probe. Walks, steps and deadline are those of the first probe.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LinkedPolicy {
    /// Expected GB/s of lines read by each device.
    pub expect_gb_per_s: f64,
    /// The least GB/s into each device that a pass shows; 0: reported only.
    pub min_gb_per_s: f64,
}

impl Policy {
    /// Whether a challenge fills its share of the memory, regardless of the number of matrices.
    pub fn fills_memory(&self) -> bool {
        u64::from(self.max_matrices) >= MAX_TOTAL
    }

    /// Returns a copy with these values in place of its own.
    ///
    /// # Errors
    /// [`OutOfBounds`] for the first invalid value, alone or in combination.
    pub fn checked(&self, overrides: &Overrides) -> Result<Self, OutOfBounds> {
        overrides.out_of_bounds().map_or(Ok(()), Err)?;
        let policy = self.with(overrides);
        policy.conflicts(overrides).into_iter().next().map_or(Ok(policy), Err)
    }

    /// Returns a copy with these values in place of its own, without checks.
    pub fn with(&self, overrides: &Overrides) -> Self {
        let mut policy = self.clone();
        policy.ask(overrides);
        policy.size_probe(overrides);
        policy.judge(overrides);
        policy
    }

    fn ask(&mut self, overrides: &Overrides) {
        let Overrides { n, n_min, challenge_interval, busy_retry, .. } = *overrides;
        if let Some(kinds) = &overrides.kinds {
            self.kinds.clone_from(kinds);
        }
        set(overrides.mode.map(|mode| mode.mode()), &mut self.mode);
        set(overrides.replay_budget, &mut self.replay_budget);
        if n.is_some() {
            // A smallest size belongs to the size beside it.
            (self.n, self.n_min) = (n, n_min);
        }
        set(n_min.map(Some), &mut self.n_min);
        set(overrides.min_slots, &mut self.min_slots);
        set(overrides.iterations, &mut self.iterations);
        set(overrides.fill_percent, &mut self.fill_percent);
        set(overrides.max_matrices, &mut self.max_matrices);
        set(overrides.samples, &mut self.samples);
        set(overrides.segments, &mut self.segments);
        set(overrides.sampled_iterations, &mut self.sampled_iterations);
        set(overrides.commit_deadline, &mut self.commit_deadline);
        set(overrides.openings_deadline, &mut self.openings.deadline);
        self.openings.limit = self.openings.limit.max(self.openings.deadline);
        set(overrides.openings_limit, &mut self.openings.limit);
        set(overrides.link_min_kb_per_s.map(|rate| 1000 * u64::from(rate)), &mut self.openings.least_rate_per_s);
        set(overrides.challenge_on_connect, &mut self.challenge_on_connect);
        let some = |time: Duration| Some(time).filter(|time| !time.is_zero());
        set(challenge_interval.map(some), &mut self.challenge_interval);
        set(busy_retry.map(some), &mut self.busy_retry);
    }

    fn size_probe(&mut self, overrides: &Overrides) {
        if let Some(target) = overrides.probe_target {
            self.probe.target = target;
            self.probe.deadline = self.probe.deadline.max(target * PROBE_DEADLINE_TARGETS);
        }
        set(overrides.probe_deadline, &mut self.probe.deadline);
        set(overrides.probe_expect_gb_per_s, &mut self.probe.expect_gb_per_s);
        set(overrides.probe_walks, &mut self.probe.walks);
        set(overrides.probe_steps, &mut self.probe.steps);
        match overrides.linked_probe {
            Some(true) => _ = self.linked.get_or_insert_default(),
            Some(false) => self.linked = None,
            None => {}
        }
        set(overrides.sweep, &mut self.sweep);
        if let Some(linked) = &mut self.linked {
            set(overrides.linked_expect_gb_per_s, &mut linked.expect_gb_per_s);
            set(overrides.linked_min_gb_per_s, &mut linked.min_gb_per_s);
        }
    }

    fn judge(&mut self, overrides: &Overrides) {
        set(overrides.device_missing, &mut self.device_missing);
        set(overrides.abandoned_limit, &mut self.abandoned.limit);
        set(overrides.abandoned_window, &mut self.abandoned.window);
        let hiding = &mut self.hiding;
        set(overrides.rate_factor, &mut hiding.rate_factor);
        for (tops, peak_per_s) in [
            (overrides.peak_tops, &mut hiding.peak_per_s),
            (overrides.peak_tops_f16, &mut hiding.peak_f16_per_s),
            (overrides.peak_tops_fp8, &mut hiding.peak_fp8_per_s),
            (overrides.peak_tops_fp4, &mut hiding.peak_fp4_per_s),
        ] {
            // One multiply-accumulate is two operations.
            set(tops.map(|tops| Some(tops * 1e12 / 2.0)), peak_per_s);
        }
        set(overrides.memory_gb_per_s.map(|rate| Some(rate * 1e9)), &mut hiding.memory_bytes_per_s);
        set(overrides.chip_mb.map(|bytes| bytes * 1e6), &mut hiding.chip_bytes);
        set(overrides.peak_field_gops.map(|rate| Some(rate * 1e9)), &mut hiding.peak_field_per_s);
        set(overrides.bus_gb_per_s.map(|rate| Some(rate * 1e9)), &mut hiding.bus_bytes_per_s);
        set(overrides.copy_gb_per_s.map(|rate| rate * 1e9), &mut hiding.copy_bytes_per_s);
        set(overrides.min_held_percent.map(|percent| f64::from(percent) / 100.0), &mut hiding.min_held);
    }

    /// Returns the fields that conflict with others; these values are part of the policy.
    pub fn conflicts(&self, overrides: &Overrides) -> Vec<OutOfBounds> {
        let Self { probe, openings, abandoned, .. } = self;
        let (target_ms, deadline_s) = (probe.target.as_millis() as u64, openings.deadline.as_secs());
        let is_linked = self.linked.is_some();
        let n = self.n.unwrap_or(u32::MAX);
        let alone = !is_linked && overrides.linked_min_gb_per_s.is_some_and(|least| least > 0.0);
        let rows = [
            ("n_min", self.n_min.is_some_and(|n_min| n_min > n), Bounds::Power(MIN_N, n), None),
            ("probe_deadline", probe.deadline < probe.target, Bounds::Millis(target_ms, MAX_PROBE_DEADLINE_MS), None),
            ("openings_limit", openings.limit < openings.deadline, Bounds::Seconds(deadline_s, DAY_S), None),
            ("abandoned_limit", abandoned.limit > abandoned.window, Bounds::Whole(1, abandoned.window), None),
            ("linked_min_gb_per_s", alone, Bounds::Number(0.0, 0.0), Some(LINKED_ALONE)),
            (
                "probe_steps",
                is_linked && probe.steps < MIN_LINKED_STEPS,
                Bounds::Whole(MIN_LINKED_STEPS, MAX_PROBE_STEPS),
                Some(LINKED_STEPS),
            ),
        ];
        let wrong = rows.into_iter().filter(|(_, is_wrong, ..)| *is_wrong);
        let field = |(name, _, bounds, why): (&str, bool, Bounds, Option<&'static str>)| {
            let field = FIELDS.iter().find(|field| field.name == name)?;
            Some(field.outside(bounds, why.unwrap_or(field.why)))
        };
        wrong.filter_map(field).collect()
    }

    /// This policy for a host of these models, where it states no figures of its own: the highest of the models', if all
    /// of them are known and state one. Peaks of compute are those of the known ones, whichever others the host lists.
    pub fn with_figures_of(&self, models: &[Option<&Profile>]) -> Self {
        let highest = |models: &[Option<&Profile>], figure: &dyn Fn(&Profile) -> Option<f64>| {
            let figures = models.iter().map(|model| figure((*model)?)).collect::<Option<Vec<_>>>()?;
            figures.into_iter().reduce(f64::max)
        };
        // One multiply-accumulate is two operations.
        let known: Vec<_> = models.iter().copied().filter(Option::is_some).collect();
        let peak_of = |tops: &dyn Fn(&Profile) -> Option<f64>| highest(&known, tops).map(|tops| tops * 1e12 / 2.0);
        let peak = |kind| peak_of(&|model| model.dense_tops(kind));
        // A GeForce computes F16 faster by its INT8 units.
        let by_int8 = |model: &Profile| model.dense_tops(Precision::Int8).map_or(0.0, |tops| tops * F16_BY_INT8);
        let peak_f16 = || peak_of(&|model| Some(model.dense_tops(Precision::F16)?.max(by_int8(model))));
        let giga = |figure: fn(&Profile) -> &Option<ProfileFigure>| {
            highest(models, &|model| Some(figure(model).as_ref()?.value)).map(|value| value * 1e9)
        };
        let chips = models.iter().flatten().filter_map(|model| Some(model.chip_mb.as_ref()?.value * 1e6));
        let own = self.hiding;
        let hiding = HidingPolicy {
            peak_per_s: own.peak_per_s.or_else(|| peak(Precision::Int8)),
            peak_f16_per_s: own.peak_f16_per_s.or_else(peak_f16),
            peak_fp8_per_s: own.peak_fp8_per_s.or_else(|| peak(Precision::Fp8)),
            peak_fp4_per_s: own.peak_fp4_per_s.or_else(|| peak(Precision::Fp4)),
            memory_bytes_per_s: own.memory_bytes_per_s.or_else(|| giga(|model| &model.memory_gb_per_s)),
            peak_field_per_s: own.peak_field_per_s.or_else(|| giga(|model| &model.field_gops)),
            has_unknown_models: !known.is_empty()
                && known.len() < models.len()
                && self.kinds.iter().any(|kind| own.peak_per_s(*kind).is_none()),
            chip_bytes: chips.fold(own.chip_bytes, f64::max),
            // A model of a GPU has its bus, whatever backend its miner claims.
            bus_bytes_per_s: own
                .bus_bytes_per_s
                .or_else(|| models.iter().any(Option::is_some).then_some(GPU_BUS_PER_S)),
            ..own
        };
        Self { hiding, ..self.clone() }
    }

    /// Wait before a miner is challenged again that was busy `times` times in a row; `None` where the interval is
    /// sooner.
    pub fn busy_pause(&self, times: u32) -> Option<Duration> {
        let pause = self.busy_retry? * (1 << times.saturating_sub(1).min(MAX_BUSY_DOUBLINGS));
        Some(self.challenge_interval.map_or(pause, |interval| pause.min(interval)))
    }

    /// The first matrix size to try, and the smallest to fall back to, for devices that showed at most this rate.
    pub fn sizes(&self, precision: Precision, rate_per_s: f64) -> (u32, u32) {
        let rate = self.hiding.peak_per_s(precision).unwrap_or(0.0).max(rate_per_s);
        let by_rate = match precision {
            Precision::Field => FIELD_N,
            _ if rate > FAST_DEVICE_PER_S && !self.hiding.knows_model(precision) => FAST_DEVICE_N,
            _ => DEFAULT_N,
        };
        let n = self.n.unwrap_or_else(|| by_rate.max(self.n_min.unwrap_or(0)));
        (n, self.n_min.unwrap_or(n))
    }
}

fn set<T>(value: Option<T>, field: &mut T) {
    if let Some(value) = value {
        *field = value;
    }
}

/// Kinds of policies stored before other kinds existed.
fn int8_alone() -> Vec<Precision> {
    vec![Precision::Int8]
}

impl Default for Policy {
    /// The fields' defaults: a test holds the two equal.
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
            sweep: false,
            hiding: HidingPolicy {
                rate_factor: 2.0,
                peak_per_s: None,
                peak_f16_per_s: None,
                peak_fp8_per_s: None,
                peak_fp4_per_s: None,
                memory_bytes_per_s: None,
                chip_bytes: chip_bytes(),
                peak_field_per_s: None,
                has_unknown_models: false,
                bus_bytes_per_s: None,
                copy_bytes_per_s: 0.0,
                rule: HIDING_RULE,
                min_held: 0.0,
            },
            openings: OpeningsPolicy {
                deadline: Duration::from_secs(120),
                least_rate_per_s: 64_000,
                limit: DEFAULT_OPENINGS_LIMIT,
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
    /// Time of this number of bytes at the least rate.
    pub fn time_of(&self, bytes: u64) -> Duration {
        Duration::from_millis(bytes.saturating_mul(1000) / self.least_rate_per_s)
    }

    /// Time limit of openings of this number of bytes.
    pub fn longest(&self, bytes: u64) -> Duration {
        (self.deadline + self.time_of(bytes)).min(self.limit)
    }
}

impl Default for LinkedPolicy {
    /// The fields' defaults.
    fn default() -> Self {
        Self { expect_gb_per_s: 1.0, min_gb_per_s: 0.0 }
    }
}

impl HidingPolicy {
    /// The peak rate of the devices' model in a kind of work, if known.
    pub const fn peak_per_s(&self, precision: Precision) -> Option<f64> {
        // A rule only adds to the work of computing a line again.
        match precision.of_bytes() {
            Precision::F16 => self.peak_f16_per_s,
            Precision::Fp8 => self.peak_fp8_per_s,
            Precision::Fp4 => self.peak_fp4_per_s,
            _ => self.peak_per_s,
        }
    }

    /// Whether the operands' way bounds hidden memory: the model's rates in memory and in this kind of work are known.
    pub const fn knows_model(&self, precision: Precision) -> bool {
        self.peak_per_s(precision).is_some() && self.memory_bytes_per_s.is_some()
    }

    /// The reads of operands that may have served hidden lines, from the rates in bytes and field operations per second
    /// that a device showed and its buses; `None` where no model is known that bounds them.
    pub fn operand_reads(
        &self,
        (precision, n): (Precision, u32),
        multiply_accumulates_per_s: f64,
        (read_per_s, field_per_s): (f64, f64),
        bus_bytes_per_s: f64,
    ) -> Option<OperandReads> {
        let knows = self.knows_model(precision);
        let memory = self.memory_bytes_per_s.unwrap_or(0.0).max(2.0 * read_per_s);
        let read = memory + bus_bytes_per_s + multiply_accumulates_per_s / f64::from(precision.terms(n));
        let field = self.field_per_s(field_per_s) / 2.0 + bus_bytes_per_s;
        let bytes_per_s = match precision {
            Precision::Field if knows && self.peak_field_per_s.is_some() => read.min(field),
            Precision::Field if self.peak_field_per_s.is_some() || self.peak_per_s.is_none() => field,
            _ if knows => read,
            _ => return None,
        };
        let block_bytes = match precision {
            Precision::Fp8 => 48.0,
            Precision::Fp4 | Precision::Field => 62.0,
            _ => 64.0,
        };
        let alone = precision == Precision::Field && self.peak_per_s(precision).is_none();
        Some(OperandReads { bytes_per_s, chip_bytes: self.chip_bytes, block_bytes, alone })
    }

    /// φ: the field operations per second that a device may have, from the rate that it showed.
    fn field_per_s(&self, shown_per_s: f64) -> f64 {
        self.peak_field_per_s.unwrap_or(0.0).max(2.0 * shown_per_s)
    }

    /// Bytes per second of slots that a device may compute again, from the rates in multiply-accumulates and field
    /// operations per second, the second one shown, and its buses.
    pub fn computed_bytes_per_s(
        &self,
        (precision, n): (Precision, u32),
        multiply_accumulates_per_s: f64,
        field_per_s: f64,
        bus_bytes_per_s: f64,
    ) -> f64 {
        let products = multiply_accumulates_per_s / f64::from(precision.terms(n));
        match precision {
            Precision::Field => products.min(self.field_per_s(field_per_s) / 2.0 + bus_bytes_per_s),
            _ => products,
        }
    }

    /// Bytes per second of all memory outside a device that any processor reads: a host's beside a GPU; beside a
    /// processor, a disk or a network.
    pub fn elsewhere_bytes_per_s(&self, device: Option<&DeviceClaim>) -> f64 {
        let assumed = if self.is_processor(device) { PROCESSOR_BUS_PER_S } else { HOST_MEMORY_PER_S };
        self.copy_bytes_per_s.max(assumed)
    }

    /// Factor from the shown rate in a kind of work to the rate that a device may have: a GeForce computes F16 faster
    /// by a detour, which may not have been used when the rate was shown, and so does a B300 in convolutions.
    pub const fn rate_factor(&self, precision: Precision) -> f64 {
        match precision {
            Precision::F16 | Precision::Network => self.rate_factor.max(LEAST_DETOUR_FACTOR),
            _ => self.rate_factor,
        }
    }

    /// Bytes per second of all paths into a device, where the policy does not set them: PCIe 5 with 16 lanes. A
    /// processor's memory is the host's, and data elsewhere comes from disks or the network.
    pub fn bus_bytes_per_s(&self, device: Option<&DeviceClaim>) -> f64 {
        self.bus_bytes_per_s.unwrap_or(if is_processor(device) { PROCESSOR_BUS_PER_S } else { GPU_BUS_PER_S })
    }

    /// Whether memory beside a device is not read by processors: it is one, and no bus of a GPU is assumed for it.
    fn is_processor(&self, device: Option<&DeviceClaim>) -> bool {
        is_processor(device) && self.bus_bytes_per_s.is_none_or(|bus| bus < GPU_BUS_PER_S)
    }
}

/// Whether a device computes on processors, by the miner's claim.
pub fn is_processor(device: Option<&DeviceClaim>) -> bool {
    device.is_some_and(|device| device.backend == PROCESSOR_BACKEND)
}

#[cfg(test)]
mod tests;
