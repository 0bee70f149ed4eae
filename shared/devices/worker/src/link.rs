//! The program's side of one worker: one request at a time, until it is answered, the worker is lost, or it hangs.
//!
//! A worker counts as hung when:
//!
//! - the process sends nothing, not even a heartbeat, for [`Timeouts::silence`]: it is stopped, or starved;
//! - a request that was cancelled is not given up within [`CANCEL_LIMIT`]: the device does not come back;
//! - a pass or a probe finishes no step for [`STEP_LIMIT`], a start-up or the first slot of a
//!   pass makes no progress for [`START_UP_LIMIT`], or any other request takes longer than [`CALL_LIMIT`].
//!
//! Time in which this program itself does not run (a suspended machine) is not counted.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use super::frame::{self, FrameError};
use super::handles::Handles;
use super::message::{FromWorker, Reply, Request, ToWorker, VERSION};
use super::process::{LaunchedWorker, Launcher, Process};
use super::states::StatesWay;
use assay_device::backend::{BackendKind, StartupProgress};
use assay_device::{DeviceError, Handle};
use parking_lot::Mutex;

/// How often a wait checks for a cancellation and for heartbeats.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// The longest time of a cancelled request: fifty times a device's promise.
pub const CANCEL_LIMIT: Duration = Duration::from_secs(10);
/// How long one slot or one round of a probe may take: n = 32768 on a slow processor takes a quarter of an hour.
/// Deadlines of challenges, which cancel, come long before.
pub const STEP_LIMIT: Duration = Duration::from_secs(3600);
/// Steps after which the longest one tells how long the others may take: leaves, which come first, are short.
const MEASURED_AFTER: u32 = 8;
/// How much longer than the longest step before another one may take, and the least limit for it.
const STEP_FACTOR: u32 = 50;
const MIN_STEP_LIMIT: Duration = Duration::from_secs(60);
/// How long a device's start-up may go on without progress: one kernel is compiled in seconds.
pub const START_UP_LIMIT: Duration = Duration::from_secs(300);
/// The longest time of any other request.
pub const CALL_LIMIT: Duration = Duration::from_secs(120);
/// The time in which a worker whose input was closed should end.
const END_LIMIT: Duration = Duration::from_secs(1);
/// How long a killed process may take to be gone; one that a driver holds takes longer, and is waited for elsewhere.
const KILL_LIMIT: Duration = Duration::from_secs(2);
/// Replies and parts of them on their way.
const REPLIES_AHEAD: usize = 4;

/// Asks a worker; an answer of another kind ends it.
macro_rules! ask {
    ($link:expr, $request:expr, $reply:pat => $value:expr) => {
        match $link.ask($request)? {
            $reply => Ok($value),
            _ => Err($link.malformed("an answer of another kind")),
        }
    };
}
pub(super) use ask;

/// The limits of waiting for a worker.
#[derive(Debug, Clone)]
pub struct Timeouts {
    /// The longest time without any message.
    pub silence: Duration,
    /// Set when the device is dropped: no caller waits any more.
    pub over: Arc<AtomicBool>,
}

/// A failed request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestError {
    /// The device's own answer.
    Device(DeviceError),
    /// The worker is gone, hung, or speaks no sense.
    Broken(DeviceError),
    /// The error that an earlier worker of the device ended with; this one is well.
    Past(DeviceError),
}

impl RequestError {
    /// Whether the worker is of no more use: a device that failed may have taken its process with it, and only a new
    /// process is known to be whole.
    pub const fn is_fatal(&self) -> bool {
        matches!(self, Self::Device(DeviceError::Sick(_) | DeviceError::Lost(_)) | Self::Broken(_))
    }

    pub fn into_error(self) -> DeviceError {
        match self {
            Self::Device(error) | Self::Broken(error) | Self::Past(error) => error,
        }
    }
}

