//! Devices in processes of their own, one for each, and what keeps those running.
//!
//! A device's driver can take its process with it: after an illegal address or a lost device only a new process works.
//! So a program drives no device itself. It starts its own `worker` command for each, asks over a pipe
//! (`proto/assay/v1/worker.proto`), and starts another one when that is lost. To everything above, a
//! device in a worker is a [`Device`] like any other.
//!
//! `serve` is the worker's side. `link` is the program's side of one worker, `supervisor` keeps one running,
//! `device` is what the program sees, and [`choose()`] makes devices of what the backends find.

mod device;
mod frame;
mod link;
mod log;
mod message;
mod process;
mod self_test;
mod serve;
pub mod stdio;
mod supervisor;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use super::choose::{BACKENDS, ChooseError, Chosen, Found, HostConfig, Preparing};
use super::cuda;
use super::device::{Device, DeviceError, DeviceInfo};
use super::host::{Changes, Host};

pub use device::WorkerDevice;
pub use process::{Launched, Launcher, Process, Program};
pub use self_test::self_test;
pub use serve::serve;
pub use supervisor::{First, Order};

use link::{Link, LinkError, Patience};
use message::{Reply, Request};

/// How often devices that are being opened are looked at.
const LOOK: Duration = Duration::from_millis(5);

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

/// Opens the devices of the backend chosen, each in its worker; for `auto`, those of the first backend that gives any.
///
/// A backend whose listing fails, however it fails, gives none. A device that gives wrong bits is left out; one that
/// cannot be opened now is kept, with a fault, as long as another one can.
///
/// # Errors
/// [`ChooseError`]: why the backend asked for, or each one there is, gives no device.
pub fn choose(host: &HostConfig, workers: &WorkerConfig, watch: Watch<'_>) -> Result<Chosen, ChooseError> {
    let launcher = Program::new(workers.program.clone())
        .map_err(|error| ChooseError::None(format!("no worker can be started: {error}")))?;
    let launcher = launcher.with_environment(environment(host));
    choose_with(host, Arc::new(launcher), workers.silence, watch)
}

/// As [`choose()`], with workers that are started in another way.
///
/// # Errors
/// As [`choose()`].
pub fn choose_with(
    host: &HostConfig,
    launcher: Arc<dyn Launcher>,
    silence: Duration,
    watch: Watch<'_>,
) -> Result<Chosen, ChooseError> {
    let mut passed_over = Vec::new();
    for backend in BACKENDS.iter().filter(|backend| backend.is_allowed(host.choice)) {
        let opened =
            list(backend.name, host, &*launcher, silence).and_then(|found| open(found, &launcher, silence, watch));
        match opened {
            Ok(devices) => {
                let why = why(host, &passed_over);
                return Ok(Chosen { host: devices, backend: backend.name, why });
            }
            Err(why) => passed_over.push(format!("{}: {why}", backend.name)),
        }
    }
    Err(ChooseError::None(passed_over.join("; ")))
}

/// What the backends that may be used want workers to start with.
fn environment(host: &HostConfig) -> Vec<(&'static str, OsString)> {
    use super::choose::BackendChoice::{Auto, Cuda};
    if matches!(host.choice, Auto | Cuda) { cuda::environment(&host.cuda) } else { Vec::new() }
}

fn why(host: &HostConfig, passed_over: &[String]) -> String {
    use super::choose::BackendChoice::Auto;
    match (host.choice, passed_over) {
        (Auto, []) => "auto: the fastest backend of this build".into(),
        (Auto, passed_over) => format!("auto; {}", passed_over.join("; ")),
        _ => "asked for".into(),
    }
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

/// Opens all devices at once, and waits for each; why there is none, in one sentence.
fn open(found: Vec<Found>, launcher: &Arc<dyn Launcher>, silence: Duration, watch: Watch<'_>) -> Result<Host, String> {
    let changes = Changes::default();
    let mut devices = Vec::with_capacity(found.len());
    for found in found {
        let info = found.info.clone();
        let order = Order { found, launcher: launcher.clone(), silence, changes: changes.clone() };
        let device = WorkerDevice::start(order).map_err(|error| format!("no thread for a worker: {error}"))?;
        devices.push((info, device));
    }
    wait_for_all(&devices, watch);
    let ready = devices.iter().any(|(_, device)| device.first() == Some(First::Ready));
    let faults: Vec<DeviceError> = devices.iter().filter_map(|(_, device)| device.fault()).collect();
    if !ready {
        let first = faults.first().map(ToString::to_string).unwrap_or_default();
        return Err(format!("none of {} device(s) can be used: {first}", devices.len()));
    }
    devices.retain(|(_, device)| !matches!(device.first(), Some(First::Condemned(_))));
    let devices = devices.into_iter().map(|(_, device)| Box::new(device) as Box<dyn Device>).collect();
    Ok(Host::with_changes(devices, changes))
}

fn wait_for_all(devices: &[(DeviceInfo, WorkerDevice)], watch: Watch<'_>) {
    let mut shown = vec![Preparing::default(); devices.len()];
    while devices.iter().any(|(_, device)| device.first().is_none()) {
        for ((info, device), shown) in devices.iter().zip(&mut shown) {
            let preparing = device.preparing();
            if preparing != *shown {
                watch(info, &preparing);
                *shown = preparing;
            }
        }
        thread::sleep(LOOK);
    }
}
