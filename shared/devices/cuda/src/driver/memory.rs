//! Device memory, and pinned host memory.

use std::ffi::c_void;
use std::sync::Arc;

use assay_device::SharedSlots;
use cudarc::driver::sys::{self, CUdeviceptr};

use super::{Context, MappedMemory, Stream, call};
use crate::error::Fault;

/// One allocation on the device.
#[derive(Debug)]
pub(in super::super) struct DeviceMemory {
    context: Arc<Context>,
    address: CUdeviceptr,
    bytes: u64,
    /// The mapped memory under it, where other processes may map it.
    mapped: Option<MappedMemory>,
}

impl DeviceMemory {
    /// Takes `bytes` bytes, which are not initialised. The context is bound.
    pub(in super::super) fn new(context: &Arc<Context>, bytes: u64) -> Result<Self, Fault> {
        let mut address = 0;
        // SAFETY: the caller has bound the context.
        let result = unsafe { sys::cuMemAlloc_v2(&raw mut address, bytes as usize) };
        context.check(call(result, "taking memory"))?;
        Ok(Self { context: context.clone(), address, bytes, mapped: None })
    }

    /// The same, such that other processes may map it. A failure does not lose the context: drivers refuse this where
    /// they give plain memory.
    pub(in super::super) fn shareable(context: &Arc<Context>, bytes: u64) -> Result<Self, Fault> {
        let mapped = MappedMemory::new(context, bytes)?;
        Ok(Self { context: context.clone(), address: mapped.address(), bytes: mapped.bytes(), mapped: Some(mapped) })
    }

    /// The handle by which other processes map it, and its length; `None` where it was not taken for that.
    pub(in super::super) fn export(&self) -> Result<Option<SharedSlots>, Fault> {
        let export = |mapped: &MappedMemory| {
            Ok(SharedSlots { bytes: mapped.bytes(), handle: self.context.check(mapped.export())? })
        };
        self.mapped.as_ref().map(export).transpose()
    }

    /// The first byte, in the device's addresses.
    pub(in super::super) const fn address(&self) -> u64 {
        self.address
    }

    pub(in super::super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Enqueues setting `bytes` bytes from `first` on to `value`.
    ///
    /// # Panics
    /// When the range leaves the allocation.
    pub(in super::super) fn set(&self, stream: &Stream, first: u64, bytes: u64, value: u8) -> Result<(), Fault> {
        self.assert_inside(first, bytes);
        // SAFETY: the range lies in this allocation, which the stream's context holds.
        let result = unsafe { sys::cuMemsetD8Async(self.address + first, value, bytes as usize, stream.raw()) };
        self.context.check(call(result, "setting memory"))
    }

    /// Enqueues a copy of `bytes` bytes from `first` on to the start of `to`.
    ///
    /// # Panics
    /// When the range leaves either.
    pub(in super::super) fn copy_out(
        &self,
        stream: &Stream,
        first: u64,
        bytes: usize,
        to: &PinnedMemory,
    ) -> Result<(), Fault> {
        self.assert_inside(first, bytes as u64);
        assert!(bytes <= to.bytes, "a piece fits into the staging memory");
        // SAFETY: both ranges lie in their allocations. The pinned one outlives the copy: its owner waits for the
        // stream before it reads, and leaves it to the process's end where that wait failed.
        let result = unsafe { sys::cuMemcpyDtoHAsync_v2(to.base, self.address + first, bytes, stream.raw()) };
        self.context.check(call(result, "copying to the host"))
    }

    /// Enqueues a copy of the first `bytes` bytes of `from` to the start of this.
    ///
    /// # Panics
    /// When they leave either.
    pub(in super::super) fn copy_in(&self, stream: &Stream, from: &PinnedMemory, bytes: usize) -> Result<(), Fault> {
        self.assert_inside(0, bytes as u64);
        assert!(bytes <= from.bytes, "a copy of no more than the pinned memory");
        // SAFETY: both ranges lie in their allocations, which outlive the copy as in `copy_out`.
        let result = unsafe { sys::cuMemcpyHtoDAsync_v2(self.address, from.base, bytes, stream.raw()) };
        self.context.check(call(result, "copying to the device"))
    }

    /// Enqueues a copy of the first `bytes` bytes to the start of `to`.
    ///
    /// # Panics
    /// When they leave either.
    pub(in super::super) fn copy_to(&self, stream: &Stream, to: &Self, bytes: u64) -> Result<(), Fault> {
        self.assert_inside(0, bytes);
        to.assert_inside(0, bytes);
        // SAFETY: both ranges lie in their allocations, which the stream's context holds.
        let result = unsafe { sys::cuMemcpyDtoDAsync_v2(to.address, self.address, bytes as usize, stream.raw()) };
        self.context.check(call(result, "copying on the device"))
    }

    fn assert_inside(&self, first: u64, bytes: u64) {
        let inside = first.checked_add(bytes).is_some_and(|end| end <= self.bytes);
        assert!(inside, "{bytes} bytes from {first} lie in an allocation of {}", self.bytes);
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        if self.mapped.is_none() && !self.context.is_lost() && self.context.bind().is_ok() {
            // SAFETY: taken once in this context; nothing enqueued uses it any more, or the driver waits for it.
            let _ = unsafe { sys::cuMemFree_v2(self.address) };
        }
    }
}

/// Pinned host memory: the device copies to it asynchronously.
#[derive(Debug)]
pub(in super::super) struct PinnedMemory {
    context: Arc<Context>,
    base: *mut c_void,
    bytes: usize,
}

// SAFETY: plain memory with one owner.
unsafe impl Send for PinnedMemory {}

impl PinnedMemory {
    /// Takes `bytes` bytes. The context is bound.
    pub(in super::super) fn new(context: &Arc<Context>, bytes: usize) -> Result<Self, Fault> {
        let mut base = std::ptr::null_mut();
        // SAFETY: the caller has bound the context.
        let result = unsafe { sys::cuMemHostAlloc(&raw mut base, bytes, 0) };
        context.check(call(result, "taking memory of the host"))?;
        // SAFETY: just taken; initialised here, so that it can be lent as bytes.
        unsafe { base.cast::<u8>().write_bytes(0, bytes) };
        Ok(Self { context: context.clone(), base, bytes })
    }

    pub(in super::super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Its contents. No copy to it may be pending.
    pub(in super::super) fn as_slice(&self) -> &[u8] {
        // SAFETY: taken and initialised in `new`; the caller has waited for copies.
        unsafe { std::slice::from_raw_parts(self.base.cast(), self.bytes) }
    }

    /// Its contents, to be written. No copy to it or from it may be pending.
    pub(in super::super) fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as in `as_slice`; the exclusive reference keeps everyone else out.
        unsafe { std::slice::from_raw_parts_mut(self.base.cast(), self.bytes) }
    }
}

impl Drop for PinnedMemory {
    fn drop(&mut self) {
        if !self.context.is_lost() && self.context.bind().is_ok() {
            // SAFETY: taken once; no copy is under way, or the context would be lost.
            let _ = unsafe { sys::cuMemFreeHost(self.base) };
        }
    }
}
