//! A worker that drives the real processor devices and lies: a burn-in must find its faults.
//!
//! The setting `worker_program` names it in place of the miner. `ASSAY_FAULT` states its fault, as JSON ([`Fault`]).

use std::fs::OpenOptions;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use std::{env, process, thread};

use assay_cpu::{CpuConfig, CpuDevice, CpuSpec};
use assay_device::backend::{Absence, Backend, BackendKind, DetectedDevice, OpenResult, StartupObserver};
use assay_device::copies::Area;
use assay_device::{Device, DeviceError, DeviceInfo, Handle, Pass, ProbeRound, ProbeRounds, SweepRound, SweepRounds};
use assay_integration_tests::faulty::{Fault, Lie, VARIABLE};
use assay_kits::reference::{BitFlip, ReferenceDevice};
use assay_work::{Digest, Opening, Precision};
use assay_worker::{serve, stdio};

fn main() -> ExitCode {
    stdio::leave_signals_to_the_program();
    let served = stdio::take().and_then(|(input, output)| serve(backend, input, output, stdio::end));
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(74)
        }
    }
}

fn backend(kind: BackendKind, settings: &str) -> Result<Box<dyn Backend>, String> {
    if kind != BackendKind::Cpu {
        return Err("it drives the processor alone".into());
    }
    let honest: CpuConfig = serde_json::from_str(settings).map_err(|error| error.to_string())?;
    let fault = env::var(VARIABLE).map_err(|error| format!("{VARIABLE}: {error}"))?;
    let fault: Fault = serde_json::from_str(&fault).map_err(|error| format!("{VARIABLE}: {error}"))?;
    Ok(Box::new(Faulty { honest, fault }))
}

/// The processor's backend, with devices that lie.
struct Faulty {
    honest: CpuConfig,
    fault: Fault,
}

impl Backend for Faulty {
    fn kind(&self) -> BackendKind {
        BackendKind::Cpu
    }

    fn settings(&self) -> String {
        self.honest.settings()
    }

    fn detect(&self) -> Result<Vec<DetectedDevice>, Absence> {
        self.honest.detect()
    }

    fn open(&self, spec: &str, _prepare: StartupObserver<'_>) -> OpenResult {
        let unsupported = |error: &dyn std::error::Error| DeviceError::Unsupported(error.to_string());
        let spec: CpuSpec = serde_json::from_str(spec).map_err(|error| unsupported(&error))?;
        let device = spec.open().map_err(|error| unsupported(&error))?;
        let name = device.info().name;
        if !self.fault.devices.iter().any(|index| name.ends_with(&format!("CPU device {index}"))) {
            return Ok(Box::new(device));
        }
        let fault = self.fault.clone();
        Ok(Box::new(Liar { device, fault, flipped: None, fills: 0, probes: 0, area_reads: 0 }))
    }
}

/// A device that computes as it should, until it does not.
struct Liar {
    device: CpuDevice,
    fault: Fault,
    /// The pass in whose memory a bit turned, while it is resident.
    flipped: Option<ReferenceDevice>,
    /// Passes so far, but for the worker's self-test.
    fills: u64,
    probes: u64,
    area_reads: u64,
}

impl Liar {
    /// Whether the fault shows the `count`th time.
    fn shows(&self, count: u64) -> bool {
        let is_due = count == self.fault.at || self.fault.again && count > self.fault.at;
        is_due
            && match &self.fault.once {
                Some(once) => OpenOptions::new().write(true).create_new(true).open(once).is_ok(),
                None => true,
            }
    }

    /// A pass in which the fault shows.
    fn wrong_pass(&mut self, pass: &Pass, handle: &Handle) -> Result<Vec<Digest>, DeviceError> {
        match self.fault.lie {
            Lie::Flip { slot, byte, bytes, mask } => {
                let info = self.device.info();
                let flipped = ReferenceDevice::new(info.id, info.name, pass.bytes());
                let flipped = self.flipped.insert(flipped.with_flip(BitFlip { slot, byte, bytes, mask }));
                flipped.fill(pass, handle)
            }
            Lie::Digest(slot) => {
                let mut digests = self.device.fill(pass, handle)?;
                if let Some(digest) = digests.get_mut(slot as usize) {
                    digest.0[7] ^= 4;
                }
                Ok(digests)
            }
            Lie::Exit => process::exit(9),
            Lie::Stop => {
                stop_this_process();
                self.device.fill(pass, handle)
            }
            Lie::Hang => loop {
                thread::sleep(Duration::from_secs(1));
            },
            Lie::Slow(times) => {
                let start = Instant::now();
                let digests = self.device.fill(pass, handle)?;
                thread::sleep(start.elapsed() * times.saturating_sub(1));
                Ok(digests)
            }
            Lie::Probe(_) | Lie::Copy(_) => self.device.fill(pass, handle),
        }
    }

