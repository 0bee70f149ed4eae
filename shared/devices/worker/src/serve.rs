//! The worker's side: one device, driven by this thread, on a pipe.
//!
//! Three threads. One reads requests and takes cancellations at once; one sends a heartbeat with the finished steps of
//! the request every 250 ms; this one drives the device. The end of the input ends the worker, in any state of the
//! device.

use std::io::{self, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use super::frame::{self, FrameError, MAX_DATA_BYTES};
use super::handles::Handles;
use super::message::{FromWorker, MAX_KERNELS, PeerShare, Reply, Request, ToWorker, VERSION};
use super::self_test::self_test;
use super::states::SharedStates;
use assay_device::backend::{Absence, Backend, BackendKind, StartupProgress};
use assay_device::{Device, DeviceError, Handle, PeerSlots, SharedSlots, SlotRange};
use assay_work::probe::LINE_BYTES;
use assay_work::{Digest, Precision};
use parking_lot::Mutex;

/// How often a worker says that it lives: often enough for progress that a person watches.
pub const HEARTBEAT: Duration = Duration::from_millis(250);
/// Requests read ahead: there is one at a time, and one may arrive as the reply to the one before goes out.
const REQUESTS_AHEAD: usize = 2;

/// Makes a backend of its settings, as [`Backend::settings`] gave them; why not, in one sentence.
pub type BackendFactory = fn(BackendKind, &str) -> Result<Box<dyn Backend>, String>;

/// Drives a device as the other end of the pipe asks, until its input ends; then `gone` is called, at once and from
/// another thread, and this returns when the device comes back.
///
/// # Errors
/// The output broke, or the input was malformed.
pub fn serve(
    factory: BackendFactory,
    input: impl Read + Send + 'static,
    output: impl Write + Send + 'static,
    gone: impl FnOnce() + Send + 'static,
) -> io::Result<()> {
    let outbox =
        Arc::new(ReplyOutbox { output: Mutex::new(Box::new(output)), current: Mutex::new((0, Handle::default())) });
    outbox.say(FromWorker::Hello(VERSION.into()))?;
    let (queue, requests) = sync_channel(REQUESTS_AHEAD);
    let reader = outbox.clone();
    spawn("worker-requests", move || {
        read_requests(input, &reader, &queue);
        gone();
    })?;
    let (stop, stopped) = sync_channel(0);
    let beating = outbox.clone();
    spawn("worker-heartbeat", move || beat(&beating, &stopped))?;
    let served =
        DeviceServer { factory, outbox, device: None, passed: Vec::new(), states: None, handles: None }.run(&requests);
    drop(stop);
    served
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name(name.into()).spawn(work).map(drop)
}

/// The state that the threads share.
struct ReplyOutbox {
    output: Mutex<Box<dyn Write + Send>>,
    /// The request that was read last, and its handle.
    current: Mutex<(u64, Handle)>,
}

impl ReplyOutbox {
    fn say(&self, message: FromWorker) -> io::Result<()> {
        frame::write(&mut *self.output.lock(), &message.bounded())
    }

    fn reply(&self, number: u64, handle: &Handle, reply: Reply) -> io::Result<()> {
        self.say(FromWorker::Reply { number, done_steps: handle.done_steps(), reply })
    }

    fn heartbeat(&self) -> io::Result<()> {
        let (number, handle) = self.current.lock().clone();
        self.say(FromWorker::Heartbeat { number, done_steps: handle.done_steps() })
    }
}

type QueuedRequest = (u64, Request, Handle);

fn read_requests(mut input: impl Read, outbox: &ReplyOutbox, queue: &SyncSender<QueuedRequest>) {
    loop {
        let message = match frame::read::<ToWorker>(&mut input) {
            Ok(message) => message,
            Err(FrameError::End) => return,
            Err(error) => return tracing::error!("{error}"),
        };
        if let Err(error) = message.check() {
            return tracing::error!("malformed request: {error}");
        }
        match message {
            ToWorker::Cancel(number) => {
                let (current, handle) = &*outbox.current.lock();
                if *current == number {
                    handle.cancel();
                }
            }
            ToWorker::Request(number, request) => {
                let handle = Handle::default();
                *outbox.current.lock() = (number, handle.clone());
                // A device thread that is gone has said why.
                if queue.send((number, request, handle)).is_err() {
                    return;
                }
            }
        }
    }
}

fn beat(outbox: &ReplyOutbox, stopped: &Receiver<()>) {
    while stopped.recv_timeout(HEARTBEAT) == Err(RecvTimeoutError::Timeout) {
        if outbox.heartbeat().is_err() {
            // The program does not read any more; the end of the input follows.
            return;
        }
    }
}

struct DeviceServer {
    factory: BackendFactory,
    outbox: Arc<ReplyOutbox>,
    device: Option<Box<dyn Device>>,
    /// The kinds of work whose bits are right.
    passed: Vec<Precision>,
    /// Memory for states that the program has too.
    states: Option<SharedStates>,
    /// The socket for handles of memory.
    handles: Option<Handles>,
}

impl DeviceServer {
    fn run(mut self, requests: &Receiver<QueuedRequest>) -> io::Result<()> {
        for (number, request, handle) in requests {
            let done = catch_unwind(AssertUnwindSafe(|| self.answer(number, request, &handle)));
            match done {
                Ok(Ok(reply)) => self.outbox.reply(number, &handle, reply)?,
                Ok(Err(RequestFailure::Device(error))) => self.outbox.reply(number, &handle, Reply::Failed(error))?,
                Ok(Err(RequestFailure::Output(error))) => return Err(error),
                Err(_) => {
                    // The device's state is unknown: this process ends with it.
                    let error = DeviceError::Lost("a panic in it, which the log shows: please report it".into());
                    self.outbox.reply(number, &handle, Reply::Failed(error))?;
                    return Err(io::Error::other("a request panicked"));
                }
            }
        }
        Ok(())
    }

    fn answer(&mut self, number: u64, request: Request, handle: &Handle) -> Result<Reply, RequestFailure> {
        let bytes = match request {
            Request::Detect { backend, settings } => {
                let made = (self.factory)(backend, &settings).map_err(Absence::from);
                return Ok(Reply::Detected(made.and_then(|backend| backend.detect())));
            }
            Request::Open { backend, settings, spec } => {
                self.device = Some(self.open(backend, &settings, &spec)?);
                return Ok(Reply::Done);
            }
            Request::SelfTest => {
                self.passed = self_test(self.device()?, handle)?;
                return Ok(Reply::Done);
            }
            Request::Describe => {
                let device = self.device()?;
                let mut info = device.info();
                // A lost device's figures are zeros, and only a new process gives others.
                device.fault().map_or(Ok(()), Err)?;
                info.precisions.retain(|precision| self.passed.contains(precision));
                return Ok(Reply::Device(info));
            }
            Request::CountSlots(n) => {
                let device = self.device()?;
                let slots = device.slots_that_fit(n);
                return device.fault().map_or(Ok(Reply::Slots(slots)), |fault| Err(fault.into()));
            }
            Request::Fill(pass) => {
                pass.check_precision(&self.passed)?;
                bytes_of(&self.device()?.fill(&pass, handle)?)
            }
            Request::Probe(probe) => bytes_of(&self.device()?.probe_rounds(&probe, handle)?),
            Request::Round(round) => self.device()?.probe_round(&round, handle)?.0.to_vec(),
            Request::StepStates { share, mut states } => {
                let (whole, _) = states.as_chunks_mut::<LINE_BYTES>();
                self.device()?.step_states(&share, whole)?;
                states
            }
            Request::ShareStates(path) => {
                let opened = SharedStates::open(&path);
                let refused = |error| DeviceError::Unsupported(format!("memory for states in {path}: {error}"));
                self.states = Some(opened.map_err(refused)?);
                return Ok(Reply::Done);
            }
            Request::StepShared { share, states } => {
                let Some(memory) = &mut self.states else {
                    return Err(DeviceError::Unsupported("no memory for states is open in this worker".into()).into());
                };
                opened(&mut self.device)?.step_states(&share, memory.first(states as usize))?;
                return Ok(Reply::Done);
            }
            Request::ConnectHandles(path) => {
                let refused = |error| DeviceError::Unsupported(format!("handles by {path}: {error}"));
                self.handles = Some(Handles::connect(&path).map_err(refused)?);
                return Ok(Reply::Done);
            }
            Request::ShareSlots => return self.share_slots(),
            Request::MapPeers(peers) => return self.map_peers(&peers),
            Request::LinkedRound(round) => self.device()?.linked_round(&round, handle)?.0.to_vec(),
            Request::UnmapPeers => {
                self.device()?.unmap_peers();
                return Ok(Reply::Done);
            }
            Request::ReadStates => self.device()?.probe_states()?,
            Request::Sweep(sweep) => bytes_of(&self.device()?.sweep_rounds(&sweep, handle)?),
            Request::SweepRound(round) => self.device()?.sweep_round(&round, handle)?.0.to_vec(),
            Request::ReadSums(round) => self.device()?.sweep_sums(&round, handle)?,
            Request::OpenSums(round, at) => {
                let mut bytes = Vec::new();
                for opening in self.device()?.open_sums(&round, &at, handle)? {
                    bytes.extend(opening.bytes);
                    bytes.extend(opening.siblings.iter().flat_map(|value| value.0));
                }
                bytes
            }
            Request::Read(ranges) => return self.read(number, handle, &ranges),
            Request::ReadChainingValues { slot, subtree_bytes } => {
                self.device()?.chaining_values(slot, subtree_bytes)?.concat()
            }
            Request::Release => {
                self.device()?.release();
                return Ok(Reply::Done);
            }
            Request::ListKernels(precision) => {
                let mut names = self.device()?.kernels(precision);
                names.truncate(MAX_KERNELS);
                return Ok(Reply::Kernels(names));
            }
            Request::ChooseKernel(precision, kernel) => {
                return Ok(self.device()?.choose_kernel(precision, &kernel).map(|()| Reply::Done)?);
            }
            Request::TimeProducts(products) => return Ok(Reply::Took(self.device()?.time_products(products)?)),
            Request::TestCopies(source) => return Ok(Reply::Copied(self.device()?.test_copies(&source)?)),
        };
        self.send(number, handle, &bytes)
    }

    fn device(&mut self) -> Result<&mut dyn Device, DeviceError> {
        opened(&mut self.device)
    }

    fn share_slots(&mut self) -> Result<Reply, RequestFailure> {
        let shared = opened(&mut self.device)?.share_slots()?;
        let (Some(shared), Some(handles)) = (shared, &self.handles) else { return Ok(Reply::SharedSlots(None)) };
        handles.send(&[&shared.handle]).map_err(no_handles)?;
        Ok(Reply::SharedSlots(Some(shared.bytes)))
    }

    fn map_peers(&mut self, peers: &[PeerShare]) -> Result<Reply, RequestFailure> {
        let theirs = peers.iter().filter(|peer| peer.bytes.is_some()).count();
        let missing = || DeviceError::Unsupported("no way of handles leads to this worker".into());
        let received = self.handles.as_ref().ok_or_else(missing)?.receive(theirs).map_err(no_handles)?;
        let mut received = received.into_iter();
        let mut slots = |bytes: Option<u64>| Some(SharedSlots { bytes: bytes?, handle: received.next()? });
        let peers: Vec<_> =
            peers.iter().map(|peer| PeerSlots { share: peer.share, slots: slots(peer.bytes) }).collect();
        Ok(Reply::Mapped(opened(&mut self.device)?.map_peers(&peers)?))
    }

    fn open(&self, backend: BackendKind, settings: &str, spec: &str) -> Result<Box<dyn Device>, DeviceError> {
        let outbox = &*self.outbox;
        let prepare = |preparing: StartupProgress| {
            // When the output is broken, the reply finds out.
            let _ = outbox.say(FromWorker::Preparing(preparing));
        };
        (self.factory)(backend, settings).map_err(DeviceError::Unsupported)?.open(spec, &prepare)
    }

    /// Reads part by part, so that memory stays bounded for every request.
    fn read(&mut self, number: u64, handle: &Handle, ranges: &[SlotRange]) -> Result<Reply, RequestFailure> {
        let mut part = Vec::with_capacity(MAX_DATA_BYTES);
        for range in ranges {
            let (mut at, mut left) = (range.first_byte, range.bytes);
            while left > 0 {
                if part.len() == MAX_DATA_BYTES {
                    handle.check()?;
                    let bytes = std::mem::replace(&mut part, Vec::with_capacity(MAX_DATA_BYTES));
                    self.outbox.reply(number, handle, Reply::Data { bytes, last: false })?;
                }
                let start = part.len();
                let piece = left.min((MAX_DATA_BYTES - start) as u64);
                part.resize(start + piece as usize, 0);
                self.device()?.read(range.slot, at, &mut part[start..])?;
                // A range that leaves every slot was refused by the device before this could wrap around.
                (at, left) = (at.wrapping_add(piece), left - piece);
            }
        }
        Ok(Reply::Data { bytes: part, last: true })
    }

    /// Sends all but the last part, which is the reply.
    fn send(&self, number: u64, handle: &Handle, bytes: &[u8]) -> Result<Reply, RequestFailure> {
        let mut rest = bytes;
        while rest.len() > MAX_DATA_BYTES {
            let (part, after) = rest.split_at(MAX_DATA_BYTES);
            self.outbox.reply(number, handle, Reply::Data { bytes: part.to_vec(), last: false })?;
            rest = after;
        }
        Ok(Reply::Data { bytes: rest.to_vec(), last: true })
    }
}

fn opened(device: &mut Option<Box<dyn Device>>) -> Result<&mut dyn Device, DeviceError> {
    match device {
        Some(device) => Ok(device.as_mut()),
        None => Err(DeviceError::Unsupported("no device is open in this worker".into())),
    }
}

/// The device's error for a failure of the socket for handles.
fn no_handles(error: io::Error) -> DeviceError {
    DeviceError::Lost(format!("handles of memory did not come over: {error}"))
}

/// A failure of a request.
enum RequestFailure {
    Device(DeviceError),
    /// The program does not read any more.
    Output(io::Error),
}

impl From<DeviceError> for RequestFailure {
    fn from(error: DeviceError) -> Self {
        Self::Device(error)
    }
}

impl From<io::Error> for RequestFailure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

fn bytes_of(digests: &[Digest]) -> Vec<u8> {
    digests.iter().flat_map(|digest| digest.0).collect()
}
