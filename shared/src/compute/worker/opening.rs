//! Opens the devices of several backends at once, and does without a backend none of whose devices opens.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::{First, Launcher, Order, Watch, WorkerDevice};
use crate::compute::choose::{BackendChoice, ChooseError, Chosen, Found, Preparing};
use crate::compute::device::{Device, DeviceInfo};
use crate::compute::host::{Changes, Host};
use crate::compute::merge::{LeftOut, Why, merge};
use crate::compute::place::Place;
use crate::work::DeviceId;

/// How often devices that are being opened are looked at.
const LOOK: Duration = Duration::from_millis(5);

/// The devices of a host on their way to be opened.
pub(super) struct Opening<'a> {
    choice: &'a BackendChoice,
    launcher: &'a Arc<dyn Launcher>,
    silence: Duration,
    changes: Changes,
    /// Those that were started, the preferred backend's first.
    started: Vec<(DeviceInfo, WorkerDevice)>,
    places: BTreeMap<DeviceId, Place>,
    left_out: Vec<LeftOut>,
}

impl<'a> Opening<'a> {
    /// Nothing is opened yet.
    pub(super) fn new(choice: &'a BackendChoice, launcher: &'a Arc<dyn Launcher>, silence: Duration) -> Self {
        let changes = Changes::default();
        let (started, places, left_out) = (Vec::new(), BTreeMap::new(), Vec::new());
        Self { choice, launcher, silence, changes, started, places, left_out }
    }

    /// Opens what each backend found, and waits for it; whether any backend is left. When one has to be done without,
    /// hardware that it shares with another one is opened through that.
    ///
    /// # Errors
    /// [`ChooseError`] when one has to be done without that was asked for.
    pub(super) fn open(
        &mut self,
        mut lists: Vec<Vec<Found>>,
        watch: Watch<'_>,
        passed_over: &mut Vec<String>,
    ) -> Result<bool, ChooseError> {
        // One backend less each time.
        while !lists.is_empty() {
            let merged = merge(&lists);
            self.left_out = merged.left_out;
            self.expect_all(&lists, &merged.devices)?;
            self.start(merged.devices)?;
            let fresh = self.started.iter().filter(|(_, device)| device.first().is_none());
            wait_for(&fresh.collect::<Vec<_>>(), watch);
            let failed = self.failed();
            if failed.is_empty() {
                return Ok(true);
            }
            for (backend, why) in failed {
                self.choice.pass_over(backend, &why, passed_over)?;
                lists.retain(|list| list.first().is_some_and(|found| found.info.backend != backend));
                self.started.retain(|(info, _)| info.backend != backend);
            }
        }
        Ok(false)
    }

    /// A backend that was asked for has to give a device that no other one gives.
    fn expect_all(&self, lists: &[Vec<Found>], devices: &[Found]) -> Result<(), ChooseError> {
        if *self.choice == BackendChoice::Auto {
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
    fn start(&mut self, devices: Vec<Found>) -> Result<(), ChooseError> {
        for found in devices {
            if self.started.iter().any(|(info, _)| info.id == found.info.id) {
                continue;
            }
            let info = found.info.clone();
            self.places.insert(info.id, found.place.clone());
            let (launcher, changes) = (self.launcher.clone(), self.changes.clone());
            let order = Order { found, launcher, silence: self.silence, changes };
            let device = WorkerDevice::start(order)
                .map_err(|error| ChooseError::None(format!("no thread for a worker: {error}")))?;
            self.started.push((info, device));
        }
        Ok(())
    }

    /// The backends none of whose devices opened, and why.
    fn failed(&self) -> Vec<(&'static str, String)> {
        let backends: BTreeSet<_> = self.started.iter().map(|(info, _)| info.backend).collect();
        let why = |backend: &'static str| {
            let devices = self.started.iter().filter(|(info, _)| info.backend == backend).map(|(_, device)| device);
            let devices: Vec<_> = devices.collect();
            if devices.iter().any(|device| device.first() == Some(First::Ready)) {
                return None;
            }
            let first = devices.iter().find_map(|device| device.fault());
            let first = first.as_ref().map(ToString::to_string).unwrap_or_default();
            Some((backend, format!("none of {} device(s) can be used: {first}", devices.len())))
        };
        backends.into_iter().filter_map(why).collect()
    }

    /// The devices, once they are open; what was left out is told.
    pub(super) fn into_chosen(self, passed_over: &[String]) -> Chosen {
        for left_out in self.left_out.iter().filter(|left_out| !matches!(left_out.why, Why::Twin { .. })) {
            tracing::warn!("{left_out}");
        }
        let why = self.why(passed_over);
        let mut started = self.started;
        started.retain(|(_, device)| !matches!(device.first(), Some(First::Condemned(_))));
        let mut backends = Vec::new();
        for (info, _) in &started {
            if !backends.contains(&info.backend) {
                backends.push(info.backend);
            }
        }
        let devices = started.into_iter().map(|(_, device)| Box::new(device) as Box<dyn Device>).collect();
        let host = Host::with_changes(devices, self.changes);
        Chosen { host, places: self.places, backend: backends.join(", "), why }
    }

    fn why(&self, passed_over: &[String]) -> String {
        let mut parts = vec![match self.choice {
            BackendChoice::Auto => "auto".to_owned(),
            BackendChoice::These(_) => "asked for".to_owned(),
        }];
        parts.extend_from_slice(passed_over);
        let twins = self.left_out.iter().filter(|left_out| matches!(left_out.why, Why::Twin { .. }));
        parts.extend(twins.map(ToString::to_string));
        if parts.len() == 1 && *self.choice == BackendChoice::Auto {
            return "auto: all that this build can use".into();
        }
        parts.join("; ")
    }
}

/// Waits until each of these devices is open or is not, and tells how far they are.
fn wait_for(devices: &[&(DeviceInfo, WorkerDevice)], watch: Watch<'_>) {
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
