//! Sizing a challenge from a host's inventory and the policy, and drawing its fresh id and nonce.

use std::collections::BTreeMap;
use std::sync::Arc;

use assay_policy::Policy;
use assay_protocol::message::{DeviceClaim, Inventory, MATRIX_SIZES, Offer, PlanError};
use assay_protocol::verdict::{Mode, UnchallengedDevice};
use assay_protocol::wire::limits::{MAX_OPEN_DRAWS, MAX_OPEN_ITEMS};
use assay_work::bounds::IterationDraw;
use assay_work::challenge::{MAX_TOTAL, MIN_COUNT, MIN_N, WORK_VERSION};
use assay_work::probe::{ProbeError, SweepError};
use assay_work::split::{Weight, split};
use assay_work::{Challenge, ChallengeId, DeviceId, Nonce, Precision, PublicKey};

use crate::entropy::{Entropy, EntropyError};
use crate::history::ShownRates;
use crate::history::devices::is_too_small;

/// The most roots of a challenge, over all devices: at 32 bytes each, 2 MiB of commitment.
pub const MAX_ROOTS: u64 = 65_536;
/// Samples of the last iteration of each device that must hold before a replay starts.
pub const SAMPLES_BEFORE_REPLAY: u32 = 16;
/// Samples of each device's sweep (WORK.md, Sweep).
pub const SWEEP_SAMPLES: u32 = 256;

/// Inputs for sizing a challenge.
#[derive(Debug, Clone, Copy)]
pub struct Sizing<'a> {
    pub precision: Precision,
    pub policy: &'a Policy,
    /// The devices, by the miner's claims.
    pub inventory: &'a Inventory,
    /// Rates that the devices showed last.
    pub shown: &'a BTreeMap<DeviceId, ShownRates>,
    /// The most slots of a share that the validator can replay, for each of [`MATRIX_SIZES`]; `None`: not replayed.
    pub room: Option<&'a [u32]>,
}

#[derive(Debug, Clone)]
pub struct IssuedChallenge {
    /// The message to send.
    pub offer: Offer,
    /// The checked challenge, with its shares.
    pub challenge: Arc<Challenge>,
    pub not_challenged: Vec<UnchallengedDevice>,
}

