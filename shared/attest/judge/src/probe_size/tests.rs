use super::*;
use crate::entropy::SeededEntropy;
use crate::issue::tests::{inventory, issue_for, shown_at};

/// Devices with these counts of slots of n = 2048, which showed these GB/s, and the time of their work.
struct Host {
    policy: Policy,
    slots: Vec<u64>,
    shown: Vec<f64>,
    backend: &'static str,
    work_ms: u64,
    finished: FinishedDevices,
}

impl Host {
    fn new(policy: &Policy, slots: &[u64]) -> Self {
        Self {
            policy: policy.clone(),
            slots: slots.to_vec(),
            shown: Vec::new(),
            backend: "cpu",
            work_ms: 60_000,
            finished: FinishedDevices::new(),
        }
    }

    fn sized<T>(&self, round_trip_ms: u64, size: impl FnOnce(&ProbeSizing<'_>, &mut SeededEntropy) -> T) -> T {
        let mut inventory = inventory(&self.slots.iter().map(|slots| slots << 22).collect::<Vec<_>>());
        inventory.devices.iter_mut().for_each(|device| device.backend = self.backend.into());
        let shown = (1..).zip(&self.shown).map(|(id, per_s)| (DeviceId([id; 16]), shown_at(0.0, per_s * 1e9)));
        let challenge = issue_for(&self.policy, &self.slots).unwrap().challenge;
        let sizing = ProbeSizing {
            policy: &self.policy,
            challenge: &challenge,
            inventory: &inventory,
            shown: &shown.collect(),
            round_trip: Some(Duration::from_millis(round_trip_ms)),
            work_time: Duration::from_millis(self.work_ms),
            finished: &self.finished,
        };
        size(&sizing, &mut SeededEntropy::new(6))
    }

    fn probe(&self, round_trip_ms: u64) -> Probe {
        self.sized(round_trip_ms, |sizing, entropy| sizing.probe(Link::Own, entropy).unwrap())
    }

    /// The bound that is stated if the probe takes as long as expected.
    fn bound(&self, size: Size) -> f64 {
        self.sized(0, |sizing, _| sizing.bound(size, sizing.rate(Link::Own)).unwrap())
    }
}

fn roomy() -> Policy {
    Policy { max_matrices: 1 << 20, ..Policy::default() }
}

#[test]
fn a_probe_has_the_size_with_the_smallest_bound() {
    // 900 slots of 4 MiB: 1/256 of them is 14 MiB, the states of 2^17 walks 8 MiB.
    let host = Host::new(&roomy(), &[1000, 2000]);
    let probe = host.probe(0);
    let chosen = host.bound((probe.walks(), probe.rounds()));
    assert!((1 << 12..=1 << 17).contains(&probe.walks()) && probe.steps() == 64);
    for log2 in 12..=17 {
        for part in TIMES {
            let rounds = 4e9 * 0.25 / f64::from(part) / host.sized(0, |sizing, _| sizing.round_bytes(1 << log2));
            let other = host.bound((1 << log2, rounds.round().max(1.0) as u32));
            assert!(chosen <= other, "2^{log2} walks in 1/{part} of the time leave {other} open, {chosen} was chosen");
        }
    }
    assert!(chosen < host.bound((1 << 17, 2)), "the most walks are not the best");
}

#[test]
fn a_gpu_has_as_many_walks_as_measure_bandwidth() {
    let gpu = |slots| Host { backend: "cuda", shown: vec![2600.0], ..Host::new(&roomy(), &[slots]) };
    assert_eq!(gpu(30_000).probe(0).walks(), 1 << 18);
    assert_eq!(gpu(1000).probe(0).walks(), 1 << 17, "at most 1/256 of the slots");
}

/// All devices walk the same number of rounds, so the slowest sets it; one without a shown rate is as expected.
#[test]
fn a_probe_reads_by_the_larger_of_the_expected_and_the_shown_rate() {
    let policy = Policy { probe: ProbePolicy { walks: 64, ..roomy().probe }, ..roomy() };
    let bytes =
        |shown: &[f64]| Host { shown: shown.to_vec(), ..Host::new(&policy, &[1000, 2000]) }.probe(0).read_bytes();
    let fast = bytes(&[3000.0, 2000.0]);
    assert_eq!(bytes(&[3000.0]), bytes(&[]));
    assert_eq!(bytes(&[1.0, 1.0]), bytes(&[]));
    assert!(fast > 10 * bytes(&[]), "{fast}");
}

#[test]
fn a_probe_takes_at_least_ten_round_trips() {
    let host = Host::new(&Policy::default(), &[1000]);
    let seconds = |ms| host.probe(ms).read_bytes() as f64 / 4e9;
    assert!(seconds(20) > 0.15 && seconds(100) > 0.9, "{} and {}", seconds(20), seconds(100));
    // Half of the deadline is the most.
    assert!([125, 60_000].iter().all(|ms| (1.15..1.3).contains(&seconds(*ms))), "{}", seconds(60_000));
}

/// A device that showed its rate from less memory may read a quarter as fast now.
#[test]
fn a_probe_of_more_than_the_target_time_has_a_longer_deadline() {
    let host = Host { shown: vec![1000.0], ..Host::new(&roomy(), &[30_000]) };
    let seconds = |ms| {
        host.sized(ms, |sizing, entropy| {
            let probe = sizing.probe(Link::Own, entropy).unwrap();
            // A rejudged run knows no rate that was shown.
            let again = ProbeSizing { shown: &BTreeMap::new(), ..*sizing };
            assert_eq!(sizing.deadline(&probe.into(), 0.0), again.deadline(&probe.into(), 0.0));
            sizing.deadline(&probe.into(), 0.0).as_secs_f64()
        })
    };
    assert_eq!([0, 25, 100, 60_000].map(seconds), [2.5, 2.5, 10.0, 12.5], "ten times ten round trips, up to a half");
}

#[test]
fn walks_take_at_most_a_256th_of_the_smallest_share() {
    // 9 slots of 4 MiB.
    assert!(Host::new(&Policy::default(), &[100, 10]).probe(0).walks() <= 2048);
    // The minimum number of walks.
    let policy = Policy { n: Some(256), max_matrices: 6, ..Policy::default() };
    assert_eq!(Host::new(&policy, &[10, 10]).probe(0).walks(), 64);
}

#[test]
fn a_sweep_takes_about_the_target_of_a_probe() {
    // 900 slots of 4 MiB: 3.8 GB, and 1800 of the larger device.
    let sweep = |policy: &Policy, read_per_s, ms| {
        Host::new(policy, &[1000, 2000]).sized(ms, |sizing, entropy| {
            let sweep = sizing.sweep(read_per_s, entropy).unwrap();
            (sweep.rounds(), sizing.deadline(&sweep.into(), read_per_s).as_secs())
        })
    };
    let policy = roomy();
    assert_eq!(sweep(&policy, 0.0, 0), (1, 18), "at the expected 4 GB/s a round takes 1.9 s");
    assert_eq!(sweep(&policy, 100e9, 0), (8, 6), "the fewest that show much");
    assert_eq!(sweep(&policy, 1000e9, 0), (33, 2));
    assert_eq!(sweep(&policy, 1000e9, 40), (53, 4), "ten round trips");
    assert_eq!(sweep(&policy, 5000e9, 100), (64, 2), "the most of which none runs beside the others");
    let slow = ProbePolicy { expect_gb_per_s: 0.01, ..Policy::default().probe };
    assert_eq!(sweep(&Policy { probe: slow, ..policy }, 0.0, 0), (1, 600));
}

/// A miner that commits late has no smaller rate for it.
#[test]
fn a_probe_is_sized_by_the_time_of_each_device() {
    let host = |work_ms, word_ms| {
        let word = |id| (DeviceId([id; 16]), (assay_work::Checksum([0; 32]), Duration::from_millis(word_ms)));
        let finished = [1, 2].map(word).into();
        Host { work_ms, finished, ..Host::new(&roomy(), &[300, 300]) }
    };
    let bound = |work_ms, word_ms| host(work_ms, word_ms).bound((1 << 18, 1));
    assert_eq!(bound(60_000, 50), bound(50, 50));
    assert!(bound(60_000, 50) > bound(60_000, 60_000));
}
