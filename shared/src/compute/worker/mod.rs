//! Devices in processes of their own, one for each, and what keeps those running.
//!
//! A device's driver can take its process with it: after an illegal address or a lost device only a new process works.
//! So a program drives no device itself. It starts its own `worker` command for each, asks over a pipe
//! (`proto/assay/v1/worker.proto`), and starts another one when that is lost. To everything above, a
//! device in a worker is a [`Device`](super::device::Device) like any other.
//!
//! `serve` is the worker's side. `link` is the program's side of one worker, `supervisor` keeps one running,
//! `device` is what the program sees, and [`choose()`] makes devices of what the backends find, which `opening` opens.

mod device;
mod frame;
mod link;
mod log;
mod message;
mod opening;
mod process;
mod self_test;
mod serve;
pub mod stdio;
mod supervisor;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_of_several;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::choose::{BACKENDS, Backend, ChooseError, Chosen, Found, HostConfig, Preparing, look};
use super::device::{DeviceError, DeviceInfo};

pub use device::WorkerDevice;
pub use process::{Launched, Launcher, Process, Program};
pub use self_test::self_test;
pub use serve::serve;
pub use supervisor::{First, Order};

use link::{Link, LinkError, Patience};
use message::{Reply, Request};
use opening::Opening;

/// How workers are run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerConfig {
    /// The program whose `worker` command drives a device; `None`: this one.
    pub program: Option<PathBuf>,
    /// How long a worker may give no sign of life before it counts as hung.
    pub silence: Duration,
}

impl WorkerConfig {
    /// The silence after which a worker counts as hung, where nobody says otherwise: forty heartbeats.
    pub const SILENCE: Duration = Duration::from_secs(10);
}

impl Default for WorkerConfig {
    fn default() -> Self {
        Self { program: None, silence: Self::SILENCE }
    }
}

/// Takes the progress of opening a device: called now and then, from the thread that waits.
pub type Watch<'a> = &'a mut dyn FnMut(&DeviceInfo, &Preparing);

/// Opens the devices of the backends chosen, each in its worker: for `auto`, every GPU that a backend gives, and the
/// processor where there is none; else those of all that were asked for. Hardware that several backends have is used
/// through the first (`compute/merge.rs`).
///
/// A backend whose listing fails, however it fails, gives none. A device that gives wrong bits is left out; one that
/// cannot be opened now is kept, with a fault, as long as another one of its backend can.
///
/// # Errors
/// [`ChooseError`]: why a backend asked for, or each one there is, gives no device.
pub fn choose(host: &HostConfig, workers: &WorkerConfig, watch: Watch<'_>) -> Result<Chosen, ChooseError> {
    let launcher = Program::new(workers.program.clone())
        .map_err(|error| ChooseError::None(format!("no worker can be started: {error}")))?;
    let launcher = launcher.with_environment(environment(host));
    choose_with(host, BACKENDS, Arc::new(launcher), workers.silence, watch)
}

/// As [`choose()`], with these backends, and workers that are started in another way.
///
/// # Errors
/// As [`choose()`].
pub fn choose_with(
    host: &HostConfig,
    backends: &[Backend],
    launcher: Arc<dyn Launcher>,
    silence: Duration,
    watch: Watch<'_>,
) -> Result<Chosen, ChooseError> {
    let mut passed_over = Vec::new();
    for stage in host.choice.stages(backends)? {
        let ask = |backend: &Backend| list(backend.name(), host, &*launcher, silence);
        let lists = look(host, &stage, ask, &mut passed_over)?;
        let mut opening = Opening::new(&host.choice, &launcher, silence);
        if opening.open(lists, watch, &mut passed_over)? {
            return Ok(opening.into_chosen(&passed_over));
        }
    }
    Err(ChooseError::None(passed_over.join("; ")))
}

/// What the backends that may be used want workers to start with.
#[cfg_attr(
    not(any(feature = "cuda", feature = "wgpu")),
    expect(unused_variables, unused_mut, reason = "no backend has any")
)]
fn environment(host: &HostConfig) -> Vec<(&'static str, OsString)> {
    let mut variables = Vec::new();
    #[cfg(feature = "cuda")]
    if host.choice.allows(super::choose::BackendKind::Cuda) {
        variables.extend(super::cuda::environment(&host.cuda));
    }
    #[cfg(feature = "wgpu")]
    if host.choice.allows(super::choose::BackendKind::Wgpu) {
        variables.extend(super::wgpu::environment());
    }
    variables
}

/// The devices of a backend, found by a process that ends with it.
fn list(
    backend: &'static str,
    host: &HostConfig,
    launcher: &dyn Launcher,
    silence: Duration,
) -> Result<Vec<Found>, String> {
    let settings = serde_json::to_string(host).map_err(|error| error.to_string())?;
    let patience = Patience { silence, over: Arc::new(AtomicBool::new(false)) };
    let cannot = |error: DeviceError| format!("its devices cannot be listed: {error}");
    let mut link = Link::start(launcher, backend, patience).map_err(cannot)?;
    let reply = match link.ask(Request::List { backend: backend.into(), settings }) {
        Ok(Reply::Backend(found)) => Ok(found),
        Ok(_) => Err(link.rubbish("another answer than its devices")),
        Err(error) => Err(error),
    };
    let _ = link.end();
    reply.map_err(|error: LinkError| cannot(error.verdict().0))?
}
