//! Owners for the driver's objects: each is freed once, or not at all when the device is lost.
//!
//! A thin layer over cudarc's `sys`. It adds a [`Fault`] that names the failed operation, and lifetimes: objects
//! hold the [`Context`] that they were created in.

mod context;
pub(crate) mod library;
mod mapped;
mod memory;
mod module;
mod stream;

use std::ffi::CStr;

use cudarc::driver::sys::{self, CUevent, CUresult};

use super::error::Fault;

pub(super) use context::{Context, attribute};
pub(super) use mapped::MappedMemory;
pub(super) use memory::{DeviceMemory, PinnedMemory};
pub(super) use module::{Function, Launch, Module};
pub(super) use stream::{CudaEvent, Priority, Stream};

/// `cuEventElapsedTime`, in the form that every driver has.
pub(super) type EventElapsedTime = unsafe extern "C" fn(*mut f32, CUevent, CUevent) -> u32;

/// The result of a call.
pub(super) fn call(result: CUresult, doing: &str) -> Result<(), Fault> {
    if result == CUresult::CUDA_SUCCESS { Ok(()) } else { Err(fault(result, doing)) }
}

fn fault(result: CUresult, doing: &str) -> Fault {
    let mut name = std::ptr::null();
    // SAFETY: the library was loaded, or there would be no result; the name is a constant of it, or null.
    let known = unsafe { sys::cuGetErrorName(result, &raw mut name) } == CUresult::CUDA_SUCCESS && !name.is_null();
    // SAFETY: as above: a string of the library, ended by a zero.
    let name = if known { unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned() } else { "an error".into() };
    Fault { code: result as u32, name, doing: doing.to_owned() }
}
