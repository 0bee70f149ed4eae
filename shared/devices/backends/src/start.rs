//! Opens the devices of several backends at once, and does without a backend none of whose devices opens.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use assay_device::backend::{Absence, Backend, BackendKind, DetectedDevice, StartupProgress};
use assay_device::host::{Changes, Host};
use assay_device::place::DevicePlace;
use assay_device::{Device, DeviceError, DeviceInfo};
use assay_program::render::units::counted;
use assay_work::DeviceId;
use assay_worker::{Launcher, Program, StartOutcome, WorkerConfig, WorkerDevice, WorkerSpec, detect};

pub use assay_worker::{WorkerHealth, WorkerMonitor};

use crate::choice::{BackendChoice, ChooseError, detect_all};
use crate::filter::in_order;
use crate::merge::{ExcludedDevice, MergeResult, merge};
use crate::registry::HostConfig;

/// How often devices that are being opened are looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The devices found, and how they were chosen.
pub struct DeviceSelection {
    pub host: Host,
    /// Where each device is, as its backend found it.
    pub places: BTreeMap<DeviceId, DevicePlace>,
    /// The index by which settings name each device: its place among all that were found, by their ids.
    pub indices: BTreeMap<DeviceId, usize>,
    pub workers: BTreeMap<DeviceId, WorkerMonitor>,
    /// The backends that they are of: `cuda`, or `cuda, wgpu`.
    pub backend: String,
    /// The reason of the choice, in one sentence.
    pub why: String,
    /// Devices that were found and are left out, since they do not open or give wrong bits.
    pub unusable: Vec<(DeviceInfo, DeviceError)>,
}

/// Takes the progress of opening a device: called now and then, from the thread that waits.
pub type StartProgress<'a> = &'a mut dyn FnMut(&DeviceInfo, &StartupProgress);

/// Opens the devices of the backends chosen, each in its worker: for `auto`, every GPU that a backend gives, and the
/// processor without any; else those of all backends asked for. Hardware that several backends have is used through the
/// first ([`merge()`]).
///
/// A backend whose listing fails, in any way, gives none. A device that gives wrong bits is left out; one that cannot
/// be opened now is kept, with a fault, as long as another one of its backend can.
///
/// # Errors
/// [`ChooseError`] when a backend asked for, or each of all backends, gives no device, with the reasons.
pub fn start(
    host: &HostConfig,
    workers: &WorkerConfig,
    progress: StartProgress<'_>,
) -> Result<DeviceSelection, ChooseError> {
    let launcher = Program::new(workers.program.clone())
        .map_err(|error| ChooseError::None(format!("no worker can be started: {error}")))?;
    let backends = host.backends();
    let allowed = backends.iter().filter(|backend| host.choice.allows(backend.kind()));
    let launcher = launcher.with_environment(allowed.flat_map(|backend| backend.environment()).collect());
    let launch = WorkerLaunch { launcher: Arc::new(launcher), silence: workers.silence };
    start_with(host, backends, &launch, progress)
}

/// The way to launch workers.
pub struct WorkerLaunch {
    pub launcher: Arc<dyn Launcher>,
    /// How long one may give no sign of life.
    pub silence: Duration,
}

/// As [`start`], with these backends, and workers that are launched in another way.
///
/// # Errors
/// As [`start`].
pub fn start_with(
    host: &HostConfig,
    backends: Vec<Box<dyn Backend>>,
    launch: &WorkerLaunch,
    progress: StartProgress<'_>,
) -> Result<DeviceSelection, ChooseError> {
    let HostConfig { choice, gpus_are_hidden, .. } = host;
    let (mut passed_over, mut unusable) = (Vec::new(), Vec::new());
    for stage in choice.stages(backends)? {
        let ask = |backend: &dyn Backend| detect(backend, &*launch.launcher, launch.silence);
        let lists = detect_all(choice, *gpus_are_hidden, &stage, ask, &mut passed_over)?;
        let mut start = HostStart::new(host, &stage, launch);
        start.unusable = std::mem::take(&mut unusable);
        if start.open(lists, progress, &mut passed_over)? {
            return Ok(start.into_chosen(&passed_over));
        }
        unusable = start.unusable;
    }
    Err(ChooseError::None(passed_over.join("; ")))
}

