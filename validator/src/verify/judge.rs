//! What was measured and checked, added up to a verdict.

use std::time::Duration;

use assay_protocol::claims::Telemetry;
use assay_protocol::message::Inventory;
use assay_protocol::verdict::{Bound, DeviceWork, Mode, Reason, Verdict, Work, outcome_of};
use assay_work::bounds::{IterationDraw, pass_log2};
use assay_work::probe::Probe;
use assay_work::{Challenge, DeviceId, Share};

/// The fractions that bounds are given for (WORK.md, Audit).
pub const FRACTIONS: [f64; 3] = [0.01, 0.05, 0.10];

/// Everything known at the end of a challenge.
#[derive(Debug)]
pub struct Findings<'a> {
    /// The challenge.
    pub challenge: &'a Challenge,
    /// The devices, by the miner's claims.
    pub inventory: &'a Inventory,
    /// How the work was checked; `None` when it did not come so far.
    pub mode: Option<Mode>,
    /// Iterations of each device that were checked.
    pub iterations_checked: u32,
    /// From the challenge out to the commitment in.
    pub work_time: Option<Duration>,
    /// The probe, when there was one, and from it out to its answer in.
    pub probe: Option<(&'a Probe, Option<Duration>)>,
    /// Samples checked of each device and iteration, without the leaves' rows.
    pub samples: u32,
    /// Segments checked of each device.
    pub segments: u32,
    /// What each device claims, where it came so far.
    pub claimed: Vec<DeviceClaims>,
    /// The time that the miner claims for the whole.
    pub claimed_whole: Option<Duration>,
    /// The round trip measured.
    pub round_trip: Option<Duration>,
    /// What went wrong.
    pub reasons: Vec<Reason>,
    /// Seconds since 1970.
    pub unix_seconds: u64,
}

/// What a miner says of a device beside its roots: shown, and nothing else.
#[derive(Debug, Clone)]
pub struct DeviceClaims {
    /// The device.
    pub device_id: DeviceId,
    /// How long it worked.
    pub elapsed: Duration,
    /// What its sensors showed.
    pub telemetry: Option<Box<Telemetry>>,
}

impl Findings<'_> {
    /// The verdict.
    #[must_use]
    pub fn verdict(self) -> Verdict {
        let fields = self.challenge.fields();
        let devices: Vec<_> = self.challenge.shares().iter().map(|share| self.device_work(share)).collect();
        Verdict {
            challenge_id: fields.challenge_id,
            miner_key: fields.miner_key,
            validator_key: fields.validator_key,
            outcome: outcome_of(&self.reasons),
            mode: self.mode,
            n: fields.n,
            iterations: fields.iterations,
            iterations_checked: self.iterations_checked,
            whole: self.whole(&devices),
            work_bounds: self.work_bounds(),
            iteration_bounds: self.iteration_bounds(),
            probe_bounds: self.probe_bounds(),
            round_trip_ms: self.round_trip.map(|t| t.as_secs_f64() * 1e3),
            unix_seconds: self.unix_seconds,
            devices,
            reasons: self.reasons,
        }
    }

    fn device_work(&self, share: &Share) -> DeviceWork {
        let claims = self.claimed.iter().find(|claims| claims.device_id == share.device_id);
        let work = Work {
            matrices: u64::from(share.count),
            bytes_held: u64::from(share.count - 2) * self.challenge.slot_bytes(),
            multiply_accumulates: self.challenge.multiply_accumulates(share),
            probe_bytes: self.probe.map_or(0, |(probe, _)| probe.read_bytes()),
            samples: self.samples * self.iterations_checked,
            segments: self.segments,
            claimed_seconds: claims.map(|claims| claims.elapsed.as_secs_f64()),
            ..Work::default()
        };
        let name = self.inventory.device(share.device_id).map_or_else(String::new, |d| d.name.clone());
        let claimed_telemetry = claims.and_then(|claims| claims.telemetry.as_deref().cloned());
        DeviceWork { device_id: share.device_id, name, work: self.timed(work), claimed_telemetry }
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
        self.timed(whole)
    }

    /// Puts the times in, and what was not shown out: after a failure nothing was, without a probe no memory.
    fn timed(&self, mut work: Work) -> Work {
        if !self.reasons.is_empty() {
            let seconds = self.work_time.map_or(0.0, |t| t.as_secs_f64());
            let probe_seconds = self.probe.and_then(|(_, time)| time).map_or(0.0, |t| t.as_secs_f64());
            return Work { seconds, probe_seconds, claimed_seconds: work.claimed_seconds, ..Work::default() };
        }
        if let Some(seconds) = self.work_time.map(|t| t.as_secs_f64()).filter(|seconds| *seconds > 0.0) {
            work.seconds = seconds;
            work.tops = 2.0 * work.multiply_accumulates as f64 / seconds / 1e12;
        }
        match self.probe.and_then(|(_, time)| time).map(|t| t.as_secs_f64()) {
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
        let bound = |fraction| Bound { fraction, log2_probability: pass_log2(fraction, u64::from(self.samples)) };
        FRACTIONS.map(bound).to_vec()
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
            Bound { fraction: f64::from(faked) / f64::from(iterations), log2_probability: undrawn.log2() }
        };
        let mut bounds = FRACTIONS.map(bound).to_vec();
        // So many are drawn that one of the faked ones must be among them.
        bounds.retain(|b| b.log2_probability.is_finite());
        bounds.dedup();
        bounds
    }

    fn probe_bounds(&self) -> Vec<Bound> {
        let Some((probe, _)) = self.probe.filter(|_| self.segments > 0) else { return Vec::new() };
        let lines = u64::from(self.segments) * u64::from(probe.steps());
        // A walk passes only when every one of its lines is right: (1 - h)^(T · q).
        let bound = |fraction| Bound { fraction, log2_probability: pass_log2(fraction, lines) };
        FRACTIONS.map(bound).to_vec()
    }
}
