//! The driver's objects with owners: each is given back once, and none when the device is lost.
//!
//! Everything here is thin. Calls are those of cudarc's `sys`; what they gain is a [`Fault`] that says what was being
//! done, and lifetimes: a [`Context`] outlives what was made in it, because that holds it.

mod context;
mod memory;
mod module;
mod stream;

use std::ffi::CStr;

use cudarc::driver::sys::{self, CUevent, CUresult};

use super::error::Fault;

pub(super) use context::{Context, attribute};
pub(super) use memory::{DeviceMemory, PinnedMemory};
pub(super) use module::{Function, Launch, Module};
pub(super) use stream::{Event, Priority, Stream};

/// `cuEventElapsedTime`, as every driver has it.
pub(super) type EventElapsedTime = unsafe extern "C" fn(*mut f32, CUevent, CUevent) -> u32;

/// What a call gave: nothing, or the fault.
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
