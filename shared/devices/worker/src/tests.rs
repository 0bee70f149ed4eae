//! Workers on threads of the test, over pipes: honest ones, ones whose devices fail, and ones that send malformed messages.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use proptest::prelude::*;

use super::message::{FromWorker, MAX_SENT_STATES, VERSION};
use super::states::StatesWay;
use super::*;
use assay_cpu::CpuConfig;
use assay_device::backend::{Backend, BackendKind, StartupProgress};
use assay_device::host::Changes;
use assay_device::place::DevicePlace;
use assay_device::{Device, Handle, LinkedShare, Pass, ProbeRound, ProbeRounds, SlotRange, SweepRounds};
use assay_kits::faulty::FakeFault::{self, Busy, Panic, Sick, SickRead, Slow};
use assay_kits::faulty::{FakeBackend, LONG, PASS, fakes, found, reference};
use assay_work::probe::{LINE_BYTES, position, start_state, state_bytes, state_from_bytes};
use assay_work::{Digest, PassKey, Precision, ProbeKey, RoundKey};
use threads::{FakeProcess, Threads};

mod threads;

const PROBE: ProbeRounds = ProbeRounds { key: ProbeKey([2; 32]), walks: 64, steps: 4, rounds: 3 };
/// Its states are more than one part of data.
const ROUND: ProbeRound = ProbeRound { key: RoundKey([3; 32]), walks: 8192, steps: 1 };
const SWEEP: SweepRounds = SweepRounds { key: ProbeKey([4; 32]), n: PASS.n, count: PASS.count, rounds: 3 };
/// All slots of [`PASS`], and no others.
const SHARE: LinkedShare = LinkedShare { n: 256, offset: 0, count: 8, total: 8 };

fn spec(fault: FakeFault, launcher: Arc<dyn Launcher>) -> WorkerSpec {
    let found = found(BackendKind::Cpu, 9, fault, DevicePlace::default());
    let settings = FakeBackend { kind: BackendKind::Cpu, devices: Ok(Vec::new()) }.settings();
    WorkerSpec { found, settings, launcher, silence: LONG, changes: Changes::default() }
}

/// A device with a fault, once its worker is there or is not.
fn device(fault: FakeFault) -> WorkerDevice {
    let device = WorkerDevice::start(spec(fault, Arc::new(Threads::new(fakes)))).unwrap();
    wait_until(|| device.start_outcome().is_some());
    device
}

fn wait_until(holds: impl Fn() -> bool) {
    let until = Instant::now() + LONG;
    while !holds() {
        assert!(Instant::now() < until, "what was waited for does not come");
        thread::sleep(Duration::from_millis(2));
    }
}

fn fill(device: &mut dyn Device) -> Result<Vec<Digest>, DeviceError> {
    device.fill(&PASS, &Handle::default())
}

/// Regression test: each attempt counted as a change of devices, for which a miner declined offers.
#[test]
fn a_device_that_stays_away_changes_once() {
    let threads = Arc::new(Threads::new(fakes));
    let spec = spec(FakeFault::Taken, threads.clone());
    let changes = spec.changes.clone();
    let device = WorkerDevice::start(spec).unwrap();
    wait_until(|| threads.started.load(Ordering::Relaxed) > 2);
    assert_eq!((changes.count(), device.start_outcome().is_some()), (1, true));
}

/// The registry of workers that drive the processor.
fn processor(_: BackendKind, settings: &str) -> Result<Box<dyn Backend>, String> {
    let config: CpuConfig = serde_json::from_str(settings).map_err(|error| error.to_string())?;
    Ok(Box::new(config))
}

fn processor_in_a_worker() -> WorkerDevice {
    let config = CpuConfig { devices: 1, memory_bytes: vec![1 << 28], threads: vec![2], ..CpuConfig::default() };
    let found = config.detect().unwrap().remove(0);
    let launcher = Arc::new(Threads::new(processor));
    let settings = Backend::settings(&config);
    let device =
        WorkerDevice::start(WorkerSpec { found, settings, launcher, silence: LONG, changes: Changes::default() })
            .unwrap();
    wait_until(|| device.start_outcome().is_some());
    device
}

assay_kits::device_conformance!(Precision::ALL, processor_in_a_worker());

