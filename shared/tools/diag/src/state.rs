//! The state that all threads of a burn-in share.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use assay_device::backend::BackendKind;
use assay_device::{DeviceInfo, Handle};
use assay_telemetry::SensorWatch;
use assay_work::DeviceId;
use parking_lot::Mutex;

use crate::board::ResultBoard;
use crate::finding::{Severity, TestFinding};
use crate::group::DeviceGroup;
use crate::plan::DiagPlan;
use crate::record::RunRecord;

/// A pass that devices compare: the round, the matrix size.
pub type PassId = (u32, u32);
/// A probe that devices compare: the round, the matrix size, the walks, and the root of the pass that they go over.
pub type ProbeId = (u32, u32, u32, [u8; 32]);
/// Some bytes of a slot of a round's pass, as a device gave them, for its neighbour to copy.
pub type Block = (PassId, Vec<u8>);

/// The shared state of a burn-in.
pub struct Run {
    pub plan: DiagPlan,
    pub started: Instant,
    /// The devices, with the record of each.
    pub devices: BTreeMap<DeviceId, DeviceState>,
    pub passes: ResultBoard<PassId>,
    pub probes: ResultBoard<ProbeId>,
    /// The last block of each device.
    pub blocks: Mutex<BTreeMap<DeviceId, Block>>,
    /// Whether a person ended it.
    pub stop: AtomicBool,
    pub sensors: Arc<dyn SensorWatch>,
}

/// A device as all threads see it.
pub struct DeviceState {
    pub info: DeviceInfo,
    /// The devices that it keeps step with.
    pub group: Arc<DeviceGroup>,
    pub record: Mutex<RunRecord>,
    /// The handle of its current call.
    pub handle: Mutex<Handle>,
    /// Set when its call was cancelled because nothing got done.
    pub stalled: AtomicBool,
}

impl Run {
    /// A run at its start.
    pub fn new(plan: DiagPlan, devices: Vec<DeviceInfo>, sensors: Arc<dyn SensorWatch>) -> Self {
        let mut groups: BTreeMap<String, Vec<DeviceId>> = BTreeMap::new();
        devices.iter().for_each(|info| groups.entry(model(info)).or_default().push(info.id));
        let groups: BTreeMap<_, _> =
            groups.into_iter().map(|(model, ids)| (model, Arc::new(DeviceGroup::new(ids)))).collect();
        let state = |info: DeviceInfo| {
            let group = groups[&model(&info)].clone();
            let (record, handle) = (Mutex::default(), Mutex::default());
            (info.id, DeviceState { info, group, record, handle, stalled: AtomicBool::new(false) })
        };
        Self {
            plan,
            started: Instant::now(),
            devices: devices.into_iter().map(state).collect(),
            passes: ResultBoard::default(),
            probes: ResultBoard::default(),
            blocks: Mutex::default(),
            stop: AtomicBool::new(false),
            sensors,
        }
    }

    /// Seconds since the start.
    pub fn at_s(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    /// Whether a person ended it.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Whether to begin a step of a round: the first round is made whole.
    pub fn goes_on(&self, round: u32) -> bool {
        if self.is_stopped() {
            return false;
        }
        match self.plan.rounds {
            Some(rounds) => round <= rounds,
            None => round <= 1 || self.started.elapsed() < self.plan.time,
        }
    }

    /// Puts a finding down, with the time and the device's temperature.
    pub fn find(&self, id: DeviceId, mut finding: TestFinding) {
        finding.at_s = self.at_s();
        finding.temperature_c = self.sensors.newest(id).and_then(|reading| reading.temperature_c);
        match finding.severity {
            Severity::Fail => tracing::error!(device = %id, test = finding.test.name(), "{}", finding.text),
            Severity::Warn => tracing::warn!(device = %id, test = finding.test.name(), "{}", finding.text),
        }
        if let Some(state) = self.devices.get(&id) {
            state.record.lock().find(finding);
        }
    }

    /// The device after this one among those of its group, where there is another.
    pub fn neighbour(&self, id: DeviceId) -> Option<DeviceId> {
        let group = &self.devices.get(&id)?.group;
        let is_equal = |other: &DeviceId| Arc::ptr_eq(&self.devices[other].group, group);
        let equal: Vec<_> = self.devices.keys().copied().filter(is_equal).collect();
        let at = equal.iter().position(|other| *other == id)?;
        let next = equal[(at + 1) % equal.len()];
        (next != id).then_some(next)
    }

    pub fn has_ended(&self) -> bool {
        self.devices.values().all(|state| state.record.lock().ended)
    }

    /// Ends it: every device's call is cancelled.
    pub fn cancel_all(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.devices.values().for_each(|state| state.handle.lock().cancel());
    }
}

/// The common key of equal devices: the backend and the model.
pub fn model(info: &DeviceInfo) -> String {
    // Processor devices are called by their index.
    let name = if info.backend == BackendKind::Cpu { "" } else { info.name.as_str() };
    format!("{} {name}", info.backend)
}
