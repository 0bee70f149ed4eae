//! A device's stages one by one, for benchmarks: timed by the device's own events, launches one behind the other.

mod limits;
mod peer;

use std::time::{Duration, Instant};

use super::config::KernelChoice;
use super::device::CudaDevice;
use super::driver::{DeviceMemory, Event, PinnedMemory};
use super::error::{CudaError, Fault};
use super::family;
use super::kernels::{Band, Kernels};
use super::plan::{Layout, STATE_BYTES};
use super::wait;
use assay_device::measure::{Limits, Measured, PROBE_STEPS, Sample, Stage, walks_over};
use assay_device::{Device, DeviceError, Handle, Pass, ProbeRound};
use assay_work::keys::parents;
use assay_work::{PassKey, RoundKey};
use peer::Peer;

/// The key of the pass that is measured.
const KEY: PassKey = PassKey([7; 32]);
/// Bytes of one copy between host and device.
const COPY_BYTES: usize = 64 << 20;
/// The most bytes of one copy on the device: several times any cache.
const DEVICE_COPY_BYTES: u64 = 1 << 30;
/// For how long a sample may take; a driver that hangs ends here.
const LONGEST_SAMPLE: Duration = Duration::from_secs(600);

/// What a device keeps while it is measured.
#[derive(Debug, Default)]
pub(super) struct Bench {
    /// Families besides the one in use.
    spare: Vec<Kernels>,
    /// Where copies and the peer's results go.
    other: Option<DeviceMemory>,
    pinned: Option<PinnedMemory>,
    peer: Option<Peer>,
}

impl Bench {
    /// Gives its memory on the device back.
    pub(super) fn release(&mut self) {
        (self.other, self.pinned, self.peer) = (None, None, None);
    }
}

impl Measured for CudaDevice {
    fn kernels(&self) -> Vec<String> {
        let runs = |family: &&family::Family| (family.runs_on)(self.description.capability);
        family::FAMILIES.iter().filter(runs).map(|family| family.name().to_owned()).collect()
    }

    fn limits(&mut self) -> Limits {
        limits::of(&self.description)
    }

    fn peer(&self) -> Result<String, String> {
        Peer::describe()
    }

    fn prepare(&mut self, n: u32, count: u32) -> Result<(), DeviceError> {
        self.bench.release();
        self.fill(&Pass { key: KEY, n, offset: 0, count }, &Handle::default()).map(drop)
    }

    fn sample(&mut self, stage: Stage, kernel: &str, repeats: u32) -> Result<Sample, DeviceError> {
        let layout = self.resident()?;
        self.bind()?;
        let (n, count) = (u128::from(layout.n), u128::from(layout.count));
        let (slot, slots) = (layout.slot_bytes(), layout.slots_bytes());
        let product = 2 * n.pow(3);
        let (elapsed, operations, bytes) = match stage {
            Stage::Product => {
                self.choose(kernel)?;
                (self.products(&layout, repeats)?, product, 0)
            }
            Stage::Pass => {
                self.choose(kernel)?;
                (self.passes(&layout, repeats)?, (count - 2) * product, 0)
            }
            Stage::Leaves => (self.leaves(&layout, repeats)?, 0, 2 * slot),
            Stage::Digests => (self.digests(&layout, repeats)?, 0, slots),
            Stage::Probe => {
                let walks = walks_over(slots);
                let lines = u64::from(walks) * u64::from(PROBE_STEPS);
                (self.rounds(walks, repeats)?, 0, lines * STATE_BYTES)
            }
            Stage::HostToDevice | Stage::DeviceToHost => (self.host_copies(stage, repeats)?, 0, COPY_BYTES as u64),
            Stage::DeviceCopy => {
                let bytes = slots.min(DEVICE_COPY_BYTES);
                (self.device_copies(bytes, repeats)?, 0, 2 * bytes)
            }
            Stage::Peer => (self.peer_products(&layout, repeats)?, product, 0),
        };
        let repeats = u64::from(repeats);
        Ok(Sample { elapsed, operations: operations * u128::from(repeats), bytes: bytes * repeats })
    }
}

