//! The contract of a backend: it finds devices, and opens each one later, in another process.

use std::ffi::OsString;

use serde::{Deserialize, Serialize};

pub use crate::kind::BackendKind;
use crate::place::DevicePlace;
use crate::{Device, DeviceError, DeviceInfo};

/// A device that a backend found; it holds no memory of the device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DetectedDevice {
    pub info: DeviceInfo,
    /// The hardware's address, to merge devices of several backends.
    pub place: DevicePlace,
    /// Whether its memory is the host's: an integrated GPU, or a program.
    pub integrated: bool,
    /// The reason that it cannot be used, in one sentence with its name; `None` when it can.
    pub refusal: Option<String>,
    /// Whether the operator forbids its use: no other backend takes it either.
    pub forbidden: bool,
    /// The part that [`Backend::open`] needs to open this device and no other, in the backend's own form, at most
    /// [`MAX_SPEC_BYTES`]: all decisions over the host as a whole.
    pub spec: String,
}

/// The most devices of a host.
pub const MAX_HOST_DEVICES: usize = 64;
/// The least memory that a setting may give a device, in bytes: the smallest share of a challenge and the buffers
/// around it.
pub const MIN_DEVICE_BYTES: u64 = 8 << 20;
/// The longest [`DetectedDevice::spec`], in bytes: a line of JSON with an id, a path and some figures.
pub const MAX_SPEC_BYTES: usize = 4096;

/// The progress of a device's start-up, where that takes long.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StartupProgress {
    /// The current step: "compiling kernels".
    pub what: String,
    /// The part of it that is done.
    pub done: u64,
    /// How much of it there is; 0 when that is not known.
    pub total: u64,
}

/// Takes the progress of a device's start-up.
pub type StartupObserver<'a> = &'a (dyn Fn(StartupProgress) + Sync);

/// A device that was opened, or why not.
pub type OpenResult = Result<Box<dyn Device>, DeviceError>;

/// Why a backend gives no device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{why}")]
pub struct Absence {
    /// The reason, in one sentence with the remedy.
    pub why: String,
    /// Whether it may pass: the system is not ready yet, or another process has the devices.
    pub may_pass: bool,
}

impl From<&str> for Absence {
    fn from(why: &str) -> Self {
        Self::from(why.to_owned())
    }
}

impl From<String> for Absence {
    fn from(why: String) -> Self {
        Self { why, may_pass: false }
    }
}

/// A backend with its settings.
///
/// [`detect`](Self::detect) and [`open`](Self::open) run in different processes, either of which a broken driver may
/// end: one lists all devices of a backend and ends, then each device is opened in a process of its own.
pub trait Backend: Send + Sync {
    fn kind(&self) -> BackendKind;

    /// The settings, as JSON, from which the registry makes the same backend in another process.
    fn settings(&self) -> String;

    /// Environment variables that a process which opens devices must start with.
    fn environment(&self) -> Vec<(&'static str, OsString)> {
        Vec::new()
    }

    /// Finds the devices, those that are refused too, in any order, without taking memory of any.
    ///
    /// # Errors
    /// [`Absence`] when no device can be used.
    fn detect(&self) -> Result<Vec<DetectedDevice>, Absence>;

    /// Opens the device that [`detect`](Self::detect) described as [`DetectedDevice::spec`].
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] when it can never be used, [`DeviceError::NotNow`] when it may be used later, another
    /// [`DeviceError`] for all other faults.
    fn open(&self, spec: &str, prepare: StartupObserver<'_>) -> OpenResult;

    /// Opens a device as [`open`](Self::open) does, for a benchmark.
    ///
    /// # Errors
    /// As [`open`](Self::open); [`DeviceError::Unsupported`] where the backend has no benchmarks.
    #[cfg(feature = "bench")]
    fn open_bench(&self, _spec: &str, _prepare: StartupObserver<'_>) -> crate::bench::OpenedBench {
        Err(DeviceError::Unsupported(format!("the {} backend has no benchmarks", self.kind().title())))
    }
}