/// The devices of a host on their way to be opened.
struct HostStart<'a> {
    config: &'a HostConfig,
    launch: &'a WorkerLaunch,
    settings: BTreeMap<BackendKind, String>,
    changes: Changes,
    /// Those that were started, the preferred backend's first.
    started: Vec<(DeviceInfo, WorkerDevice)>,
    places: BTreeMap<DeviceId, DevicePlace>,
    indices: BTreeMap<DeviceId, usize>,
    left_out: Vec<ExcludedDevice>,
    unusable: Vec<(DeviceInfo, DeviceError)>,
}

impl<'a> HostStart<'a> {
    fn new(config: &'a HostConfig, stage: &[Box<dyn Backend>], launch: &'a WorkerLaunch) -> Self {
        let settings = stage.iter().map(|backend| (backend.kind(), backend.settings())).collect();
        let changes = Changes::default();
        let (started, left_out, unusable) = (Vec::new(), Vec::new(), Vec::new());
        let (places, indices) = (BTreeMap::new(), BTreeMap::new());
        Self { config, launch, settings, changes, started, places, indices, left_out, unusable }
    }

    /// Opens the devices that each backend found, and waits for them; whether any backend is left. When one has to be
    /// passed over, hardware that it shares with another one is opened through that.
    ///
    /// # Errors
    /// [`ChooseError`] when a backend asked for has to be passed over.
    fn open(
        &mut self,
        mut lists: Vec<Vec<DetectedDevice>>,
        progress: StartProgress<'_>,
        passed_over: &mut Vec<String>,
    ) -> Result<bool, ChooseError> {
        // One backend less each time.
        while !lists.is_empty() {
            let merged = merge(&lists);
            self.left_out = merged.left_out.clone();
            self.expect_all(&lists, &merged.devices)?;
            let numbered = in_order(&merged.devices).into_iter().enumerate();
            self.indices = numbered.map(|(index, found)| (found.info.id, index)).collect();
            // A name of a device of a backend that gave none matches no device now.
            let why = |error: ChooseError| match &passed_over[..] {
                [] => error,
                passed_over => ChooseError::Filter(format!("{error}; {}", passed_over.join("; "))),
            };
            let MergeResult { devices, left_out } = self.config.select(merged).map_err(why)?;
            self.left_out = left_out;
            self.start(devices)?;
            let fresh = self.started.iter().filter(|(_, device)| device.start_outcome().is_none());
            wait_for(&fresh.collect::<Vec<_>>(), progress);
            let failed = self.failed();
            if failed.is_empty() {
                return Ok(true);
            }
            for (backend, why) in failed {
                self.config.choice.pass_over(backend, &why, passed_over)?;
                lists.retain(|list| list.first().is_some_and(|found| found.info.backend != backend));
                for (info, device) in self.started.extract_if(.., |(info, _)| info.backend == backend) {
                    self.unusable.extend(device.fault().map(|fault| (info, fault)));
                }
            }
        }
        Ok(false)
    }

    /// A backend that was asked for has to give a device that no other one gives.
    fn expect_all(&self, lists: &[Vec<DetectedDevice>], devices: &[DetectedDevice]) -> Result<(), ChooseError> {
        if self.config.choice == BackendChoice::Auto {
            return Ok(());
        }
        for backend in lists.iter().filter_map(|list| list.first()).map(|found| found.info.backend) {
            if devices.iter().all(|found| found.info.backend != backend) {
                let why = self.left_out.iter().filter(|left_out| left_out.backend == backend);
                let why: Vec<_> = why.map(ToString::to_string).collect();
                return Err(ChooseError::None(format!("{backend}: it has no device of its own: {}", why.join("; "))));
            }
        }
        Ok(())
    }

    /// Starts a worker for each device that has none yet.
    fn start(&mut self, devices: Vec<DetectedDevice>) -> Result<(), ChooseError> {
        for found in devices {
            if self.started.iter().any(|(info, _)| info.id == found.info.id) {
                continue;
            }
            let info = found.info.clone();
            self.places.insert(info.id, found.place.clone());
            let spec = WorkerSpec {
                settings: self.settings.get(&info.backend).cloned().unwrap_or_default(),
                found,
                launcher: self.launch.launcher.clone(),
                silence: self.launch.silence,
                changes: self.changes.clone(),
            };
            let device = WorkerDevice::start(spec)
                .map_err(|error| ChooseError::None(format!("no thread for a worker: {error}")))?;
            self.started.push((info, device));
        }
        Ok(())
    }