impl CudaDevice {
    /// Takes another family from now on; those that were loaded before stay loaded.
    fn choose(&mut self, kernel: &str) -> Result<(), DeviceError> {
        if self.kernels.family.name() == kernel {
            return Ok(());
        }
        let unknown = || DeviceError::Unsupported(format!("no family is called {kernel}"));
        let family = family::FAMILIES.iter().find(|family| family.name() == kernel).ok_or_else(unknown)?;
        let loaded = match self.bench.spare.iter().position(|kernels| kernels.family.name() == kernel) {
            Some(at) => self.bench.spare.swap_remove(at),
            None => self.load(family.choice)?,
        };
        self.bench.spare.push(std::mem::replace(&mut self.kernels, loaded));
        Ok(())
    }

    fn load(&self, choice: KernelChoice) -> Result<Kernels, DeviceError> {
        let config = super::CudaConfig { kernel: choice, ..self.config.clone() };
        let loaded = Kernels::load(&self.context, &self.description, &config, &mut |_| ());
        let kernels = loaded.map_err(|error| match error {
            CudaError::NoKernel { reasons, .. } => DeviceError::Unsupported(reasons),
            other => DeviceError::Sick(other.to_string()),
        })?;
        // What was asked for by name and did not load is no measurement of it.
        if kernels.family.choice == choice {
            Ok(kernels)
        } else {
            Err(DeviceError::Unsupported(kernels.passed_over.join("; ")))
        }
    }

    /// The time between two marks around what `enqueue` enqueues on the compute stream.
    fn timed(&self, what: Stage, enqueue: impl FnOnce() -> Result<(), Fault>) -> Result<Duration, DeviceError> {
        let (start, end) = (Event::new(&self.context)?, Event::new(&self.context)?);
        start.record(&self.compute)?;
        enqueue()?;
        end.record(&self.compute)?;
        let doing = || format!("measuring {what:?}");
        wait::until(&self.context, LONGEST_SAMPLE, None, doing, || end.is_done(doing))?;
        Ok(end.since(&start)?)
    }

    /// Products of the resident pass, slot after slot. They write what is there already.
    fn products(&self, layout: &Layout, repeats: u32) -> Result<Duration, DeviceError> {
        let (slots, _) = self.memory.slots_and_scratch()?;
        let mut operands = self.kernels.operands(&self.context, slots.address(), layout.n, layout.count)?;
        let tiles = self.kernels.family.tiles(layout.n);
        self.timed(Stage::Product, || {
            for turn in 0..repeats {
                let u = 2 + turn % (layout.count - 2);
                let (earlier, previous) = parents(&KEY, u);
                let band = Band { u, earlier, previous, first_tile: 0, tiles };
                // SAFETY: all slots are resident; `timed` waits for the stream, or the context is lost.
                unsafe { self.kernels.product(&self.compute, &mut operands, band) }?;
            }
            Ok(())
        })
    }

    /// Whole passes, by the host's clock: what the host adds counts.
    fn passes(&mut self, layout: &Layout, repeats: u32) -> Result<Duration, DeviceError> {
        let pass = Pass { key: KEY, n: layout.n, offset: 0, count: layout.count };
        let start = Instant::now();
        for _ in 0..repeats {
            self.fill(&pass, &Handle::default())?;
        }
        Ok(start.elapsed())
    }

    fn leaves(&self, layout: &Layout, repeats: u32) -> Result<Duration, DeviceError> {
        let (slots, _) = self.memory.slots_and_scratch()?;
        self.timed(Stage::Leaves, || {
            for leaf in (0..repeats).flat_map(|_| 0..2) {
                let to = slots.address() + u64::from(leaf) * layout.slot_bytes();
                // SAFETY: both leaves are resident; `timed` waits.
                unsafe { self.kernels.keystream(&self.compute, KEY.as_bytes(), leaf, to, layout.slot_bytes()) }?;
            }
            Ok(())
        })
    }

