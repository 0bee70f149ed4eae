//! For tests: workers on threads, over pipes, that drive the reference with faults.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use assay_device::backend::{Backend, BackendKind, Found, Opened, Prepare, Preparing};
use assay_device::place::Place;
use assay_device::reference::ReferenceDevice;
use assay_device::{Device, DeviceError, DeviceInfo, Handle, Pass, ProbeRound};
use assay_work::{DeviceId, Digest, PassKey};

use crate::process::{Launched, Launcher, Process};
use crate::serve::serve;

/// How long a test waits for what has to come.
pub const LONG: Duration = Duration::from_secs(60);
/// The pass at which faults show.
pub const PASS: Pass = Pass { key: PassKey([1; 32]), n: 256, offset: 5, count: 8 };

/// The reference, with a fault of its own.
struct Faulty(ReferenceDevice, BackendKind, Fault);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
/// What such a device does wrong.
pub enum Fault {
    /// None.
    None,
    /// A bit of the first digest is wrong, in the self-test too.
    WrongBits,
    /// Its memory is in use, for [`PASS`].
    Busy,
    /// It fails at [`PASS`].
    Sick,
    /// It fails where slot 4 is read.
    SickRead,
    /// It panics at [`PASS`].
    Panic,
    /// It never finishes [`PASS`].
    Slow,
    /// It does not open.
    Closed,
}

use Fault::{Busy, Panic, Sick, SickRead, Slow, WrongBits};

const FAULTS: [Fault; 8] = [Fault::None, WrongBits, Busy, Sick, SickRead, Panic, Slow, Fault::Closed];

/// The device that is under test.
#[must_use]
pub fn reference() -> ReferenceDevice {
    ReferenceDevice::new(DeviceId([9; 16]), "under test", 16 << 16)
}

impl Device for Faulty {
    fn info(&self) -> DeviceInfo {
        DeviceInfo { backend: self.1, ..self.0.info() }
    }
    fn slots_that_fit(&self, n: u32) -> u32 {
        self.0.slots_that_fit(n)
    }
    fn fill(&mut self, pass: &Pass, handle: &Handle) -> Result<Vec<Digest>, DeviceError> {
        // Faults show after the self-test, but for wrong bits.
        let fault = if pass.key == PASS.key || self.2 == WrongBits { self.2 } else { Fault::None };
        match fault {
            Busy => return Err(DeviceError::Busy { needed_bytes: 3, free_bytes: 2 }),
            Sick => return Err(DeviceError::Sick("it fell off the bus".into())),
            Panic => panic!("as the test wants it"),
            Slow => loop {
                handle.check()?;
                thread::sleep(Duration::from_millis(1));
            },
            SickRead | WrongBits | Fault::Closed | Fault::None => {}
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
        if self.2 == SickRead && slot == 4 {
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

/// A backend of such devices.
#[derive(Debug, Clone)]
pub struct Fakes {
    /// Which backend it stands for.
    pub kind: BackendKind,
    /// The devices; or why there is none, where `panic` stands for a driver that takes the process with it.
    pub devices: Result<Vec<Found>, String>,
}

/// A device of a backend, with a fault.
#[must_use]
pub fn found(backend: BackendKind, id: u8, fault: Fault, place: Place) -> Found {
    let info = DeviceInfo { id: DeviceId([id; 16]), name: format!("card {id}"), backend, ..reference().info() };
    Found { info, place, spec: format!("{fault:?} {id}") }
}

/// The registry of workers that have fakes for backends.
///
/// # Errors
/// Settings that are none of [`Fakes`].
pub fn fakes(kind: BackendKind, settings: &str) -> Result<Box<dyn Backend>, String> {
    let devices = serde_json::from_str(settings).map_err(|error| error.to_string())?;
    Ok(Box::new(Fakes { kind, devices }))
}

impl Backend for Fakes {
    fn kind(&self) -> BackendKind {
        self.kind
    }

    fn settings(&self) -> String {
        serde_json::to_string(&self.devices).expect("plain fields")
    }

    fn detect(&self) -> Result<Vec<Found>, String> {
        assert!(self.devices != Err("panic".into()), "as the test wants it");
        self.devices.clone()
    }

    fn open(&self, spec: &str, prepare: Prepare<'_>) -> Opened {
        prepare(Preparing { what: "looking".into(), done: 1, total: 2 });
        let (fault, id) = spec.split_once(' ').expect("a spec of the test");
        let fault = FAULTS.into_iter().find(|known| format!("{known:?}") == fault).expect("a fault of the test");
        if fault == Fault::Closed {
            return Err(DeviceError::Sick("it does not open".into()));
        }
        let id = DeviceId([id.parse().expect("a number"); 16]);
        Ok(Box::new(Faulty(ReferenceDevice::new(id, "under test", 16 << 16), self.kind, fault)))
    }
}

/// Starts workers on threads; their backends are [`fakes`].
#[derive(Debug, Default)]
pub struct Threads {
    /// How many were started.
    pub started: AtomicU32,
}

impl Launcher for Threads {
    fn launch(&self) -> io::Result<Launched> {
        self.started.fetch_add(1, Ordering::Relaxed);
        let (requests, input) = io::pipe()?;
        let (output, replies) = io::pipe()?;
        let ended = Arc::new(AtomicBool::new(false));
        let done = ended.clone();
        thread::spawn(move || {
            let _ = serve(fakes, requests, replies, || ());
            done.store(true, Ordering::Relaxed);
        });
        Ok(Launched { input: Box::new(input), output: Box::new(output), process: Box::new(Pretended(ended)) })
    }
}

/// What stands for a process: it has ended when it is told so.
pub struct Pretended(pub Arc<AtomicBool>);

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
