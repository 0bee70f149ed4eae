//! Workers on threads of the test, over pipes: honest ones, ones whose devices fail, and ones that talk nonsense.

use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Instant;

use proptest::prelude::*;

use super::message::{FromWorker, VERSION};
use super::*;
use crate::compute::choose::{Backend, BackendChoice, BackendKind, Prepare};
use crate::compute::device::{Device, Handle, Pass, ProbeRound, ProbeRounds, SlotRange};
use crate::compute::host::Changes;
use crate::compute::place::Place;
use crate::compute::reference::ReferenceDevice;
use crate::wire::v1;
use crate::work::{DeviceId, Digest, PassKey, ProbeKey, RoundKey};

/// How long a test waits for what has to come.
pub(super) const LONG: Duration = Duration::from_secs(60);
const PASS: Pass = Pass { key: PassKey([1; 32]), n: 256, offset: 5, count: 8 };
const PROBE: ProbeRounds = ProbeRounds { key: ProbeKey([2; 32]), walks: 64, steps: 4, rounds: 3 };
/// Its states are more than one part of data.
const ROUND: ProbeRound = ProbeRound { key: RoundKey([3; 32]), walks: 8192, steps: 1 };

/// The reference, with a fault of its own.
struct Faulty(ReferenceDevice, Fault);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    WrongBits,
    Busy,
    Sick,
    SickRead,
    Panic,
    Slow,
}

use Fault::{Busy, Panic, Sick, SickRead, Slow, WrongBits};

const FAULTS: [Fault; 7] = [Fault::None, WrongBits, Busy, Sick, SickRead, Panic, Slow];

impl Faulty {
    fn open(opening: &str) -> Self {
        let fault = FAULTS.into_iter().find(|fault| format!("{fault:?}") == opening).expect("a fault of the test");
        Self(reference(), fault)
    }
}

fn reference() -> ReferenceDevice {
    ReferenceDevice::new(DeviceId([9; 16]), "under test", 16 << 16)
}

impl Device for Faulty {
    fn info(&self) -> DeviceInfo {
        DeviceInfo { backend: "cpu", ..self.0.info() }
    }
    fn slots_that_fit(&self, n: u32) -> u32 {
        self.0.slots_that_fit(n)
    }
    fn fill(&mut self, pass: &Pass, handle: &Handle) -> Result<Vec<Digest>, DeviceError> {
        // Faults show after the self-test, but for wrong bits.
        let fault = if pass.key == PASS.key || self.1 == WrongBits { self.1 } else { Fault::None };
        match fault {
            Busy => return Err(DeviceError::Busy { needed_bytes: 3, free_bytes: 2 }),
            Sick => return Err(DeviceError::Sick("it fell off the bus".into())),
            Panic => panic!("as the test wants it"),
            Slow => loop {
                handle.check()?;
                thread::sleep(Duration::from_millis(1));
            },
            SickRead | WrongBits | Fault::None => {}
        }
        let mut digests = self.0.fill(pass, handle)?;
        if fault == WrongBits {
            digests[0].0[0] ^= 1;
        }
        Ok(digests)
    }
    fn probe_round(&mut self, round: &ProbeRound, handle: &Handle) -> Result<Digest, DeviceError> {
        self.0.probe_round(round, handle)
    }
    fn probe_states(&mut self) -> Result<Vec<u8>, DeviceError> {
        self.0.probe_states()
    }
    fn read(&mut self, slot: u32, first_byte: u64, out: &mut [u8]) -> Result<(), DeviceError> {
        if self.1 == SickRead && slot == 4 {
            return Err(DeviceError::Sick("it fell off the bus".into()));
        }
        self.0.read(slot, first_byte, out)
    }
    fn chaining_values(&mut self, slot: u32, subtree_bytes: u64) -> Result<Vec<[u8; 32]>, DeviceError> {
        self.0.chaining_values(slot, subtree_bytes)
    }
    fn release(&mut self) {
        self.0.release();
    }
}

