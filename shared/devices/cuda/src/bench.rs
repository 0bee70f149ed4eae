//! A GPU's stages one by one: timed by the device's own events, launches one behind the other.

mod cublaslt;
mod peak;

use std::time::Duration;

use crate::device::CudaDevice;
use crate::driver::{CudaEvent, DeviceMemory, PinnedMemory};
use crate::error::Fault;
use crate::family::FAMILIES;
use crate::multiply::Multiplier;
use crate::plan::{HASH_BYTES, MemoryLayout};
use crate::product::Product;
use crate::{self_test, wait};
use assay_device::accumulator::{LAUNCH_ROWS, OperandFormat};
use assay_device::bench::{
    Bench, BenchStage, KEY, Measurement, PeakRates, bench_pass, bench_round, bench_sweep, product_slot, time,
    walks_over,
};
use assay_device::{Device, DeviceError, Handle, Pass};
use assay_work::Precision;
use assay_work::keys::parents;
use cublaslt::{CublasLt, Matrices, WORKSPACE_BYTES};

/// Bytes of one copy between host and device.
const COPY_BYTES: usize = 64 << 20;
/// The most bytes of one copy on the device: several times any cache.
const DEVICE_COPY_BYTES: u64 = 1 << 30;
/// For how long a sample may take; a driver that hangs ends here.
const LONGEST_SAMPLE: Duration = Duration::from_secs(600);

#[derive(Debug)]
pub struct CudaBench {
    /// The target of copies and of the peer's results.
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

    fn kernels(&self, precision: Precision) -> Vec<String> {
        // Those that run, in the order of their speed: which one is in use says nothing here.
        let mut kernels = self.device.kernels(precision);
        kernels.sort_by_key(|name| FAMILIES.iter().position(|family| family.name() == name));
        kernels
    }

    fn peak_rates(&mut self) -> PeakRates {
        peak::of(&self.device.description)
    }

    fn peer(&self, precision: Precision) -> Result<String, String> {
        let peer = CublasLt::describe(precision)?;
        let format = match precision {
            Precision::F16 => OperandFormat::Bf16,
            Precision::Fp8 => OperandFormat::E4m3,
            _ => return Ok(peer),
        };
        // It reads the operands as the device's own kernel does.
        let fastest = self.kernels(precision).first().and_then(|name| FAMILIES.iter().find(|f| f.name() == name));
        let is_same = fastest.is_some_and(|family| family.format == format);
        if is_same {
            Ok(peer)
        } else {
            Err(format!("no kernel in use has the operands of cuBLASLt's {precision} product"))
        }
    }

    fn prepare(&mut self, precision: Precision, n: u32, count: u32) -> Result<(), DeviceError> {
        (self.other, self.pinned, self.peer) = (None, None, None);
        self.device.fill(&bench_pass(precision, n, count), &Handle::default()).map(drop)
    }

    fn sums(&mut self, pass: &Pass, u: u32) -> Result<Vec<f64>, DeviceError> {
        let (device, layout) = (&self.device, self.device.residency.layout()?);
        let unsupported = |why: String| DeviceError::Unsupported(format!("sums: {why}"));
        if layout.n as usize != LAUNCH_ROWS {
            return Err(unsupported(format!("n is {}, not {LAUNCH_ROWS}", layout.n)));
        }
        device.bind()?;
        let loaded = device.kernels.products.of(pass.precision);
        let loaded = loaded.ok_or_else(|| unsupported(format!("no kernel computes {}", pass.precision)))?;
        self_test::sums_of(device.bench(), &device.kernels, loaded, &device.expanded(pass, &layout, u)?)
    }

