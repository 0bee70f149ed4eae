//! Keeps a device's worker running: starts it, watches it while it is idle, and starts it again when it was lost.
//!
//! One thread for each device. The device's own thread takes the worker for each request, and gives it back or reports
//! it lost; meanwhile this thread waits. While a worker is down its device has a fault, and no request waits for it:
//! the other devices go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::ATTEMPTS;
use super::link::{RequestError, Timeouts, WorkerLink};
use super::message::{Reply, Request};
use super::process::{Launcher, Process};
use assay_device::backend::{DetectedDevice, StartupProgress};
use assay_device::host::Changes;
use assay_device::{DeviceError, DeviceInfo};
use parking_lot::{Condvar, Mutex, MutexGuard};

/// The interval at which an idle worker is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// The pause before a lost worker is started again: the first one, and the longest. It doubles.
pub const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause before a worker is started again.
pub const MAX_PAUSE: Duration = Duration::from_secs(60);
/// A worker that lived as long is a healthy one: the next pause is the first one again.
const HEALTHY_AFTER: Duration = Duration::from_secs(60);

/// The parameters of a device's worker.
pub struct WorkerSpec {
    pub found: DetectedDevice,
    /// The settings of its backend, as JSON.
    pub settings: String,
    pub launcher: Arc<dyn Launcher>,
    /// The longest time without a message.
    pub silence: Duration,
    /// Counts every loss and return of the device.
    pub changes: Changes,
}

/// The worker of a device, as its two threads share it.
pub struct SharedWorker {
    state: Mutex<WorkerState>,
    changed: Condvar,
    /// Set when the device is dropped; whatever waits gives up.
    over: Arc<AtomicBool>,
    preparing: Mutex<StartupProgress>,
    /// The error that the last worker was lost with.
    loss: Mutex<Option<DeviceError>>,
    /// Which worker it is of this device's, from 1, and its process.
    current: Mutex<(u64, Option<u32>)>,
}

/// A view of a device's worker, also while the device works. Clones view the same.
#[derive(Clone)]
pub struct WorkerMonitor(Arc<SharedWorker>);

/// A device's worker at a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerHealth {
    /// The number of its process; `None` while there is no worker.
    pub process: Option<u32>,
    /// How often another one was started in its place.
    pub restarts: u64,
    /// Why the device can take no work now.
    pub fault: Option<DeviceError>,
}

impl WorkerMonitor {
    pub(super) fn new(shared: Arc<SharedWorker>) -> Self {
        Self(shared)
    }

    /// The worker now, without waiting.
    pub fn health(&self) -> WorkerHealth {
        let (number, process) = *self.0.current.lock();
        WorkerHealth { process, restarts: number.saturating_sub(1), fault: self.0.fault() }
    }
}

enum WorkerState {
    Starting,
    /// Idle. The number counts the workers of this device.
    Ready(Box<WorkerLink>, u64),
    /// With the device's thread.
    Taken,
    /// Lost; given back unless it is gone.
    Lost(Option<Box<WorkerLink>>, DeviceError),
    /// Not running now.
    Down(DeviceError),
    /// It gave wrong bits: no other one is started.
    Rejected(DeviceError),
}

/// How the first attempts to open a device ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StartOutcome {
    Ready,
    /// It is not ready, but may be later.
    Down(DeviceError),
    /// It gave wrong bits.
    Rejected(DeviceError),
}

impl SharedWorker {
    /// A device whose worker is not started yet.
    pub fn new() -> Self {
        let (state, changed) = (Mutex::new(WorkerState::Starting), Condvar::new());
        let (over, preparing, loss) = (Arc::default(), Mutex::default(), Mutex::default());
        Self { state, changed, over, preparing, loss, current: Mutex::default() }
    }

    /// How the first attempts ended, once they have.
    pub fn start_outcome(&self) -> Option<StartOutcome> {
        match &*self.state.lock() {
            WorkerState::Starting => None,
            WorkerState::Ready(..) | WorkerState::Taken => Some(StartOutcome::Ready),
            WorkerState::Lost(_, error) | WorkerState::Down(error) => Some(StartOutcome::Down(error.clone())),
            WorkerState::Rejected(error) => Some(StartOutcome::Rejected(error.clone())),
        }
    }

