//! The whole burn-in: every device on its own thread, sensors beside, until the time is up or a person ends it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use assay_device::backend::BackendKind;
use assay_device::host::Host;
use assay_device::{DeviceError, DeviceInfo, Handle};
use assay_telemetry::SensorWatch;
use assay_work::DeviceId;
use parking_lot::Mutex;

use crate::board::Board;
use crate::drive::drive;
use crate::finding::{Finding, Severity, Test};
use crate::group::Group;
use crate::plan::DiagPlan;
use crate::progress::Progress;
use crate::record::Record;
use crate::sensors;

/// How often the main thread looks at everything.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// How often sensors are put down.
const SENSOR_INTERVAL: Duration = Duration::from_secs(1);
/// How long devices may take to end after they were cancelled: a worker that does not stop is killed in 10 s.
const END_LIMIT: Duration = Duration::from_secs(20);

/// A pass that devices compare: the round, the matrix size.
pub type PassId = (u32, u32);
/// A probe that devices compare: the round, the matrix size, the walks, and the root of the pass that they go over.
pub type ProbeId = (u32, u32, u32, [u8; 32]);
/// Some bytes of a slot of a round's pass, as a device gave them: what its neighbour copies.
pub type Block = (PassId, Vec<u8>);

/// What a person asked for meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Asked {
    /// To go on.
    Nothing,
    /// To end and report.
    End,
    /// To report at once, whatever devices do.
    EndAtOnce,
}

/// What all threads share.
pub struct Run {
    /// What to do.
    pub plan: DiagPlan,
    /// When it began.
    pub started: Instant,
    /// The devices, with what is known of each.
    pub devices: BTreeMap<DeviceId, DeviceState>,
    /// Passes.
    pub passes: Board<PassId>,
    /// Probes.
    pub probes: Board<ProbeId>,
    /// The last block of each device.
    pub blocks: Mutex<BTreeMap<DeviceId, Block>>,
    /// Whether a person ended it.
    pub stop: AtomicBool,
    /// The sensors.
    pub sensors: Arc<dyn SensorWatch>,
}

/// A device as all threads see it.
pub struct DeviceState {
    /// What it is.
    pub info: DeviceInfo,
    /// Those that it keeps step with.
    pub group: Arc<Group>,
    /// What is known of it.
    pub record: Mutex<Record>,
    /// Of the call that it is in.
    pub handle: Mutex<Handle>,
    /// Set when its call was cancelled because nothing got done.
    pub stalled: AtomicBool,
}

/// What a burn-in gave.
pub struct Ended {
    /// What all threads shared.
    pub run: Arc<Run>,
    /// How long it took.
    pub took: Duration,
    /// Whether a person ended it.
    pub interrupted: bool,
    /// Whether a device's thread is still in a call: then nothing may wait for it.
    pub hangs: bool,
}

impl Run {
    fn new(plan: DiagPlan, devices: Vec<DeviceInfo>, sensors: Arc<dyn SensorWatch>) -> Self {
        let mut groups: BTreeMap<String, Vec<DeviceId>> = BTreeMap::new();
        devices.iter().for_each(|info| groups.entry(model(info)).or_default().push(info.id));
        let groups: BTreeMap<_, _> =
            groups.into_iter().map(|(model, ids)| (model, Arc::new(Group::new(ids)))).collect();
        let state = |info: DeviceInfo| {
            let group = groups[&model(&info)].clone();
            let (record, handle) = (Mutex::default(), Mutex::default());
            (info.id, DeviceState { info, group, record, handle, stalled: AtomicBool::new(false) })
        };
        Self {
            plan,
            started: Instant::now(),
            devices: devices.into_iter().map(state).collect(),
            passes: Board::default(),
            probes: Board::default(),
            blocks: Mutex::default(),
            stop: AtomicBool::new(false),
            sensors,
        }
    }