    /// The backends none of whose devices opened, with the reason.
    fn failed(&self) -> Vec<(BackendKind, Absence)> {
        let backends: BTreeSet<_> = self.started.iter().map(|(info, _)| info.backend).collect();
        let why = |backend: BackendKind| {
            let devices = self.started.iter().filter(|(info, _)| info.backend == backend).map(|(_, device)| device);
            let devices: Vec<_> = devices.collect();
            if devices.iter().any(|device| device.start_outcome() == Some(StartOutcome::Ready)) {
                return None;
            }
            let faults: Vec<_> = devices.iter().filter_map(|device| device.fault()).collect();
            let passes = |fault: &&DeviceError| {
                matches!(fault, DeviceError::NotNow(_) | DeviceError::Busy { .. } | DeviceError::NoMemory(_))
                    || (backend == BackendKind::Cuda && assay_worker::was_killed(fault))
            };
            let passing = faults.iter().find(passes);
            let said = passing.or(faults.first()).map(ToString::to_string).unwrap_or_default();
            let why = format!("none of {} can be used: {said}", counted(devices.len() as u64, "device"));
            Some((backend, Absence { why, may_pass: passing.is_some() }))
        };
        backends.into_iter().filter_map(why).collect()
    }

    /// The devices, once they are open; devices left out are logged.
    fn into_chosen(self, passed_over: &[String]) -> DeviceSelection {
        for left_out in self.left_out.iter().filter(|left_out| !left_out.is_usual()) {
            tracing::warn!("{left_out}");
        }
        let why = self.why(passed_over);
        let (mut started, mut unusable) = (self.started, self.unusable);
        let is_rejected = |device: &WorkerDevice| matches!(device.start_outcome(), Some(StartOutcome::Rejected(_)));
        for (info, device) in started.extract_if(.., |(_, device)| is_rejected(device)) {
            unusable.extend(device.fault().map(|fault| (info, fault)));
        }
        let mut backends = Vec::new();
        for (info, _) in &started {
            if !backends.contains(&info.backend) {
                backends.push(info.backend);
            }
        }
        let workers = started.iter().map(|(info, device)| (info.id, device.monitor())).collect();
        let devices = started.into_iter().map(|(_, device)| Box::new(device) as Box<dyn Device>).collect();
        let host = Host::with_changes(devices, self.changes);
        let backend = backends.iter().map(|kind: &BackendKind| kind.name()).collect::<Vec<_>>().join(", ");
        DeviceSelection { host, places: self.places, indices: self.indices, workers, backend, why, unusable }
    }

    fn why(&self, passed_over: &[String]) -> String {
        let mut parts = vec![match &self.config.choice {
            BackendChoice::Auto => "auto".to_owned(),
            BackendChoice::These(_) => "as set by backend".to_owned(),
        }];
        if !self.config.filter.is_all() {
            let (used, all) = (self.started.len(), self.indices.len());
            parts.push(format!("{used} of {all} devices by the setting device"));
        }
        parts.extend_from_slice(passed_over);
        let usual = self.left_out.iter().filter(|left_out| left_out.is_usual());
        parts.extend(usual.map(ToString::to_string));
        if parts.len() == 1 && self.config.choice == BackendChoice::Auto {
            return "auto: all that this build can use".into();
        }
        parts.join("; ")
    }
}

/// Waits until each of these devices is open or has failed, and reports their progress.
fn wait_for(devices: &[&(DeviceInfo, WorkerDevice)], progress: StartProgress<'_>) {
    let mut shown = vec![StartupProgress::default(); devices.len()];
    while devices.iter().any(|(_, device)| device.start_outcome().is_none()) {
        for ((info, device), shown) in devices.iter().zip(&mut shown) {
            let preparing = device.preparing();
            if preparing != *shown {
                progress(info, &preparing);
                *shown = preparing;
            }
        }
        thread::sleep(POLL_INTERVAL);
    }
}

#[cfg(test)]
#[path = "start_tests.rs"]
mod tests;