#[test]
fn a_device_in_a_worker_is_the_device() {
    let (mut far, mut near) = (device(FakeFault::None), reference());
    let (of_far, of_near) = (Handle::default(), Handle::default());
    assert_eq!(far.info(), near.info());
    assert_eq!(far.slots_that_fit(256), 16);
    assert_eq!(far.fill(&PASS, &of_far).unwrap(), near.fill(&PASS, &of_near).unwrap());
    assert_eq!(far.probe_rounds(&PROBE, &of_far).unwrap(), near.probe_rounds(&PROBE, &of_near).unwrap());
    assert_eq!(far.probe_states().unwrap(), near.probe_states().unwrap());
    assert_eq!(far.probe_round(&ROUND, &of_far).unwrap(), near.probe_round(&ROUND, &of_near).unwrap());
    assert_eq!(far.probe_states().unwrap(), near.probe_states().unwrap());
    assert_eq!((of_far.done_steps(), of_far.done_steps()), (of_near.done_steps(), 12));
    for (first, bytes) in [(0, 1 << 16), (1, 1), ((1 << 16) - 64, 64), (7, 0)] {
        let (mut a, mut b) = (vec![0; bytes], vec![0; bytes]);
        far.read(7, first, &mut a).unwrap();
        near.read(7, first, &mut b).unwrap();
        assert_eq!(a, b);
    }
    let share = LinkedShare { n: 256, offset: 5, count: 8, total: 8 + 5 };
    let of_share = |i: u32| {
        // Other states name lines of other devices.
        let state = state_bytes(&start_state(&RoundKey([9; 32]), i));
        let place = position(&state_from_bytes(&state), share.total, share.n).0;
        (share.offset..share.offset + share.count).contains(&place).then_some(state)
    };
    let mut states: Vec<_> = (0..20_000).filter_map(of_share).collect();
    // More than one request takes over the pipe.
    assert!(states.len() > 2 * MAX_SENT_STATES);
    for way in [None, Some(StatesWay::Pipe)] {
        let shared = cfg!(unix) && way.is_none();
        far.with(|link, _| {
            link.states_way = way;
            Ok(())
        })
        .unwrap();
        let mut expected = states.clone();
        near.step_states(&share, &mut expected).unwrap();
        far.step_states(&share, &mut states).unwrap();
        assert_eq!(states, expected);
        assert_eq!(far.step_states(&share, &mut []), Ok(()));
        let foreign = far.step_states(&LinkedShare { offset: 0, ..share }, &mut expected);
        assert!(matches!(foreign, Err(DeviceError::Unsupported(_))), "{foreign:?}");
        let took = far.with(|link, _| Ok(matches!(link.states_way, Some(StatesWay::Shared(_))))).unwrap();
        assert_eq!(took, shared, "by memory that both share, where there is some");
        // Lines after a step are in other slots, so that the next way gets states of this share again.
        states = (0..20_000).filter_map(of_share).collect();
    }
    // More ranges than one request takes, and more bytes than one part.
    let range = |i: u64| SlotRange { slot: (i % 8) as u32, first_byte: i * 7 % 60_000, bytes: i % 200 };
    let ranges: Vec<_> = (0..5000).map(range).collect();
    assert_eq!(far.read_all(&ranges).unwrap(), near.read_all(&ranges).unwrap());
    assert!(far.read_all(&[]).unwrap().is_empty());
    for subtree in [1024, 1 << 15] {
        assert_eq!(far.chaining_values(3, subtree).unwrap(), near.chaining_values(3, subtree).unwrap());
    }
    for (slot, first) in [(8, 0), (0, 1 << 16), (0, u64::MAX)] {
        assert!(matches!(far.read(slot, first, &mut [0; 64]), Err(DeviceError::Unsupported(_))), "{slot}, {first}");
    }
    far.release();
    assert!(matches!(far.read(0, 0, &mut [0]), Err(DeviceError::Unsupported(_))));
    assert_eq!(far.fault(), None);
}

