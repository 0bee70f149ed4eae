//! A GPU's stages one by one: timed by the device's own events, launches one behind the other.

mod cublaslt;
mod peak;

use std::time::Duration;

use crate::config::{CudaConfig, KernelChoice};
use crate::device::CudaDevice;
use crate::driver::{DeviceMemory, Event, PinnedMemory};
use crate::error::{CudaError, Fault};
use crate::family::{FAMILIES, Family};
use crate::kernels::{Band, Kernels};
use crate::plan::{HASH_BYTES, Layout};
use crate::wait;
use assay_device::bench::{Bench, BenchStage, KEY, Measurement, PeakRates, bench_pass, time_passes, time_rounds};
use assay_device::{Device, DeviceError, Handle};
use assay_work::keys::parents;
use cublaslt::{CublasLt, Matrices, WORKSPACE_BYTES};

/// Bytes of one copy between host and device.
const COPY_BYTES: usize = 64 << 20;
/// The most bytes of one copy on the device: several times any cache.
const DEVICE_COPY_BYTES: u64 = 1 << 30;
/// For how long a sample may take; a driver that hangs ends here.
const LONGEST_SAMPLE: Duration = Duration::from_secs(600);

/// Measures a CUDA device.
#[derive(Debug)]
pub struct CudaBench {
    /// Families besides the one in use.
    spare: Vec<Kernels>,
    /// Where copies and the peer's results go.
    other: Option<DeviceMemory>,
    pinned: Option<PinnedMemory>,
    peer: Option<CublasLt>,
    /// The device; its context is given up last.
    pub device: CudaDevice,
}

impl Bench for CudaBench {
    fn device(&mut self) -> &mut dyn Device {
        &mut self.device
    }

    fn kernels(&self) -> Vec<String> {
        let runs = |family: &&Family| (family.runs_on)(self.device.description.capability);
        FAMILIES.iter().filter(runs).map(|family| family.name().to_owned()).collect()
    }

    fn peak_rates(&mut self) -> PeakRates {
        peak::of(&self.device.description)
    }

    fn peer(&self) -> Result<String, String> {
        CublasLt::describe()
    }

    fn prepare(&mut self, n: u32, count: u32) -> Result<(), DeviceError> {
        (self.other, self.pinned, self.peer) = (None, None, None);
        self.device.fill(&bench_pass(n, count), &Handle::default()).map(drop)
    }

    fn sample(&mut self, stage: BenchStage, kernel: &str, repeats: u32) -> Result<Measurement, DeviceError> {
        let layout = self.device.residency.layout()?;
        self.device.bind()?;
        let pass = bench_pass(layout.n, layout.count);
        if stage.depends_on_kernel() {
            self.choose(kernel)?;
        }
        let mut copy_bytes = COPY_BYTES as u64;
        let elapsed = match stage {
            BenchStage::Product => self.products(&layout, repeats)?,
            BenchStage::Pass => time_passes(&mut self.device, &pass, repeats)?,
            BenchStage::Leaves => self.leaves(&layout, repeats)?,
            BenchStage::Digests => self.digests(&layout, repeats)?,
            BenchStage::Probe => time_rounds(&mut self.device, &pass, repeats)?,
            BenchStage::HostToDevice | BenchStage::DeviceToHost => self.host_copies(stage, repeats)?,
            BenchStage::DeviceCopy => {
                copy_bytes = pass.bytes().min(DEVICE_COPY_BYTES);
                self.device_copies(copy_bytes, repeats)?
            }
            BenchStage::Peer => self.peer_products(&layout, repeats)?,
        };
        Ok(stage.measurement(&pass, copy_bytes, repeats, elapsed))
    }
}

impl CudaBench {
    /// A benchmark of an opened device.
    #[must_use]
    pub const fn new(device: CudaDevice) -> Self {
        Self { spare: Vec::new(), other: None, pinned: None, peer: None, device }
    }

    /// Takes another family from now on; those that were loaded before stay loaded.
    fn choose(&mut self, kernel: &str) -> Result<(), DeviceError> {
        if self.device.kernels.family.name() == kernel {
            return Ok(());
        }
        let unknown = || DeviceError::Unsupported(format!("no family is called {kernel}"));
        let family = FAMILIES.iter().find(|family| family.name() == kernel).ok_or_else(unknown)?;
        let loaded = match self.spare.iter().position(|kernels| kernels.family.name() == kernel) {
            Some(at) => self.spare.swap_remove(at),
            None => self.load(family.choice)?,
        };
        self.spare.push(std::mem::replace(&mut self.device.kernels, loaded));
        Ok(())
    }

