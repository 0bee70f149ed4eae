//! Objects that a bucket did not take. Each steps behind the others, and aside where the bucket goes on taking these: it
//! is the object's own doing then.

use std::collections::{BTreeMap, BTreeSet};

use assay_work::Digest;
use parking_lot::{Mutex, MutexGuard};

/// How often an object is refused while others are taken, before it is not offered any more.
const MAX_REFUSALS: u32 = 5;

/// What was refused since the start, of what waits.
#[derive(Debug, Default)]
pub(crate) struct Refusals(Mutex<RefusalCounts>);

#[derive(Debug, Default)]
struct RefusalCounts {
    /// Objects that were taken.
    taken: u64,
    refused: BTreeMap<Digest, DigestRefusals>,
}

#[derive(Debug, Default)]
struct DigestRefusals {
    /// How often.
    times: u32,
    /// How often while others were taken since the time before.
    alone: u32,
    /// [`RefusalCounts::taken`] at the last time.
    taken: u64,
}

impl Refusals {
    /// Puts what was refused least often first, and leaves out what stepped aside.
    pub(crate) fn sort(&self, waiting: &mut Vec<(Digest, u64)>) {
        let refused = &mut self.counts().refused;
        let waits: BTreeSet<Digest> = waiting.iter().map(|(digest, _)| *digest).collect();
        refused.retain(|digest, _| waits.contains(digest));
        waiting.retain(|(digest, _)| refused.get(digest).is_none_or(|refused| refused.alone < MAX_REFUSALS));
        waiting.sort_by_key(|(digest, _)| refused.get(digest).map_or(0, |refused| refused.times));
    }

    pub(crate) fn taken(&self) {
        self.counts().taken += 1;
    }

    /// Notes that an object was refused. Whether it steps aside now.
    pub(crate) fn refused(&self, digest: Digest) -> bool {
        let RefusalCounts { taken, refused } = &mut *self.counts();
        let refused = refused.entry(digest).or_default();
        refused.times += 1;
        refused.alone += u32::from(*taken > refused.taken);
        refused.taken = *taken;
        refused.alone == MAX_REFUSALS
    }

    fn counts(&self) -> MutexGuard<'_, RefusalCounts> {
        self.0.lock()
    }
}