#[test]
fn a_sweep_in_a_worker_is_the_devices() {
    let (mut far, mut near) = (device(FakeFault::None), reference());
    let (of_far, of_near) = (Handle::default(), Handle::default());
    let refused = |device: &mut WorkerDevice, sweep: SweepRounds| {
        let (round, handle) = (sweep.round(0, &Digest::BEFORE_FIRST), Handle::default());
        assert!(matches!(device.sweep_rounds(&sweep, &handle), Err(DeviceError::Unsupported(_))), "{sweep:?}");
        assert!(matches!(device.sweep_sums(&round, &handle), Err(DeviceError::Unsupported(_))), "{sweep:?}");
        assert!(matches!(device.open_sums(&round, &[0], &handle), Err(DeviceError::Unsupported(_))), "{sweep:?}");
    };
    refused(&mut far, SWEEP);
    far.fill(&PASS, &of_far).unwrap();
    near.fill(&PASS, &of_near).unwrap();
    let digests = far.sweep_rounds(&SWEEP, &of_far).unwrap();
    assert_eq!(digests, near.sweep_rounds(&SWEEP, &of_near).unwrap());
    let round = SWEEP.round(1, &digests[0]);
    assert_eq!(far.sweep_round(&round, &of_far), Ok(digests[1]));
    assert_eq!((of_far.done_steps(), of_near.done_steps()), (8 + 3 + 1, 8 + 3));
    assert_eq!(far.sweep_sums(&round, &of_far).unwrap(), near.sweep_sums(&round, &of_near).unwrap());
    // More openings than one request takes.
    let at: Vec<_> = (0..5000).map(|i| i * 3 % 8 * 1024).collect();
    assert_eq!(far.open_sums(&round, &at, &of_far).unwrap(), near.open_sums(&round, &at, &of_near).unwrap());
    for wrong in [8192, 1, u64::MAX] {
        assert!(matches!(far.open_sums(&round, &[wrong], &of_far), Err(DeviceError::Unsupported(_))), "{wrong}");
    }
    for (n, count) in [(512, 2), (256, 7), (256, 9), (u32::MAX, u32::MAX), (0, 0)] {
        refused(&mut far, SweepRounds { n, count, ..SWEEP });
    }
    for rounds in [0, 65_537] {
        let swept = far.sweep_rounds(&SweepRounds { rounds, ..SWEEP }, &of_far);
        assert!(matches!(swept, Err(DeviceError::Unsupported(_))), "{swept:?}");
    }
    assert_eq!(far.fault(), None);
}

#[test]
fn what_a_device_refuses_costs_no_worker() {
    let launcher = Arc::new(Threads::new(fakes));
    let mut device = WorkerDevice::start(spec(Busy, launcher.clone())).unwrap();
    wait_until(|| device.start_outcome() == Some(StartOutcome::Ready));
    assert_eq!(fill(&mut device), Err(DeviceError::Busy { needed_bytes: 3, free_bytes: 2 }));
    let too_many = Pass { key: PassKey([7; 32]), count: 17, ..PASS };
    assert!(matches!(device.fill(&too_many, &Handle::default()), Err(DeviceError::Busy { .. })));
    assert!(matches!(device.probe_states(), Err(DeviceError::Unsupported(_))));
    assert_eq!((device.fault(), launcher.started.load(Ordering::Relaxed)), (None, 1));
}

#[test]
fn a_request_that_runs_is_cancelled() {
    let mut device = device(Slow);
    let handle = Handle::default();
    let cancel = handle.clone();
    let canceller = thread::spawn(move || {
        thread::sleep(Duration::from_millis(50));
        cancel.cancel();
    });
    assert_eq!(device.fill(&PASS, &handle), Err(DeviceError::Cancelled));
    canceller.join().unwrap();
    assert_eq!(device.slots_that_fit(256), 16, "the worker goes on");
    // One that was cancelled before it began.
    assert_eq!(device.fill(&PASS, &handle), Err(DeviceError::Cancelled));
}

/// A request that is answered before the first poll of its handle must not hide that it was cancelled: an iteration of
/// a few milliseconds follows another, and none would ever stop.
#[test]
fn short_requests_are_cancelled_too() {
    let mut device = device(FakeFault::None);
    let handle = Handle::default();
    device.fill(&PASS, &handle).unwrap();
    handle.cancel();
    assert_eq!(device.probe_rounds(&PROBE, &handle), Err(DeviceError::Cancelled));
    assert_eq!(device.sweep_rounds(&SWEEP, &handle), Err(DeviceError::Cancelled));
    assert_eq!(device.fill(&PASS, &handle), Err(DeviceError::Cancelled));
    assert!(matches!(device.read(0, 0, &mut [0]), Err(DeviceError::Unsupported(_))), "nothing is resident after it");
    assert_eq!((handle.done_steps(), device.fault()), (8, None));
}

/// A device that failed is worked with again only in a new process; meanwhile no request waits for it.
#[test]
fn a_device_that_fails_gets_a_new_worker() {
    for (fault, class) in [(Sick, "the device failed: it fell off the bus"), (Panic, "lost: a panic")] {
        let spec = spec(fault, Arc::new(Threads::new(fakes)));
        let changes = spec.changes.clone();
        let mut device = WorkerDevice::start(spec).unwrap();
        wait_until(|| device.start_outcome() == Some(StartOutcome::Ready));
        assert_eq!(changes.count(), 1);
        let good = Pass { key: PassKey([7; 32]), ..PASS };
        device.fill(&good, &Handle::default()).unwrap();
        let error = fill(&mut device).unwrap_err();
        assert!(error.to_string().contains(class), "{error}");
        assert_eq!(device.fault(), Some(error.clone()));
        assert_eq!((device.slots_that_fit(256), device.info().free_bytes), (0, 0));
        assert_eq!(device.fill(&good, &Handle::default()), Err(error));
        wait_until(|| device.fault().is_none());
        assert!(changes.count() >= 3);
        device.fill(&good, &Handle::default()).unwrap();
    }
}