    fn load(&self, choice: KernelChoice) -> Result<Kernels, DeviceError> {
        let config = CudaConfig { kernel: choice, ..self.device.config.clone() };
        let loaded = Kernels::load(&self.device.context, &self.device.description, &config, &mut |_| ());
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
    fn timed(&self, what: BenchStage, enqueue: impl FnOnce() -> Result<(), Fault>) -> Result<Duration, DeviceError> {
        let (start, end) = (Event::new(&self.device.context)?, Event::new(&self.device.context)?);
        start.record(&self.device.compute)?;
        enqueue()?;
        end.record(&self.device.compute)?;
        let doing = || format!("measuring {what:?}");
        wait::until(&self.device.context, LONGEST_SAMPLE, None, doing, || end.is_done(doing))?;
        Ok(end.since(&start)?)
    }

    /// Products of the resident pass, slot after slot. They write what is there already.
    fn products(&self, layout: &Layout, repeats: u32) -> Result<Duration, DeviceError> {
        let (slots, _) = self.device.memory.slots_and_scratch()?;
        let mut operands =
            self.device.kernels.operands(&self.device.context, slots.address(), layout.n, layout.count)?;
        let tiles = self.device.kernels.family.tiles(layout.n);
        self.timed(BenchStage::Product, || {
            for turn in 0..repeats {
                let u = 2 + turn % (layout.count - 2);
                let (earlier, previous) = parents(&KEY, u);
                let band = Band { u, earlier, previous, first_tile: 0, tiles };
                // SAFETY: all slots are resident; `timed` waits for the stream, or the context is lost.
                unsafe { self.device.kernels.product(&self.device.compute, &mut operands, band) }?;
            }
            Ok(())
        })
    }

    fn leaves(&self, layout: &Layout, repeats: u32) -> Result<Duration, DeviceError> {
        let (slots, _) = self.device.memory.slots_and_scratch()?;
        self.timed(BenchStage::Leaves, || {
            for leaf in (0..repeats).flat_map(|_| 0..2) {
                let to = slots.address() + u64::from(leaf) * layout.slot_bytes();
                // SAFETY: both leaves are resident; `timed` waits.
                unsafe {
                    self.device.kernels.keystream(&self.device.compute, KEY.as_bytes(), leaf, to, layout.slot_bytes())
                }?;
            }
            Ok(())
        })
    }

    fn digests(&self, layout: &Layout, repeats: u32) -> Result<Duration, DeviceError> {
        let (slots, scratch) = self.device.memory.slots_and_scratch()?;
        let (partials, arrivals) = (layout.partials.address(scratch), layout.arrivals.address(scratch));
        let digests = layout.digests.address(scratch);
        self.timed(BenchStage::Digests, || {
            for u in (0..repeats).flat_map(|_| 0..u64::from(layout.count)) {
                let (data, bytes) = (slots.address() + u * layout.slot_bytes(), layout.slot_bytes());
                let digest = digests + u * HASH_BYTES;
                // SAFETY: slots and scratch are those of the layout; one stream, so that one set of partials serves.
                unsafe { self.device.kernels.digest(&self.device.compute, data, bytes, partials, arrivals, digest) }?;
            }
            Ok(())
        })
    }

    fn host_copies(&mut self, stage: BenchStage, repeats: u32) -> Result<Duration, DeviceError> {
        self.make_other(COPY_BYTES as u64)?;
        if self.pinned.is_none() {
            self.pinned = Some(PinnedMemory::new(&self.device.context, COPY_BYTES)?);
        }
        let (Some(other), Some(pinned)) = (&self.other, &self.pinned) else {
            return Err(DeviceError::Unsupported("no memory to copy".into()));
        };
        self.timed(stage, || {
            (0..repeats).try_for_each(|_| match stage {
                BenchStage::HostToDevice => other.copy_in(&self.device.compute, pinned),
                _ => other.copy_out(&self.device.compute, 0, COPY_BYTES, pinned),
            })
        })
    }

    fn device_copies(&mut self, bytes: u64, repeats: u32) -> Result<Duration, DeviceError> {
        self.make_other(bytes)?;
        let (slots, _) = self.device.memory.slots_and_scratch()?;
        let Some(other) = &self.other else {
            return Err(DeviceError::Unsupported("no memory to copy".into()));
        };
        self.timed(BenchStage::DeviceCopy, || {
            (0..repeats).try_for_each(|_| slots.copy_to(&self.device.compute, other, bytes))
        })
    }

    fn peer_products(&mut self, layout: &Layout, repeats: u32) -> Result<Duration, DeviceError> {
        let result_bytes = 4 * layout.slot_bytes();
        self.make_other(result_bytes + WORKSPACE_BYTES)?;
        let (slots, _) = self.device.memory.slots_and_scratch()?;
        let Some(other) = &self.other else {
            return Err(DeviceError::Unsupported("no memory for results".into()));
        };
        let n = layout.n;
        let operand = |u: u32| slots.address() + u64::from(u) * layout.slot_bytes();
        let (result, workspace) = (other.address(), other.address() + result_bytes);
        let matrices = |turn: u32| {
            let (earlier, previous) = parents(&KEY, 2 + turn % (layout.count - 2));
            Matrices { left: operand(earlier), right: operand(previous), result, workspace }
        };
        if self.peer.as_ref().is_none_or(|peer| peer.n() != n) {
            let time = |peer: &CublasLt, way: usize| {
                // SAFETY: all matrices are as large as n asks for; `timed` waits for the stream.
                self.timed(BenchStage::Peer, || unsafe { peer.multiply(&self.device.compute, way, &matrices(0)) })
            };
            self.peer = Some(CublasLt::new(n, time)?);
        }
        let Some(peer) = &self.peer else {
            return Err(DeviceError::Unsupported("no peer".into()));
        };
        self.timed(BenchStage::Peer, || {
            // SAFETY: as above.
            (0..repeats)
                .try_for_each(|turn| unsafe { peer.multiply(&self.device.compute, peer.best(), &matrices(turn)) })
        })
    }

    /// Room for at least so many bytes besides the slots.
    fn make_other(&mut self, bytes: u64) -> Result<(), DeviceError> {
        if self.other.as_ref().is_none_or(|other| other.bytes() < bytes) {
            self.other = None;
            self.other = Some(self.device.memory.take_other(bytes)?);
        }
        Ok(())
    }
}
