//! Pages as Unix systems give them: mapped, and given back by pieces.

use std::ptr::{self, NonNull};

/// A fresh mapping, given back when dropped.
#[derive(Debug)]
pub struct Pages {
    base: NonNull<u8>,
    bytes: usize,
}

impl Pages {
    /// Maps `bytes` bytes that start at a multiple of `align`, of which they are a multiple; no page is touched. `None`
    /// when the system refuses.
    pub fn new(bytes: usize, align: usize) -> Option<Self> {
        let whole = bytes.checked_add(align)?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a fresh anonymous mapping touches no existing memory.
        let raw = unsafe { libc::mmap(ptr::null_mut(), whole, access, kind, -1, 0) };
        if raw == libc::MAP_FAILED {
            return None;
        }
        let lead = (raw as usize).next_multiple_of(align) - raw as usize;
        let base = raw.cast::<u8>().wrapping_add(lead);
        // SAFETY: both ranges lie inside the mapping made above, outside `base .. base + bytes`, and nothing uses them.
        unsafe {
            unmap(raw.cast(), lead);
            unmap(base.wrapping_add(bytes), align - lead);
        }
        advise_large_pages(base, bytes);
        Some(Self { base: NonNull::new(base)?, bytes })
    }

    pub const fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Gives all but the first `keep` bytes back, which are whole pages and no more than there are.
    pub fn shrink(&mut self, keep: usize) {
        // SAFETY: the tail belongs to this mapping, and the exclusive reference says that nothing uses it.
        unsafe { unmap(self.base().wrapping_add(keep), self.bytes - keep) };
        self.bytes = keep;
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and it is going away.
        unsafe { unmap(self.base(), self.bytes) };
    }
}

/// # Safety
/// The range must be mapped, page-aligned, and not used any more.
unsafe fn unmap(start: *mut u8, bytes: usize) {
    if bytes > 0 {
        // SAFETY: the caller's promise. A failure (the table of mappings is full) leaves memory mapped, no more.
        unsafe { libc::munmap(start.cast(), bytes) };
    }
}

#[cfg(target_os = "linux")]
fn advise_large_pages(base: *mut u8, bytes: usize) {
    // SAFETY: advice on a range just mapped; it changes no content, and may be refused.
    unsafe { libc::madvise(base.cast(), bytes, libc::MADV_HUGEPAGE) };
}

#[cfg(not(target_os = "linux"))]
fn advise_large_pages(_base: *mut u8, _bytes: usize) {}
