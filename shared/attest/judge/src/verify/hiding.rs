//! Assumptions about one device in the bound on hidden memory (WORK.md, What can hide).

use std::collections::BTreeMap;
use std::time::Duration;

use assay_policy::challenge::HidingPolicy;
use assay_protocol::message::DeviceClaim;
use assay_protocol::verdict::{HIDING_RULE, WALKS_ELSEWHERE_RULE};
use assay_work::bounds::TimedProbe;
use assay_work::probe::Probe;
use assay_work::{Challenge, Checksum, DeviceId, Share};

/// A device whose memory may be elsewhere during a probe.
#[derive(Debug, Clone, Copy)]
pub struct DeviceHiding<'a> {
    pub policy: &'a HidingPolicy,
    pub challenge: &'a Challenge,
    pub share: &'a Share,
    /// The device, by the miner's claims.
    pub device: Option<&'a DeviceClaim>,
    /// Time from the challenge to the end of its share ([`device_time`]).
    pub work_time: Duration,
}

impl DeviceHiding<'_> {
    /// ρ: the multiply-accumulates per second that the device may have.
    pub fn rate_per_s(&self) -> f64 {
        let precision = self.challenge.precision();
        let shown = rate_per_s(self.challenge, self.share, self.work_time) * self.policy.rate_factor(precision);
        self.policy.peak_per_s(precision).unwrap_or(0.0).max(shown)
    }

    /// The field operations per second that the device showed.
    pub fn field_per_s(&self) -> f64 {
        let shown = rate_per_s(self.challenge, self.share, self.work_time);
        self.challenge.precision().field_operations_per_s(self.challenge.n(), shown)
    }

    /// β: bytes per second of all paths into the device.
    pub fn bus_bytes_per_s(&self) -> f64 {
        self.policy.bus_bytes_per_s(self.device)
    }

    /// A probe that took `seconds`, and whose segments leave the share `open_walks` of the walks open.
    pub fn timed<'p>(&self, probe: &'p Probe, seconds: f64, open_walks: f64) -> TimedProbe<'p> {
        let (precision, n, rate) = (self.challenge.precision(), self.challenge.n(), self.rate_per_s());
        let shown = (probe.read_bytes() as f64 / seconds.max(1e-9), self.field_per_s());
        let operands = self.policy.operand_reads((precision, n), rate, shown, self.bus_bytes_per_s());
        // The first rule took rounds one at a time, and no copy elsewhere.
        let is_first = self.policy.rule < WALKS_ELSEWHERE_RULE;
        TimedProbe {
            probe,
            n,
            terms: precision.terms(n),
            count: self.share.count,
            seconds,
            multiply_accumulates_per_s: rate,
            bus_bytes_per_s: self.bus_bytes_per_s(),
            copy_bytes_per_s: if is_first { 0.0 } else { self.policy.copy_bytes_per_s },
            open_walks: if is_first { 0.0 } else { open_walks },
            operands: operands.filter(|_| self.policy.rule >= HIDING_RULE),
        }
    }
}

/// The devices that had done their share before the commitment, or walked before the answer, with the checksum of their
/// roots or digests and their time.
pub type FinishedDevices = BTreeMap<DeviceId, (Checksum, Duration)>;

/// The time of a device's share or probe: to its own word that it was done, else that of the whole. All that a device's
/// work is judged by has this one time. The memory that a probe leaves hidden is bounded by the time of the whole probe:
/// until then devices may help one another.
pub fn device_time(finished: &FinishedDevices, share: &Share, whole: Duration) -> Duration {
    finished.get(&share.device_id).map_or(whole, |(_, took)| whole.min(*took))
}

/// Multiply-accumulates per second of a device: all its iterations, in the time of its share.
pub fn rate_per_s(challenge: &Challenge, share: &Share, work_time: Duration) -> f64 {
    // Clamped above 0, so that the rate is finite.
    challenge.multiply_accumulates(share) as f64 / work_time.as_secs_f64().max(1e-9)
}