/// A worker's state from messages without a request.
#[derive(Debug, Default)]
struct Heartbeats {
    /// Messages of any kind.
    beats: AtomicU64,
    /// The request that `steps` counts for.
    number: AtomicU64,
    steps: AtomicU64,
    ended: AtomicBool,
    preparing: Mutex<StartupProgress>,
}

/// The program's end of one worker.
pub struct WorkerLink {
    requests: Option<Box<dyn Write + Send>>,
    replies: Receiver<Result<(u64, u64, Reply), String>>,
    heartbeats: Arc<Heartbeats>,
    process: Box<dyn Process>,
    timeouts: Timeouts,
    number: u64,
    idle: SilenceClock,
    /// Decided with the first states.
    pub(super) states_way: Option<StatesWay>,
    /// Made with the first slots that are shared.
    pub(super) handles: Option<Handles>,
}

impl WorkerLink {
    /// Starts a worker for a device of `backend` and waits for its greeting.
    ///
    /// # Errors
    /// [`DeviceError::Lost`] when it does not come up, [`DeviceError::Sick`] when it stays silent.
    pub fn start(launcher: &dyn Launcher, backend: BackendKind, timeouts: Timeouts) -> Result<Self, DeviceError> {
        let lost = |error: io::Error| DeviceError::Lost(format!("its worker cannot be started: {error}"));
        let LaunchedWorker { input, output, process } = launcher.launch().map_err(lost)?;
        let heartbeats = Arc::new(Heartbeats::default());
        let (sender, replies) = sync_channel(REPLIES_AHEAD);
        let mut link = Self {
            requests: Some(input),
            replies,
            heartbeats: heartbeats.clone(),
            process,
            timeouts,
            number: 0,
            idle: SilenceClock::default(),
            states_way: None,
            handles: None,
        };
        let read = move || {
            read_replies(output, backend, &heartbeats, &sender);
            heartbeats.ended.store(true, Ordering::Release);
        };
        thread::Builder::new().name("worker-replies".into()).spawn(read).map_err(lost)?;
        // The first word comes as the answer to request 0.
        match link.wait(&Handle::default(), 0, &mut RequestSteps::none(), &|_| ()) {
            Ok(Reply::Done) => Ok(link),
            Ok(_) => Err(DeviceError::Lost("its worker did not say hello".into())),
            Err(error) => Err(error.into_error()),
        }
    }

    /// The number of the worker's process.
    pub fn process(&self) -> u32 {
        self.process.id()
    }

    /// Opens the device; each new progress goes to `shown`.
    pub fn open(&mut self, request: Request, shown: &dyn Fn(&StartupProgress)) -> Result<Reply, RequestError> {
        self.number += 1;
        self.send(ToWorker::Request(self.number, request))?;
        self.wait(&Handle::default(), self.number, &mut RequestSteps::start_up(), shown)
    }

    /// Sends a request, and waits for the answer; it takes no longer than [`CALL_LIMIT`].
    pub fn ask(&mut self, request: Request) -> Result<Reply, RequestError> {
        self.ask_counting(request, &Handle::default(), &mut RequestSteps::none())
    }

    /// Asks for `bytes` bytes, passes progress on to `handle` and cancellation on to the worker, and waits for them.
    ///
    /// # Errors
    /// [`RequestError`]; another number of bytes breaks the link.
    pub fn ask_bytes(
        &mut self,
        request: Request,
        bytes: u64,
        handle: &Handle,
        steps: RequestSteps,
    ) -> Result<Vec<u8>, RequestError> {
        let mut steps = steps;
        let mut reply = self.ask_counting(request, handle, &mut steps)?;
        let mut all = Vec::new();
        loop {
            let Reply::Data { bytes: part, last } = reply else {
                return Err(self.malformed("another answer than bytes"));
            };
            let length = all.len() as u64 + part.len() as u64;
            if length > bytes || (last && length < bytes) || (part.is_empty() && !last) {
                return Err(self.malformed(&format!("{length} bytes or more where {bytes} were asked for")));
            }
            all.extend_from_slice(&part);
            if last {
                return Ok(all);
            }
            reply = self.wait(handle, self.number, &mut steps, &|_| ())?;
        }
    }

