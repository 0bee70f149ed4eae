//! Memory of a device: anonymous mappings on large pages, each page of the host counted for one device only.
//!
//! Pages come when they are first touched, long after a mapping was made. So that two devices of this process do not
//! both count on the same free page, bytes that are mapped but not yet touched are kept in one process-wide sum
//! ([`promised_bytes`]) and taken off the host's available memory.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use std::sync::atomic::{AtomicU64, Ordering};

use assay_device::DeviceError;
#[cfg(unix)]
use unix::Pages;
#[cfg(windows)]
use windows::Pages;

/// The size of a large page; mappings start and end on its multiples.
pub(super) const LARGE_PAGE: usize = 2 << 20;

/// Bytes that mappings of this process may still touch for the first time.
static PROMISED: AtomicU64 = AtomicU64::new(0);

/// Bytes that this process has mapped for devices and not yet touched.
pub(super) fn promised_bytes() -> u64 {
    PROMISED.load(Ordering::Relaxed)
}

/// Anonymous memory of this process, aligned to [`LARGE_PAGE`], given back when dropped.
///
/// It hands out raw pointers: the pass that owns it orders all reads and writes.
#[derive(Debug)]
pub(super) struct Mapping {
    pages: Pages,
    /// How many bytes of it count as promised.
    untouched: u64,
}

// SAFETY: a mapping is plain memory that belongs to the owner of the value; no thread is special to it.
unsafe impl Send for Mapping {}
// SAFETY: a shared reference gives a pointer and a length only; uses of the pointer are unsafe and argued for there.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps at least `bytes`, rounded up to large pages; no page is touched.
    ///
    /// # Errors
    /// [`DeviceError::Busy`] when the system refuses.
    pub(super) fn new(bytes: u64) -> Result<Self, DeviceError> {
        let refused = || DeviceError::Busy { needed_bytes: bytes, free_bytes: 0 };
        let bytes = rounded(bytes).ok_or_else(refused)?;
        let pages = Pages::new(bytes, LARGE_PAGE).ok_or_else(refused)?;
        PROMISED.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(Self { pages, untouched: bytes as u64 })
    }

    /// Makes `place` hold a mapping of at least `bytes`, in place where it is already as large. Its content is lost.
    ///
    /// # Errors
    /// [`DeviceError::Busy`] when the system refuses; `place` is empty then.
    pub(super) fn fit(place: &mut Option<Self>, bytes: u64) -> Result<&mut Self, DeviceError> {
        match place.take() {
            Some(mut old) if rounded(bytes).is_some_and(|b| b <= old.pages.bytes()) => {
                old.shrink(bytes);
                Ok(place.insert(old))
            }
            old => {
                drop(old);
                Ok(place.insert(Self::new(bytes)?))
            }
        }
    }

    /// The first byte.
    pub(super) const fn base(&self) -> *mut u8 {
        self.pages.base()
    }

    /// The length in bytes, a multiple of [`LARGE_PAGE`].
    pub(super) const fn bytes(&self) -> u64 {
        self.pages.bytes() as u64
    }

    /// Bytes of it that were touched, hence are not in the host's available memory.
    pub(super) const fn touched_bytes(&self) -> u64 {
        self.bytes() - self.untouched
    }

    /// Says that all bytes before `end` have been written at least once.
    pub(super) fn note_touched(&mut self, end: u64) {
        let untouched = self.bytes().saturating_sub(end).min(self.untouched);
        PROMISED.fetch_sub(self.untouched - untouched, Ordering::Relaxed);
        self.untouched = untouched;
    }

    fn shrink(&mut self, bytes: u64) {
        let Some(keep) = rounded(bytes).filter(|keep| *keep < self.pages.bytes()) else { return };
        let gone = (self.pages.bytes() - keep) as u64;
        self.pages.shrink(keep);
        let promised = self.untouched.min(gone);
        PROMISED.fetch_sub(promised, Ordering::Relaxed);
        self.untouched -= promised;
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        PROMISED.fetch_sub(self.untouched, Ordering::Relaxed);
    }
}

/// `bytes` in whole large pages, at least one.
fn rounded(bytes: u64) -> Option<usize> {
    usize::try_from(bytes.max(1)).ok()?.checked_next_multiple_of(LARGE_PAGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_is_aligned_rounded_and_writable() {
        let map = Mapping::new(3 << 20).unwrap();
        assert_eq!(map.base() as usize % LARGE_PAGE, 0);
        assert_eq!(map.bytes(), 4 << 20);
        // SAFETY: both bytes lie inside the mapping, which nothing else uses.
        unsafe {
            map.base().write(1);
            map.base().add((4 << 20) - 1).write(2);
        }
    }

    #[test]
    fn fitting_keeps_what_is_large_enough_and_shrinks_it() {
        let mut place = None;
        let base = Mapping::fit(&mut place, 8 << 20).unwrap().base();
        let map = Mapping::fit(&mut place, 4 << 20).unwrap();
        assert_eq!((map.base(), map.bytes()), (base, 4 << 20));
        assert_eq!(Mapping::fit(&mut place, 16 << 20).unwrap().bytes(), 16 << 20);
    }

    #[test]
    fn touched_bytes_only_grow() {
        let mut map = Mapping::new(4 << 20).unwrap();
        map.note_touched(3 << 20);
        map.note_touched(1 << 20);
        assert_eq!(map.touched_bytes(), 3 << 20);
    }

    #[test]
    fn an_impossible_size_is_refused() {
        assert!(matches!(Mapping::new(u64::MAX), Err(DeviceError::Busy { .. })));
        assert!(matches!(Mapping::new(1 << 60), Err(DeviceError::Busy { .. })));
    }
}
