//! What the tests of the work share: the vectors, and passes worked out once.

#![allow(dead_code, reason = "each test file uses its part")]

pub mod suite;
pub mod vectors;

use std::path::PathBuf;

use assay_device::reference::ReferenceDevice;
use assay_device::{Device, Handle, Pass};
use assay_work::keys::pass_key;
use assay_work::{
    Challenge, ChallengeId, DeviceId, Digest, Nonce, Probe, ProbeSeed, PublicKey, Root, Share, UncheckedChallenge,
    UncheckedProbe, from_json, reference,
};
use serde::de::DeserializeOwned;

/// A file of `integration-tests/vectors`, as text.
pub fn vector_text(name: &str) -> String {
    let path: PathBuf =
        [env!("CARGO_MANIFEST_DIR"), "..", "integration-tests", "vectors", &format!("{name}.json")].iter().collect();
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// A file of the vectors, read as the test declares it; what the test does not declare must not be there.
pub fn vector<T: DeserializeOwned>(name: &str) -> T {
    serde_json::from_str(&vector_text(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// A file of the vectors that is one object of the interchange form.
pub fn vector_object<T: DeserializeOwned>(name: &str) -> T {
    from_json(&vector_text(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

pub fn checked(challenge: &UncheckedChallenge) -> Challenge {
    Challenge::try_from(challenge.clone()).unwrap()
}

/// A challenge for two devices, of which the second has `count` slots.
pub fn challenge(n: u32, iterations: u32, count: u32) -> Challenge {
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
        precision: 1,
        n,
        iterations,
        shares,
    };
    Challenge::try_from(unchecked).unwrap()
}

pub fn probe(walks: u32, steps: u32, rounds: u32) -> Probe {
    Probe::try_from(UncheckedProbe { seed: ProbeSeed([5; 32]), walks, steps, rounds }).unwrap()
}

/// The second device of [`challenge`] and everything it holds after its last iteration.
pub struct Worked {
    pub challenge: Challenge,
    pub share: Share,
    pub roots: Vec<Root>,
    pub slots: Vec<Vec<u8>>,
    pub digests: Vec<Digest>,
}

impl Worked {
    pub fn new(n: u32, iterations: u32, count: u32) -> Self {
        let challenge = challenge(n, iterations, count);
        let share = challenge.shares()[1];
        let (roots, slots) = reference::share(&challenge, &share);
        let digests = reference::digests(&slots);
        Self { challenge, share, roots, slots, digests }
    }

    pub fn last_iteration(&self) -> u32 {
        self.challenge.iterations() - 1
    }

    pub fn previous_root(&self) -> Root {
        previous_root(&self.roots, self.last_iteration())
    }

    pub fn last_root(&self) -> Root {
        self.roots[self.last_iteration() as usize]
    }

    /// A device on which the last pass is resident.
    pub fn device(&self) -> ReferenceDevice {
        let (n, count) = (self.challenge.n(), self.share.count);
        let id = self.share.device_id;
        let mut device = ReferenceDevice::new(id, "under test", u64::from(count) * self.challenge.slot_bytes());
        let key = pass_key(self.challenge.work_key(), id, self.last_iteration(), &self.previous_root());
        let pass = Pass { key, n, offset: self.share.offset, count };
        assert_eq!(device.fill(&pass, &Handle::default()).unwrap(), self.digests);
        device
    }
}

pub fn previous_root(roots: &[Root], iteration: u32) -> Root {
    if iteration == 0 { Root::BEFORE_FIRST } else { roots[iteration as usize - 1] }
}