    fn sample(&mut self, stage: BenchStage, kernel: &str, repeats: u32) -> Result<Measurement, DeviceError> {
        let layout = self.device.residency.layout()?;
        self.device.bind()?;
        let precision = self.device.pass.map_or(Precision::Int8, |pass| pass.precision);
        let (pass, handle) = (bench_pass(precision, layout.n, layout.count), Handle::default());
        if stage.depends_on_kind() {
            self.device.choose_kernel(precision, kernel)?;
        }
        let mut copy_bytes = COPY_BYTES as u64;
        let elapsed = match stage {
            BenchStage::Product => self.device.products(&pass, &layout, repeats)?,
            BenchStage::Pass => time(repeats, |_| self.device.fill(&pass, &handle).map(drop))?,
            BenchStage::Leaves => self.device.leaves(&layout, repeats)?,
            BenchStage::Digests => self.device.digests(&layout, repeats)?,
            BenchStage::Probe => {
                let round = |turn| bench_round(turn, walks_over(pass.bytes()));
                time(repeats, |turn| self.device.probe_round(&round(turn), &handle).map(drop))?
            }
            BenchStage::Sweep => {
                time(repeats, |turn| self.device.sweep_round(&bench_sweep(turn, &pass), &handle).map(drop))?
            }
            BenchStage::HostToDevice | BenchStage::DeviceToHost => self.host_copies(stage, repeats)?,
            BenchStage::DeviceCopy => {
                copy_bytes = pass.bytes().min(DEVICE_COPY_BYTES);
                self.device_copies(copy_bytes, repeats)?
            }
            BenchStage::Peer => self.peer_products(precision, &layout, repeats)?,
        };
        Ok(stage.measurement(&pass, copy_bytes, repeats, elapsed))
    }
}

impl CudaBench {
    pub const fn new(device: CudaDevice) -> Self {
        Self { other: None, pinned: None, peer: None, device }
    }

    fn host_copies(&mut self, stage: BenchStage, repeats: u32) -> Result<Duration, DeviceError> {
        let Self { device, other, pinned, .. } = self;
        let other = room(other, device, COPY_BYTES as u64)?;
        let pinned = match pinned {
            Some(pinned) => pinned,
            None => pinned.insert(PinnedMemory::new(&device.context, COPY_BYTES)?),
        };
        device.timed(stage, repeats, |_| match stage {
            BenchStage::HostToDevice => other.copy_in(&device.compute, pinned, pinned.bytes()),
            _ => other.copy_out(&device.compute, 0, COPY_BYTES, pinned),
        })
    }

    fn device_copies(&mut self, bytes: u64, repeats: u32) -> Result<Duration, DeviceError> {
        let Self { device, other, .. } = self;
        let other = room(other, device, bytes)?;
        let (slots, _) = device.memory.slots_and_scratch()?;
        device.timed(BenchStage::DeviceCopy, repeats, |_| slots.copy_to(&device.compute, other, bytes))
    }

    /// The library's products of the operands of one slot after another; of kinds with expanded operands, of one slot's.
    fn peer_products(
        &mut self,
        precision: Precision,
        layout: &MemoryLayout,
        repeats: u32,
    ) -> Result<Duration, DeviceError> {
        self.peer(precision).map_err(DeviceError::Unsupported)?;
        let Self { device, other, peer, .. } = self;
        let result_bytes = 4 * layout.slot_bytes();
        let other = room(other, device, result_bytes + WORKSPACE_BYTES)?;
        let (slots, _) = device.memory.slots_and_scratch()?;
        let operand = |u: u32| slots.address() + u64::from(u) * layout.slot_bytes();
        let (result, workspace) = (other.address(), other.address() + result_bytes);
        let expanded = match precision {
            Precision::Int8 => None,
            _ => {
                let pass = bench_pass(precision, layout.n, layout.count);
                let product = device.expanded(&pass, layout, product_slot(&pass, 0))?;
                Some((product.left, product.right))
            }
        };
        let multiply = |peer: &CublasLt, way: usize, turn: u32| {
            let (earlier, previous) = parents(&KEY, product_slot(&bench_pass(precision, layout.n, layout.count), turn));
            let (left, right) = expanded.unwrap_or_else(|| (operand(earlier), operand(previous)));
            let matrices = Matrices { left, right, result, workspace };
            // SAFETY: all matrices are as large as n asks for; `timed` waits for the stream.
            unsafe { peer.multiply(&device.compute, way, &matrices) }
        };
        let peer = match peer {
            Some(peer) if (peer.precision, peer.n) == (precision, layout.n) => peer,
            _ => peer.insert(CublasLt::new(precision, layout.n, |peer, way| {
                device.timed(BenchStage::Peer, 1, |turn| multiply(peer, way, turn))
            })?),
        };
        device.timed(BenchStage::Peer, repeats, |turn| multiply(peer, peer.best, turn))
    }
}

