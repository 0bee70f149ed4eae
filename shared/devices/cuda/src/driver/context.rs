//! A device's context.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use cudarc::driver::sys::{self, CUcontext, CUdevice, CUdevice_attribute};

use super::call;
use super::library::Library;
use crate::error::Fault;

/// The primary context of a device, held until this and all that was made in it are dropped.
pub(in super::super) struct Context {
    library: Library,
    device: CUdevice,
    raw: CUcontext,
    /// Set for good by the first failure. The memory and objects of a lost context are left to the end of the process:
    /// giving them back would fail, or wait for work that never ends.
    lost: AtomicBool,
}

// SAFETY: the driver's calls may come from any thread; which context they mean is set on each thread by `bind`.
unsafe impl Send for Context {}
// SAFETY: as above; the driver locks what it must.
unsafe impl Sync for Context {}

impl Context {
    /// Takes the primary context of a device and makes it this thread's.
    pub(in super::super) fn new(library: Library, device: CUdevice) -> Result<Self, Fault> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: the driver is initialised; the device comes from it.
        call(unsafe { sys::cuDevicePrimaryCtxRetain(&raw mut raw, device) }, "making its context")?;
        let context = Self { library, device, raw, lost: AtomicBool::new(false) };
        context.bind()?;
        Ok(context)
    }

    /// Makes this the thread's current context, which every use of its objects needs.
    pub(in super::super) fn bind(&self) -> Result<(), Fault> {
        // SAFETY: the context is held.
        self.check(call(unsafe { sys::cuCtxSetCurrent(self.raw) }, "choosing its context"))
    }

    /// Free and all bytes of the device.
    pub(in super::super) fn memory_bytes(&self) -> Result<(u64, u64), Fault> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: the context is bound by the caller; both pointers are to locals.
        let result = unsafe { sys::cuMemGetInfo_v2(&raw mut free, &raw mut total) };
        self.check(call(result, "asking for its free memory"))?;
        Ok((free as u64, total as u64))
    }

    pub(super) const fn device(&self) -> CUdevice {
        self.device
    }

    /// Whether memory of the device can be mapped by other processes.
    pub(in super::super) fn shares_memory(&self) -> Result<bool, Fault> {
        use CUdevice_attribute as Attribute;
        let has = |which| Ok(attribute(self.device, which)? != 0);
        Ok(cfg!(target_os = "linux")
            && has(Attribute::CU_DEVICE_ATTRIBUTE_VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED)?
            && has(Attribute::CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED)?)
    }

    pub(in super::super) const fn library(&self) -> &Library {
        &self.library
    }

    /// Whether a call has failed.
    pub(in super::super) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    /// Marks the device as unusable.
    pub(in super::super) fn lose(&self) {
        self.lost.store(true, Ordering::Relaxed);
    }

    /// Passes a result on; any failure but out of memory loses the context.
    pub(in super::super) fn check<T>(&self, result: Result<T, Fault>) -> Result<T, Fault> {
        result.inspect_err(|fault| {
            if !fault.is_out_of_memory() {
                self.lose();
            }
        })
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if !self.is_lost() {
            // SAFETY: it was taken once; nothing made in it is left, since all that holds it.
            let _ = unsafe { sys::cuDevicePrimaryCtxRelease_v2(self.device) };
        }
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("device", &self.device).field("lost", &self.is_lost()).finish_non_exhaustive()
    }
}

/// An attribute of a device.
pub(in super::super) fn attribute(device: CUdevice, which: CUdevice_attribute) -> Result<i32, Fault> {
    let mut value = 0;
    // SAFETY: the driver is initialised; the device comes from it.
    call(unsafe { sys::cuDeviceGetAttribute(&raw mut value, which, device) }, "asking what it is")?;
    Ok(value)
}
