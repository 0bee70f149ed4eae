//! How much is kept, and for how long.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, SystemTime};

use crate::error::EvidenceError;
use crate::store::{EvidenceStore, ObjectEntry};
use assay_work::Digest;

/// No object younger than this is removed: the record that names it may be on its way to the disk.
pub const YOUNG: Duration = Duration::from_secs(3600);
/// Beyond one part in this count of the limit, a miner's evidence is removed before that of others.
const MINER_PART: u64 = 8;

/// Limits of all objects together. `None`: no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StoreLimits {
    /// Objects older than this are removed.
    pub max_age: Option<Duration>,
    /// While there are more bytes than this, an object is removed.
    pub max_bytes: Option<u64>,
}

/// Evidence as the records name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedEvidence {
    pub digest: Digest,
    /// Its bytes, compressed.
    pub bytes: u64,
    pub miner: String,
    /// No device of the miner ever passed.
    pub is_stranger: bool,
}

/// The result of a sweep.
#[derive(Debug, Default)]
pub struct SweepReport {
    /// The objects removed, in this order.
    pub removed: Vec<Digest>,
    /// Bytes of the removed objects.
    pub removed_bytes: u64,
    /// Objects that stay.
    pub kept: usize,
    /// Bytes of the kept objects.
    pub kept_bytes: u64,
    /// Bytes above the limit of size that stay: the objects are needed, or young.
    pub bytes_over: u64,
    /// Why an object could not be removed, which ended the sweep: the next one goes on.
    pub failure: Option<EvidenceError>,
}

impl EvidenceStore {
    /// Removes the strangers' oldest evidence beyond three quarters of their share, which leaves room for more; then
    /// objects that are too old, then those beyond the limit of size: those of miners beyond their share first, then the
    /// oldest. Keeps all others that `is_needed`, and all others younger than [`YOUNG`]. `named` is the evidence of all
    /// validators, newest first: any that is not here counts for nothing.
    ///
    /// # Errors
    /// [`EvidenceError`], when the objects cannot be listed.
    pub async fn sweep(
        &self,
        limits: &StoreLimits,
        named: &[NamedEvidence],
        is_needed: &(dyn Fn(&Digest) -> bool + Sync),
        now: SystemTime,
    ) -> Result<SweepReport, EvidenceError> {
        // Before the list: an upload between the two is in both.
        let waiting: HashSet<Digest> = self.waiting()?.into_iter().map(|(digest, _)| digest).collect();
        let mut objects = self.list().await?;
        let listed: HashSet<Digest> = objects.iter().map(|object| object.digest).collect();
        let named = named.iter().filter(|named| listed.contains(&named.digest) || waiting.contains(&named.digest));
        let (excess, mut spare, mut of_strangers) = self.over_shares(named, limits);
        spare.retain(|digest, _| listed.contains(digest));
        let mut swept = SweepReport {
            kept: objects.len(),
            kept_bytes: objects.iter().map(|h| h.bytes).sum(),
            ..SweepReport::default()
        };
        let age = |held: &ObjectEntry| now.duration_since(held.modified).unwrap_or_default();
        let is_old = |held: &ObjectEntry| limits.max_age.is_some_and(|most| age(held) > most);
        let is_spare = |held: &ObjectEntry| spare.contains_key(&held.digest);
        objects.sort_by_key(|held| {
            (!is_spare(held), !is_old(held), !excess.contains(&held.digest), held.modified, held.digest)
        });
        for held in &objects {
            let is_too_much = limits.max_bytes.is_some_and(|most| swept.kept_bytes > most);
            let is_over = (is_old(held) || is_too_much) && age(held) >= YOUNG && !is_needed(&held.digest);
            if is_spare(held) || is_over {
                if let Err(error) = self.remove(&held.digest).await {
                    swept.failure = Some(error);
                    break;
                }
                swept.removed.push(held.digest);
                swept.removed_bytes += held.bytes;
                of_strangers -= spare.get(&held.digest).copied().unwrap_or(0);
                swept.kept -= 1;
                swept.kept_bytes -= held.bytes;
            }
        }
        self.room.counted(swept.kept_bytes);
        self.room.counted_of_strangers(of_strangers);
        swept.bytes_over = limits.max_bytes.map_or(0, |most| swept.kept_bytes.saturating_sub(most));
        Ok(swept)
    }

    /// Evidence beyond the shares of its miner, and of all strangers with its bytes; and the bytes of all strangers.
    fn over_shares<'a>(
        &self,
        named: impl Iterator<Item = &'a NamedEvidence>,
        limits: &StoreLimits,
    ) -> (HashSet<Digest>, HashMap<Digest, u64>, u64) {
        let of_one = limits.max_bytes.map_or(u64::MAX, |most| most / MINER_PART);
        let most = self.room.max_stranger_bytes() / 4 * 3;
        let (mut of_miners, mut of_strangers) = (HashMap::<_, u64>::new(), 0);
        let (mut excess, mut spare) = (HashSet::new(), HashMap::new());
        for NamedEvidence { digest, bytes, miner, is_stranger } in named {
            let of_miner = of_miners.entry(miner).or_default();
            *of_miner += bytes;
            if *of_miner > of_one {
                excess.insert(*digest);
            }
            of_strangers += if *is_stranger { *bytes } else { 0 };
            if *is_stranger && of_strangers > most {
                spare.insert(*digest, *bytes);
            }
        }
        (excess, spare, of_strangers)
    }
}
