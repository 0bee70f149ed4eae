//! Sizing the probes and the sweep of a challenge, and drawing their seeds.

use std::collections::BTreeMap;
use std::time::Duration;

use assay_policy::Policy;
use assay_policy::challenge::{ProbePolicy, is_processor};
use assay_protocol::message::Inventory;
use assay_work::bounds::hidden_fraction;
use assay_work::probe::{
    LINE_BYTES, Link, MAX_ROUNDS, MIN_WALKS, MemoryProbe, Probe, ProbeError, Sweep, UncheckedProbe, UncheckedSweep,
};
use assay_work::{Challenge, DeviceId, ProbeSeed, Share};

use crate::entropy::Entropy;
use crate::history::ShownRates;
use crate::issue::IssueError;
use crate::verify::hiding::{DeviceHiding, FinishedDevices, device_time};
use crate::verify::judge::MISSED_CHANCE;

/// The states of a probe's walks take at most this part of the smallest share (WORK.md, What can hide).
const WALKS_OF_SHARE: u64 = 256;
/// The fewest walks that measure bandwidth and not latency: of a processor, and of any other device (WORK.md).
const FEWEST_WALKS: [u32; 2] = [1 << 12, 1 << 18];
/// Round trips that an honest probe takes at least.
const PROBE_ROUND_TRIPS: u32 = 10;
/// Parts of the target time that a probe may take, where that leaves less open.
const TIMES: [u32; 6] = [1, 2, 4, 8, 16, 32];
/// Time that both sides take to start and to answer a probe, beside the link.
const OVERHEAD: Duration = Duration::from_millis(10);
/// The fewest rounds of a linked probe, where they fit into half of its deadline (WORK.md, Linked probe).
const MIN_LINKED_ROUNDS: f64 = 8.0;
/// The fewest rounds of a sweep, where they fit into half of a probe's deadline, and the most (WORK.md, Sweep).
const SWEEP_ROUNDS: (f64, f64) = (8.0, 64.0);
/// The longest time of a sweep, in multiples of that at the expected rate.
const SWEEP_DEADLINE_TIMES: f64 = 10.0;
/// The longest deadline that follows from a size.
const MAX_SIZED_DEADLINE_S: f64 = 600.0;

/// Inputs for sizing a probe.
#[derive(Debug, Clone, Copy)]
pub struct ProbeSizing<'a> {
    pub policy: &'a Policy,
    pub challenge: &'a Challenge,
    /// The devices, by the miner's claims.
    pub inventory: &'a Inventory,
    /// Rates that the devices showed last.
    pub shown: &'a BTreeMap<DeviceId, ShownRates>,
    pub round_trip: Option<Duration>,
    /// Time from the challenge to the commitment.
    pub work_time: Duration,
    /// The devices that had done their share before.
    pub finished: &'a FinishedDevices,
}

/// Walks and rounds of a probe.
type Size = (u32, u32);

