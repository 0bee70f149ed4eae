//! Room for evidence: the limit of size as it is written, the strangers' part of it, and the reserve on the disk for
//! the files beside it.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

use crate::error::{EvidenceError, StorageShortage};

/// Bytes of a file system that evidence leaves free, for the records of verdicts: a hundred thousand of them.
const RESERVE_BYTES: u64 = 1 << 30;
/// The reserve of a small file system is one part in this count.
const RESERVE_PART: u64 = 10;
/// Strangers, which are miners that never passed, have one part in this count of the limit of size: keys cost nothing.
const STRANGER_PART: u64 = 8;
/// The strangers' bytes where the store has no limit.
const STRANGER_BYTES: u64 = 16 << 30;

/// The size of the evidence, and its limits.
#[derive(Debug)]
pub(crate) struct Room {
    /// The limit of size.
    max_bytes: AtomicU64,
    /// Bytes of all evidence: those of the last sweep, and those added since.
    bytes: AtomicU64,
    /// The same of strangers.
    stranger_bytes: AtomicU64,
    /// Count of refusals for lack of room.
    refused: AtomicU64,
    /// How often evidence could not be written.
    pub(crate) lost: AtomicU64,
    /// An object was refused for lack of room: a sweep may help.
    pub(crate) pressed: Notify,
}

impl Default for Room {
    fn default() -> Self {
        let none = || AtomicU64::new(0);
        let (max_bytes, pressed) = (AtomicU64::new(u64::MAX), Notify::new());
        Self { max_bytes, bytes: none(), stranger_bytes: none(), refused: none(), lost: none(), pressed }
    }
}

impl Room {
    pub(crate) fn limit(&self, max_bytes: Option<u64>) {
        self.max_bytes.store(max_bytes.unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Takes room for an object.
    pub(crate) fn take(&self, bytes: u64, is_stranger: bool) -> Result<(), EvidenceError> {
        if self.bytes.load(Ordering::Relaxed).saturating_add(bytes) > self.max_bytes.load(Ordering::Relaxed) {
            return Err(self.refuse(StorageShortage::Limit));
        }
        if is_stranger {
            if self.stranger_bytes.load(Ordering::Relaxed).saturating_add(bytes) > self.max_stranger_bytes() {
                return Err(self.refuse(StorageShortage::Strangers));
            }
            self.stranger_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Whether a folder's file system has room for more evidence beside its reserve.
    pub(crate) fn check_reserve(&self, folder: &Path) -> Result<(), EvidenceError> {
        let (free, total) = space(folder).map_err(EvidenceError::file(folder))?;
        if leaves_reserve(free, total) { Ok(()) } else { Err(self.refuse(StorageShortage::Reserve)) }
    }

    pub(crate) fn max_stranger_bytes(&self) -> u64 {
        match self.max_bytes.load(Ordering::Relaxed) {
            u64::MAX => STRANGER_BYTES,
            most => most / STRANGER_PART,
        }
    }

    /// Takes over the bytes that a sweep counted.
    pub(crate) fn counted(&self, bytes: u64) {
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    /// Takes over the bytes of strangers that a sweep counted.
    pub(crate) fn counted_of_strangers(&self, bytes: u64) {
        self.stranger_bytes.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    fn refuse(&self, why: StorageShortage) -> EvidenceError {
        self.refused.fetch_add(1, Ordering::Relaxed);
        self.pressed.notify_one();
        EvidenceError::NoRoom(why)
    }
}

const fn leaves_reserve(free: u64, total: u64) -> bool {
    let part = total / RESERVE_PART;
    free >= if part < RESERVE_BYTES { part } else { RESERVE_BYTES }
}

/// Bytes of a file system that are free for us, and all of them.
#[cfg(unix)]
fn space(folder: &Path) -> io::Result<(u64, u64)> {
    let found = rustix::fs::statvfs(folder)?;
    Ok((found.f_bavail.saturating_mul(found.f_frsize), found.f_blocks.saturating_mul(found.f_frsize)))
}

#[cfg(not(unix))]
fn space(_: &Path) -> io::Result<(u64, u64)> {
    Ok((u64::MAX, u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_holds_as_it_is_written_and_strangers_have_a_part_of_it() {
        let room = Room::default();
        room.limit(Some(800));
        let take = |bytes, is_stranger| match room.take(bytes, is_stranger) {
            Ok(()) => None,
            Err(EvidenceError::NoRoom(why)) => Some(why),
            Err(error) => panic!("{error}"),
        };
        assert_eq!(take(100, true), None);
        assert_eq!(take(1, true), Some(StorageShortage::Strangers));
        assert_eq!(take(700, false), None, "what strangers did leaves room for others");
        assert_eq!(take(1, false), Some(StorageShortage::Limit));
        assert_eq!(room.refused(), 2);
        room.counted(300);
        assert_eq!(take(500, false), None, "a sweep made room");
    }

    #[test]
    fn a_reserve_of_the_disk_is_left() {
        let gib = 1 << 30;
        assert!(leaves_reserve(gib, 1000 * gib) && !leaves_reserve(gib - 1, 1000 * gib));
        assert!(leaves_reserve(gib / 10, gib) && !leaves_reserve(gib / 10 - 1, gib), "a tenth of a small one");
    }
}