    fn ask_counting(
        &mut self,
        request: Request,
        handle: &Handle,
        steps: &mut RequestSteps,
    ) -> Result<Reply, RequestError> {
        // An answer may come before the first poll at the handle: a chain of short requests would never stop.
        handle.check().map_err(RequestError::Device)?;
        self.number += 1;
        self.send(ToWorker::Request(self.number, request))?;
        self.wait(handle, self.number, steps, &|_| ())
    }

    /// The fault of an idle worker, if it has one: it ended, or was silent for too long. To be polled now and then.
    pub fn trouble(&mut self) -> Option<DeviceError> {
        let ended = self.heartbeats.ended.load(Ordering::Acquire);
        if ended {
            return Some(self.post_mortem());
        }
        let silent = self.idle.poll(self.heartbeats.beats.load(Ordering::Relaxed));
        (silent >= self.timeouts.silence).then(|| self.hung(&format!("said nothing for {silent:.1?}")))
    }

    pub fn malformed(&mut self, what: &str) -> RequestError {
        self.process.kill();
        RequestError::Broken(DeviceError::Lost(format!("its worker gave {what}")))
    }

    /// Ends the worker: it is asked to, then made to. Gives the process back when not even that ends it.
    pub fn end(mut self) -> Option<Box<dyn Process>> {
        self.requests = None;
        if self.process.wait(END_LIMIT).is_some() {
            return None;
        }
        self.process.kill();
        if self.process.wait(KILL_LIMIT).is_some() {
            return None;
        }
        tracing::error!(process = self.process.id(), "a killed worker does not end: the driver holds it");
        Some(self.process)
    }

    fn send(&mut self, message: ToWorker) -> Result<(), RequestError> {
        let sent = match &mut self.requests {
            Some(pipe) => frame::write(pipe, &message),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        };
        sent.map_err(|error| match error.kind() {
            io::ErrorKind::InvalidInput => RequestError::Device(DeviceError::Unsupported(error.to_string())),
            _ => RequestError::Broken(self.post_mortem()),
        })
    }

    fn wait(
        &mut self,
        handle: &Handle,
        number: u64,
        steps: &mut RequestSteps,
        shown: &dyn Fn(&StartupProgress),
    ) -> Result<Reply, RequestError> {
        // The progress of a start-up is news, and later it is none.
        let known = if steps.limit == START_UP_LIMIT { None } else { Some(self.heartbeats.preparing.lock().clone()) };
        let mut detector = HangDetector::new(self.heartbeats.beats.load(Ordering::Relaxed), known.unwrap_or_default());
        loop {
            match self.replies.recv_timeout(POLL_INTERVAL) {
                Ok(Ok((of, done, reply))) if of == number => {
                    steps.advance(handle, done);
                    self.show(&mut detector, shown);
                    return match reply {
                        Reply::Failed(error) => Err(RequestError::Device(error)),
                        reply => Ok(reply),
                    };
                }
                Ok(Ok((of, ..))) => return Err(self.malformed(&format!("an answer to request {of}, not {number}"))),
                Ok(Err(problem)) => return Err(self.malformed(&problem)),
                Err(RecvTimeoutError::Disconnected) => return Err(RequestError::Broken(self.post_mortem())),
                Err(RecvTimeoutError::Timeout) => {
                    let moved = self.show(&mut detector, shown);
                    self.check_hang(handle, number, steps, &mut detector, moved)?;
                }
            }
        }
    }

    /// Shows the progress of the start-up, when it changed; whether it did.
    fn show(&self, detector: &mut HangDetector, shown: &dyn Fn(&StartupProgress)) -> bool {
        let preparing = self.heartbeats.preparing.lock().clone();
        let moved = preparing != detector.preparing;
        if moved {
            shown(&preparing);
            detector.preparing = preparing;
        }
        moved
    }

