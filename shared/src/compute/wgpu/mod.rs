//! The wgpu backend: every GPU that Vulkan, Metal or DirectX 12 shows, through wgpu, which loads them at run time.
//!
//! [`find`] describes the adapters (`describe`, with what only the API below says from `native`), each physical one
//! once. [`open`] makes one device: `gpu` holds wgpu's device and what became of it, `kernels` the pipelines, compiled
//! from `shaders` and kept in a `cache`. `plan` says how slots are cut into pieces that a binding can hold, `memory`
//! holds them. A `pass` and a round of the `probe` go through a `flow`, which bounds what is submitted by the rates in
//! `pace`.
//!
//! A device that failed is lost to this process ([`DeviceError::Sick`]); a worker process ends with it
//! (`compute/worker`), and another one opens it again.
//!
//! [`DeviceError::Sick`]: super::device::DeviceError::Sick

mod bind;
mod cache;
mod config;
mod copy;
mod describe;
mod device;
mod digest;
mod error;
mod flow;
mod gpu;
mod kernels;
mod measure;
mod memory;
mod native;
mod pace;
mod pass;
mod plan;
mod probe;
mod settle;
pub mod shaders;

pub use config::{DotChoice, WgpuConfig};
pub use describe::AdapterDescription;
pub use device::WgpuDevice;
pub use error::WgpuError;
use std::ffi::OsString;

use serde::{Deserialize, Serialize};

use super::choose::{Found, Prepare, Preparing};
use super::device::{Device, DeviceError, DeviceInfo};
use super::place::Place;
use crate::work::DeviceId;

/// What opens one device: which, and the settings.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Opening {
    id: DeviceId,
    /// What ids are derived from where hardware has none.
    #[serde(with = "hex::serde")]
    seed: Vec<u8>,
    config: WgpuConfig,
}

/// Describes all adapters, with those that cannot be used and why. Ids are derived from `seed` where hardware has none.
///
/// # Errors
/// [`WgpuError`]: why there are none.
pub fn detect(seed: &[u8]) -> Result<Vec<AdapterDescription>, WgpuError> {
    Ok(describe::describe_all(seed)?.into_iter().map(|described| described.description).collect())
}

/// Finds the adapters that can be used, for `compute/choose.rs`. Those that cannot are named in the log. Software
/// adapters are among them only where `software` says so and there is no other.
///
/// # Errors
/// [`WgpuError`]: why there are none.
pub fn find(config: &WgpuConfig, seed: &[u8], software: bool) -> Result<Vec<Found>, WgpuError> {
    let (refused, usable): (Vec<_>, Vec<_>) = detect(seed)?.into_iter().partition(|adapter| adapter.refusal.is_some());
    let refusals: Vec<_> = refused
        .into_iter()
        .map(|adapter| WgpuError::Refused { device: adapter.title(), reason: adapter.refusal.unwrap_or_default() })
        .collect();
    for refusal in &refusals {
        tracing::warn!("not used: {refusal}");
    }
    let (programs, hardware): (Vec<_>, Vec<_>) = usable.into_iter().partition(|adapter| adapter.software);
    let taken = if hardware.is_empty() && software { &programs } else { &hardware };
    if !taken.is_empty() {
        return Ok(taken.iter().map(|adapter| found(adapter, config, seed)).collect());
    }
    Err(match refusals.into_iter().next() {
        Some(refusal) => refusal,
        None => WgpuError::OnlySoftware {
            names: programs.iter().map(|adapter| adapter.name.as_str()).collect::<Vec<_>>().join(", "),
        },
    })
}

/// The variables that a process which opens devices must start with.
#[must_use]
pub fn environment() -> Vec<(&'static str, OsString)> {
    // Mesa's layer that orders devices for desktops looks for a display, and complains where there is none.
    vec![("NODEVICE_SELECT", "1".into())]
}

fn found(adapter: &AdapterDescription, config: &WgpuConfig, seed: &[u8]) -> Found {
    let total_bytes = adapter.memory_bytes.or(config.memory_bytes).unwrap_or(0);
    let info = DeviceInfo {
        id: adapter.id,
        name: adapter.name.clone(),
        backend: "wgpu",
        detail: adapter.detail(),
        total_bytes,
        // What is free is known once it is opened.
        free_bytes: total_bytes,
    };
    let pci_address = adapter.pci_address.as_ref().and_then(|address| address.parse().ok());
    let place = Place { pci_address, uuid: adapter.uuid, vendor: Some(adapter.vendor) };
    let opening = Opening { id: adapter.id, seed: seed.to_owned(), config: config.clone() };
    // A struct of plain fields: turning it into text cannot fail.
    Found { info, place, opening: serde_json::to_string(&opening).unwrap_or_default() }
}

/// Opens one device.
///
/// # Errors
/// [`WgpuError`]: why it cannot be used, in one sentence with what to do about it.
pub fn open(
    id: DeviceId,
    seed: &[u8],
    config: WgpuConfig,
    progress: &mut dyn FnMut(Preparing),
) -> Result<WgpuDevice, WgpuError> {
    let all = describe::describe_all(seed)?;
    let described = all.into_iter().find(|described| described.description.id == id);
    let described = described.ok_or(WgpuError::Unknown { id })?;
    if let Some(reason) = described.description.refusal.clone() {
        return Err(WgpuError::Refused { device: described.description.title(), reason });
    }
    WgpuDevice::open(described, config, progress)
}

/// Opens a device as [`find`] found it.
///
/// # Errors
/// [`DeviceError::Unsupported`] when it cannot be used at all, [`DeviceError::Sick`] for all else.
pub fn open_found(opening: &str, prepare: Prepare<'_>) -> Result<Box<dyn Device>, DeviceError> {
    let Opening { id, seed, config } =
        serde_json::from_str(opening).map_err(|e| DeviceError::Unsupported(format!("no wgpu device: {e}")))?;
    match open(id, &seed, config, &mut |preparing| prepare(preparing)) {
        Ok(device) => Ok(Box::new(device)),
        Err(error @ (WgpuError::Refused { .. } | WgpuError::Shader { .. })) => {
            Err(DeviceError::Unsupported(error.to_string()))
        }
        // A device that is busy is that, whether it is opened or works.
        Err(WgpuError::Device { error: error @ DeviceError::Busy { .. }, .. }) => Err(error),
        Err(error) => Err(DeviceError::Sick(error.to_string())),
    }
}
