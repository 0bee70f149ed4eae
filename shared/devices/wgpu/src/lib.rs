//! The wgpu backend: every GPU that Vulkan, Metal or DirectX 12 shows, through wgpu, which loads them at run time.
//!
//! [`detect`] describes the adapters (`describe`, with facts that only the API below reports from `native`), each
//! physical one once. [`open`] makes one device: `gpu` holds wgpu's device and its state of health, `kernels` the
//! pipelines, compiled from `shaders` and kept in a `cache`. `plan` cuts slots into pieces that a binding can hold,
//! `memory` holds them, and the operands of kinds of work other than INT8, which a pass writes out as whole integers. A
//! `pass` and a round of the `probe` or of the `sweep` go through a `flow`, which bounds the submitted work by measured
//! rates ([`assay_device::pace`]).
//!
//! A device that failed is lost to this process ([`DeviceError::Sick`]); a worker process ends with it
//! (`assay-worker`), and another one opens it again.
//!
//! [`DeviceError::Sick`]: assay_device::DeviceError::Sick

#![deny(unsafe_code)]

#[cfg(feature = "bench")]
mod bench;
mod bind;
#[allow(unsafe_code)]
mod cache;
mod config;
mod copies;
mod copy;
mod describe;
mod device;
mod digest;
mod error;
mod findings;
mod float_sums;
mod flow;
#[allow(unsafe_code)]
mod gpu;
#[allow(unsafe_code)]
mod kernels;
mod memory;
mod native;
mod pass;
mod plan;
mod probe;
mod qualify;
mod rule;
pub mod shaders;
mod sweep;

#[cfg(feature = "bench")]
pub use bench::WgpuBench;
pub use config::{DotChoice, WgpuArgs, WgpuConfig};
pub use describe::AdapterDescription;
pub use device::WgpuDevice;
pub use error::WgpuError;
use std::ffi::OsString;

use serde::{Deserialize, Serialize};

use assay_device::backend::{
    Absence, Backend, BackendKind, DetectedDevice, OpenResult, StartupObserver, StartupProgress,
};
use assay_device::place::DevicePlace;
use assay_device::{DeviceError, DeviceInfo};
use assay_work::{DeviceId, Precision};

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WgpuSpec {
    id: DeviceId,
}

/// Describes all adapters, with those that cannot be used and why. Ids are derived from `seed` where hardware has none.
///
/// # Errors
/// [`WgpuError`] when there are no adapters.
pub fn detect(seed: &[u8]) -> Result<Vec<AdapterDescription>, WgpuError> {
    Ok(describe::describe_all(seed)?.into_iter().map(|described| described.description).collect())
}

/// Finds the adapters, those that are refused too. Software adapters are among them only where the settings say so and
/// there is no other.
///
/// # Errors
/// [`WgpuError`] when there are no adapters to use.
pub fn find(config: &WgpuConfig) -> Result<Vec<DetectedDevice>, WgpuError> {
    let (refused, usable): (Vec<_>, Vec<_>) =
        detect(&config.seed)?.into_iter().partition(|adapter| adapter.refusal.is_some());
    let (programs, hardware): (Vec<_>, Vec<_>) = usable.into_iter().partition(|adapter| adapter.software);
    let taken = if hardware.is_empty() && config.software { &programs } else { &hardware };
    if taken.is_empty() && refused.is_empty() {
        let names = programs.iter().map(|adapter| adapter.name.as_str()).collect::<Vec<_>>().join(", ");
        return Err(WgpuError::OnlySoftware { names });
    }
    Ok(taken.iter().chain(&refused).map(|adapter| found(adapter, config)).collect())
}

fn refusal(adapter: &AdapterDescription) -> Option<WgpuError> {
    adapter.refusal.clone().map(|reason| WgpuError::Refused { device: adapter.title(), reason })
}

/// The kinds of work that a device computes.
const PRECISIONS: [Precision; 6] = Precision::ALL;

fn found(adapter: &AdapterDescription, config: &WgpuConfig) -> DetectedDevice {
    let total_bytes = adapter.memory_bytes.or(config.memory_bytes).unwrap_or(0);
    let info = DeviceInfo {
        id: adapter.id,
        name: adapter.name.clone(),
        backend: BackendKind::Wgpu,
        detail: adapter.detail(),
        precisions: PRECISIONS.into(),
        units: Vec::new(),
        total_bytes,
        // The free bytes are known once it is opened.
        free_bytes: total_bytes,
    };
    let pci_address = adapter.pci_address.as_ref().and_then(|address| address.parse().ok());
    let place = DevicePlace { pci_address, uuid: adapter.uuid, vendor: Some(adapter.vendor) };
    let integrated = adapter.integrated || adapter.software;
    let refusal = refusal(adapter).map(|error| error.to_string());
    // A struct of plain fields: turning it into text cannot fail.
    let spec = serde_json::to_string(&WgpuSpec { id: adapter.id }).unwrap_or_default();
    DetectedDevice { info, place, integrated, refusal, forbidden: false, spec }
}

/// Opens one device.
///
/// # Errors
/// [`WgpuError`] when it cannot be used, in one sentence with the remedy.
pub fn open(
    id: DeviceId,
    config: WgpuConfig,
    progress: &mut dyn FnMut(StartupProgress),
) -> Result<WgpuDevice, WgpuError> {
    let all = describe::describe_all(&config.seed)?;
    let described = all.into_iter().find(|described| described.description.id == id);
    let described = described.ok_or(WgpuError::Unknown { id })?;
    refusal(&described.description).map_or(Ok(()), Err)?;
    WgpuDevice::open(described, config, progress)
}

impl Backend for WgpuConfig {
    fn kind(&self) -> BackendKind {
        BackendKind::Wgpu
    }

    fn settings(&self) -> String {
        // A struct of plain fields: turning it into text cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }

    fn environment(&self) -> Vec<(&'static str, OsString)> {
        // Mesa's layer that orders devices for desktops looks for a display, and complains without one.
        vec![("NODEVICE_SELECT", "1".into())]
    }

    fn detect(&self) -> Result<Vec<DetectedDevice>, Absence> {
        find(self).map_err(|error| error.to_string().into())
    }

    fn open(&self, spec: &str, prepare: StartupObserver<'_>) -> OpenResult {
        Ok(Box::new(self.open_device(spec, prepare)?))
    }

    #[cfg(feature = "bench")]
    fn open_bench(&self, spec: &str, prepare: StartupObserver<'_>) -> assay_device::bench::OpenedBench {
        Ok(Box::new(WgpuBench::new(self.open_device(spec, prepare)?)))
    }
}

impl WgpuConfig {
    fn open_device(&self, spec: &str, prepare: StartupObserver<'_>) -> Result<WgpuDevice, DeviceError> {
        let WgpuSpec { id } =
            serde_json::from_str(spec).map_err(|e| DeviceError::Unsupported(format!("no wgpu device: {e}")))?;
        open(id, self.clone(), &mut |preparing| prepare(preparing)).map_err(|error| match error {
            WgpuError::Refused { .. } | WgpuError::Shader { .. } => DeviceError::Unsupported(error.to_string()),
            WgpuError::NoMemory { .. } => DeviceError::NoMemory(error.to_string()),
            // A busy device is busy whether it is being opened or works.
            WgpuError::Device { error: error @ DeviceError::Busy { .. }, .. } => error,
            _ => DeviceError::Sick(error.to_string()),
        })
    }
}