/// Lists what the seed says: a fault's place for each device, or a failure to list.
fn detect(config: &HostConfig) -> Result<Vec<Found>, String> {
    match &config.seed[..] {
        [] => Err("no driver: install one".into()),
        [255] => panic!("as the test wants it"),
        faults => Ok((1..).zip(faults).map(|(id, fault)| found(id, FAULTS[usize::from(*fault)])).collect()),
    }
}

fn found(id: u8, fault: Fault) -> Found {
    let info = DeviceInfo { id: DeviceId([id; 16]), backend: "cpu", ..reference().info() };
    Found { info, place: Place::default(), opening: format!("{fault:?}{id}") }
}

pub(super) fn open(opening: &str, prepare: Prepare<'_>) -> Result<Box<dyn Device>, DeviceError> {
    prepare(Preparing { what: "looking".into(), done: 1, total: 2 });
    let (fault, id) = opening.split_at(opening.len() - 1);
    let mut device = Faulty::open(fault);
    device.0 = ReferenceDevice::new(DeviceId([id.parse().expect("a digit"); 16]), "under test", 16 << 16);
    Ok(Box::new(device))
}

/// What the workers of these tests have for backends.
const TEST_BACKENDS: &[Backend] = &[Backend { kind: BackendKind::Cpu, detect, open }];

/// Starts workers on threads.
pub(super) struct Threads {
    /// What the workers have for backends.
    pub(super) backends: &'static [Backend],
    /// How many were started.
    pub(super) started: AtomicU32,
}

impl Default for Threads {
    fn default() -> Self {
        Self { backends: TEST_BACKENDS, started: AtomicU32::new(0) }
    }
}

impl Launcher for Threads {
    fn launch(&self) -> io::Result<Launched> {
        self.started.fetch_add(1, Ordering::Relaxed);
        let (requests, input) = io::pipe()?;
        let (output, replies) = io::pipe()?;
        let ended = Arc::new(AtomicBool::new(false));
        let (done, backends) = (ended.clone(), self.backends);
        thread::spawn(move || {
            let _ = serve(backends, requests, replies, || ());
            done.store(true, Ordering::Relaxed);
        });
        Ok(Launched { input: Box::new(input), output: Box::new(output), process: Box::new(Pretended(ended)) })
    }
}

/// What stands for a process: it has ended when it is told so.
struct Pretended(Arc<AtomicBool>);

