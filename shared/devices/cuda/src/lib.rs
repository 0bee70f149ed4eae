//! The CUDA backend: NVIDIA GPUs through the driver, which is loaded at run time.
//!
//! [`detect`] asks the `library` and `describe`s the devices found, taking no memory. [`open`] makes one device: its
//! context, its `kernels` (compiled by the driver from `modules`, kept in a `cache`), streams and marks. A `pass` and a
//! round of the `probe` are enqueued through a `flow`, which bounds the enqueued work by measured rates
//! ([`assay_device::pace`]). `plan` lays memory out, `memory` holds it. `driver` owns the driver's objects, and has,
//! with `kernels`, nearly all of the `unsafe`.
//!
//! Any failure of the driver but a lack of memory ([`DeviceError::NoMemory`]) loses the device for this process
//! ([`DeviceError::Sick`]): most such errors end a context for good, so that a worker process ends with it
//! (`assay-worker`).

#![deny(unsafe_code)]

#[cfg(feature = "bench")]
#[allow(unsafe_code)]
mod bench;
pub mod cache;
mod config;
mod copies;
#[allow(unsafe_code)]
mod describe;
#[allow(unsafe_code)]
mod device;
#[allow(unsafe_code)]
mod driver;
mod error;
mod family;
mod flow;
#[allow(unsafe_code)]
mod kernels;
#[allow(unsafe_code)]
mod memory;
mod modules;
#[allow(unsafe_code)]
mod multiply;
mod operands;
#[allow(unsafe_code)]
mod pass;
mod plan;
#[allow(unsafe_code)]
mod probe;
mod product;
mod products;
#[allow(unsafe_code)]
mod self_test;
mod wait;

#[cfg(feature = "bench")]
pub use bench::CudaBench;
pub use config::{CudaArgs, CudaConfig, KernelChoice};
pub use describe::{Capability, DeviceDescription};
pub use device::CudaDevice;
pub use error::{CudaError, Fault};
#[cfg(feature = "bench")]
pub use modules::replace as replace_modules;
use std::ffi::OsString;
use std::path::Path;

use serde::{Deserialize, Serialize};

use assay_device::backend::{
    Absence, Backend, BackendKind, DetectedDevice, OpenResult, StartupObserver, StartupProgress,
};
use assay_device::place::{DevicePlace, NVIDIA};
use assay_device::{DeviceError, DeviceInfo};
use assay_work::{DeviceId, Precision};
use driver::library::Library;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CudaSpec {
    id: DeviceId,
}

/// The version of CUDA that the driver speaks, 1000 · major + 10 · minor; `None` without a driver. Starts nothing.
pub fn driver_version() -> Option<u32> {
    driver::library::version().ok().and_then(|version| u32::try_from(version).ok())
}

/// Describes all CUDA devices, with those that cannot be used and why.
///
/// # Errors
/// [`CudaError`] when there are no devices, in one sentence with the remedy.
pub fn detect() -> Result<Vec<DeviceDescription>, CudaError> {
    describe::describe_all(Library::load()?)
}

/// Opens one device.
///
/// # Errors
/// [`CudaError`] when the device cannot be used, in one sentence with the remedy.
pub fn open(
    id: DeviceId,
    config: CudaConfig,
    progress: &mut dyn FnMut(StartupProgress),
) -> Result<CudaDevice, CudaError> {
    let library = Library::load()?;
    let all = describe::describe_all(library)?;
    let is_asked = |device: &DeviceDescription| device.id == id || (config.twice && twin(device.id) == id);
    let mut device = all.into_iter().find(is_asked).ok_or(CudaError::Unknown { id })?;
    device.id = id;
    refused(&device).map_or(Ok(()), Err)?;
    CudaDevice::open(library, device, config, progress)
}

/// The driver's kernel module makes this file.
const KERNEL_MODULE: &str = "/proc/driver/nvidia/version";

impl Backend for CudaConfig {
    fn kind(&self) -> BackendKind {
        BackendKind::Cuda
    }

