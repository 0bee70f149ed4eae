//! Small challenges, and a device's content after one, worked out by the reference.

use crate::naive;
use assay_device::{Device, Handle, Pass};
use assay_work::keys::pass_key;
use assay_work::{
    Challenge, ChallengeId, DeviceId, Digest, Nonce, Precision, Probe, ProbeSeed, PublicKey, Root, Share,
    UncheckedChallenge, UncheckedProbe,
};

use crate::reference::ReferenceDevice;

/// A challenge for two devices, of which the second has `count` slots.
///
/// # Panics
/// When WORK.md does not allow it.
pub fn challenge(n: u32, iterations: u32, count: u32) -> Challenge {
    challenge_of(Precision::Int8, n, iterations, count)
}

/// As [`challenge`], of a kind of work.
///
/// # Panics
/// When WORK.md does not allow it.
pub fn challenge_of(precision: Precision, n: u32, iterations: u32, count: u32) -> Challenge {
    let shares = vec![
        Share { device_id: DeviceId([0x10; 16]), offset: 0, count: 3 },
        Share { device_id: DeviceId([0x20; 16]), offset: 3, count },
    ];
    let unchecked = UncheckedChallenge {
        version: 1,
        challenge_id: ChallengeId([n.to_be_bytes()[2]; 16]),
        nonce: Nonce([7; 32]),
        validator_key: PublicKey([8; 32]),
        miner_key: PublicKey([9; 32]),
        precision: precision.code(),
        n,
        iterations,
        shares,
    };
    Challenge::try_from(unchecked).expect("a challenge that WORK.md allows")
}

/// A probe with these parameters.
///
/// # Panics
/// When WORK.md does not allow them.
pub fn probe(walks: u32, steps: u32, rounds: u32) -> Probe {
    Probe::try_from(UncheckedProbe { seed: ProbeSeed([5; 32]), walks, steps, rounds, link: 0 })
        .expect("a probe that WORK.md allows")
}

/// The second device of [`challenge()`] and everything it holds after its last iteration.
#[derive(Debug)]
pub struct WorkedExample {
    pub challenge: Challenge,
    pub share: Share,
    pub roots: Vec<Root>,
    pub slots: Vec<Vec<u8>>,
    pub digests: Vec<Digest>,
}

impl WorkedExample {
    pub fn new(n: u32, iterations: u32, count: u32) -> Self {
        Self::of(Precision::Int8, n, iterations, count)
    }

    /// Works it out for a kind of work.
    pub fn of(precision: Precision, n: u32, iterations: u32, count: u32) -> Self {
        let challenge = challenge_of(precision, n, iterations, count);
        let share = challenge.shares()[1];
        let (roots, slots) = naive::share(&challenge, &share);
        let digests = naive::digests(&slots);
        Self { challenge, share, roots, slots, digests }
    }

    /// The number of the last iteration.
    pub fn last_iteration(&self) -> u32 {
        self.challenge.iterations() - 1
    }

    /// The root before an iteration's, of all that a device committed to.
    pub fn previous_root(&self) -> Root {
        previous_root(&self.roots, self.last_iteration())
    }

    /// The root of the last iteration.
    pub fn last_root(&self) -> Root {
        self.roots[self.last_iteration() as usize]
    }

    /// A device on which the last pass is resident.
    ///
    /// # Panics
    /// When the reference contradicts itself.
    pub fn device(&self) -> ReferenceDevice {
        let (n, count) = (self.challenge.n(), self.share.count);
        let id = self.share.device_id;
        let mut device = ReferenceDevice::new(id, "under test", u64::from(count) * self.challenge.slot_bytes());
        let key = pass_key(self.challenge.work_key(), id, self.last_iteration(), &self.previous_root());
        let pass = Pass { precision: self.challenge.precision(), key, n, offset: self.share.offset, count };
        assert_eq!(device.fill(&pass, &Handle::default()).as_ref(), Ok(&self.digests));
        device
    }
}

/// The root before an iteration's, of all that a device committed to.
pub fn previous_root(roots: &[Root], iteration: u32) -> Root {
    if iteration == 0 { Root::BEFORE_FIRST } else { roots[iteration as usize - 1] }
}