impl ProbeSizing<'_> {
    /// Makes the probe of each device's own slots, or of those of all. The first is of the size that leaves the least
    /// memory open by the bound that the verdict will state, within the policy's walks and time; a linked one takes the
    /// target time.
    pub fn probe(&self, link: Link, entropy: &mut dyn Entropy) -> Result<Probe, IssueError> {
        let seed = ProbeSeed(entropy.bytes()?);
        let (most, rate) = (self.most_walks(), self.rate(link));
        let (target, longest) = self.times();
        let (walks, rounds) = match link {
            Link::All => {
                let rounds = |time: Duration| rate * time.as_secs_f64() / self.round_bytes(most);
                let least = rounds(longest).clamp(1.0, MIN_LINKED_ROUNDS);
                // Clamped into the range of a round count.
                (most, rounds(target).round().clamp(least, f64::from(MAX_ROUNDS)) as u32)
            }
            Link::Own => self.smallest_bound(rate)?,
        };
        Ok(self.unseeded(seed, (walks, rounds), link)?)
    }

    fn unseeded(&self, seed: ProbeSeed, (walks, rounds): Size, link: Link) -> Result<Probe, ProbeError> {
        let (steps, link) = (self.policy.probe.steps, link.code());
        Probe::try_from(UncheckedProbe { seed, walks, steps, rounds, link })
    }

    /// The walks and rounds whose bound is the smallest; of equal ones the most of both.
    fn smallest_bound(&self, rate: f64) -> Result<Size, ProbeError> {
        let most = self.most_walks();
        let devices = self.challenge.shares().iter().map(|share| self.inventory.device(share.device_id));
        let fewest = FEWEST_WALKS[usize::from(!devices.into_iter().all(is_processor))].min(most);
        let walks = (fewest.ilog2()..=most.ilog2()).rev().map(|log2| 1 << log2);
        let (target, _) = self.times();
        let least = self.round_trip.unwrap_or_default() * PROBE_ROUND_TRIPS;
        let times = || TIMES.into_iter().map(|part| target / part).filter(|time| *time == target || *time >= least);
        let mut best: Option<(f64, Size)> = None;
        for (walks, time) in walks.flat_map(|walks| times().map(move |time| (walks, time))) {
            let rounds = rate * time.as_secs_f64() / self.round_bytes(walks);
            // Clamped into the range of a round count.
            let size = (walks, rounds.round().clamp(1.0, f64::from(MAX_ROUNDS)) as u32);
            let bound = self.bound(size, rate)?;
            if best.is_none_or(|(least, _)| bound < least) {
                best = Some((bound, size));
            }
        }
        Ok(best.map_or((most, 1), |(_, size)| size))
    }

    /// The largest share that a device may hide from a probe that takes the expected time.
    fn bound(&self, size: Size, rate: f64) -> Result<f64, ProbeError> {
        let probe = self.unseeded(ProbeSeed([0; 32]), size, Link::Own)?;
        let other = (self.round_trip.unwrap_or_default() + OVERHEAD).as_secs_f64();
        let seconds = probe.read_bytes() as f64 / rate + other;
        let open_walks = hidden_fraction(self.policy.segments.into(), 1, MISSED_CHANCE);
        let share = |share: &Share| {
            let (challenge, work_time) = (self.challenge, device_time(self.finished, share, self.work_time));
            let device = self.inventory.device(share.device_id);
            let hiding = DeviceHiding { policy: &self.policy.hiding, challenge, share, device, work_time };
            hiding.timed(&probe, seconds, open_walks).hiding().share
        };
        Ok(self.challenge.shares().iter().map(share).fold(0.0, f64::max))
    }

    /// The largest power of two of walks, by the policy and the smallest share.
    fn most_walks(&self) -> u32 {
        let counts = self.challenge.shares().iter().map(|share| u64::from(share.count));
        let smallest = counts.min().unwrap_or(0) * self.challenge.slot_bytes();
        let most = (smallest / WALKS_OF_SHARE / LINE_BYTES as u64).max(1);
        self.policy.probe.walks.min(1 << most.ilog2().min(22)).max(MIN_WALKS)
    }

    fn round_bytes(&self, walks: u32) -> f64 {
        f64::from(walks) * f64::from(self.policy.probe.steps) * LINE_BYTES as f64
    }

    /// Bytes per second of lines, for a linked probe too: those that its states read over all, whether they cross or not.
    /// All devices walk the same number of rounds: the slowest must still answer in time.
    fn rate(&self, link: Link) -> f64 {
        let expected = match (link, &self.policy.linked) {
            (Link::All, Some(linked)) => linked.expect_gb_per_s,
            _ => self.policy.probe.expect_gb_per_s,
        };
        let of = |share: &Share| self.shown.get(&share.device_id).map_or(0.0, |shown| shown.bytes_per_s(link));
        let shown = self.challenge.shares().iter().map(of).fold(f64::INFINITY, f64::min);
        (1e9 * expected).max(shown)
    }

    /// Makes the sweep of a challenge whose devices read `read_per_s` bytes per second in the probe before it: as many
    /// rounds as take the target time of a probe on the device with the most slots.
    pub fn sweep(&self, read_per_s: f64, entropy: &mut dyn Entropy) -> Result<Sweep, IssueError> {
        let ((target, longest), round) = (self.times(), self.sweep_round_seconds(read_per_s));
        let (fewest, most) = SWEEP_ROUNDS;
        let fewest = (longest.as_secs_f64() / round).floor().clamp(1.0, fewest);
        // Clamped into the range of a round count.
        let rounds = (target.as_secs_f64() / round).round().clamp(fewest, most) as u32;
        Ok(Sweep::try_from(UncheckedSweep { seed: ProbeSeed(entropy.bytes()?), rounds })?)
    }

    /// Deadline of a probe, at least that of the policy. Where round trips make the target longer, it has as many times
    /// that as the policy allows: a device may read slower than it did before, from less memory. For a sweep, devices
    /// that read slowly have much to read. No rate shown before counts: the case does not have it.
    pub fn deadline(&self, probe: &MemoryProbe, read_per_s: f64) -> Duration {
        let ProbePolicy { deadline, target, .. } = self.policy.probe;
        let seconds = match probe {
            MemoryProbe::Walks(_) => deadline.as_secs_f64() * self.times().0.as_secs_f64() / target.as_secs_f64(),
            MemoryProbe::Sweep(sweep) => {
                SWEEP_DEADLINE_TIMES * f64::from(sweep.rounds()) * self.sweep_round_seconds(read_per_s)
            }
        };
        deadline.max(Duration::from_secs_f64(seconds.min(MAX_SIZED_DEADLINE_S)))
    }

    /// Expected seconds of a round on the device with the most slots.
    fn sweep_round_seconds(&self, read_per_s: f64) -> f64 {
        let most = self.challenge.shares().iter().map(|share| u64::from(share.count)).max().unwrap_or(0);
        let rate = read_per_s.max(self.policy.probe.expect_gb_per_s * 1e9);
        (most * self.challenge.slot_bytes()) as f64 / rate
    }

    /// Target time of a probe, or ten round trips where these are longer, and the longest one.
    fn times(&self) -> (Duration, Duration) {
        let probe = &self.policy.probe;
        let longest = (probe.deadline / 2).max(probe.target);
        let target = probe.target.max(self.round_trip.unwrap_or_default() * PROBE_ROUND_TRIPS);
        (target.min(longest), longest)
    }
}

#[cfg(test)]
mod tests;