    fn settings(&self) -> String {
        // A struct of plain fields: turning it into text cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The driver reads these once, when it is loaded.
    fn environment(&self) -> Vec<(&'static str, OsString)> {
        let Some(folder) = &self.cache_folder else { return Vec::new() };
        cache::environment(folder).unwrap_or_else(|error| {
            // The driver then uses its own default. On a host without GPUs it has no effect.
            tracing::debug!(folder = %folder.display(), %error, "no folder for compiled kernels");
            Vec::new()
        })
    }

    fn detect(&self) -> Result<Vec<DetectedDevice>, Absence> {
        let has_module = Path::new(KERNEL_MODULE).exists();
        let absent =
            |error: CudaError| Absence { why: error.to_string(), may_pass: error.listing_may_pass(has_module) };
        let mut found = find().map_err(absent)?;
        if self.twice {
            found = found.into_iter().flat_map(|first| [twin_of(&first), first]).collect();
        }
        Ok(found)
    }

    fn open(&self, spec: &str, prepare: StartupObserver<'_>) -> OpenResult {
        Ok(Box::new(self.open_device(spec, prepare)?))
    }

    #[cfg(feature = "bench")]
    fn open_bench(&self, spec: &str, prepare: StartupObserver<'_>) -> assay_device::bench::OpenedBench {
        Ok(Box::new(CudaBench::new(self.open_device(spec, prepare)?)))
    }
}

impl CudaConfig {
    fn open_device(&self, spec: &str, prepare: StartupObserver<'_>) -> Result<CudaDevice, DeviceError> {
        let CudaSpec { id } =
            serde_json::from_str(spec).map_err(|e| DeviceError::Unsupported(format!("no CUDA device: {e}")))?;
        open(id, self.clone(), &mut |preparing| prepare(preparing)).map_err(|error| match error {
            CudaError::Refused { .. } | CudaError::NoKernel { .. } => DeviceError::Unsupported(error.to_string()),
            CudaError::NoMemory { .. } => DeviceError::NoMemory(error.to_string()),
            _ if error.may_pass() => DeviceError::NotNow(error.to_string()),
            _ => DeviceError::Sick(error.to_string()),
        })
    }
}

/// Finds the devices, those that are refused too.
///
/// # Errors
/// [`CudaError`] when there are no devices.
pub fn find() -> Result<Vec<DetectedDevice>, CudaError> {
    Ok(detect()?.iter().map(found).collect())
}

fn refused(device: &DeviceDescription) -> Option<CudaError> {
    device.refusal.clone().map(|reason| CudaError::Refused { device: device.title(), reason })
}

/// The id of a GPU's second device ([`CudaConfig::twice`]).
fn twin(mut id: DeviceId) -> DeviceId {
    id.0[15] ^= 1;
    id
}

fn twin_of(found: &DetectedDevice) -> DetectedDevice {
    let mut second = found.clone();
    second.info.id = twin(found.info.id);
    second.spec = spec(second.info.id);
    second
}

/// A struct of plain fields: turning it into text cannot fail.
fn spec(id: DeviceId) -> String {
    serde_json::to_string(&CudaSpec { id }).unwrap_or_default()
}

/// The kinds of work that every device computes, whose operands fit INT8; others only after a self-test.
const LISTED_KINDS: [Precision; 3] = [Precision::Int8, Precision::Fp8, Precision::Fp4];

fn found(device: &DeviceDescription) -> DetectedDevice {
    let info = DeviceInfo {
        id: device.id,
        name: device.name.clone(),
        backend: BackendKind::Cuda,
        detail: device.detail(),
        precisions: LISTED_KINDS.into(),
        units: Vec::new(),
        total_bytes: device.memory_bytes,
        // The free memory is known once the device is opened: asking takes a context.
        free_bytes: device.memory_bytes,
    };
    let place =
        DevicePlace { pci_address: device.pci_address.parse().ok(), uuid: Some(device.id.0), vendor: Some(NVIDIA) };
    let refusal = refused(device).map(|error| error.to_string());
    let DeviceDescription { integrated, forbidden, .. } = *device;
    DetectedDevice { info, place, integrated, refusal, forbidden, spec: spec(device.id) }
}