/// Slots go with the worker that filled them: later requests for them fail as the worker did.
#[test]
fn slots_of_a_lost_worker_are_lost_for_its_reason() {
    let mut device = device(SickRead);
    fill(&mut device).unwrap();
    device.read(3, 0, &mut [0]).unwrap();
    let error = device.read(4, 0, &mut [0]).unwrap_err();
    assert_eq!(error, DeviceError::Sick("it fell off the bus".into()));
    wait_until(|| device.fault().is_none());
    assert_eq!(device.probe_rounds(&PROBE, &Handle::default()), Err(error.clone()));
    assert_eq!(device.sweep_rounds(&SWEEP, &Handle::default()), Err(error.clone()));
    assert_eq!(device.step_states(&SHARE, &mut [[0; LINE_BYTES]]), Err(error.clone()));
    assert_eq!(device.read(3, 0, &mut [0]), Err(error));
    assert_eq!(device.fault(), None, "the worker that is there now is well");
    fill(&mut device).unwrap();
    device.read(3, 0, &mut [0]).unwrap();
}

#[test]
fn a_distrusted_device_gets_a_new_worker() {
    let mut device = device(SickRead);
    fill(&mut device).unwrap();
    let why = DeviceError::Sick("slot 2 no longer hashes to its digest".into());
    device.distrust(&why);
    assert_eq!(device.fault(), Some(why.clone()));
    wait_until(|| device.fault().is_none());
    device.distrust(&why);
    assert_eq!(device.fault(), None, "the worker that is there now filled none of the slots");
}

/// A device that fails while it steps walks of others is lost as in any other request.
#[test]
fn a_device_that_fails_at_a_step_is_sick() {
    let mut device = device(SickRead);
    fill(&mut device).unwrap();
    // All words zero: the first line of the first slot; that of slot 4 fails.
    assert_eq!(device.step_states(&SHARE, &mut [[0; LINE_BYTES]]), Ok(()));
    let states = (0..).map(|walk| start_state(&RoundKey([4; 32]), walk));
    let mut fifths = states.filter(|state| SHARE.line_of(state).is_ok_and(|line| line.slot == 4));
    let sick = DeviceError::Sick("it fell off the bus".into());
    assert_eq!(device.step_states(&SHARE, &mut [state_bytes(&fifths.next().unwrap())]), Err(sick.clone()));
    assert_eq!(device.fault(), Some(sick));
}

#[test]
fn progress_of_start_up_is_shown() {
    assert_eq!(device(FakeFault::None).preparing(), StartupProgress { what: "looking".into(), done: 1, total: 2 });
}

/// Starts a worker that sends these bytes, independent of its requests.
struct Says {
    bytes: Vec<u8>,
    /// Whether it is silent after them, or ends.
    stays: bool,
}

impl Launcher for Says {
    fn launch(&self) -> io::Result<LaunchedWorker> {
        let (output, mut replies) = io::pipe()?;
        let (bytes, stays) = (self.bytes.clone(), self.stays);
        let ended = Arc::new(AtomicBool::new(false));
        let done = ended.clone();
        thread::spawn(move || {
            let _ = replies.write_all(&bytes);
            while stays && !done.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(1));
            }
            done.store(true, Ordering::Relaxed);
        });
        Ok(LaunchedWorker {
            input: Box::new(io::sink()),
            output: Box::new(output),
            process: Box::new(FakeProcess(ended)),
        })
    }
}

fn timeouts(silence: Duration) -> Timeouts {
    Timeouts { silence, over: Arc::default() }
}

fn framed(messages: impl IntoIterator<Item = FromWorker>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for message in messages {
        frame::write(&mut bytes, &message).unwrap();
    }
    bytes
}

fn reply(number: u64, reply: Reply) -> FromWorker {
    FromWorker::Reply { number, done_steps: u64::MAX, reply }
}

fn data(number: u64, bytes: usize, last: bool) -> FromWorker {
    reply(number, Reply::Data { bytes: vec![1; bytes], last })
}

