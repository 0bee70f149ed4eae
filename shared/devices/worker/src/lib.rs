//! Runs each device in a worker process of its own, and keeps the workers running.
//!
//! A device's driver can take its process with it: after an illegal address or a lost device only a new process works.
//! So a program drives no device itself. It starts its own `worker` command for each device, sends requests over a pipe,
//! and starts another worker when one is lost. To everything above, a device in a worker is a
//! [`Device`](assay_device::Device) like any other.
//!
//! [`serve()`] is the worker's side. `link` is the program's side of one worker, `supervisor` keeps one running, and
//! [`WorkerDevice`] is the program's view of it; [`detect`] lists the devices of a backend in a process that ends with
//! it.

#![deny(unsafe_code)]

mod device;
pub mod frame;
mod handles;
mod link;
mod log;
pub mod message;
mod peers;
mod process;
mod self_test;
mod serve;
mod states;
pub mod stdio;
mod stepping;
mod supervisor;
#[cfg(test)]
mod tests;

// `tests::threads` is compiled in another crate too.
#[cfg(test)]
extern crate self as assay_worker;

use std::path::PathBuf;
use std::time::Duration;

use assay_device::DeviceError;
use assay_device::backend::{Absence, Backend, BackendKind, DetectedDevice};

pub use device::WorkerDevice;
pub use process::{LaunchedWorker, Launcher, Process, Program};
pub use self_test::self_test;
pub use serve::{BackendFactory, serve};
pub use supervisor::{StartOutcome, WorkerHealth, WorkerMonitor, WorkerSpec};

use link::{RequestError, Timeouts, WorkerLink};
use message::{Reply, Request};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerConfig {
    /// The program whose `worker` command drives a device; `None`: the running one.
    pub program: Option<PathBuf>,
    /// How long a worker may give no sign of life before it counts as hung.
    pub silence: Duration,
}

impl WorkerConfig {
    /// The default of [`WorkerConfig::silence`]: forty heartbeats.
    pub const SILENCE: Duration = Duration::from_secs(10);
}

impl Default for WorkerConfig {
    fn default() -> Self {
        Self { program: None, silence: Self::SILENCE }
    }
}

/// Attempts to list the devices of a backend, or to open one, whose process is lost meanwhile: killed, say, for want of
/// host memory.
const ATTEMPTS: u64 = 3;
/// The pause before another attempt.
const LISTING_PAUSE: Duration = Duration::from_millis(500);

/// Whether a device's process was killed, say for want of host memory: no fault of its driver, which would crash again.
pub fn was_killed(error: &DeviceError) -> bool {
    matches!(error, DeviceError::Lost(why) if why.contains(process::KILLED))
}

/// Finds the devices of a backend in a process that ends with it, in order of id.
///
/// # Errors
/// [`Absence`] when there are no devices.
pub fn detect(
    backend: &dyn Backend,
    launcher: &dyn Launcher,
    silence: Duration,
) -> Result<Vec<DetectedDevice>, Absence> {
    let mut listed = list(backend, launcher, silence);
    for _ in 1..ATTEMPTS {
        let Err(DeviceError::Lost(why)) = &listed else { break };
        tracing::warn!(backend = %backend.kind(), "the devices are listed again: {why}");
        std::thread::sleep(LISTING_PAUSE);
        listed = list(backend, launcher, silence);
    }
    let mut found = listed.map_err(|error| Absence {
        why: format!("its devices cannot be listed: {error}"),
        may_pass: backend.kind() == BackendKind::Cuda && was_killed(&error),
    })??;
    found.sort_by_key(|found| found.info.id);
    Ok(found)
}

/// The devices as a process of the backend lists them, or its reason that there are none.
fn list(
    backend: &dyn Backend,
    launcher: &dyn Launcher,
    silence: Duration,
) -> Result<Result<Vec<DetectedDevice>, Absence>, DeviceError> {
    let (kind, settings) = (backend.kind(), backend.settings());
    let timeouts = Timeouts { silence, over: Default::default() };
    let mut link = WorkerLink::start(launcher, kind, timeouts)?;
    let reply = match link.ask(Request::Detect { backend: kind, settings }) {
        Ok(Reply::Detected(found)) => Ok(found),
        Ok(_) => Err(link.malformed("another answer than its devices")),
        Err(error) => Err(error),
    };
    let _ = link.end();
    reply.map_err(RequestError::into_error)
}