    /// Nothing came for a moment: is the worker still at it?
    fn check_hang(
        &mut self,
        handle: &Handle,
        number: u64,
        steps: &mut RequestSteps,
        detector: &mut HangDetector,
        moved: bool,
    ) -> Result<(), RequestError> {
        if self.timeouts.over.load(Ordering::Relaxed) {
            self.process.kill();
            return Err(RequestError::Broken(DeviceError::Cancelled));
        }
        if self.heartbeats.number.load(Ordering::Acquire) == number {
            let done = self.heartbeats.steps.load(Ordering::Relaxed);
            steps.advance(handle, done);
        }
        let (slice, beats) = (detector.silence.slice(), self.heartbeats.beats.load(Ordering::Relaxed));
        let moved = moved || detector.told != steps.told;
        let hung = detector.check(slice, beats, moved, self.timeouts.silence, steps);
        detector.told = steps.told;
        if let Some(why) = hung {
            return Err(RequestError::Broken(self.hung(&why)));
        }
        if handle.is_cancelled() && detector.cancelled.is_none() {
            detector.cancelled = Some(Duration::ZERO);
            self.send(ToWorker::Cancel(number))?;
        }
        Ok(())
    }

    fn hung(&mut self, why: &str) -> DeviceError {
        self.process.kill();
        DeviceError::Sick(format!("its worker hung and was killed: it {why}"))
    }

    /// The error of a worker whose pipe ended, with the way in which its process did.
    fn post_mortem(&mut self) -> DeviceError {
        self.requests = None;
        let how = self.process.wait(END_LIMIT).unwrap_or_else(|| {
            self.process.kill();
            "closed its output".into()
        });
        DeviceError::Lost(format!("its worker {how}"))
    }
}

/// Reads until the pipe ends, or the bytes are not a message.
fn read_replies(
    mut output: impl Read,
    backend: BackendKind,
    heartbeats: &Heartbeats,
    replies: &SyncSender<Result<(u64, u64, Reply), String>>,
) {
    let mut greeted = false;
    loop {
        let message = match frame::read::<FromWorker>(&mut output) {
            Ok(mut message) => message.check(backend).map(|()| message).map_err(|error| error.to_string()),
            Err(FrameError::End | FrameError::Broken(_)) => return,
            Err(FrameError::Malformed(problem)) => Err(problem),
        };
        heartbeats.beats.fetch_add(1, Ordering::Relaxed);
        let reply = match message {
            Ok(FromWorker::Hello(version)) if !greeted => {
                greeted = true;
                if version == VERSION {
                    Ok((0, 0, Reply::Done))
                } else {
                    Err(format!("version {version}, not {VERSION}"))
                }
            }
            Ok(_) if !greeted => Err("something else than a greeting".into()),
            Ok(FromWorker::Hello(_)) => Err("a second greeting".into()),
            Ok(FromWorker::Heartbeat { number, done_steps }) => {
                heartbeats.steps.store(done_steps, Ordering::Relaxed);
                heartbeats.number.store(number, Ordering::Release);
                continue;
            }
            Ok(FromWorker::Preparing(preparing)) => {
                *heartbeats.preparing.lock() = preparing;
                continue;
            }
            Ok(FromWorker::Reply { number, done_steps, reply }) => Ok((number, done_steps, reply)),
            Err(problem) => Err(format!("a malformed answer: {problem}")),
        };
        let problem = reply.is_err();
        if replies.send(reply).is_err() || problem {
            return;
        }
    }
}

/// Steps of a request: how many it has, and how many the handle knows of.
#[derive(Debug, Clone, Copy)]
pub struct RequestSteps {
    all: u64,
    told: u64,
    /// The longest time of the first step, and of another one.
    first: Duration,
    limit: Duration,
}

impl RequestSteps {
    pub const fn none() -> Self {
        Self { all: 0, told: 0, first: CALL_LIMIT, limit: CALL_LIMIT }
    }

    pub const fn start_up() -> Self {
        Self { all: 0, told: 0, first: START_UP_LIMIT, limit: START_UP_LIMIT }
    }

