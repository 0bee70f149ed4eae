//! Sizing a challenge from a host's inventory and the policy, and drawing what makes it fresh.

use std::sync::Arc;

use assay_protocol::message::{Inventory, MATRIX_SIZES, Offer, PlanError};
use assay_protocol::verdict::Mode;
use assay_protocol::wire::limits::{MAX_OPEN_DRAWS, MAX_OPEN_ITEMS};
use assay_work::challenge::{MAX_TOTAL, MIN_COUNT, MIN_N, WORK_VERSION};
use assay_work::probe::{LINE_BYTES, MAX_ROUNDS, MIN_WALKS, Probe, ProbeError, UncheckedProbe};
use assay_work::{Challenge, ChallengeId, Nonce, Precision, ProbeSeed, PublicKey};

use crate::entropy::{Entropy, EntropyError};
use crate::policy::Policy;

/// The most roots of a challenge, over all devices: at 32 bytes each, 2 MiB of commitment.
pub const MAX_ROOTS: u64 = 65_536;

/// A challenge that was made for a host.
#[derive(Debug, Clone)]
pub struct Issued {
    /// What is sent.
    pub offer: Offer,
    /// What it means for this host.
    pub challenge: Arc<Challenge>,
}

/// Why no challenge was made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IssueError {
    /// The devices are too small, or there is none.
    #[error(
        "of the devices' free memory, what fill_percent and max_matrices leave is too little: \
         {MIN_COUNT} slots of n = {MIN_N} on every device are the least"
    )]
    TooSmall,
    /// The commitment would be too large.
    #[error("{devices} devices and {iterations} iterations give more than {MAX_ROOTS} roots: ask for fewer iterations")]
    TooManyRoots {
        /// Devices of the host.
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
    /// No random bytes.
    #[error(transparent)]
    Entropy(#[from] EntropyError),
}

/// Makes a challenge for a host: the policy's n, or the largest below it of which every device holds enough.
///
/// # Errors
/// [`IssueError`].
pub fn issue(
    policy: &Policy,
    inventory: &Inventory,
    validator_key: PublicKey,
    miner_key: PublicKey,
    entropy: &mut dyn Entropy,
) -> Result<Issued, IssueError> {
    let devices = inventory.devices.len();
    if devices as u64 * u64::from(policy.iterations) > MAX_ROOTS {
        return Err(IssueError::TooManyRoots { devices, iterations: policy.iterations });
    }
    let (challenge_id, nonce) = fresh(entropy)?;
    for n in MATRIX_SIZES.into_iter().rev().filter(|n| *n <= policy.n) {
        let Some(total) = total_slots(policy, inventory, n) else { continue };
        let offer = Offer {
            version: WORK_VERSION,
            challenge_id,
            nonce,
            precision: Precision::Int8.code(),
            n,
            iterations: policy.iterations,
            total,
            inventory_sequence: inventory.sequence,
            deadline: policy.commit_deadline,
        };
        match offer.plan(inventory, validator_key, miner_key) {
            // Every device of the inventory takes part, or the matrices are made smaller.
            Ok(challenge) if challenge.shares().len() == devices => {
                return Ok(Issued { offer, challenge: Arc::new(challenge) });
            }
            Ok(_) => {}
            Err(error) if n == MIN_N && !is_too_small(&error) => return Err(error.into()),
            Err(_) => {}
        }
    }
    Err(IssueError::TooSmall)
}

/// Checks that what will be opened fits in one request.
///
/// # Errors
/// [`IssueError::TooManyDraws`].
pub fn check_draws(policy: &Policy, mode: Mode, challenge: &Challenge) -> Result<(), IssueError> {
    // An audit opens a row of each leaf besides the samples.
    let of_pass = if mode == Mode::Audit { u64::from(policy.samples) + 2 } else { 0 };
    let passes = u64::from(policy.sampled_iterations.min(challenge.iterations()));
    let devices = challenge.shares().len() as u64;
    let draws = devices * (u64::from(policy.segments) + passes * of_pass);
    if draws > MAX_OPEN_DRAWS as u64 || devices * (1 + passes) > MAX_OPEN_ITEMS as u64 {
        return Err(IssueError::TooManyDraws(draws));
    }
    Ok(())
}

fn is_too_small(error: &PlanError) -> bool {
    use assay_work::ChallengeError::{NoShares, ShareCount};
    matches!(error, PlanError::Split(_) | PlanError::Challenge(NoShares | ShareCount { .. }))
}

/// A fresh id and nonce.
///
/// # Errors
/// [`EntropyError`].
pub fn fresh(entropy: &mut dyn Entropy) -> Result<(ChallengeId, Nonce), EntropyError> {
    let mut id = [0; 16];
    id.copy_from_slice(&entropy.bytes()?[..16]);
    Ok((ChallengeId(id), Nonce(entropy.bytes()?)))
}

/// The slots of a challenge over n-by-n matrices: the policy's share of what each device holds.
fn total_slots(policy: &Policy, inventory: &Inventory, n: u32) -> Option<u32> {
    let filled = |slots: u64| slots * u64::from(policy.fill_percent) / 100;
    let total: u64 = inventory.weights(n).iter().map(|w| filled(w.weight)).sum();
    let cap = u64::from(policy.max_matrices).min(MAX_TOTAL);
    u32::try_from(total.min(cap)).ok().filter(|total| *total >= MIN_COUNT)
}

/// Makes the probe of a challenge: the policy's walks, at most an eighth of the smallest share, and as
/// many rounds as the expected bandwidth takes the target time for.
///
/// # Errors
/// [`IssueError`].
pub fn issue_probe(policy: &Policy, challenge: &Challenge, entropy: &mut dyn Entropy) -> Result<Probe, IssueError> {
    let smallest = challenge.shares().iter().map(|s| u64::from(s.count)).min().unwrap_or(0) * challenge.slot_bytes();
    let most_walks = (smallest / 8 / LINE_BYTES as u64).max(1);
    // The largest power of two not above; a share has at least 3 · 256² bytes, so it is 64 or more.
    let walks = policy.probe.walks.min(1 << most_walks.ilog2().min(22)).max(MIN_WALKS);
    let round_bytes = f64::from(walks) * f64::from(policy.probe.steps) * LINE_BYTES as f64;
    let rounds = policy.probe.expect_gb_per_s * 1e9 * policy.probe.target.as_secs_f64() / round_bytes;
    Ok(Probe::try_from(UncheckedProbe {
        seed: ProbeSeed(entropy.bytes()?),
        walks,
        steps: policy.probe.steps,
        // Clamped into the range of a round count.
        rounds: rounds.round().clamp(1.0, f64::from(MAX_ROUNDS)) as u32,
    })?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entropy::SeededEntropy;
    use crate::policy::ProbePolicy;
    use assay_protocol::message::DeviceClaim;
    use assay_work::DeviceId;

    /// Devices that hold so many slots of n = 2048, and what that is at other sizes.
    fn inventory(slots_of_2048: &[u32]) -> Inventory {
        let device = |(i, slots): (usize, &u32)| {
            let bytes = u64::from(*slots) << 22;
            DeviceClaim {
                id: DeviceId([i as u8 + 1; 16]),
                name: format!("device {i}"),
                backend: "cpu".into(),
                detail: String::new(),
                total_bytes: bytes,
                free_bytes: bytes,
                slots: MATRIX_SIZES.map(|n| (bytes / (u64::from(n) * u64::from(n))) as u32),
                claimed_hardware: None,
            }
        };
        Inventory { sequence: 3, devices: slots_of_2048.iter().enumerate().map(device).collect() }
    }

    fn issue_for(policy: &Policy, slots: &[u32]) -> Result<Issued, IssueError> {
        issue(policy, &inventory(slots), PublicKey([1; 32]), PublicKey([2; 32]), &mut SeededEntropy::new(5))
    }

    #[test]
    fn each_device_gets_the_policys_share_of_its_memory() {
        let issued = issue_for(&Policy::default(), &[100, 50]).unwrap();
        let counts: Vec<_> = issued.challenge.shares().iter().map(|s| s.count).collect();
        assert_eq!((issued.challenge.n(), counts), (2048, vec![90, 45]));
        assert_eq!(issued.offer.inventory_sequence, 3);
    }

    #[test]
    fn smaller_matrices_make_room_for_every_device() {
        // 2 slots of 2048 are 8 of 1024: 7 at 90 %.
        let issued = issue_for(&Policy::default(), &[100, 2]).unwrap();
        assert_eq!(issued.challenge.n(), 1024);
        assert_eq!(issued.challenge.shares().len(), 2);
    }

    #[test]
    fn too_little_memory_is_said() {
        assert_eq!(issue_for(&Policy::default(), &[]).unwrap_err(), IssueError::TooSmall);
        assert_eq!(issue_for(&Policy::default(), &[100, 0]).unwrap_err(), IssueError::TooSmall);
    }

    #[test]
    fn the_cap_holds_over_all_devices() {
        let policy = Policy { max_matrices: 30, ..Policy::default() };
        let issued = issue_for(&policy, &[100, 50]).unwrap();
        let counts: Vec<_> = issued.challenge.shares().iter().map(|s| s.count).collect();
        assert_eq!(counts, vec![20, 10]);
    }

    #[test]
    fn more_slots_than_the_specification_allows_are_never_asked_for() {
        let policy = Policy { n: 256, ..Policy::default() };
        let issued = issue_for(&policy, &[40_000]).unwrap();
        assert_eq!(u64::from(issued.offer.total), MAX_TOTAL);
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
        assert_eq!(check_draws(&policy(7), Mode::Audit, &challenge), Ok(()));
        let draws = 2 * (32 + 8 * 4098);
        assert_eq!(check_draws(&policy(8), Mode::Audit, &challenge), Err(IssueError::TooManyDraws(draws)));
        assert_eq!(check_draws(&policy(8), Mode::ReplaySample, &challenge), Ok(()));
    }

    #[test]
    fn nothing_is_used_twice() {
        let mut entropy = SeededEntropy::new(5);
        let (a, b) = (fresh(&mut entropy).unwrap(), fresh(&mut entropy).unwrap());
        assert!(a.0 != b.0 && a.1 != b.1);
    }

    #[test]
    fn a_probe_takes_about_the_target_at_the_expected_bandwidth() {
        let issued = issue_for(&Policy::default(), &[100, 50]).unwrap();
        let probe = issue_probe(&Policy::default(), &issued.challenge, &mut SeededEntropy::new(6)).unwrap();
        // 45 slots of 4 MiB: an eighth holds 2^18 walks and more.
        assert_eq!((probe.walks(), probe.steps(), probe.rounds()), (1 << 18, 64, 1));
        let fast =
            Policy { probe: ProbePolicy { expect_gb_per_s: 2000.0, ..Policy::default().probe }, ..Policy::default() };
        let probe = issue_probe(&fast, &issued.challenge, &mut SeededEntropy::new(6)).unwrap();
        assert_eq!(probe.rounds(), 466);
    }

    #[test]
    fn walks_take_at_most_an_eighth_of_the_smallest_share() {
        let issued = issue_for(&Policy { n: 256, max_matrices: 6, ..Policy::default() }, &[10, 10]).unwrap();
        let probe = issue_probe(&Policy::default(), &issued.challenge, &mut SeededEntropy::new(6)).unwrap();
        assert!(u64::from(probe.walks()) * 64 * 8 <= 3 * 256 * 256, "{}", probe.walks());
        assert_eq!(probe.walks(), 256);
    }
}