    /// The progress of the device's start-up.
    pub fn preparing(&self) -> StartupProgress {
        self.preparing.lock().clone()
    }

    /// The error for which there is no worker; `None` when there is one.
    pub fn fault(&self) -> Option<DeviceError> {
        match &*self.state.lock() {
            WorkerState::Ready(..) | WorkerState::Taken => None,
            WorkerState::Starting => Some(DeviceError::Lost("its worker is being started".into())),
            WorkerState::Lost(_, error) | WorkerState::Down(error) | WorkerState::Rejected(error) => {
                Some(error.clone())
            }
        }
    }

    /// The worker, and its number among this device's.
    ///
    /// # Errors
    /// The error for which there is no worker.
    pub fn take(&self) -> Result<(Box<WorkerLink>, u64), DeviceError> {
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, WorkerState::Taken) {
            WorkerState::Ready(link, number) => Ok((link, number)),
            other => {
                *state = other;
                drop(state);
                Err(self.fault().unwrap_or_else(|| DeviceError::Lost("its worker is in use".into())))
            }
        }
    }

    pub fn give_back(&self, link: Box<WorkerLink>, number: u64) {
        self.set(WorkerState::Ready(link, number));
    }

    /// Gives a lost worker back; `None` when it is gone already.
    pub fn give_up(&self, link: Option<Box<WorkerLink>>, why: DeviceError) {
        self.set(WorkerState::Lost(link, why));
    }

    /// The error that the last worker was lost with.
    pub fn loss(&self) -> DeviceError {
        let loss = self.loss.lock().clone();
        loss.unwrap_or_else(|| DeviceError::Lost("its worker was started again".into()))
    }

    pub fn close(&self) {
        self.over.store(true, Ordering::Relaxed);
        self.changed.notify_all();
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    fn set(&self, new: WorkerState) {
        *self.state.lock() = new;
        self.changed.notify_all();
    }

    /// Waits for a change, but not for long.
    fn wait(&self, mut state: MutexGuard<'_, WorkerState>, limit: Duration) {
        // The caller looks at the state again, whichever way the wait ended.
        let _ = self.changed.wait_for(&mut state, limit);
    }

    /// Waits until the worker is lost, or the device is dropped.
    fn watch(&self) -> Option<(Option<Box<WorkerLink>>, DeviceError)> {
        loop {
            let mut state = self.state.lock();
            let why = match &mut *state {
                WorkerState::Ready(link, _) => link.trouble(),
                WorkerState::Lost(_, why) => Some(why.clone()),
                _ => None,
            };
            if let Some(why) = why {
                *self.loss.lock() = Some(why.clone());
                return match std::mem::replace(&mut *state, WorkerState::Down(why.clone())) {
                    WorkerState::Ready(link, _) => Some((Some(link), why)),
                    WorkerState::Lost(link, _) => Some((link, why)),
                    _ => Some((None, why)),
                };
            }
            if self.is_over() {
                return None;
            }
            self.wait(state, POLL_INTERVAL);
        }
    }

    fn sleep(&self, pause: Duration) {
        let until = Instant::now() + pause;
        while !self.is_over() && Instant::now() < until {
            self.wait(self.state.lock(), POLL_INTERVAL.min(pause));
        }
    }
}