impl Process for Pretended {
    fn id(&self) -> u32 {
        0
    }
    fn kill(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
    fn wait(&mut self, limit: Duration) -> Option<String> {
        let until = Instant::now() + limit;
        while !self.0.load(Ordering::Relaxed) {
            if Instant::now() >= until {
                return None;
            }
            thread::sleep(Duration::from_millis(1));
        }
        Some("ended".into())
    }
}

fn order(fault: Fault, launcher: Arc<dyn Launcher>) -> Order {
    Order { found: found(9, fault), launcher, silence: LONG, changes: Changes::default() }
}

/// A device with a fault, once its worker is there or is not.
fn device(fault: Fault) -> WorkerDevice {
    let device = WorkerDevice::start(order(fault, Arc::new(Threads::default()))).unwrap();
    wait_until(|| device.first().is_some());
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

#[test]
fn a_device_in_a_worker_is_the_device() {
    let (mut far, mut near) = (device(Fault::None), reference());
    let (of_far, of_near) = (Handle::default(), Handle::default());
    assert_eq!(far.info(), DeviceInfo { backend: "cpu", ..near.info() });
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
fn what_a_device_refuses_costs_no_worker() {
    let launcher = Arc::new(Threads::default());
    let mut device = WorkerDevice::start(order(Busy, launcher.clone())).unwrap();
    wait_until(|| device.first() == Some(First::Ready));
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

/// A request that is answered before anyone looks at its handle must not hide that it was cancelled: an iteration of a
/// few milliseconds follows another, and none would ever stop.
#[test]
fn short_requests_are_cancelled_too() {
    let mut device = device(Fault::None);
    let handle = Handle::default();
    device.fill(&PASS, &handle).unwrap();
    handle.cancel();
    assert_eq!(device.probe_rounds(&PROBE, &handle), Err(DeviceError::Cancelled));
    assert_eq!(device.fill(&PASS, &handle), Err(DeviceError::Cancelled));
    assert!(matches!(device.read(0, 0, &mut [0]), Err(DeviceError::Unsupported(_))), "nothing is resident after it");
    assert_eq!((handle.done_steps(), device.fault()), (8, None));
}

/// A device that failed is worked with again only in a new process; meanwhile nobody waits for it.
#[test]
fn a_device_that_fails_gets_a_new_worker() {
    for (fault, class) in [(Sick, "the device failed: it fell off the bus"), (Panic, "lost: a panic")] {
        let order = order(fault, Arc::new(Threads::default()));
        let changes = order.changes.clone();
        let mut device = WorkerDevice::start(order).unwrap();
        wait_until(|| device.first() == Some(First::Ready));
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

/// Slots go with the worker that filled them: what is asked of them later fails as the worker did.
#[test]
fn slots_of_a_lost_worker_are_lost_for_its_reason() {
    let mut device = device(SickRead);
    fill(&mut device).unwrap();
    device.read(3, 0, &mut [0]).unwrap();
    let error = device.read(4, 0, &mut [0]).unwrap_err();
    assert_eq!(error, DeviceError::Sick("it fell off the bus".into()));
    wait_until(|| device.fault().is_none());
    assert_eq!(device.probe_rounds(&PROBE, &Handle::default()), Err(error.clone()));
    assert_eq!(device.read(3, 0, &mut [0]), Err(error));
    assert_eq!(device.fault(), None, "the worker that is there now is well");
    fill(&mut device).unwrap();
    device.read(3, 0, &mut [0]).unwrap();
}

fn choose_faults(faults: &[Fault]) -> Result<Chosen, ChooseError> {
    let place = |fault: &Fault| FAULTS.iter().position(|f| f == fault).unwrap() as u8;
    let choice = BackendChoice::only(BackendKind::Cpu);
    let config = HostConfig { choice, seed: faults.iter().map(place).collect(), ..HostConfig::default() };
    choose_with(&config, TEST_BACKENDS, Arc::new(Threads::default()), LONG, &mut |_, _| ())
}

#[test]
fn a_device_with_wrong_bits_is_never_offered() {
    let chosen = choose_faults(&[Fault::None, WrongBits, Busy]).unwrap();
    assert_eq!(chosen.host.ids().collect::<Vec<_>>(), [DeviceId([1; 16]), DeviceId([3; 16])]);
    let Err(ChooseError::None(said)) = choose_faults(&[WrongBits]) else { panic!("it was offered") };
    assert!(said.contains("other bits"), "{said}");
}

#[test]
fn a_backend_without_devices_says_why() {
    let Err(ChooseError::None(said)) = choose_faults(&[]) else { panic!("there is none") };
    assert_eq!(said, "cpu: no driver: install one");
}

#[test]
fn a_listing_that_dies_is_a_backend_without_devices() {
    let config = HostConfig { choice: BackendChoice::only(BackendKind::Cpu), seed: vec![255], ..HostConfig::default() };
    let Err(ChooseError::None(said)) =
        choose_with(&config, TEST_BACKENDS, Arc::new(Threads::default()), LONG, &mut |_, _| ())
    else {
        panic!("it was listed")
    };
    assert!(said.starts_with("cpu: its devices cannot be listed: "), "{said}");
}

#[test]
fn progress_of_opening_is_shown() {
    assert_eq!(device(Fault::None).preparing(), Preparing { what: "looking".into(), done: 1, total: 2 });
}

/// Starts a worker that says these bytes, whatever it is asked.
struct Says {
    bytes: Vec<u8>,
    /// Whether it is silent after them, or ends.
    stays: bool,
}

impl Launcher for Says {
    fn launch(&self) -> io::Result<Launched> {
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
        Ok(Launched { input: Box::new(io::sink()), output: Box::new(output), process: Box::new(Pretended(ended)) })
    }
}

fn patience(silence: Duration) -> Patience {
    Patience { silence, over: Arc::default() }
}

fn framed(messages: impl IntoIterator<Item = FromWorker>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for message in messages {
        frame::write(&mut bytes, &v1::WorkerResponse::from(message)).unwrap();
    }
    bytes
}

fn reply(number: u64, reply: Reply) -> FromWorker {
    FromWorker::Reply { number, done_steps: u64::MAX, reply }
}

fn data(number: u64, bytes: usize, last: bool) -> FromWorker {
    reply(number, Reply::Data { bytes: vec![1; bytes], last })
}

/// Asks such a worker for 100 bytes.
fn ask(bytes: Vec<u8>, stays: bool, silence: Duration) -> Result<Vec<u8>, DeviceError> {
    let mut link = Link::start(&Says { bytes, stays }, "cpu", patience(silence))?;
    let handle = Handle::default();
    let answer = link.ask_bytes(Request::ReadStates, 100, &handle, link::Steps::of(3));
    assert!(handle.done_steps() <= 3, "a worker that lies about its steps makes no more of them");
    answer.map_err(|error| error.verdict().0)
}

#[test]
fn a_worker_that_talks_nonsense_is_lost() {
    let hello = || FromWorker::Hello(VERSION.into());
    let good = [hello(), data(1, 60, false), data(1, 40, true)];
    assert_eq!(ask(framed(good), true, LONG), Ok(vec![1; 100]));
    let cases: [(&str, Vec<u8>, &str); 12] = [
        ("text", b"Segmentation fault (core dumped)\n".to_vec(), "no answer: a length"),
        ("a length beyond the bound", vec![0xff; 8], "no answer: a length"),
        ("bytes that are no message", vec![3, 0, 0, 0, 0xff, 0xff, 0xff], "no answer"),
        ("no greeting", framed([reply(1, Reply::Done)]), "something else than a greeting"),
        ("another version", framed([FromWorker::Hello("0.0.0".into())]), "version 0.0.0"),
        ("two greetings", framed([hello(), hello()]), "second greeting"),
        ("the answer to another request", framed([hello(), data(2, 100, true)]), "request 2, not 1"),
        ("an answer of another kind", framed([hello(), reply(1, Reply::Slots(3))]), "than bytes"),
        ("too much", framed([hello(), data(1, 60, false), data(1, 41, true)]), "101 bytes"),
        ("too little", framed([hello(), data(1, 99, true)]), "99 bytes"),
        ("parts without an end", framed([hello(), data(1, 0, false)]), "0 bytes"),
        ("a part beyond the bound", framed([hello(), data(1, frame::MAX_DATA_BYTES + 1, true)]), "WorkerData.data"),
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
        assert_eq!(ask(bytes, false, LONG), Err(DeviceError::Lost("its worker ended".into())));
    }
    for bytes in [Vec::new(), hello] {
        let Err(DeviceError::Sick(said)) = ask(bytes, true, Duration::from_millis(50)) else { panic!("it was heard") };
        assert!(said.contains("hung"), "{said}");
    }
}

#[test]
fn a_worker_that_cannot_be_started_is_lost() {
    let program = Program::new(Some("/no/such/program".into())).unwrap();
    let Err(DeviceError::Lost(said)) = Link::start(&program, "cpu", patience(LONG)) else { panic!("it was started") };
    assert!(said.contains("cannot be started"), "{said}");
}

proptest! {
    #[test]
    fn a_dying_worker_may_say_anything(rubbish in proptest::collection::vec(any::<u8>(), 0..200), greets: bool) {
        let mut bytes = if greets { framed([FromWorker::Hello(VERSION.into())]) } else { Vec::new() };
        bytes.extend(rubbish);
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
        serve(TEST_BACKENDS, input, output, move || flag.store(true, Ordering::Relaxed)).unwrap();
        wait_until(|| gone.load(Ordering::Relaxed));
        let mut greeting = Vec::new();
        said.read_to_end(&mut greeting).unwrap();
        assert!(greeting.starts_with(&framed([FromWorker::Hello(VERSION.into())])));
    }
}
