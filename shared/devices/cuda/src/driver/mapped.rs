//! Memory by the driver's virtual memory management: its own address here, and a handle by which other processes map it.

use std::ffi::c_void;
use std::os::raw::c_int;
use std::sync::Arc;

use assay_device::MemoryHandle;
use cudarc::driver::sys::{
    self, CUdeviceptr, CUmemAccess_flags, CUmemAccessDesc, CUmemAllocationGranularity_flags, CUmemAllocationHandleType,
    CUmemAllocationProp, CUmemAllocationType, CUmemGenericAllocationHandle, CUmemLocation, CUmemLocationType,
};

use super::{Context, call};
use crate::error::Fault;

const FILE_DESCRIPTOR: CUmemAllocationHandleType = CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

/// The memory that is taken to try it out: the usual granularity.
const TRIED_BYTES: u64 = 2 << 20;

/// Memory of this device or of another one, mapped for this device.
#[derive(Debug)]
pub(in super::super) struct MappedMemory {
    context: Arc<Context>,
    handle: CUmemGenericAllocationHandle,
    address: CUdeviceptr,
    bytes: u64,
}

impl MappedMemory {
    /// Takes at least `bytes` bytes of the context's device, which is bound.
    pub(in super::super) fn new(context: &Arc<Context>, bytes: u64) -> Result<Self, Fault> {
        let properties = properties(context);
        let mut granularity = 0;
        let least = CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_MINIMUM;
        // SAFETY: the context is bound; both pointers are to locals.
        let result = unsafe { sys::cuMemGetAllocationGranularity(&raw mut granularity, &raw const properties, least) };
        call(result, "asking how memory is cut")?;
        let bytes = bytes.next_multiple_of(granularity.max(1) as u64);
        let mut handle = 0;
        // SAFETY: as above.
        let result = unsafe { sys::cuMemCreate(&raw mut handle, bytes as usize, &raw const properties, 0) };
        call(result, "taking memory")?;
        Self::map(context, handle, bytes)
    }

    /// Takes a little memory, maps it, exports it and gives it back: drivers say that they can, and refuse.
    pub(in super::super) fn try_out(context: &Arc<Context>) -> Result<(), Fault> {
        Self::new(context, TRIED_BYTES)?.export().map(drop)
    }

    /// Maps `bytes` bytes of the handle that [`MappedMemory::export`] gave, in this process or another.
    pub(in super::super) fn import(context: &Arc<Context>, from: &MemoryHandle, bytes: u64) -> Result<Self, Fault> {
        let mut handle = 0;
        let file = descriptor(from) as isize as *mut c_void;
        // SAFETY: the context is bound; the driver takes the descriptor's number for the pointer, and keeps no hold of it.
        let result = unsafe { sys::cuMemImportFromShareableHandle(&raw mut handle, file, FILE_DESCRIPTOR) };
        call(result, "taking another device's memory")?;
        Self::map(context, handle, bytes)
    }

    /// Gives a handle an address that the device reads and writes. The handle is released where that fails.
    fn map(context: &Arc<Context>, handle: CUmemGenericAllocationHandle, bytes: u64) -> Result<Self, Fault> {
        let mut address = 0;
        // SAFETY: the context is bound; the pointer is to a local.
        let result = unsafe { sys::cuMemAddressReserve(&raw mut address, bytes as usize, 0, 0, 0) };
        if let Err(fault) = call(result, "taking addresses") {
            // SAFETY: the handle is this function's, and nothing is mapped by it.
            let _ = unsafe { sys::cuMemRelease(handle) };
            return Err(fault);
        }
        // SAFETY: the addresses were just reserved, and nothing is mapped there.
        let result = unsafe { sys::cuMemMap(address, bytes as usize, 0, handle, 0) };
        if let Err(fault) = call(result, "mapping memory") {
            // SAFETY: as above.
            let _ = unsafe { (sys::cuMemAddressFree(address, bytes as usize), sys::cuMemRelease(handle)) };
            return Err(fault);
        }
        // From here on dropping it undoes all of this.
        let mapped = Self { context: context.clone(), handle, address, bytes };
        let access = CUmemAccessDesc {
            location: location(context),
            flags: CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        // SAFETY: the range is mapped; the pointer is to a local.
        let result = unsafe { sys::cuMemSetAccess(address, bytes as usize, &raw const access, 1) };
        call(result, "reaching memory").map(|()| mapped)
    }

    /// A handle by which other processes map it, for as long as they like.
    pub(in super::super) fn export(&self) -> Result<MemoryHandle, Fault> {
        let mut file: c_int = -1;
        // SAFETY: the handle is held; for this type the driver writes a descriptor, which is an int.
        let result = unsafe {
            sys::cuMemExportToShareableHandle((&raw mut file).cast::<c_void>(), self.handle, FILE_DESCRIPTOR, 0)
        };
        call(result, "sharing memory")?;
        // SAFETY: the driver has just opened it for this call.
        unsafe { owned(file) }
    }

    /// The first byte, in the device's addresses.
    pub(in super::super) const fn address(&self) -> u64 {
        self.address
    }

    pub(in super::super) const fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for MappedMemory {
    fn drop(&mut self) {
        if !self.context.is_lost() && self.context.bind().is_ok() {
            // SAFETY: mapped once in this context; nothing enqueued uses it any more.
            let _ = unsafe {
                let bytes = self.bytes as usize;
                (
                    sys::cuMemUnmap(self.address, bytes),
                    sys::cuMemAddressFree(self.address, bytes),
                    sys::cuMemRelease(self.handle),
                )
            };
        }
    }
}

fn location(context: &Context) -> CUmemLocation {
    // SAFETY: numbers alone, of which zero is a value.
    let mut location: CUmemLocation = unsafe { std::mem::zeroed() };
    location.type_ = CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
    location.__bindgen_anon_1.id = context.device();
    location
}

fn properties(context: &Context) -> CUmemAllocationProp {
    // SAFETY: numbers and a pointer, of which zero is a value.
    let mut properties: CUmemAllocationProp = unsafe { std::mem::zeroed() };
    properties.type_ = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.requestedHandleTypes = FILE_DESCRIPTOR;
    properties.location = location(context);
    properties
}

#[cfg(unix)]
fn descriptor(handle: &MemoryHandle) -> c_int {
    std::os::fd::AsRawFd::as_raw_fd(handle)
}

#[cfg(not(unix))]
fn descriptor(handle: &MemoryHandle) -> c_int {
    match *handle {}
}

/// # Safety
/// The descriptor is open, and owned by nothing else.
#[cfg(unix)]
unsafe fn owned(file: c_int) -> Result<MemoryHandle, Fault> {
    // SAFETY: the caller's.
    Ok(unsafe { std::os::fd::FromRawFd::from_raw_fd(file) })
}

#[cfg(not(unix))]
unsafe fn owned(_file: c_int) -> Result<MemoryHandle, Fault> {
    unreachable!("no driver of this system gives descriptors: its devices do not say so")
}
