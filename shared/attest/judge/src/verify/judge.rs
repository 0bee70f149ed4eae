//! Adds measurements and checks up to a verdict.

use std::collections::BTreeMap;
use std::time::Duration;

use assay_policy::challenge::{HidingPolicy, LinkedPolicy};
use assay_policy::expectations::Expectation;
use assay_policy::fields::DeviceMissing;
use assay_protocol::claims::Telemetry;
use assay_protocol::message::Inventory;
use assay_protocol::verdict::{
    Bound, DeviceWork, Hiding, KindRate, LinkWork, Mode, Reason, ReasonCode, SweepWork, UnchallengedDevice, Verdict,
    WALKS_ELSEWHERE_RULE, Work, outcome_of,
};
use assay_work::bounds::{Crossing, IterationDraw, TimedSweep, hidden_fraction, pass_log2};
use assay_work::probe::{Probe, Sweep};
use assay_work::text::quoted;
use assay_work::{Challenge, DeviceId, Share};

use crate::history::AbandonedCount;
use crate::history::devices::Difference;
use crate::issue::SWEEP_SAMPLES;
use crate::verify::hiding::{DeviceHiding, FinishedDevices, device_time};

/// The fractions that bounds are given for (WORK.md, Audit).
pub const FRACTIONS: [f64; 3] = [0.01, 0.05, 0.10];
/// The chance that samples or segments missed more wrong work than a verdict takes off (WORK.md, Audit, What can hide).
pub const MISSED_CHANCE: f64 = 0.05;

