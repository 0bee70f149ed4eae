//! A backend of devices that are the reference with faults.

use std::thread;
use std::time::Duration;

use assay_device::backend::{
    Absence, Backend, BackendKind, DetectedDevice, OpenResult, StartupObserver, StartupProgress,
};
use assay_device::place::DevicePlace;
use assay_device::{Device, DeviceError, DeviceInfo, Handle, Pass};
use assay_work::{DeviceId, PassKey, Precision};

use crate::FakeDevice;
use crate::reference::ReferenceDevice;

/// The longest time that a test waits for an expected event.
pub const LONG: Duration = Duration::from_secs(60);
/// The pass at which faults show.
pub const PASS: Pass = Pass { precision: Precision::Int8, key: PassKey([1; 32]), n: 256, offset: 5, count: 8 };

/// The fault of a device of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FakeFault {
    /// It works.
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
    Closed,
    /// Another process has it.
    Taken,
}

use FakeFault::{Busy, Panic, Sick, SickRead, Slow, WrongBits};

const FAULTS: [FakeFault; 9] =
    [FakeFault::None, WrongBits, Busy, Sick, SickRead, Panic, Slow, FakeFault::Closed, FakeFault::Taken];

/// The device that is under test.
pub fn reference() -> ReferenceDevice {
    ReferenceDevice::new(DeviceId([9; 16]), "under test", 16 << 16)
}

/// The reference as a device of a backend, with a fault of its own.
fn faulty(reference: ReferenceDevice, backend: BackendKind, fault: FakeFault) -> FakeDevice<ReferenceDevice> {
    let fill = move |inner: &mut ReferenceDevice, pass: &Pass, handle: &Handle| {
        // Faults show after the self-test, but for wrong bits.
        let fault = if pass.key == PASS.key || fault == WrongBits { fault } else { FakeFault::None };
        match fault {
            Busy => return Err(DeviceError::Busy { needed_bytes: 3, free_bytes: 2 }),
            Sick => return Err(DeviceError::Sick("it fell off the bus".into())),
            Panic => panic!("as the test wants it"),
            Slow => loop {
                handle.check()?;
                thread::sleep(Duration::from_millis(1));
            },
            SickRead | WrongBits | FakeFault::Closed | FakeFault::Taken | FakeFault::None => {}
        }
        let mut digests = inner.fill(pass, handle)?;
        if fault == WrongBits {
            digests[0].0[0] ^= 1;
        }
        Ok(digests)
    };
    let read = move |inner: &mut ReferenceDevice, slot, first_byte, out: &mut [u8]| {
        if fault == SickRead && slot == 4 {
            return Err(DeviceError::Sick("it fell off the bus".into()));
        }
        inner.read(slot, first_byte, out)
    };
    let info = Box::new(move |info| DeviceInfo { backend, ..info });
    FakeDevice { info, fill: Box::new(fill), read: Box::new(read), ..FakeDevice::new(reference) }
}

/// A backend of devices with faults.
#[derive(Debug, Clone)]
pub struct FakeBackend {
    /// The backend that it stands for.
    pub kind: BackendKind,
    /// The devices, or the reason that there are none, where `panic` stands for a driver that takes the process with
    /// it.
    pub devices: Result<Vec<DetectedDevice>, Absence>,
}

/// A device of a backend, with a fault.
pub fn found(backend: BackendKind, id: u8, fault: FakeFault, place: DevicePlace) -> DetectedDevice {
    let info = DeviceInfo { id: DeviceId([id; 16]), name: format!("card {id}"), backend, ..reference().info() };
    DetectedDevice { info, place, integrated: false, refusal: None, forbidden: false, spec: format!("{fault:?} {id}") }
}

/// The registry of workers that have fakes for backends.
///
/// # Errors
/// Settings that are not [`FakeBackend`].
pub fn fakes(kind: BackendKind, settings: &str) -> Result<Box<dyn Backend>, String> {
    let devices = serde_json::from_str(settings).map_err(|error| error.to_string())?;
    Ok(Box::new(FakeBackend { kind, devices }))
}

impl Backend for FakeBackend {
    fn kind(&self) -> BackendKind {
        self.kind
    }

    fn settings(&self) -> String {
        serde_json::to_string(&self.devices).expect("plain fields")
    }

    fn detect(&self) -> Result<Vec<DetectedDevice>, Absence> {
        assert!(self.devices != Err("panic".into()), "as the test wants it");
        self.devices.clone()
    }

    fn open(&self, spec: &str, prepare: StartupObserver<'_>) -> OpenResult {
        prepare(StartupProgress { what: "looking".into(), done: 1, total: 2 });
        let (fault, id) = spec.split_once(' ').expect("a spec of the test");
        let fault = FAULTS.into_iter().find(|known| format!("{known:?}") == fault).expect("a fault of the test");
        if fault == FakeFault::Closed {
            return Err(DeviceError::Sick("it does not open".into()));
        }
        if fault == FakeFault::Taken {
            return Err(DeviceError::NotNow("another process has it".into()));
        }
        let id = DeviceId([id.parse().expect("a number"); 16]);
        Ok(Box::new(faulty(ReferenceDevice::new(id, "under test", 16 << 16), self.kind, fault)))
    }
}