    fn resident(&mut self) -> &mut dyn Device {
        match &mut self.flipped {
            Some(flipped) => flipped,
            None => &mut self.device,
        }
    }
}

/// As a debugger or a starved machine does: no heartbeat comes any more.
fn stop_this_process() {
    let id = process::id().to_string();
    let _ = process::Command::new("kill").args(["-STOP", &id]).status();
}

/// The key of the self-test: the pass before a device is offered.
const SELF_TEST: [u8; 32] = [0xa5; 32];

impl Device for Liar {
    fn info(&self) -> DeviceInfo {
        self.device.info()
    }

    fn slots_that_fit(&self, n: u32) -> u32 {
        self.device.slots_that_fit(n)
    }

    fn fill(&mut self, pass: &Pass, handle: &Handle) -> Result<Vec<Digest>, DeviceError> {
        self.flipped = None;
        if *pass.key.as_bytes() == SELF_TEST {
            return self.device.fill(pass, handle);
        }
        self.fills += 1;
        let is_of_passes = !matches!(self.fault.lie, Lie::Probe(_) | Lie::Copy(_));
        if is_of_passes && self.shows(self.fills) {
            return self.wrong_pass(pass, handle);
        }
        self.device.fill(pass, handle)
    }

    fn probe_round(&mut self, round: &ProbeRound, handle: &Handle) -> Result<Digest, DeviceError> {
        self.resident().probe_round(round, handle)
    }

    fn probe_rounds(&mut self, probe: &ProbeRounds, handle: &Handle) -> Result<Vec<Digest>, DeviceError> {
        let mut digests = self.resident().probe_rounds(probe, handle)?;
        if let Lie::Probe(round) = self.fault.lie {
            // The self-test's is the first.
            let count = self.probes;
            self.probes += 1;
            if count > 0 && self.shows(count) {
                let at = (round as usize).min(digests.len() - 1);
                digests[at].0[0] ^= 1;
            }
        }
        Ok(digests)
    }

    fn probe_states(&mut self) -> Result<Vec<u8>, DeviceError> {
        self.resident().probe_states()
    }

    fn sweep_rounds(&mut self, sweep: &SweepRounds, handle: &Handle) -> Result<Vec<Digest>, DeviceError> {
        self.resident().sweep_rounds(sweep, handle)
    }

    fn open_sums(&mut self, round: &SweepRound, at: &[u64], handle: &Handle) -> Result<Vec<Opening>, DeviceError> {
        self.resident().open_sums(round, at, handle)
    }

    fn read(&mut self, slot: u32, first_byte: u64, out: &mut [u8]) -> Result<(), DeviceError> {
        self.resident().read(slot, first_byte, out)
    }

    fn chaining_values(&mut self, slot: u32, subtree_bytes: u64) -> Result<Vec<[u8; 32]>, DeviceError> {
        self.resident().chaining_values(slot, subtree_bytes)
    }

    fn release(&mut self) {
        self.flipped = None;
        self.device.release();
    }

    fn kernels(&self, precision: Precision) -> Vec<String> {
        self.device.kernels(precision)
    }

    fn choose_kernel(&mut self, precision: Precision, kernel: &str) -> Result<(), DeviceError> {
        self.device.choose_kernel(precision, kernel)
    }

    fn time_products(&mut self, products: u32) -> Result<Duration, DeviceError> {
        if self.flipped.is_some() {
            return Err(DeviceError::Unsupported("another pass is resident".into()));
        }
        self.device.time_products(products)
    }

    fn write_area(&mut self, data: &[u8]) -> Result<Duration, DeviceError> {
        self.device.write_area(data)
    }

    fn copy_area(&mut self) -> Result<Duration, DeviceError> {
        self.device.copy_area()
    }

    fn read_area(&mut self, area: Area, out: &mut [u8]) -> Result<Duration, DeviceError> {
        let took = self.device.read_area(area, out)?;
        if let Lie::Copy(byte) = self.fault.lie {
            self.area_reads += 1;
            if self.shows(self.area_reads) {
                out[byte as usize] ^= 0x08;
            }
        }
        Ok(took)
    }
}