impl CudaDevice {
    /// The time between two marks around the work that `enqueue` enqueues on the compute stream in each turn.
    fn timed(
        &self,
        stage: BenchStage,
        repeats: u32,
        enqueue: impl FnMut(u32) -> Result<(), Fault>,
    ) -> Result<Duration, DeviceError> {
        let (start, end) = (CudaEvent::new(&self.context)?, CudaEvent::new(&self.context)?);
        start.record(&self.compute)?;
        let enqueued = (0..repeats).try_for_each(enqueue);
        let doing = || format!("measuring {stage:?}");
        wait::for_enqueued(&self.compute, &end, LONGEST_SAMPLE, enqueued, doing)?;
        Ok(end.since(&start)?)
    }

    /// The product that makes slot `u` of the resident pass, with its operands expanded.
    fn expanded(&self, pass: &Pass, layout: &MemoryLayout, u: u32) -> Result<Product, DeviceError> {
        let (slots, scratch) = self.memory.slots_and_scratch()?;
        let mut multiplier = Multiplier::new(&self.kernels, pass, layout, slots, scratch)?;
        let parents = parents(&pass.key, u);
        let mut product = Product::of_slots(slots.address(), layout.n, parents, u, multiplier.tiles());
        self.timed(BenchStage::Peer, 1, |_| {
            product = multiplier.operands(&self.compute, u, parents)?;
            Ok(())
        })?;
        Ok(product)
    }

    /// Products of the resident pass, slot after slot, with their operands. They write the bytes that are there
    /// already.
    fn products(&self, pass: &Pass, layout: &MemoryLayout, repeats: u32) -> Result<Duration, DeviceError> {
        let (slots, scratch) = self.memory.slots_and_scratch()?;
        let mut multiplier = Multiplier::new(&self.kernels, pass, layout, slots, scratch)?;
        self.timed(BenchStage::Product, repeats, |turn| {
            let u = product_slot(pass, turn);
            // SAFETY: all slots are resident; `timed` waits for the stream, or the context is lost.
            unsafe { multiplier.multiply_all(&self.compute, u, parents(&KEY, u)) }
        })
    }

    fn leaves(&self, layout: &MemoryLayout, repeats: u32) -> Result<Duration, DeviceError> {
        let ((slots, _), bytes) = (self.memory.slots_and_scratch()?, layout.slot_bytes());
        self.timed(BenchStage::Leaves, 2 * repeats, |turn| {
            let (leaf, to) = (turn % 2, slots.address() + u64::from(turn % 2) * bytes);
            // SAFETY: both leaves are resident; `timed` waits.
            unsafe { self.kernels.keystream(&self.compute, KEY.as_bytes(), leaf, to, bytes) }
        })
    }

    fn digests(&self, layout: &MemoryLayout, repeats: u32) -> Result<Duration, DeviceError> {
        let ((slots, scratch), bytes) = (self.memory.slots_and_scratch()?, layout.slot_bytes());
        let (partials, arrivals) = (layout.partials.address(scratch), layout.arrivals.address(scratch));
        let digests = layout.digests.address(scratch);
        self.timed(BenchStage::Digests, repeats, |_| {
            (0..u64::from(layout.count)).try_for_each(|u| {
                let (data, digest) = (slots.address() + u * bytes, digests + u * HASH_BYTES);
                // SAFETY: slots and scratch are those of the layout; one stream, so that one set of partials serves.
                unsafe { self.kernels.digest(&self.compute, data, bytes, partials, arrivals, digest) }
            })
        })
    }
}

/// Room for at least `bytes` bytes besides the slots.
fn room<'a>(
    other: &'a mut Option<DeviceMemory>,
    device: &CudaDevice,
    bytes: u64,
) -> Result<&'a DeviceMemory, DeviceError> {
    if other.as_ref().is_none_or(|other| other.bytes() < bytes) {
        // A smaller area is freed first.
        *other = None;
    }
    Ok(match other {
        Some(other) => other,
        None => other.insert(device.memory.take_other(bytes)?),
    })
}
