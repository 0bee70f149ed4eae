//! The linked probe (WORK.md, Linked probe): the slots of all devices as one memory, and the keys that bind every device
//! to all the others.

use super::super::bytes::{DeviceId, Digest, ProbeKey, Root, RoundKey, WorkKey};
use super::super::challenge::{Challenge, Share};
use super::walk::{WalkState, position};
use super::{Probe, key_of_probe, key_of_round};

/// The slots of all devices as one memory, in the order of the shares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkedSlots {
    n: u32,
    shares: Vec<Share>,
    total: u32,
}

/// Where a slot of the whole challenge is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkedPlace {
    /// Which share's device holds it, in the order of the shares.
    pub share: usize,
    /// Its number on that device.
    pub slot: u32,
}

impl LinkedSlots {
    /// The slots of a challenge.
    pub fn new(challenge: &Challenge) -> Self {
        let shares = challenge.shares().to_vec();
        // A checked challenge has at most 2^20 slots, each share's offset the end of the one before.
        let total = shares.last().map_or(0, |last| last.offset + last.count);
        Self { n: challenge.n(), shares, total }
    }

    /// Slots of all devices together.
    pub const fn total(&self) -> u32 {
        self.total
    }

    /// The shares, each of which begins where the one before ends.
    pub fn shares(&self) -> &[Share] {
        &self.shares
    }

    /// The line that a walk in this state reads next: the slot's place `a` in the whole challenge, and the line in it.
    pub fn position(&self, state: &WalkState) -> (u32, u32) {
        position(state, self.total, self.n)
    }

    /// The device that holds the slot at place `a`, and the slot's number there.
    ///
    /// # Panics
    /// When `a` is not below [`LinkedSlots::total`].
    pub fn place(&self, a: u32) -> LinkedPlace {
        assert!(a < self.total, "place {a} of {} slots", self.total);
        // The first share begins at 0, so that at least one begins at or before `a`.
        let share = self.shares.partition_point(|share| share.offset <= a) - 1;
        LinkedPlace { share, slot: a - self.shares[share].offset }
    }
}

/// The key of one device's linked probe; `last_roots` are `root[iterations-1]` of every device, in the order of the
/// shares.
pub fn linked_probe_key(probe: &Probe, work_key: &WorkKey, device_id: DeviceId, last_roots: &[Root]) -> ProbeKey {
    key_of_probe("assay v1 linked probe key", probe, work_key, device_id, last_roots)
}

/// The binding of a round of all devices: the hash of `probe_digest[r]` of every device, in the order of the shares.
pub fn link_digest<'a>(digests_of_round: impl IntoIterator<Item = &'a Digest>) -> Digest {
    let mut hasher = blake3::Hasher::new();
    for digest in digests_of_round {
        hasher.update(digest.as_ref());
    }
    Digest(*hasher.finalize().as_bytes())
}

/// The key of round `round` of one device, after a round of all devices whose [`link_digest`] was `before`
/// ([`Digest::BEFORE_FIRST`] for the first).
pub fn linked_round_key(probe_key: &ProbeKey, round: u32, before: &Digest) -> RoundKey {
    key_of_round("assay v1 linked probe round", probe_key, round, before)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(counts: &[u32]) -> LinkedSlots {
        let mut offset = 0;
        let share = |(index, &count): (usize, &u32)| {
            let share = Share { device_id: DeviceId([index as u8; 16]), offset, count };
            offset += count;
            share
        };
        let shares: Vec<_> = counts.iter().enumerate().map(share).collect();
        LinkedSlots { n: 256, shares, total: offset }
    }

    #[test]
    fn every_place_is_on_the_device_that_its_share_names() {
        for counts in [&[3, 3][..], &[17, 3, 7], &[5], &[3, 1 << 19, 4]] {
            let slots = slots(counts);
            let edges = slots.shares().iter().flat_map(|s| [s.offset, s.offset + 1, s.offset + s.count - 1]);
            for a in edges.collect::<Vec<_>>() {
                let LinkedPlace { share, slot } = slots.place(a);
                assert_eq!(slots.shares()[share].offset + slot, a);
                assert!(slot < counts[share], "{a} of {counts:?}");
            }
        }
    }

    #[test]
    #[should_panic(expected = "place 6 of 6 slots")]
    fn no_place_is_behind_the_last_slot() {
        let _ = slots(&[3, 3]).place(6);
    }
}