/// Reasons why no challenge was made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IssueError {
    /// The devices hold enough smaller matrices, but too few of the smallest size allowed.
    #[error("no device holds {min_slots} slots of n = {n}, the least that the policy allows; the most is {most}")]
    NotEnoughMemory {
        /// The smallest matrix size allowed.
        n: u32,
        /// The least slots of a device.
        min_slots: u32,
        /// The most slots of n that any device has.
        most: u32,
    },
    /// No device holds enough of any size.
    #[error("no device holds {min_slots} slots of any size down to n = {MIN_N}; devices of the host: {devices}")]
    NothingToChallenge {
        /// The fewest slots of a device.
        min_slots: u32,
        /// Devices of the host.
        devices: usize,
    },
    /// The commitment would be too large.
    #[error("{devices} devices and {iterations} iterations give more than {MAX_ROOTS} roots: ask for fewer iterations")]
    TooManyRoots {
        /// Devices that would take part.
        devices: usize,
        /// Iterations of the policy.
        iterations: u32,
    },
    /// The request for openings would be too large.
    #[error("{0} samples and segments would be opened, at most {MAX_OPEN_DRAWS} fit in one request: ask for fewer")]
    TooManyDraws(u64),
    /// The validator's sizing broke a rule.
    #[error("the challenge sized for the host is invalid: {0}")]
    Plan(#[from] PlanError),
    /// The validator's probe broke a rule.
    #[error("the probe sized for the host is invalid: {0}")]
    Probe(#[from] ProbeError),
    /// The validator's sweep broke a rule.
    #[error("the sweep sized for the host is invalid: {0}")]
    Sweep(#[from] SweepError),
    #[error(transparent)]
    Entropy(#[from] EntropyError),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ChallengeSize {
    n: u32,
    min_slots: u32,
    total: u32,
}

impl Sizing<'_> {
    /// Makes a challenge for the host: over the largest matrices that the policy allows of which as many devices hold
    /// enough as of the smallest allowed.
    pub fn issue(
        &self,
        validator_key: PublicKey,
        miner_key: PublicKey,
        entropy: &mut dyn Entropy,
    ) -> Result<IssuedChallenge, IssueError> {
        let ChallengeSize { n, min_slots, total } = self.size()?;
        let iterations = self.policy.iterations;
        let (challenge_id, nonce) = fresh(entropy)?;
        let offer = Offer {
            version: WORK_VERSION,
            challenge_id,
            nonce,
            precision: self.precision.code(),
            n,
            iterations,
            total,
            inventory_sequence: self.inventory.sequence,
            deadline: self.policy.commit_deadline,
            min_slots,
        };
        let challenge = Arc::new(offer.plan(self.inventory, validator_key, miner_key)?);
        Ok(IssuedChallenge { offer, challenge, not_challenged: self.left_out(n, min_slots) })
    }

    /// Devices with fewer than `min_slots` slots; a device that does not compute the kind of work counts as 0.
    pub fn left_out(&self, n: u32, min_slots: u32) -> Vec<UnchallengedDevice> {
        let slots = |d: &DeviceClaim| if d.precisions.contains(&self.precision) { d.slots_of(n) } else { 0 };
        let devices = self.inventory.devices.iter().map(|d| (d, slots(d))).filter(|(_, slots)| *slots < min_slots);
        devices.map(|(d, slots)| UnchallengedDevice { device_id: d.id, name: d.name.clone(), slots }).collect()
    }

    /// Returns the largest matrix size allowed, and the smallest.
    pub fn sizes(&self) -> (u32, u32) {
        let rates = self.shown.values().map(|shown| shown.rate_per_s(self.precision));
        self.policy.sizes(self.precision, rates.fold(0.0, f64::max))
    }

    fn size(&self) -> Result<ChallengeSize, IssueError> {
        let (n, n_min) = self.sizes();
        let min_slots = self.policy.min_slots.max(MIN_COUNT);
        let devices_at = |n| self.inventory.weights(self.precision, n, min_slots).len();
        let devices = devices_at(n_min);
        if devices == 0 {
            let most = self.inventory.devices.iter().map(|device| device.slots_of(n_min)).max().unwrap_or(0);
            return Err(if devices_at(MIN_N) > 0 {
                IssueError::NotEnoughMemory { n: n_min, min_slots, most }
            } else {
                IssueError::NothingToChallenge { min_slots, devices: self.inventory.devices.len() }
            });
        }
        let iterations = self.policy.iterations;
        if devices as u64 * u64::from(iterations) > MAX_ROOTS {
            return Err(IssueError::TooManyRoots { devices, iterations });
        }
        let allowed = MATRIX_SIZES.into_iter().rev().filter(|size| (n_min..=n).contains(size));
        // Slots of n_min fit more often than larger ones, so n_min always satisfies the condition.
        let n = allowed.into_iter().find(|size| devices_at(*size) == devices).unwrap_or(n_min);
        Ok(self.total(n, min_slots))
    }

    /// The total of slots and the least slots of a device: the policy's fill, as far as every share is valid and, where
    /// the validator replays, fits one of its devices.
    fn total(&self, n: u32, mut min_slots: u32) -> ChallengeSize {
        loop {
            let weights = self.inventory.weights(self.precision, n, min_slots);
            let sum: u64 = weights.iter().map(|w| w.weight).sum();
            let least = weights.iter().map(|w| w.weight).min().unwrap_or(1);
            // From this total on, the smallest device's share is valid; at `sum` each share is the device's weight.
            let valid = (u64::from(MIN_COUNT) * sum).div_ceil(least);
            let wanted = self.wanted(&weights).min(self.replayable(n, &weights)).min(MAX_TOTAL);
            let is_valid = |total: u64| {
                let total = u32::try_from(total).unwrap_or(u32::MAX);
                split(total, &weights).is_ok_and(|shares| shares.iter().all(|share| share.count >= MIN_COUNT))
            };
            let total = if is_valid(wanted) { wanted } else { wanted.max(valid) };
            // A small device would otherwise raise the total beyond the policy and the room of the validator.
            let suits = total == wanted || !is_too_small(least, sum.into(), weights.len());
            if total <= MAX_TOTAL && suits {
                // At most 2^20.
                return ChallengeSize { n, min_slots, total: total as u32 };
            }
            // Beside such large devices the smallest one is too small for a share.
            min_slots = u32::try_from(least).unwrap_or(u32::MAX).saturating_add(1);
        }
    }

    /// The policy's share of what each device holds.
    fn wanted(&self, weights: &[Weight]) -> u64 {
        let filled = |w: &Weight| w.weight * u64::from(self.policy.fill_percent) / 100;
        weights.iter().map(filled).sum::<u64>().min(u64::from(self.policy.max_matrices))
    }

    /// The largest total whose every share fits a device of the validator; no bound where its
    /// devices hold fewer than [`MIN_COUNT`] slots.
    fn replayable(&self, n: u32, weights: &[Weight]) -> u64 {
        let size = MATRIX_SIZES.iter().position(|size| *size == n);
        let room = size.and_then(|size| Some(*self.room?.get(size)?)).map_or(0, u64::from);
        if room < u64::from(MIN_COUNT) {
            return u64::MAX;
        }
        let sum: u64 = weights.iter().map(|w| w.weight).sum();
        let largest = weights.iter().map(|w| w.weight).max().unwrap_or(1);
        // A share is at most one more than the whole part of total * weight / sum.
        if largest <= room { sum } else { (room * sum - 1) / largest }
    }
}

/// Checks that what will be opened fits in one request.
///
/// # Errors
/// [`IssueError::TooManyDraws`].
pub fn check_draws(policy: &Policy, mode: Mode, challenge: &Challenge) -> Result<(), IssueError> {
    // Each pass opens a row of each leaf besides the samples.
    let (passes, of_pass) = match mode {
        Mode::Audit => (iteration_draw(policy, challenge).examined(), u64::from(policy.samples) + 2),
        Mode::Replay | Mode::ReplaySample => (1, u64::from(SAMPLES_BEFORE_REPLAY) + 2),
    };
    let devices = challenge.shares().len() as u64;
    let linked = u64::from(policy.linked.is_some());
    let sums = if policy.sweep { u64::from(SWEEP_SAMPLES) } else { 0 };
    let draws = devices * ((1 + linked) * u64::from(policy.segments) + sums + u64::from(passes) * of_pass);
    let items = devices * (1 + linked + u64::from(policy.sweep) + u64::from(passes));
    if draws > MAX_OPEN_DRAWS as u64 || items > MAX_OPEN_ITEMS as u64 {
        return Err(IssueError::TooManyDraws(draws));
    }
    Ok(())
}

/// The draw of the iterations of each device that a sampled check examines.
pub const fn iteration_draw(policy: &Policy, challenge: &Challenge) -> IterationDraw {
    IterationDraw::new(challenge.iterations(), policy.sampled_iterations)
}

/// A fresh id and nonce.
pub fn fresh(entropy: &mut dyn Entropy) -> Result<(ChallengeId, Nonce), EntropyError> {
    let mut id = [0; 16];
    id.copy_from_slice(&entropy.bytes()?[..16]);
    Ok((ChallengeId(id), Nonce(entropy.bytes()?)))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::entropy::SeededEntropy;
    use crate::history::ShownRate;
    use assay_policy::challenge::LinkedPolicy;
    use assay_protocol::message::DeviceClaim;
    use assay_work::Link;

    pub(crate) fn shown_at(per_s: f64, probe_bytes_per_s: f64) -> ShownRates {
        let rate = ShownRate { per_s, tops: 0.0, unix_seconds: 0 };
        ShownRates {
            rates: BTreeMap::from([(Precision::Int8, rate)]),
            probe_bytes_per_s,
            linked_bytes_per_s: probe_bytes_per_s / 4.0,
        }
    }

    /// Devices with these bytes of memory.
    pub(crate) fn inventory(bytes: &[u64]) -> Inventory {
        let device = |(i, bytes): (usize, &u64)| DeviceClaim {
            id: DeviceId([i as u8 + 1; 16]),
            name: format!("device {i}"),
            backend: "cpu".into(),
            detail: String::new(),
            total_bytes: *bytes,
            free_bytes: *bytes,
            slots: MATRIX_SIZES.map(|n| (bytes / (u64::from(n) * u64::from(n))) as u32),
            precisions: vec![Precision::Int8],
            claimed_hardware: None,
        };
        Inventory {
            sequence: 3,
            devices: bytes.iter().enumerate().map(device).collect(),
            max_link: Link::All,
            sweeps: true,
        }
    }

    fn issue_over(policy: &Policy, inventory: &Inventory, room: Option<&[u32]>) -> Result<IssuedChallenge, IssueError> {
        let sizing = Sizing { precision: Precision::Int8, policy, inventory, shown: &BTreeMap::new(), room };
        sizing.issue(PublicKey([1; 32]), PublicKey([2; 32]), &mut SeededEntropy::new(5))
    }

    /// Issues over devices with these counts of slots of n = 2048.
    pub(crate) fn issue_for(policy: &Policy, slots: &[u64]) -> Result<IssuedChallenge, IssueError> {
        issue_over(policy, &inventory(&slots.iter().map(|slots| slots << 22).collect::<Vec<_>>()), None)
    }

    fn counts(issued: &IssuedChallenge) -> Vec<u32> {
        issued.challenge.shares().iter().map(|s| s.count).collect()
    }

    #[test]
    fn each_device_gets_the_policys_share_of_its_memory() {
        let issued = issue_for(&Policy::default(), &[100, 50]).unwrap();
        assert_eq!((issued.challenge.n(), counts(&issued)), (2048, vec![90, 45]));
        assert_eq!((issued.offer.inventory_sequence, issued.offer.min_slots), (3, 3));
        assert!(issued.not_challenged.is_empty());
    }

    #[test]
    fn smaller_matrices_need_the_operators_word() {
        // 2 slots of 2048 are 8 of 1024.
        let issued = issue_for(&Policy::default(), &[100, 2]).unwrap();
        assert_eq!((issued.challenge.n(), counts(&issued)), (2048, vec![90]));
        let left_out = UnchallengedDevice { device_id: DeviceId([2; 16]), name: "device 1".into(), slots: 2 };
        assert_eq!(issued.not_challenged, vec![left_out]);
        let issued = issue_for(&Policy { n_min: Some(256), ..Policy::default() }, &[100, 2]).unwrap();
        // The largest size that leaves no device out.
        assert_eq!((issued.challenge.n(), counts(&issued)), (1024, vec![360, 7]));
        assert!(issued.not_challenged.is_empty());
    }

    #[test]
    fn a_host_below_the_least_n_has_too_little_memory() {
        let refused = IssueError::NotEnoughMemory { n: 2048, min_slots: 3, most: 2 };
        assert_eq!(issue_for(&Policy::default(), &[2, 1]).unwrap_err(), refused);
        // Like a miner that claims slots of n = 256 alone.
        let mut liar = inventory(&[100 << 22]);
        liar.devices[0].slots[1..].fill(0);
        let refused = IssueError::NotEnoughMemory { n: 2048, min_slots: 3, most: 0 };
        assert_eq!(issue_over(&Policy::default(), &liar, None).unwrap_err(), refused);
    }

    #[test]
    fn nothing_to_challenge_is_said() {
        let nothing = |devices, min_slots| IssueError::NothingToChallenge { min_slots, devices };
        assert_eq!(issue_for(&Policy::default(), &[]).unwrap_err(), nothing(0, 3));
        assert_eq!(issue_for(&Policy::default(), &[0, 0]).unwrap_err(), nothing(2, 3));
        let policy = Policy { min_slots: 100_000, ..Policy::default() };
        assert_eq!(issue_for(&policy, &[64]).unwrap_err(), nothing(1, 100_000));
    }

    #[test]
    fn uneven_and_tiny_devices_get_valid_shares() {
        let policy = |max_matrices| Policy { max_matrices, ..Policy::default() };
        // 90 % of 35 would be 30: the small device's part is below 3 slots.
        assert_eq!(counts(&issue_for(&policy(1 << 20), &[32, 3]).unwrap()), vec![27, 3]);
        assert_eq!(counts(&issue_for(&policy(1 << 20), &[3; 64]).unwrap()), vec![3; 64]);
        assert_eq!(counts(&issue_for(&policy(12), &[3, 3, 3]).unwrap()), vec![3, 3, 3]);
        assert_eq!(counts(&issue_for(&policy(4), &[7, 7]).unwrap()), vec![3, 3]);
        for slots in [vec![3, 1000], vec![5, 4, 900], vec![3, 3, 77, 1000], vec![64, 3]] {
            let issued = issue_for(&policy(1 << 20), &slots).unwrap();
            let held =
                counts(&issued).into_iter().zip(&slots).all(|(count, slots)| count >= 3 && u64::from(count) <= *slots);
            assert!(held, "{slots:?} gives {:?}", counts(&issued));
        }
        // A device as small as a miner likes would have the others asked for all of their memory.
        for (slots, left_out) in [(vec![3, 1000], 1), (vec![5, 4, 900], 2), (vec![3, 3, 77, 1000], 3)] {
            let issued = issue_for(&policy(30), &slots).unwrap();
            assert_eq!((counts(&issued), issued.not_challenged.len()), (vec![30], left_out), "{slots:?}");
        }
    }

    #[test]
    fn a_device_beside_which_no_total_is_valid_is_left_out() {
        let policy = Policy { n: Some(256), ..Policy::default() };
        let issued = issue_over(&policy, &inventory(&[3 << 16, 2_000_000 << 16]), None).unwrap();
        assert_eq!(counts(&issued), vec![1 << 20]);
        assert_eq!((issued.not_challenged.len(), issued.offer.min_slots), (1, 4));
    }

    #[test]
    fn a_challenge_to_replay_fits_the_validators_devices() {
        let policy = Policy { n: Some(256), ..Policy::default() };
        let inventory = inventory(&[1000 << 16, 500 << 16]);
        let share = |room: u32| {
            let room = [room; MATRIX_SIZES.len()];
            counts(&issue_over(&policy, &inventory, Some(&room)).unwrap())
        };
        assert_eq!(share(10_000), vec![900, 450]);
        for room in [100, 101, 7] {
            let counts = share(room);
            assert!(counts.iter().all(|count| (3..=room).contains(count)) && counts[0] + 1 >= room, "{counts:?}");
        }
        // Devices that hold no share at all leave the judging to segments and samples.
        assert_eq!(share(2), vec![900, 450]);
    }

    #[test]
    fn the_cap_holds_over_all_devices() {
        let policy = Policy { max_matrices: 30, ..Policy::default() };
        assert_eq!(counts(&issue_for(&policy, &[100, 50]).unwrap()), vec![20, 10]);
    }

    #[test]
    fn more_slots_than_the_specification_allows_are_never_asked_for() {
        let policy = Policy { n: Some(256), ..Policy::default() };
        let issued = issue_for(&policy, &[40_000]).unwrap();
        assert_eq!(u64::from(issued.offer.total), MAX_TOTAL);
    }

    #[test]
    fn larger_matrices_for_devices_that_showed_to_be_fast() {
        let inventory = inventory(&[100 << 26]);
        let n = |rate_per_s, policy: Policy| {
            let shown = BTreeMap::from([(DeviceId([1; 16]), shown_at(rate_per_s, 0.0))]);
            let sizing = Sizing {
                precision: Precision::Int8,
                policy: &policy,
                inventory: &inventory,
                shown: &shown,
                room: None,
            };
            sizing.issue(PublicKey([1; 32]), PublicKey([2; 32]), &mut SeededEntropy::new(5)).unwrap().challenge.n()
        };
        assert_eq!((n(199e12, Policy::default()), n(201e12, Policy::default())), (2048, 8192));
        assert_eq!(n(500e12, Policy { n: Some(1024), ..Policy::default() }), 1024);
        let mut known = Policy::default();
        known.hiding.peak_per_s = Some(900e12);
        assert_eq!(n(0.0, known), 8192);
    }

    #[test]
    fn a_commitment_has_a_bound() {
        let policy = Policy { iterations: 65_536, ..Policy::default() };
        assert!(issue_for(&policy, &[10]).is_ok());
        assert_eq!(
            issue_for(&policy, &[10, 10]).unwrap_err(),
            IssueError::TooManyRoots { devices: 2, iterations: 65_536 }
        );
    }

    #[test]
    fn what_is_opened_fits_in_one_request() {
        let challenge = issue_for(&Policy { iterations: 100, ..Policy::default() }, &[10, 10]).unwrap().challenge;
        let policy = |sampled_iterations| Policy { samples: 4096, sampled_iterations, ..Policy::default() };
        assert_eq!(check_draws(&policy(6), Mode::Audit, &challenge), Ok(()));
        let draws = 2 * (32 + 8 * 4098);
        assert_eq!(check_draws(&policy(7), Mode::Audit, &challenge), Err(IssueError::TooManyDraws(draws)));
        assert_eq!(check_draws(&policy(7), Mode::ReplaySample, &challenge), Ok(()));
        let linked = Some(LinkedPolicy { expect_gb_per_s: 1.0, min_gb_per_s: 0.0 });
        let all = Policy { linked, sweep: true, ..policy(7) };
        let draws = IssueError::TooManyDraws(2 * (32 + 32 + u64::from(SWEEP_SAMPLES) + 8 * 4098));
        assert_eq!(check_draws(&all, Mode::Audit, &challenge), Err(draws), "with a linked probe and a sweep");
    }

    #[test]
    fn nothing_is_used_twice() {
        let mut entropy = SeededEntropy::new(5);
        let (a, b) = (fresh(&mut entropy).unwrap(), fresh(&mut entropy).unwrap());
        assert!(a.0 != b.0 && a.1 != b.1);
    }
}
