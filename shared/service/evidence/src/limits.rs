//! How much is kept, and for how long.

use std::collections::HashSet;
use std::time::{Duration, SystemTime};

use crate::digest::Digest;
use crate::error::EvidenceError;
use crate::store::{EvidenceStore, ObjectEntry};

/// No object younger than this is removed: the record that names it may be on its way to the disk.
pub const YOUNG: Duration = Duration::from_secs(3600);

/// Limits of all objects together. `None`: no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StoreLimits {
    /// Objects older than this are removed.
    pub max_age: Option<Duration>,
    /// While there are more bytes than this, an object is removed.
    pub max_bytes: Option<u64>,
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
    /// Removes objects that are too old, then those beyond the limit of size, the `excess` ones first, then the oldest;
    /// keeps all that `is_needed`, and all younger than [`YOUNG`].
    pub async fn sweep(
        &self,
        mut objects: Vec<ObjectEntry>,
        limits: &StoreLimits,
        is_needed: &(dyn Fn(&Digest) -> bool + Sync),
        excess: &HashSet<Digest>,
        now: SystemTime,
    ) -> SweepReport {
        let mut swept = SweepReport {
            kept: objects.len(),
            kept_bytes: objects.iter().map(|h| h.bytes).sum(),
            ..SweepReport::default()
        };
        let age = |held: &ObjectEntry| now.duration_since(held.modified).unwrap_or_default();
        let is_old = |held: &ObjectEntry| limits.max_age.is_some_and(|most| age(held) > most);
        objects.sort_by_key(|held| (!is_old(held), !excess.contains(&held.digest), held.modified, held.digest));
        for held in &objects {
            let is_too_much = limits.max_bytes.is_some_and(|most| swept.kept_bytes > most);
            if (is_old(held) || is_too_much) && age(held) >= YOUNG && !is_needed(&held.digest) {
                if let Err(error) = self.remove(&held.digest).await {
                    swept.failure = Some(error);
                    break;
                }
                swept.removed.push(held.digest);
                swept.removed_bytes += held.bytes;
                swept.kept -= 1;
                swept.kept_bytes -= held.bytes;
            }
        }
        self.room.counted(swept.kept_bytes);
        swept.bytes_over = limits.max_bytes.map_or(0, |most| swept.kept_bytes.saturating_sub(most));
        swept
    }
}