/// Keeps the worker of a device running until the device is dropped.
pub fn supervise(spec: &WorkerSpec, shared: &SharedWorker) {
    let id = spec.found.info.id;
    let mut pause = FIRST_PAUSE;
    let mut number = 0;
    while !shared.is_over() {
        number += 1;
        let started = Instant::now();
        let left = match start(spec, shared) {
            Ok(link) => {
                started_line(spec, number, link.process());
                *shared.current.lock() = (number, Some(link.process()));
                shared.give_back(Box::new(link), number);
                spec.changes.note();
                let Some((link, why)) = shared.watch() else { break };
                *shared.current.lock() = (number, None);
                tracing::error!(device = %id, worker = number, "the device has lost its worker: {why}");
                spec.changes.note();
                link.and_then(|link| link.end())
            }
            Err((left, StartFailure::Rejected(why))) => {
                tracing::error!(device = %id, "{} is not offered: {why}", spec.found.info.name);
                shared.set(WorkerState::Rejected(why));
                spec.changes.note();
                wait_for_end(left, shared);
                return;
            }
            Err((left, StartFailure::Down(why))) => {
                if !shared.is_over() {
                    tracing::error!(device = %id, "{} cannot be used now: {why}", spec.found.info.name);
                }
                // A device that was open before is noted as lost already; a process that stays holds up the next one.
                let is_starting = matches!(*shared.state.lock(), WorkerState::Starting);
                if !is_starting || left.is_some() || number == ATTEMPTS || !matches!(why, DeviceError::Lost(_)) {
                    shared.set(WorkerState::Down(why));
                    if is_starting {
                        spec.changes.note();
                    }
                }
                left
            }
        };
        // A second process on a device that the first one still holds would be held up as well.
        wait_for_end(left, shared);
        if started.elapsed() >= HEALTHY_AFTER {
            pause = FIRST_PAUSE;
        }
        shared.sleep(pause);
        pause = (pause * 2).min(MAX_PAUSE);
    }
    let last = std::mem::replace(&mut *shared.state.lock(), WorkerState::Down(DeviceError::Cancelled));
    if let WorkerState::Ready(link, _) | WorkerState::Lost(Some(link), _) = last {
        let _ = link.end();
    }
}

/// The first worker is expected; a later one ends a failure that the log reports.
fn started_line(spec: &WorkerSpec, number: u64, process: u32) {
    let DeviceInfo { id, name, .. } = &spec.found.info;
    if number == 1 {
        tracing::debug!(device = %id, process, "worker 1 drives {name}");
    } else {
        tracing::info!(device = %id, process, "worker {number} drives {name}");
    }
}

/// A failure to start a worker.
enum StartFailure {
    Down(DeviceError),
    Rejected(DeviceError),
}

type Left = Option<Box<dyn Process>>;

/// Starts a worker, opens the device in it, and compares it with known bits.
fn start(spec: &WorkerSpec, shared: &SharedWorker) -> Result<WorkerLink, (Left, StartFailure)> {
    let timeouts = Timeouts { silence: spec.silence, over: shared.over.clone() };
    let info = &spec.found.info;
    let mut link =
        WorkerLink::start(&*spec.launcher, info.backend, timeouts).map_err(|e| (None, StartFailure::Down(e)))?;
    match open(&mut link, spec, shared) {
        Ok(()) => Ok(link),
        Err(failed) => Err((link.end(), failed)),
    }
}

fn open(link: &mut WorkerLink, spec: &WorkerSpec, shared: &SharedWorker) -> Result<(), StartFailure> {
    let down = |error: RequestError| StartFailure::Down(error.into_error());
    let DetectedDevice { info, spec: device, .. } = &spec.found;
    let request = Request::Open { backend: info.backend, settings: spec.settings.clone(), spec: device.clone() };
    let opened = link.open(request, &|preparing| {
        tracing::debug!(device = %info.id, done = preparing.done, total = preparing.total, "{}", preparing.what);
        *shared.preparing.lock() = preparing.clone();
    });
    match expect_done(link, opened) {
        // A device that does not support the work does not in another worker either.
        Err(RequestError::Device(DeviceError::Unsupported(why))) => {
            return Err(StartFailure::Rejected(DeviceError::Unsupported(why)));
        }
        other => other.map_err(down)?,
    }
    let tested = link.ask(Request::SelfTest);
    match expect_done(link, tested) {
        Err(RequestError::Device(DeviceError::Sick(why))) => {
            return Err(StartFailure::Rejected(DeviceError::Sick(why)));
        }
        other => other.map_err(down)?,
    }
    match link.ask(Request::Describe).map_err(down)? {
        Reply::Device(found) if found.id == info.id => Ok(()),
        _ => Err(down(link.malformed("another device than it was to open"))),
    }
}

fn expect_done(link: &mut WorkerLink, reply: Result<Reply, RequestError>) -> Result<(), RequestError> {
    match reply? {
        Reply::Done => Ok(()),
        _ => Err(link.malformed("an answer of another kind")),
    }
}

/// Waits for a process that was killed and is still there.
fn wait_for_end(left: Left, shared: &SharedWorker) {
    let Some(mut process) = left else { return };
    while !shared.is_over() && process.wait(POLL_INTERVAL).is_none() {}
}