    /// `all` steps, each of which may take [`STEP_LIMIT`].
    pub const fn of(all: u64) -> Self {
        Self { all, told: 0, first: STEP_LIMIT, limit: STEP_LIMIT }
    }

    /// `all` slots: the first one is short, and takes the memory before it, where a driver hangs.
    pub const fn slots(all: u64) -> Self {
        Self { first: START_UP_LIMIT, ..Self::of(all) }
    }

    /// Advances the handle by the steps that it does not count yet; never beyond their number.
    fn advance(&mut self, handle: &Handle, done: u64) {
        let done = done.min(self.all);
        handle.advance(done.saturating_sub(self.told));
        self.told = self.told.max(done);
    }
}

/// Decides whether the worker hangs while a request runs.
#[derive(Debug)]
struct HangDetector {
    silence: SilenceClock,
    /// Time in the current step.
    step: Duration,
    /// How often it came further, and the longest time until then.
    moves: u32,
    longest: Duration,
    told: u64,
    preparing: StartupProgress,
    /// Time since the request was cancelled.
    cancelled: Option<Duration>,
}

impl HangDetector {
    fn new(beats: u64, preparing: StartupProgress) -> Self {
        let silence = SilenceClock { beats, ..SilenceClock::default() };
        Self { silence, step: Duration::ZERO, moves: 0, longest: Duration::ZERO, told: 0, preparing, cancelled: None }
    }

    /// Why the worker counts as hung after a further `slice` of time, if it does. `moved`: it came further in it.
    fn check(
        &mut self,
        slice: Duration,
        beats: u64,
        moved: bool,
        silence: Duration,
        steps: &RequestSteps,
    ) -> Option<String> {
        let silent = self.silence.count(beats, slice);
        if silent >= silence {
            return Some(format!("said nothing for {silent:.1?}"));
        }
        self.step += slice;
        if moved {
            self.longest = self.longest.max(self.step);
            (self.moves, self.step) = (self.moves.saturating_add(1), Duration::ZERO);
        }
        let limit = steps.limit;
        let limit = match self.moves {
            0 => steps.first,
            MEASURED_AFTER.. if limit == STEP_LIMIT => (self.longest * STEP_FACTOR).clamp(MIN_STEP_LIMIT, limit),
            _ => limit,
        };
        if self.step >= limit {
            return Some(format!("finished nothing for {:.0?}", self.step));
        }
        let cancelled = self.cancelled.as_mut()?;
        *cancelled += slice;
        (*cancelled >= CANCEL_LIMIT).then(|| format!("did not stop within {CANCEL_LIMIT:?}"))
    }
}

/// How long nothing was heard, in time during which this program ran.
#[derive(Debug, Default)]
struct SilenceClock {
    beats: u64,
    silent: Duration,
    last_poll: Option<Instant>,
}

impl SilenceClock {
    /// The most that one poll counts for: a gap between two polls is time in which this program did not run, and could
    /// not hear either.
    const MAX_SLICE: Duration = Duration::from_millis(500);

    fn poll(&mut self, beats: u64) -> Duration {
        let slice = self.slice();
        self.count(beats, slice)
    }

    /// The time since the last poll, at most [`Self::MAX_SLICE`].
    fn slice(&mut self) -> Duration {
        let now = Instant::now();
        let slice = self.last_poll.map_or(Duration::ZERO, |last_poll| now.duration_since(last_poll));
        self.last_poll = Some(now);
        slice.min(Self::MAX_SLICE)
    }

