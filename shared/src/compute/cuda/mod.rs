//! The CUDA backend: NVIDIA GPUs through the driver, which is loaded at run time.
//!
//! [`detect`] asks the `library` and `describe`s what there is, taking no memory. [`open`] makes one device: its
//! context, its `kernels` (compiled by the driver from `modules`, kept in a `cache`), streams and marks. A `pass` and a
//! round of the `probe` are enqueued through a `flow`, which bounds what is enqueued by the `pace` that was measured.
//! `plan` says how memory is laid out, `memory` holds it. `driver` owns the driver's objects, and has, with `kernels`,
//! nearly all of the `unsafe`.
//!
//! Any failure of the driver loses the device for this process ([`DeviceError::Sick`]): most such errors end a context
//! for good, so that a worker process ends with it (`compute/worker`).
//!
//! [`DeviceError::Sick`]: super::device::DeviceError::Sick

pub mod cache;
mod config;
mod describe;
mod device;
mod driver;
mod error;
mod family;
mod flow;
mod kernels;
mod library;
mod measure;
mod memory;
mod modules;
mod pace;
mod pass;
mod plan;
mod probe;
mod wait;

pub use config::{CudaConfig, KernelChoice};
pub use describe::{Capability, DeviceDescription};
pub use device::CudaDevice;
pub use error::{CudaError, Fault};
pub use kernels::Preparing;

use crate::work::DeviceId;
use library::Library;

/// Describes all CUDA devices, with those that cannot be used and why.
///
/// # Errors
/// [`CudaError`]: why there are none, in one sentence with what to do about it.
pub fn detect() -> Result<Vec<DeviceDescription>, CudaError> {
    describe::describe_all(Library::load()?)
}

/// Opens one device.
///
/// # Errors
/// [`CudaError`]: why it cannot be used, in one sentence with what to do about it.
pub fn open(id: DeviceId, config: CudaConfig, progress: &mut dyn FnMut(Preparing)) -> Result<CudaDevice, CudaError> {
    let library = Library::load()?;
    let all = describe::describe_all(library)?;
    let device = all.into_iter().find(|device| device.id == id).ok_or(CudaError::Unknown { id })?;
    if let Some(reason) = device.refusal.clone() {
        return Err(CudaError::Refused { device: device.title(), reason });
    }
    CudaDevice::open(library, device, config, progress)
}
