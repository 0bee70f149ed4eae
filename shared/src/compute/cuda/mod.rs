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
use std::ffi::OsString;

use serde::{Deserialize, Serialize};

use super::choose::{Found, Prepare, Preparing};
use super::device::{Device, DeviceError, DeviceInfo};
use super::place::{NVIDIA, Place};
use crate::work::DeviceId;
use library::Library;

/// What opens one device: which, and the settings.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Opening {
    id: DeviceId,
    config: CudaConfig,
}

/// The version of CUDA that the driver speaks, 1000 · major + 10 · minor; `None` where there is no driver. Starts nothing.
#[must_use]
pub fn driver_version() -> Option<u32> {
    library::version().ok().and_then(|version| u32::try_from(version).ok())
}

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

/// Finds the devices that can be used, for `compute/choose.rs`. Those that cannot are named in the log.
///
/// # Errors
/// [`CudaError`]: why there are none.
pub fn find(config: &CudaConfig) -> Result<Vec<Found>, CudaError> {
    let (refused, usable): (Vec<_>, Vec<_>) = detect()?.into_iter().partition(|device| device.refusal.is_some());
    let refusals: Vec<_> = refused
        .into_iter()
        .map(|device| CudaError::Refused { device: device.title(), reason: device.refusal.unwrap_or_default() })
        .collect();
    for refusal in &refusals {
        tracing::warn!("not used: {refusal}");
    }
    match refusals.into_iter().next() {
        Some(refusal) if usable.is_empty() => Err(refusal),
        _ => Ok(usable.iter().map(|device| found(device, config)).collect()),
    }
}

fn found(device: &DeviceDescription, config: &CudaConfig) -> Found {
    let info = DeviceInfo {
        id: device.id,
        name: device.name.clone(),
        backend: "cuda",
        detail: device.detail(),
        total_bytes: device.memory_bytes,
        // What is free is known once it is opened: the driver only tells who has made a context.
        free_bytes: device.memory_bytes,
    };
    let place = Place { pci_address: device.pci_address.parse().ok(), uuid: Some(device.id.0), vendor: Some(NVIDIA) };
    let opening = Opening { id: device.id, config: config.clone() };
    // A struct of plain fields: turning it into text cannot fail.
    Found { info, place, opening: serde_json::to_string(&opening).unwrap_or_default() }
}

/// Opens a device as [`find`] found it.
///
/// # Errors
/// [`DeviceError::Unsupported`] when it cannot be used at all, [`DeviceError::Sick`] for all else.
pub fn open_found(opening: &str, prepare: Prepare<'_>) -> Result<Box<dyn Device>, DeviceError> {
    let Opening { id, config } =
        serde_json::from_str(opening).map_err(|e| DeviceError::Unsupported(format!("no CUDA device: {e}")))?;
    match open(id, config, &mut |preparing| prepare(preparing)) {
        Ok(device) => Ok(Box::new(device)),
        Err(error @ (CudaError::Refused { .. } | CudaError::NoKernel { .. })) => {
            Err(DeviceError::Unsupported(error.to_string()))
        }
        Err(error) => Err(DeviceError::Sick(error.to_string())),
    }
}

/// The variables that a process which opens devices must start with: the driver reads them once.
#[must_use]
pub fn environment(config: &CudaConfig) -> Vec<(&'static str, OsString)> {
    let Some(folder) = &config.cache_folder else { return Vec::new() };
    cache::environment(folder).unwrap_or_else(|error| {
        // The driver then does as it does by itself. On a host without GPUs this matters to nobody.
        tracing::debug!(folder = %folder.display(), %error, "no folder for compiled kernels");
        Vec::new()
    })
}