    fn count(&mut self, beats: u64, slice: Duration) -> Duration {
        self.silent = if self.beats == beats { self.silent + slice } else { Duration::ZERO };
        self.beats = beats;
        self.silent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SILENCE: Duration = Duration::from_secs(10);
    const SLICE: Duration = Duration::from_millis(500);

    fn detector(beats: u64) -> HangDetector {
        HangDetector::new(beats, StartupProgress::default())
    }

    /// Polls again and again, and gives the reason for which it counts as hung and the time until then.
    fn hangs(
        detector: &mut HangDetector,
        steps: RequestSteps,
        beats: impl Fn(u64) -> u64,
        moved: impl Fn(u64) -> bool,
    ) -> (String, Duration) {
        for poll in 1.. {
            if let Some(why) = detector.check(SLICE, beats(poll), moved(poll), SILENCE, &steps) {
                return (why, SLICE * u32::try_from(poll).unwrap());
            }
        }
        unreachable!()
    }

    #[test]
    fn a_worker_without_a_heartbeat_hangs() {
        let (why, after) = hangs(&mut detector(7), RequestSteps::of(9), |_| 7, |_| false);
        assert_eq!((why.as_str(), after), ("said nothing for 10.0s", SILENCE));
        // It was heard for a while.
        let (_, after) = hangs(&mut detector(0), RequestSteps::of(9), |poll| poll.min(20), |_| true);
        assert_eq!(after, SILENCE + 20 * SLICE);
    }

    #[test]
    fn a_device_that_finishes_nothing_hangs_although_its_process_lives() {
        for (steps, first, limit) in [
            (RequestSteps::of(9), STEP_LIMIT, STEP_LIMIT),
            (RequestSteps::none(), CALL_LIMIT, CALL_LIMIT),
            (RequestSteps::start_up(), START_UP_LIMIT, START_UP_LIMIT),
            // A driver that blocked as it gave memory was found after the deadline.
            (RequestSteps::slots(9), START_UP_LIMIT, STEP_LIMIT),
        ] {
            let (why, after) = hangs(&mut detector(0), steps, |poll| poll, |_| false);
            assert_eq!((why, after), (format!("finished nothing for {first:.0?}"), first));
            // Every step starts the time again.
            let (_, after) = hangs(&mut detector(0), steps, |poll| poll, |poll| poll <= 7);
            assert_eq!(after, limit + 7 * SLICE);
        }
    }

    /// A call of a driver that blocks is found before the deadline of a challenge, by the steps before it.
    #[test]
    fn a_step_far_longer_than_those_before_it_hangs() {
        let (why, after) = hangs(&mut detector(0), RequestSteps::of(9), |poll| poll, |poll| poll <= 50);
        assert_eq!((why.as_str(), after), ("finished nothing for 60s", MIN_STEP_LIMIT + 50 * SLICE));
        let slow = |poll: u64| poll <= 1000 && poll.is_multiple_of(100);
        let (_, after) = hangs(&mut detector(0), RequestSteps::of(9), |poll| poll, slow);
        assert_eq!(after, 1000 * SLICE + 50 * 100 * SLICE);
        let (_, after) = hangs(&mut detector(0), RequestSteps::none(), |poll| poll, |poll| poll <= 50);
        assert_eq!(after, CALL_LIMIT + 50 * SLICE, "other requests have no like steps");
    }

    #[test]
    fn a_device_that_does_not_stop_hangs() {
        let mut detector = HangDetector { cancelled: Some(Duration::ZERO), ..detector(0) };
        let (why, after) = hangs(&mut detector, RequestSteps::of(9), |poll| poll, |_| true);
        assert_eq!((why.as_str(), after), ("did not stop within 10s", CANCEL_LIMIT));
    }

    #[test]
    fn a_suspended_machine_is_no_silence() {
        let mut silence =
            SilenceClock { last_poll: Instant::now().checked_sub(Duration::from_secs(3)), ..SilenceClock::default() };
        assert_eq!(silence.poll(0), SilenceClock::MAX_SLICE);
    }

    #[test]
    fn no_more_steps_are_told_than_there_are() {
        let handle = Handle::default();
        let mut steps = RequestSteps::of(5);
        for (done, told) in [(2, 2), (1, 2), (u64::MAX, 5), (0, 5)] {
            steps.advance(&handle, done);
            assert_eq!(handle.done_steps(), told);
        }
    }
}