    /// Seconds since the start.
    #[must_use]
    pub fn at_s(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    /// Whether a person ended it.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Whether to begin a step of a round: the first round is made whole.
    #[must_use]
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
    pub fn find(&self, id: DeviceId, mut finding: Finding) {
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
    #[must_use]
    pub fn neighbour(&self, id: DeviceId) -> Option<DeviceId> {
        let group = &self.devices.get(&id)?.group;
        let is_equal = |other: &DeviceId| Arc::ptr_eq(&self.devices[other].group, group);
        let equal: Vec<_> = self.devices.keys().copied().filter(is_equal).collect();
        let at = equal.iter().position(|other| *other == id)?;
        let next = equal[(at + 1) % equal.len()];
        (next != id).then_some(next)
    }

    fn has_ended(&self) -> bool {
        self.devices.values().all(|state| state.record.lock().ended)
    }

    fn cancel_all(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.devices.values().for_each(|state| state.handle.lock().cancel());
    }
}

/// What equal devices have in common.
#[must_use]
pub fn model(info: &DeviceInfo) -> String {
    // Processor devices are called by their index.
    let name = if info.backend == BackendKind::Cpu { "" } else { info.name.as_str() };
    format!("{} {name}", info.backend)
}

/// Burns the devices of a host in that are wanted.
///
/// # Errors
/// [`DeviceError`] when a device's thread is gone before it began.
pub fn run(
    host: &Host,
    wanted: &dyn Fn(DeviceId) -> bool,
    plan: DiagPlan,
    sensors: Arc<dyn SensorWatch>,
    asked: &dyn Fn() -> Asked,
) -> Result<Ended, DeviceError> {
    let infos = host.report(&[])?.into_iter().map(|report| report.info);
    let infos: Vec<_> = infos.filter(|info| wanted(info.id)).collect();
    let ids: Vec<_> = infos.iter().map(|info| info.id).collect();
    sensors.begin(&ids);
    tracing::info!(devices = ids.len(), seed = %plan.seed, "burn-in begins");
    let run = Arc::new(Run::new(plan, infos, sensors));
    for id in &ids {
        let of_device = run.clone();
        let id = *id;
        let job = host.submit(id, move |device| {
            let _ended = EndOf { run: &of_device, id };
            drive(&of_device, id, device);
        })?;
        // The record says when it has ended; its thread says nothing else.
        drop(job);
    }
    Ok(watch(run, asked))
}

/// Says that a device has ended when its thread leaves, by a panic too.
struct EndOf<'a> {
    run: &'a Run,
    id: DeviceId,
}

impl Drop for EndOf<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let text = "a fault of this program ended its test; the log shows it: please report it";
            self.run.find(self.id, Finding::new(Severity::Fail, Test::Device, text));
        }
        if let Some(state) = self.run.devices.get(&self.id) {
            state.group.leave(self.id);
            state.record.lock().ended = true;
        }
    }
}

/// Looks at everything until all devices have ended.
fn watch(run: Arc<Run>, asked: &dyn Fn() -> Asked) -> Ended {
    let mut progress = Progress::new(&run.plan);
    let mut stalls = BTreeMap::new();
    let (mut sensors_due, mut cancelled) = (Instant::now(), None::<Instant>);
    let mut hangs = false;
    while !run.has_ended() {
        std::thread::sleep(POLL_INTERVAL);
        if Instant::now() >= sensors_due {
            sensors::put_down(&run);
            sensors_due += SENSOR_INTERVAL;
        }
        progress.show(&run);
        let wish = asked();
        if wish > Asked::Nothing && cancelled.is_none() {
            run.cancel_all();
            cancelled = Some(Instant::now());
        }
        let waited = cancelled.is_some_and(|since| since.elapsed() > END_LIMIT);
        if waited || wish == Asked::EndAtOnce {
            hangs = true;
            break;
        }
        look_for_stalls(&run, &mut stalls);
    }
    sensors::put_down(&run);
    sensors::conclude(&run);
    let took = run.started.elapsed();
    Ended { run, took, interrupted: cancelled.is_some(), hangs }
}

/// What changes while a device makes progress: passes, steps of the call, and whether it is in one.
type Progressed = (u64, u64, bool);

/// Cancels what makes no progress. A worker that is cancelled and does not stop is killed.
fn look_for_stalls(run: &Run, stalls: &mut BTreeMap<DeviceId, (Progressed, Instant)>) {
    for (id, state) in &run.devices {
        let handle = state.handle.lock().clone();
        let (passes, in_call) = {
            let record = state.record.lock();
            (record.passes, record.in_call && !record.ended)
        };
        let mark = (passes, handle.done_steps(), in_call);
        let seen = stalls.entry(*id).or_insert((mark, Instant::now()));
        if seen.0 != mark {
            *seen = (mark, Instant::now());
        } else if in_call && seen.1.elapsed() > run.plan.stall && !handle.is_cancelled() {
            state.stalled.store(true, Ordering::Relaxed);
            handle.cancel();
            seen.1 = Instant::now();
        }
    }
}
