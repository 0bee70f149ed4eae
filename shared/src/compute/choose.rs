//! The backends of this build, which may be used, and how each finds and opens its devices.
//!
//! Finding and opening are apart, because they happen in different processes (`compute/worker`): one lists all
//! devices of a backend and ends, then each device is opened in a process of its own.

use serde::{Deserialize, Serialize};

use super::cpu::{self, CpuConfig, CpuOpening};
use super::cuda::{self, CudaConfig};
use super::device::{Device, DeviceError, DeviceInfo};
use super::host::Host;

/// Which backends may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BackendChoice {
    /// The fastest that works here.
    #[default]
    Auto,
    /// NVIDIA's GPUs.
    Cuda,
    /// The processor.
    Cpu,
}

/// What every backend is asked with.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostConfig {
    /// Which backends may be used.
    pub choice: BackendChoice,
    /// The processor's devices.
    pub cpu: CpuConfig,
    /// NVIDIA's GPUs.
    pub cuda: CudaConfig,
    /// What device ids are derived from where hardware has none: the daemon's public key, say.
    pub seed: Vec<u8>,
}

/// The devices found, and how they were chosen.
pub struct Chosen {
    /// The devices, each on its thread.
    pub host: Host,
    /// The backend.
    pub backend: &'static str,
    /// Why this one, in one sentence.
    pub why: String,
}

/// Why there are no devices.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChooseError {
    /// No backend gives a device: what each one says.
    #[error("no device: {0}")]
    None(String),
}

/// A device that a backend found; it holds no memory of the device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// What it is.
    pub info: DeviceInfo,
    /// What [`Backend::open`] needs to open this device and no other, in the backend's own form: all that was decided
    /// while looking at the host as a whole.
    pub opening: String,
}

/// What is done while a device is opened, where that takes long.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Preparing {
    /// What is done now: "compiling kernels".
    pub what: String,
    /// How much of it is done.
    pub done: u64,
    /// How much of it there is; 0 when that is not known.
    pub total: u64,
}

/// Takes the progress of opening a device.
pub type Prepare<'a> = &'a (dyn Fn(Preparing) + Sync);

/// A device that was opened, or why not.
pub type Opened = Result<Box<dyn Device>, DeviceError>;

/// One backend. Both functions run in a process that may end with a broken driver.
#[derive(Debug)]
pub struct Backend {
    /// Its name, as in [`DeviceInfo::backend`].
    pub name: &'static str,
    /// The choice that asks for it alone.
    pub choice: BackendChoice,
    /// Finds its devices, in any order, without taking memory of any; why there is none, in one sentence with the
    /// remedy.
    pub detect: fn(&HostConfig) -> Result<Vec<Found>, String>,
    /// Opens one device by what `detect` said of it.
    pub open: fn(&str, Prepare<'_>) -> Opened,
}

/// All backends of this build, the fastest first.
pub const BACKENDS: &[Backend] = &[
    Backend { name: "cuda", choice: BackendChoice::Cuda, detect: detect_cuda, open: cuda::open_found },
    Backend { name: "cpu", choice: BackendChoice::Cpu, detect: detect_cpu, open: open_cpu },
];

impl Backend {
    /// Whether a configuration allows it.
    #[must_use]
    pub fn is_allowed(&self, choice: BackendChoice) -> bool {
        choice == BackendChoice::Auto || choice == self.choice
    }
}

fn detect_cuda(config: &HostConfig) -> Result<Vec<Found>, String> {
    cuda::find(&config.cuda).map_err(|error| error.to_string())
}

fn detect_cpu(config: &HostConfig) -> Result<Vec<Found>, String> {
    let openings = cpu::openings(&config.cpu, &config.seed).map_err(|error| error.to_string())?;
    if openings.is_empty() {
        return Err("no device is asked for: set cpu_devices to 1 or more".into());
    }
    let found = |opening: &CpuOpening| {
        let info = opening.open().map_err(|error| error.to_string())?.info();
        let opening = serde_json::to_string(opening).map_err(|error| error.to_string())?;
        Ok(Found { info, opening })
    };
    openings.iter().map(found).collect()
}

fn open_cpu(opening: &str, _prepare: Prepare<'_>) -> Opened {
    let unsupported = |error: &dyn std::error::Error| DeviceError::Unsupported(format!("no CPU device: {error}"));
    let opening: CpuOpening = serde_json::from_str(opening).map_err(|error| unsupported(&error))?;
    Ok(Box::new(opening.open().map_err(|error| unsupported(&error))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_found_opens_as_it_was_found() {
        let cpu = CpuConfig { devices: 2, memory_bytes: vec![1 << 24, 1 << 25], ..CpuConfig::default() };
        let config = HostConfig { cpu, ..HostConfig::default() };
        for backend in BACKENDS.iter().filter(|backend| backend.choice == BackendChoice::Cpu) {
            let found = (backend.detect)(&config).unwrap();
            assert_eq!(found.len(), 2);
            for found in found {
                let info = (backend.open)(&found.opening, &|_| ()).unwrap().info();
                assert_eq!((info.id, info.backend), (found.info.id, backend.name));
                assert_eq!((info.name, info.total_bytes), (found.info.name, found.info.total_bytes));
                assert_eq!(info.detail, found.info.detail);
            }
        }
    }

    #[test]
    fn what_was_not_found_does_not_open() {
        for opening in ["", "{}", "null", r#"{"id":"00"}"#] {
            assert!(matches!(open_cpu(opening, &|_| ()), Err(DeviceError::Unsupported(_))), "{opening}");
        }
        assert!(detect_cpu(&HostConfig::default()).unwrap_err().contains("cpu_devices"));
    }

    #[test]
    fn settings_arrive_as_they_were() {
        let cpu = CpuConfig { devices: 2, memory_bytes: vec![1 << 24], threads: vec![1, 2], ..CpuConfig::default() };
        let cuda = CudaConfig { poison: true, cache_folder: Some("/cache".into()), ..CudaConfig::default() };
        let config = HostConfig { cpu, cuda, choice: BackendChoice::Cpu, seed: vec![7; 32] };
        let text = serde_json::to_string(&config).unwrap();
        assert_eq!(serde_json::from_str::<HostConfig>(&text).unwrap(), config);
    }
}