/// Asks a [`Says`] worker for 100 bytes.
fn ask(bytes: Vec<u8>, stays: bool, silence: Duration) -> Result<Vec<u8>, DeviceError> {
    let mut link = WorkerLink::start(&Says { bytes, stays }, BackendKind::Cpu, timeouts(silence))?;
    let handle = Handle::default();
    let answer = link.ask_bytes(Request::ReadStates, 100, &handle, link::RequestSteps::of(3));
    assert!(handle.done_steps() <= 3, "a worker that lies about its steps makes no more of them");
    answer.map_err(|error| error.into_error())
}

#[test]
fn a_worker_that_sends_malformed_messages_is_lost() {
    let hello = || FromWorker::Hello(VERSION.into());
    let good = [hello(), data(1, 60, false), data(1, 40, true)];
    assert_eq!(ask(framed(good), true, LONG), Ok(vec![1; 100]));
    let cases: [(&str, Vec<u8>, &str); 12] = [
        ("text", b"Segmentation fault (core dumped)\n".to_vec(), "malformed answer: a length"),
        ("a length beyond the bound", vec![0xff; 8], "malformed answer: a length"),
        ("bytes that are no message", vec![3, 0, 0, 0, 0xff, 0xff, 0xff], "malformed answer"),
        ("no greeting", framed([reply(1, Reply::Done)]), "something else than a greeting"),
        ("another version", framed([FromWorker::Hello("0.0.0".into())]), "version 0.0.0"),
        ("two greetings", framed([hello(), hello()]), "second greeting"),
        ("the answer to another request", framed([hello(), data(2, 100, true)]), "request 2, not 1"),
        ("an answer of another kind", framed([hello(), reply(1, Reply::Slots(3))]), "than bytes"),
        ("too much", framed([hello(), data(1, 60, false), data(1, 41, true)]), "101 bytes"),
        ("too little", framed([hello(), data(1, 99, true)]), "99 bytes"),
        ("parts without an end", framed([hello(), data(1, 0, false)]), "0 bytes"),
        ("a part beyond the bound", framed([hello(), data(1, frame::MAX_DATA_BYTES + 1, true)]), "Data.bytes"),
    ];
    for (what, bytes, said) in cases {
        let Err(DeviceError::Lost(found)) = ask(bytes, true, LONG) else { panic!("{what} was taken") };
        assert!(found.contains(said), "{what}: {found}");
    }
}

#[test]
fn a_worker_that_ends_is_lost_and_one_that_is_silent_is_sick() {
    let hello = framed([FromWorker::Hello(VERSION.into())]);
    let cut = framed([FromWorker::Hello(VERSION.into()), data(1, 100, true)]);
    for bytes in [Vec::new(), hello.clone(), cut[..cut.len() - 1].to_vec()] {
        assert_eq!(ask(bytes, false, LONG), Err(DeviceError::Lost("its worker was killed by signal 9".into())));
    }
    for bytes in [Vec::new(), hello] {
        let Err(DeviceError::Sick(said)) = ask(bytes, true, Duration::from_millis(50)) else { panic!("it was heard") };
        assert!(said.contains("hung"), "{said}");
    }
}

#[test]
fn a_worker_that_cannot_be_started_is_lost() {
    let program = Program::new(Some("/no/such/program".into())).unwrap();
    let Err(DeviceError::Lost(said)) = WorkerLink::start(&program, BackendKind::Cpu, timeouts(LONG)) else {
        panic!("it was started")
    };
    assert!(said.contains("cannot be started"), "{said}");
}

proptest! {
    #[test]
    fn a_dying_worker_may_say_anything(malformed in proptest::collection::vec(any::<u8>(), 0..200), greets: bool) {
        let mut bytes = if greets { framed([FromWorker::Hello(VERSION.into())]) } else { Vec::new() };
        bytes.extend(malformed);
        prop_assert!(ask(bytes, false, LONG).is_err());
    }
}

/// The end of its input ends a worker, and nothing that comes as a request makes it panic.
#[test]
fn a_worker_outlives_no_program() {
    for bytes in [vec![], vec![0xff; 64], framed([FromWorker::Hello(VERSION.into())])] {
        let (mut said, output) = io::pipe().unwrap();
        let gone = Arc::new(AtomicBool::new(false));
        let flag = gone.clone();
        let input = io::Cursor::new(bytes);
        serve(fakes, input, output, move || flag.store(true, Ordering::Relaxed)).unwrap();
        wait_until(|| gone.load(Ordering::Relaxed));
        let mut greeting = Vec::new();
        said.read_to_end(&mut greeting).unwrap();
        assert!(greeting.starts_with(&framed([FromWorker::Hello(VERSION.into())])));
    }
}