    fn digests(&self, layout: &Layout, repeats: u32) -> Result<Duration, DeviceError> {
        let (slots, scratch) = self.memory.slots_and_scratch()?;
        let (partials, arrivals) = (layout.partials.address(scratch), layout.arrivals.address(scratch));
        let digests = layout.digests.address(scratch);
        self.timed(Stage::Digests, || {
            for u in (0..repeats).flat_map(|_| 0..u64::from(layout.count)) {
                let (data, bytes) = (slots.address() + u * layout.slot_bytes(), layout.slot_bytes());
                let digest = digests + u * super::plan::HASH_BYTES;
                // SAFETY: slots and scratch are those of the layout; one stream, so that one set of partials serves.
                unsafe { self.kernels.digest(&self.compute, data, bytes, partials, arrivals, digest) }?;
            }
            Ok(())
        })
    }

    /// Rounds of the probe as a challenge has them, by the host's clock.
    fn rounds(&mut self, walks: u32, repeats: u32) -> Result<Duration, DeviceError> {
        let start = Instant::now();
        for turn in 0..repeats {
            let round = ProbeRound { key: RoundKey([turn as u8; 32]), walks, steps: PROBE_STEPS };
            self.probe_round(&round, &Handle::default())?;
        }
        Ok(start.elapsed())
    }

    fn host_copies(&mut self, stage: Stage, repeats: u32) -> Result<Duration, DeviceError> {
        self.make_other(COPY_BYTES as u64)?;
        if self.bench.pinned.is_none() {
            self.bench.pinned = Some(PinnedMemory::new(&self.context, COPY_BYTES)?);
        }
        let (Some(other), Some(pinned)) = (&self.bench.other, &self.bench.pinned) else {
            return Err(DeviceError::Unsupported("no memory to copy".into()));
        };
        self.timed(stage, || {
            (0..repeats).try_for_each(|_| match stage {
                Stage::HostToDevice => other.copy_in(&self.compute, pinned),
                _ => other.copy_out(&self.compute, 0, COPY_BYTES, pinned),
            })
        })
    }

    fn device_copies(&mut self, bytes: u64, repeats: u32) -> Result<Duration, DeviceError> {
        self.make_other(bytes)?;
        let (slots, _) = self.memory.slots_and_scratch()?;
        let Some(other) = &self.bench.other else {
            return Err(DeviceError::Unsupported("no memory to copy".into()));
        };
        self.timed(Stage::DeviceCopy, || (0..repeats).try_for_each(|_| slots.copy_to(&self.compute, other, bytes)))
    }

    fn peer_products(&mut self, layout: &Layout, repeats: u32) -> Result<Duration, DeviceError> {
        let result_bytes = 4 * layout.slot_bytes();
        self.make_other(result_bytes + peer::WORKSPACE_BYTES)?;
        let (slots, _) = self.memory.slots_and_scratch()?;
        let Some(other) = &self.bench.other else {
            return Err(DeviceError::Unsupported("no memory for results".into()));
        };
        let n = layout.n;
        let operand = |u: u32| slots.address() + u64::from(u) * layout.slot_bytes();
        let (result, workspace) = (other.address(), other.address() + result_bytes);
        let matrices = |turn: u32| {
            let (earlier, previous) = parents(&KEY, 2 + turn % (layout.count - 2));
            peer::Matrices { left: operand(earlier), right: operand(previous), result, workspace }
        };
        if self.bench.peer.as_ref().is_none_or(|peer| peer.n() != n) {
            let time = |peer: &Peer, way: usize| {
                // SAFETY: all matrices are as large as n asks for; `timed` waits for the stream.
                self.timed(Stage::Peer, || unsafe { peer.multiply(&self.compute, way, &matrices(0)) })
            };
            self.bench.peer = Some(Peer::new(n, time)?);
        }
        let Some(peer) = &self.bench.peer else {
            return Err(DeviceError::Unsupported("no peer".into()));
        };
        self.timed(Stage::Peer, || {
            // SAFETY: as above.
            (0..repeats).try_for_each(|turn| unsafe { peer.multiply(&self.compute, peer.best(), &matrices(turn)) })
        })
    }

    /// Room for at least so many bytes besides the slots.
    fn make_other(&mut self, bytes: u64) -> Result<(), DeviceError> {
        if self.bench.other.as_ref().is_none_or(|other| other.bytes() < bytes) {
            self.bench.other = None;
            self.bench.other = Some(self.memory.take_other(bytes)?);
        }
        Ok(())
    }
}