/// Everything known at the end of a challenge.
#[derive(Debug)]
pub struct Findings<'a> {
    pub challenge: &'a Challenge,
    /// The devices, by the miner's claims.
    pub inventory: &'a Inventory,
    /// Mode of checking the work; `None` when the challenge ended before.
    pub mode: Option<Mode>,
    /// Iterations of each device that were checked.
    pub iterations_checked: u32,
    /// Time from the challenge out to the commitment in.
    pub work_time: Option<Duration>,
    /// The devices that had done their share before.
    pub finished: &'a FinishedDevices,
    /// The probe, when there was one, and from it out to its answer in.
    pub probe: Option<(&'a Probe, Option<Duration>)>,
    /// The devices that had walked it before.
    pub probed: &'a FinishedDevices,
    /// The linked probe and from it out to its answer in, once its openings held.
    pub linked: Option<(&'a Probe, Duration)>,
    /// The sweep and from it out to its answer in, once its openings held.
    pub sweep: Option<(&'a Sweep, Duration)>,
    /// Whether the policy asks for a sweep.
    pub wants_sweep: bool,
    /// Required results of a linked probe, where one is asked for.
    pub linked_policy: Option<LinkedPolicy>,
    /// Samples checked of each device, without the leaves' rows: in an audit, of each iteration checked.
    pub samples: u32,
    /// Segments checked of each device.
    pub segments: u32,
    /// Claims of each device, as far as they came.
    pub claimed: Vec<DeviceClaims>,
    /// The time that the miner claims for the whole.
    pub claimed_whole: Option<Duration>,
    pub round_trip: Option<Duration>,
    /// Stretches that no stage's clock covers.
    pub gaps: Gaps,
    /// Assumptions about the devices' hiding of memory.
    pub hiding: HidingPolicy,
    pub not_challenged: Vec<UnchallengedDevice>,
    /// Differences between the devices that took part and those that the key showed before.
    pub difference: Difference,
    /// The rates that the devices showed before, by kind of work.
    pub rates: BTreeMap<DeviceId, Vec<KindRate>>,
    /// The policy's consequence of a missing device.
    pub device_missing: DeviceMissing,
    pub expectation: Option<&'a Expectation>,
    /// The miner's abandoned challenges.
    pub recent: AbandonedCount,
    pub reasons: Vec<Reason>,
    /// Seconds since 1970.
    pub unix_seconds: u64,
}

/// The stretches of a challenge beside the times of work and probe.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Gaps {
    /// The longest wait of a message for the miner to read.
    pub handover: Option<Duration>,
    /// Time from the commitment to the last of its roots.
    pub roots: Option<Duration>,
    /// Time from the probe answer to the last of its digests.
    pub digests: Option<Duration>,
}

/// Claims of a miner about a device beside its roots: shown only, never judged.
#[derive(Debug, Clone)]
pub struct DeviceClaims {
    pub device_id: DeviceId,
    /// Working time by the device's claim.
    pub elapsed: Duration,
    /// Sensor readings.
    pub telemetry: Option<Box<Telemetry>>,
}

impl Findings<'_> {
    pub fn verdict(mut self) -> Verdict {
        let fields = self.challenge.fields();
        let devices: Vec<_> = self.challenge.shares().iter().map(|share| self.device_work(share)).collect();
        let whole = self.whole(&devices);
        let [work_bounds, iteration_bounds, probe_bounds] =
            [self.work_bounds(), self.iteration_bounds(), self.probe_bounds()];
        if self.reasons.is_empty() {
            self.reasons = devices.iter().filter_map(|device| self.short_of_memory(device)).collect();
        }
        // Slack in the probe of the devices' own slots is time to copy slots for the linked one.
        let link = if self.reasons.is_empty() { self.link_work() } else { None };
        if self.reasons.is_empty() {
            self.reasons = self.missing_devices();
            self.reasons.extend(self.lacks_sweep());
            self.reasons.extend(self.slow_link(link.as_ref()));
            let precision = self.challenge.precision();
            let missed = self.expectation.map(|expected| expected.missed(&devices, &whole, self.inventory, precision));
            self.reasons.extend(missed.unwrap_or_default());
        }
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        Verdict {
            challenge_id: fields.challenge_id,
            miner_key: fields.miner_key,
            validator_key: fields.validator_key,
            outcome: outcome_of(&self.reasons),
            mode: self.mode,
            precision: self.challenge.precision(),
            n: fields.n,
            iterations: fields.iterations,
            iterations_checked: self.iterations_checked,
            whole,
            work_bounds,
            iteration_bounds,
            probe_bounds,
            round_trip_ms: self.round_trip.map(ms),
            handover_ms: self.gaps.handover.map(ms),
            roots_ms: self.gaps.roots.map(ms),
            digests_ms: self.gaps.digests.map(ms),
            not_challenged: self.not_challenged,
            missing_devices: self.difference.missing,
            new_devices: self.difference.new,
            abandoned_recently: self.recent.abandoned,
            recent_challenges: self.recent.of,
            unix_seconds: self.unix_seconds,
            link,
            receipt: None,
            devices,
            reasons: self.reasons,
        }
    }

    fn device_work(&self, share: &Share) -> DeviceWork {
        let claims = self.claimed.iter().find(|claims| claims.device_id == share.device_id);
        let hiding = self.hiding_of(share);
        let slots_bytes = u64::from(share.count - 2) * self.challenge.slot_bytes();
        let held = hiding.map_or(0.0, |hiding| (1.0 - hiding.share) * (1.0 - self.wrong_work()));
        let work = Work {
            matrices: u64::from(share.count),
            bytes_held: (slots_bytes as f64 * held) as u64,
            multiply_accumulates: self.challenge.multiply_accumulates(share),
            probe_bytes: self.probe.map_or(0, |(probe, _)| probe.read_bytes()),
            samples: self.samples * if self.mode == Some(Mode::Audit) { self.iterations_checked } else { 1 },
            segments: self.segments,
            claimed_seconds: claims.map(|claims| claims.elapsed.as_secs_f64()),
            ..Work::default()
        };
        let name = self.inventory.device(share.device_id).map_or_else(String::new, |d| d.claimed_model().to_owned());
        let claimed_telemetry = claims.and_then(|claims| claims.telemetry.as_deref().cloned());
        let probe_time = self.probe_time().map(|whole| device_time(self.probed, share, whole));
        let work = self.timed(work, self.time_of(share), probe_time);
        let rates = self.rates_of(share.device_id, &work);
        let sweep = self.sweep_of(share, hiding.as_ref());
        DeviceWork { device_id: share.device_id, name, work, claimed_telemetry, hiding, rates, sweep }
    }

    /// The rates of a device by kind of work: in this challenge where its work held, and those shown before.
    fn rates_of(&self, id: DeviceId, work: &Work) -> Vec<KindRate> {
        let mut rates = self.rates.get(&id).cloned().unwrap_or_default();
        if work.tops > 0.0 {
            let precision = self.challenge.precision();
            let (tops, detour) = (work.tops, precision.largest_detour());
            rates.retain(|rate| rate.precision != precision);
            rates.push(KindRate { precision, tops, detour, unix_seconds: self.unix_seconds });
            rates.sort_by_key(|rate| rate.precision);
        }
        rates
    }

    /// The device of a share, as the bounds on hidden memory take it; `None` without a commitment.
    fn device_hiding<'b>(&'b self, share: &'b Share) -> Option<DeviceHiding<'b>> {
        let device = self.inventory.device(share.device_id);
        let (policy, challenge) = (&self.hiding, self.challenge);
        Some(DeviceHiding { policy, challenge, share, device, work_time: self.time_of(share)? })
    }

    fn time_of(&self, share: &Share) -> Option<Duration> {
        Some(device_time(self.finished, share, self.work_time?))
    }

    fn probe_time(&self) -> Option<Duration> {
        self.probe?.1
    }

    /// The part of a device's memory that may have been elsewhere; `None` without a probe answer or after a fault: then
    /// nothing was shown.
    fn hiding_of(&self, share: &Share) -> Option<Hiding> {
        let (probe, Some(probe_time)) = self.probe? else { return None };
        let device = self.device_hiding(share).filter(|_| self.reasons.is_empty())?;
        let timed = device.timed(probe, probe_time.as_secs_f64(), self.open_walks());
        let (bound, operands) = (timed.hiding(), timed.operands);
        Some(Hiding {
            rate_per_s: timed.multiply_accumulates_per_s,
            rate_is_shown_only: match operands {
                Some(reads) if reads.alone => self.hiding.peak_field_per_s.is_none(),
                _ => {
                    let peak = self.hiding.peak_per_s(self.challenge.precision());
                    peak.is_none() || self.hiding.has_unknown_models
                }
            },
            computed: bound.computed,
            over_buses: bound.over_buses,
            share: bound.share,
            // Verdicts of the first rule did not state it.
            bus_bytes_per_s: if self.hiding.rule < WALKS_ELSEWHERE_RULE { 0.0 } else { timed.bus_bytes_per_s },
            copy_bytes_per_s: timed.copy_bytes_per_s,
            elsewhere: bound.elsewhere,
            open_walks: timed.open_walks,
            operand_bytes_per_s: operands.map_or(0.0, |reads| reads.bytes_per_s),
            chip_bytes: operands.map_or(0.0, |reads| reads.chip_bytes),
            operands: bound.operands,
            is_by_operands: bound.is_by_operands,
            rule: self.hiding.rule,
        })
    }

    /// Result of a device's sweep; `None` without one or after a fault.
    fn sweep_of(&self, share: &Share, hiding: Option<&Hiding>) -> Option<SweepWork> {
        let ((sweep, took), _) = (self.sweep?, hiding?);
        let (device, n) = (self.device_hiding(share)?, self.challenge.n());
        let timed = TimedSweep {
            slots_bytes: (u64::from(share.count) * self.challenge.slot_bytes()) as f64,
            rounds: sweep.rounds(),
            seconds: took.as_secs_f64().max(1e-9),
            computed_bytes_per_s: self.hiding.computed_bytes_per_s(
                (self.challenge.precision(), n),
                device.rate_per_s(),
                device.field_per_s(),
                device.bus_bytes_per_s(),
            ),
            elsewhere_bytes_per_s: self.hiding.elsewhere_bytes_per_s(device.device),
            chip_bytes: self.hiding.chip_bytes,
            open_sums: hidden_fraction(u64::from(SWEEP_SAMPLES), self.tries(), MISSED_CHANCE),
        };
        let bytes = sweep.read_bytes(n, share.count);
        Some(SweepWork {
            bytes,
            seconds: timed.seconds,
            gb_per_s: bytes as f64 / timed.seconds / 1e9,
            share: timed.hidden_share(),
            elsewhere_bytes_per_s: timed.elsewhere_bytes_per_s,
            open_sums: timed.open_sums,
            samples: SWEEP_SAMPLES,
            rounds: sweep.rounds(),
        })
    }

    /// The reason against a miner that answers no sweep where the policy asks for one: a sweep left out is no pass.
    fn lacks_sweep(&self) -> Option<Reason> {
        let lacks = self.wants_sweep && self.sweep.is_none();
        lacks.then(|| {
            Reason::new(ReasonCode::MinerUnsupported, "the miner answers no sweep, and the policy asks for one")
        })
    }

    /// The share of a device's walks that its segments leave open.
    fn open_walks(&self) -> f64 {
        hidden_fraction(u64::from(self.segments), self.tries(), MISSED_CHANCE)
    }

    /// The fraction of the work that an audit leaves open; a replay leaves none.
    fn wrong_work(&self) -> f64 {
        match self.mode {
            Some(Mode::Audit) => hidden_fraction(u64::from(self.samples), self.tries(), MISSED_CHANCE),
            _ => 0.0,
        }
    }

    /// Challenges that the miner could choose from: it may have broken off those whose draw would have failed it.
    const fn tries(&self) -> u32 {
        self.recent.abandoned + 1
    }

    /// The bound over all tries: each of them could have passed.
    fn over_tries(&self, log2_probability: f64) -> f64 {
        (log2_probability + f64::from(self.tries()).log2()).min(0.0)
    }

    /// The reason against a device that showed less of its memory than the policy asks for.
    fn short_of_memory(&self, device: &DeviceWork) -> Option<Reason> {
        let hiding = device.hiding?;
        let least = self.hiding.min_held;
        let held = (1.0 - hiding.share) * (1.0 - self.wrong_work());
        let percent = |share: f64| 100.0 * share;
        let detail = format!(
            "{:.1} % of the challenged memory was shown, at least {:.0} % is asked for: in the {:.3} s of the probe, {:.1} % \
             of the lines read could be computed again and {:.1} % moved over buses{}",
            percent(held),
            percent(least),
            self.probe_time().unwrap_or_default().as_secs_f64(),
            percent(hiding.computed),
            percent(hiding.over_buses),
            if hiding.elsewhere > 0.0 {
                format!(", {:.1} % of the steps elsewhere", percent(hiding.elsewhere))
            } else {
                String::new()
            }
        );
        (held < least).then(|| Reason::on_device(ReasonCode::ResidencyShare, device.device_id, detail))
    }

    /// Result of the linked probe (WORK.md, Linked probe, What it shows).
    fn link_work(&self) -> Option<LinkWork> {
        let (probe, took) = self.linked?;
        let seconds = took.as_secs_f64().max(1e-9);
        let crossing = Crossing::of(self.challenge, probe);
        let gb_per_s = |bytes: f64| bytes / seconds / 1e9;
        Some(LinkWork {
            seconds,
            step_seconds: seconds / (f64::from(probe.steps()) * f64::from(probe.rounds())),
            crossed_bytes: crossing.devices_bytes as u64,
            gb_per_s: gb_per_s(crossing.devices_bytes) / self.challenge.shares().len() as f64,
            half_gb_per_s: gb_per_s(crossing.halves_bytes),
            least_gb_per_s: gb_per_s(crossing.least_bytes),
            segments: self.segments,
            bounds: self.bounds_of(probe),
        })
    }

    /// The reason against a host whose devices reach the memory of one another too slowly, or did not show it.
    fn slow_link(&self, link: Option<&LinkWork>) -> Option<Reason> {
        let least = self.linked_policy?.min_gb_per_s;
        let shown = link.map_or(0.0, |link| link.gb_per_s);
        let devices = self.challenge.shares().len();
        if shown >= least || devices < 2 {
            return None;
        }
        let detail = match link {
            Some(link) => format!(
                "{shown:.3} GB/s into each of {devices} devices, at least {least} are asked for: a step of all walks took \
                 {:.0} µs",
                link.step_seconds * 1e6
            ),
            None => format!("the miner walks no linked probe, and at least {least} GB/s are asked for"),
        };
        Some(Reason::new(ReasonCode::LinkSlow, detail))
    }

    /// The reasons against a host with missing devices.
    fn missing_devices(&self) -> Vec<Reason> {
        let code = match self.device_missing {
            DeviceMissing::Warn => return Vec::new(),
            DeviceMissing::Inconclusive => ReasonCode::DeviceMissing,
            DeviceMissing::Fail => ReasonCode::DeviceGone,
        };
        let n = self.challenge.n();
        let reason = |id, name| {
            let detail = match self.inventory.device(id) {
                Some(listed) if !listed.precisions.contains(&self.challenge.precision()) => {
                    let kind = self.challenge.precision();
                    let why = "it showed that before, or no kind asks it together with the others";
                    format!("{} is listed, but not for {kind}: {why}", quoted(name))
                }
                Some(listed) => {
                    let slots = listed.slots_of(n);
                    format!("{} has lost memory: it holds {slots} slots of n = {n}, too few for a share", quoted(name))
                }
                None => format!("{} is not among the devices of the host any more", quoted(name)),
            };
            Reason::on_device(code, id, detail)
        };
        self.difference.missing.iter().map(|device| reason(device.device_id, &device.name)).collect()
    }

    fn whole(&self, devices: &[DeviceWork]) -> Work {
        let mut whole = Work { claimed_seconds: self.claimed_whole.map(|t| t.as_secs_f64()), ..Work::default() };
        for DeviceWork { work, .. } in devices {
            whole.matrices += work.matrices;
            whole.bytes_held += work.bytes_held;
            whole.multiply_accumulates += work.multiply_accumulates;
            whole.probe_bytes += work.probe_bytes;
            whole.samples += work.samples;
            whole.segments += work.segments;
        }
        self.timed(whole, self.work_time, self.probe_time())
    }

    /// Adds the times, and removes unproved figures: after a failure all of them, without a probe the memory.
    fn timed(&self, mut work: Work, work_time: Option<Duration>, probe_time: Option<Duration>) -> Work {
        if !self.reasons.is_empty() {
            let [seconds, probe_seconds] = [work_time, probe_time].map(|time| time.map_or(0.0, |t| t.as_secs_f64()));
            return Work { seconds, probe_seconds, claimed_seconds: work.claimed_seconds, ..Work::default() };
        }
        if let Some(seconds) = work_time.map(|t| t.as_secs_f64()).filter(|seconds| *seconds > 0.0) {
            work.seconds = seconds;
            work.tops = 2.0 * work.multiply_accumulates as f64 * (1.0 - self.wrong_work()) / seconds / 1e12;
        }
        match probe_time.map(|t| t.as_secs_f64()) {
            Some(seconds) if seconds > 0.0 => {
                work.probe_seconds = seconds;
                work.probe_gb_per_s = work.probe_bytes as f64 / seconds / 1e9;
            }
            _ => (work.probe_bytes, work.bytes_held) = (0, 0),
        }
        work
    }

    fn work_bounds(&self) -> Vec<Bound> {
        if self.mode != Some(Mode::Audit) || self.samples == 0 {
            return Vec::new();
        }
        let missed = |fraction| self.over_tries(pass_log2(fraction, u64::from(self.samples)));
        FRACTIONS.map(|fraction| Bound { fraction, log2_probability: missed(fraction) }).to_vec()
    }

    fn iteration_bounds(&self) -> Vec<Bound> {
        let iterations = self.challenge.iterations();
        if self.iterations_checked == 0 || self.iterations_checked >= iterations {
            return Vec::new();
        }
        let bound = |fraction: f64| {
            // At least one iteration was faked; a fraction of them is rounded down, in the host's favour.
            let faked = ((fraction * f64::from(iterations)) as u32).max(1);
            let undrawn = IterationDraw::new(iterations, self.iterations_checked - 1).undrawn_probability(faked);
            let log2_probability = self.over_tries(undrawn.log2());
            Bound { fraction: f64::from(faked) / f64::from(iterations), log2_probability }
        };
        let mut bounds = FRACTIONS.map(bound).to_vec();
        // With this many draws one of the faked iterations must be among them.
        bounds.retain(|b| b.log2_probability.is_finite());
        bounds.dedup();
        bounds
    }

    fn probe_bounds(&self) -> Vec<Bound> {
        self.probe.map_or(Vec::new(), |(probe, _)| self.bounds_of(probe))
    }

    /// Probabilities that wrong lines of a probe would have passed.
    fn bounds_of(&self, probe: &Probe) -> Vec<Bound> {
        if self.segments == 0 {
            return Vec::new();
        }
        let lines = u64::from(self.segments) * u64::from(probe.steps());
        // A walk passes only when every one of its lines is right: (1 - h)^(T · q).
        let missed = |fraction| self.over_tries(pass_log2(fraction, lines));
        FRACTIONS.map(|fraction| Bound { fraction, log2_probability: missed(fraction) }).to_vec()
    }
}
