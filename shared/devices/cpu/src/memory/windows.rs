//! Pages as Windows gives them: addresses are reserved, and given back as a whole; memory is committed and decommitted
//! in between. Compiled, but run on no Windows machine yet.

use std::ffi::c_void;
use std::ptr::{self, NonNull};

use windows_sys::Win32::System::Memory::{
    MEM_COMMIT, MEM_DECOMMIT, MEM_RELEASE, MEM_RESERVE, PAGE_NOACCESS, PAGE_READWRITE, VirtualAlloc, VirtualFree,
};

/// Fresh memory, given back when dropped.
#[derive(Debug)]
pub struct Pages {
    /// The reserved range, released on drop.
    reserved: NonNull<c_void>,
    base: NonNull<u8>,
    bytes: usize,
}

impl Pages {
    /// Commits `bytes` bytes that start at a multiple of `align`, of which they are a multiple; no page is touched.
    /// `None` when the system refuses, as it does once it could not keep its promises.
    pub fn new(bytes: usize, align: usize) -> Option<Self> {
        let whole = bytes.checked_add(align)?;
        // SAFETY: fresh addresses, chosen by the system: no existing memory is touched.
        let reserved = NonNull::new(unsafe { VirtualAlloc(ptr::null(), whole, MEM_RESERVE, PAGE_NOACCESS) })?;
        let start = reserved.as_ptr() as usize;
        let base = reserved.cast::<u8>().as_ptr().wrapping_add(start.next_multiple_of(align) - start);
        // From here on the reservation is released when this ends.
        let pages = Self { reserved, base: NonNull::new(base)?, bytes };
        // SAFETY: the range lies inside the range just reserved, and nothing uses it yet.
        let committed = unsafe { VirtualAlloc(base.cast(), bytes, MEM_COMMIT, PAGE_READWRITE) };
        (!committed.is_null()).then_some(pages)
    }

    pub const fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Gives all but the first `keep` bytes back, which are whole pages and no more than there are.
    pub fn shrink(&mut self, keep: usize) {
        // To decommit no bytes would decommit everything.
        if keep < self.bytes {
            // SAFETY: the tail was committed by this value, and the exclusive reference says that nothing uses it. A
            // failure leaves it committed, no more.
            unsafe { VirtualFree(self.base().wrapping_add(keep).cast(), self.bytes - keep, MEM_DECOMMIT) };
        }
        self.bytes = keep;
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the reservation is this value's own, and it is going away with all that was committed in it.
        unsafe { VirtualFree(self.reserved.as_ptr(), 0, MEM_RELEASE) };
    }
}
