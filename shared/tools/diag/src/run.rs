//! The whole burn-in: every device on its own thread, sensors beside, until the time is up or a person ends it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use assay_device::DeviceError;
use assay_device::host::Host;
use assay_telemetry::SensorWatch;
use assay_work::DeviceId;

use crate::drive::drive;
use crate::finding::{Severity, Test, TestFinding};
use crate::plan::DiagPlan;
use crate::progress::ProgressLine;
use crate::sensors;
use crate::state::Run;

/// How often the main thread looks at everything.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// The interval at which sensor readings are recorded.
const SENSOR_INTERVAL: Duration = Duration::from_secs(1);
/// How long devices may take to end after they were cancelled: a worker that does not stop is killed in 10 s.
const END_LIMIT: Duration = Duration::from_secs(20);

/// A request of a person during the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StopRequest {
    Nothing,
    /// To end and report.
    End,
    /// To report at once, in any state of the devices.
    EndAtOnce,
}

/// The end of a burn-in.
pub struct BurnInEnd {
    /// The state that all threads shared.
    pub run: Arc<Run>,
    pub took: Duration,
    /// Whether a person ended it.
    pub interrupted: bool,
    /// Whether a device's thread is still in a call: then nothing may wait for it.
    pub hangs: bool,
}

/// Burns the devices of a host in.
///
/// # Errors
/// [`DeviceError`] when a device's thread is gone before it began.
pub fn run(
    host: &Host,
    plan: DiagPlan,
    sensors: Arc<dyn SensorWatch>,
    asked: &dyn Fn() -> StopRequest,
) -> Result<BurnInEnd, DeviceError> {
    let infos: Vec<_> = host.report(&[])?.into_iter().map(|report| report.info).collect();
    let ids: Vec<_> = infos.iter().map(|info| info.id).collect();
    sensors.begin(&ids);
    tracing::info!(devices = ids.len(), seed = %plan.seed, "burn-in begins");
    let run = Arc::new(Run::new(plan, infos, sensors));
    for id in &ids {
        let of_device = run.clone();
        let id = *id;
        let job = host.submit(id, move |device| {
            let _ended = EndGuard { run: &of_device, id };
            drive(&of_device, id, device);
        })?;
        // The record says when it has ended; its thread says nothing else.
        drop(job);
    }
    Ok(watch(run, asked))
}

/// Says that a device has ended when its thread leaves, by a panic too.
struct EndGuard<'a> {
    run: &'a Run,
    id: DeviceId,
}

impl Drop for EndGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let text = "a fault of this program ended its test; the log shows it: please report it";
            self.run.find(self.id, TestFinding::new(Severity::Fail, Test::Device, text));
        }
        if let Some(state) = self.run.devices.get(&self.id) {
            state.group.leave(self.id);
            state.record.lock().ended = true;
        }
    }
}

/// Looks at everything until all devices have ended.
fn watch(run: Arc<Run>, asked: &dyn Fn() -> StopRequest) -> BurnInEnd {
    let mut progress = ProgressLine::new(&run.plan);
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
        if wish > StopRequest::Nothing && cancelled.is_none() {
            run.cancel_all();
            cancelled = Some(Instant::now());
        }
        let waited = cancelled.is_some_and(|since| since.elapsed() > END_LIMIT);
        if waited || wish == StopRequest::EndAtOnce {
            hangs = true;
            break;
        }
        look_for_stalls(&run, &mut stalls);
    }
    sensors::put_down(&run);
    sensors::conclude(&run);
    let took = run.started.elapsed();
    BurnInEnd { run, took, interrupted: cancelled.is_some(), hangs }
}

/// The values that change while a device makes progress: passes, steps of the call, and whether it is in one.
type Progressed = (u64, u64, bool);

/// Cancels calls that make no progress. A worker that is cancelled and does not stop is killed.
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
