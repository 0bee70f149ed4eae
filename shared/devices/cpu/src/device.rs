//! One virtual device: a share of the host's memory and threads, and a kernel.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::hash::ChainingValue;
use super::kernel::{Kernel, KernelKind};
use super::memory::{LARGE_PAGE, Mapping, promised_bytes};
use super::pass::{PassRun, PassStages};
use super::plan::PassPlan;
use super::probe::{LinkedStep, WalkRound};
use super::sweep::SumRound;
use super::thread_team::ThreadTeam;
use super::walk::{LINE_BYTES, LineState};
use assay_device::backend::BackendKind;
use assay_device::chunks::open_chunks;
use assay_device::copies::Area;
use assay_device::resident::{Residency, Slots};
use assay_device::{
    Device, DeviceError, DeviceInfo, Handle, LinkedShare, Pass, ProbeRound, SlotRange, StateBytes, SweepRound,
    check_size, machine,
};
use assay_work::challenge::MAX_TOTAL;
use assay_work::probe::sums_bytes;
use assay_work::tree::{CHUNK_BYTES, Tree, subtree_values};
use assay_work::{DeviceId, Digest, Opening, Precision};

/// The kinds of work that a device computes.
const PRECISIONS: [Precision; Precision::ALL.len()] = Precision::ALL;

/// A CPU device. It takes memory with the first pass and keeps it until [`Device::release`] or its end.
#[derive(Debug)]
pub struct CpuDevice {
    id: DeviceId,
    /// How the device is called: its processor and its index.
    name: String,
    /// The most bytes for slots and scratch together.
    memory_bytes: u64,
    pub(super) threads: usize,
    pub(super) kernel: &'static Kernel,
    slots: Option<Mapping>,
    /// Packed operands during a pass, states during a probe, sums during a sweep.
    scratch: Option<Mapping>,
    /// The resident slots, and the walks of the last round of the probe, whose states are in `scratch`.
    pub(super) residency: Residency<Slots>,
    /// The pass whose slots these are.
    pub(super) pass: Option<Pass>,
    /// The near and the far area of copies.
    areas: Option<[Vec<u8>; 2]>,
}

impl CpuDevice {
    /// A device that holds no memory yet. `None` when this processor does not run the kernel.
    ///
    /// # Panics
    /// When `threads` is 0.
    pub(super) fn new(id: DeviceId, name: String, memory_bytes: u64, threads: usize, kind: KernelKind) -> Option<Self> {
        assert!(threads > 0, "a device works on one thread at least");
        let kernel = kind.kernel()?;
        let residency = Residency::default();
        Some(Self {
            id,
            name,
            memory_bytes,
            threads,
            kernel,
            slots: None,
            scratch: None,
            residency,
            pass: None,
            areas: None,
        })
    }

    /// Bytes that this device could hold if it gave back its own: the host's available memory, less the promises to
    /// others, at most the configured bytes.
    fn free_bytes(&self) -> u64 {
        let own = [&self.slots, &self.scratch].into_iter().flatten();
        let (held, touched) = own.fold((0, 0), |(h, t), map| (h + map.bytes(), t + map.touched_bytes()));
        let promised_to_others = promised_bytes().saturating_sub(held - touched);
        (machine::available_bytes() + touched).saturating_sub(promised_to_others).min(self.memory_bytes)
    }

    fn plan(&self, precision: Precision, n: u32) -> PassPlan {
        PassPlan::new(self.kernel.product(precision), precision, n as usize, self.threads)
    }

    /// Makes room for a pass; its memory is not touched yet.
    fn make_room(&mut self, pass: &Pass, plan: &PassPlan) -> Result<(*mut u8, *mut u8), DeviceError> {
        let needed_bytes = pass.bytes() + plan.scratch_bytes();
        let free_bytes = self.free_bytes();
        if needed_bytes > free_bytes {
            return Err(DeviceError::Busy { needed_bytes, free_bytes });
        }
        let refused = |error| match error {
            DeviceError::Busy { .. } => DeviceError::Busy { needed_bytes, free_bytes: 0 },
            other => other,
        };
        let slots = Mapping::fit(&mut self.slots, pass.bytes()).map_err(refused)?.base();
        let scratch = Mapping::fit(&mut self.scratch, plan.scratch_bytes()).map_err(refused)?.base();
        Ok((slots, scratch))
    }

    /// Makes the scratch memory as large as states or sums of a round. They take the host's memory, in place of a pass's
    /// scratch memory.
    fn make_scratch(&mut self, needed_bytes: u64) -> Result<(), DeviceError> {
        if self.scratch.as_ref().is_none_or(|map| map.bytes() < needed_bytes) {
            self.scratch = None;
            let free_bytes = machine::available_bytes().saturating_sub(promised_bytes());
            if needed_bytes > free_bytes {
                return Err(DeviceError::Busy { needed_bytes, free_bytes });
            }
            self.scratch = Some(Mapping::new(needed_bytes)?);
        }
        Ok(())
    }

    /// The first bytes of the scratch memory, which the last round wrote.
    fn scratch_bytes(&self, bytes: u64) -> Result<&[u8], DeviceError> {
        let lost = || DeviceError::Sick("a device lost its memory".into());
        let scratch = self.scratch.as_ref().filter(|map| map.touched_bytes() >= bytes).ok_or_else(lost)?;
        // SAFETY: the bytes lie in the mapping, and stay while the device is borrowed.
        Ok(unsafe { std::slice::from_raw_parts(scratch.base(), bytes as usize) })
    }

    /// A round of a sweep, whose sums stay in the scratch memory: `sums_bytes` of them.
    fn sum_rows(&mut self, round: &SweepRound, handle: &Handle) -> Result<Digest, DeviceError> {
        self.residency.begin_sweep()?.check_sweep(round)?;
        let needed_bytes = sums_bytes(round.n, round.count);
        self.make_scratch(needed_bytes)?;
        let (Some(slots), Some(scratch)) = (&self.slots, &mut self.scratch) else {
            return Err(DeviceError::Sick("a device lost its memory".into()));
        };
        let (kernel, threads) = (self.kernel, self.threads);
        let run = SumRound { round, kernel, threads, slots: slots.base(), sums: scratch.base() };
        // SAFETY: the slots of the round are filled, the scratch memory holds the sums, and the exclusive reference to
        // the device keeps everyone else out. The kernel was found to run here.
        let digest = unsafe { run.run(handle) }?;
        scratch.note_touched(needed_bytes);
        Ok(digest)
    }

    /// Some stages of a pass; all but [`PassStages::All`] need the slots of the same pass, and leave them as they are.
    pub(super) fn fill_stages(
        &mut self,
        pass: &Pass,
        handle: &Handle,
        stages: PassStages,
    ) -> Result<Vec<Digest>, DeviceError> {
        self.fill_part(pass, pass.count, handle, stages)
    }

    /// The same for the first `count` slots of the pass; the others stay as they are.
    fn fill_part(
        &mut self,
        whole: &Pass,
        count: u32,
        handle: &Handle,
        stages: PassStages,
    ) -> Result<Vec<Digest>, DeviceError> {
        self.residency.begin_fill(whole, &PRECISIONS)?;
        let plan = self.plan(whole.precision, whole.n);
        let (slots, scratch) = self.make_room(whole, &plan)?;
        let part = Pass { count, ..*whole };
        let kernel = self.kernel.product(whole.precision);
        let run = PassRun { pass: &part, plan: &plan, kernel, slots, scratch, stages };
        // SAFETY: both mappings were fitted to this pass and this plan, and the exclusive reference to the device
        // keeps everyone else out.
        let filled = unsafe { run.run(handle) };
        if filled.is_err() {
            // The part of them that was touched is not known, and would not count as free.
            (self.slots, self.scratch) = (None, None);
        }
        let digests = filled?;
        for map in [&mut self.slots, &mut self.scratch].into_iter().flatten() {
            map.note_touched(map.bytes());
        }
        self.residency.filled(Slots::from(whole));
        self.pass = Some(*whole);
        Ok(digests)
    }

    /// The bytes of all resident slots.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] when no pass is resident.
    #[cfg(any(test, feature = "bench"))]
    pub fn resident_bytes(&self) -> Result<&[u8], DeviceError> {
        let (slots, resident) = self.resident_slots()?;
        // SAFETY: the slots are filled, and stay while the device is borrowed.
        Ok(unsafe { std::slice::from_raw_parts(slots.base(), resident.bytes() as usize) })
    }

    fn resident_slots(&self) -> Result<(&Mapping, Slots), DeviceError> {
        let resident = self.residency.layout()?;
        let lost = || DeviceError::Sick("a device lost its memory".into());
        Ok((self.slots.as_ref().ok_or_else(lost)?, resident))
    }

    /// `bytes` bytes of a resident slot from `first` on.
    fn slot_range(&self, slot: u32, first: u64, bytes: u64) -> Result<&[u8], DeviceError> {
        let (slots, resident) = self.resident_slots()?;
        resident.check_range(SlotRange { slot, first_byte: first, bytes })?;
        let start = u64::from(slot) * resident.slot_bytes() + first;
        // SAFETY: the range lies in slots that are filled, and they stay while the device is borrowed.
        Ok(unsafe { std::slice::from_raw_parts(slots.base().add(start as usize), bytes as usize) })
    }
}

impl Device for CpuDevice {
    fn info(&self) -> DeviceInfo {
        DeviceInfo {
            id: self.id,
            name: self.name.clone(),
            backend: BackendKind::Cpu,
            detail: format!("kernel {}, threads {}", self.kernel.kind, self.threads),
            precisions: PRECISIONS.into(),
            units: Vec::new(),
            total_bytes: self.memory_bytes,
            free_bytes: self.free_bytes(),
        }
    }

    fn slots_that_fit(&self, n: u32) -> u32 {
        if check_size(n).is_err() {
            return 0;
        }
        // One number for every kind of work: that of the kind with the most scratch memory.
        let scratch = PRECISIONS.map(|precision| self.plan(precision, n).scratch_bytes()).into_iter().max();
        // Slots and scratch are mapped in whole large pages each.
        let besides = scratch.unwrap_or_default() + 2 * LARGE_PAGE as u64;
        let slots = self.free_bytes().saturating_sub(besides) / (u64::from(n) * u64::from(n));
        slots.min(MAX_TOTAL) as u32
    }

    fn fill(&mut self, pass: &Pass, handle: &Handle) -> Result<Vec<Digest>, DeviceError> {
        self.fill_stages(pass, handle, PassStages::All)
    }

    fn probe_round(&mut self, round: &ProbeRound, handle: &Handle) -> Result<Digest, DeviceError> {
        let resident = self.residency.begin_round(round)?;
        let needed_bytes = u64::from(round.walks) * LINE_BYTES as u64;
        self.make_scratch(needed_bytes)?;
        let (Some(slots), Some(scratch)) = (&self.slots, &mut self.scratch) else {
            return Err(DeviceError::Sick("a device lost its memory".into()));
        };
        let run = WalkRound {
            round,
            kernel: self.kernel,
            threads: self.threads,
            slots: slots.base(),
            count: resident.count,
            slot_bytes: resident.slot_bytes(),
            states: scratch.base().cast::<LineState>(),
        };
        // SAFETY: the slots are filled, the scratch memory holds the states, and the exclusive reference to the
        // device keeps everyone else out.
        let digest = unsafe { run.run(handle) }?;
        scratch.note_touched(needed_bytes);
        self.residency.walked(round.walks);
        handle.advance(1);
        Ok(digest)
    }

    fn step_states(&mut self, share: &LinkedShare, states: &mut [StateBytes]) -> Result<(), DeviceError> {
        share.check(states.len())?;
        let (slots, resident) = self.resident_slots()?;
        if share.n != resident.n || share.count > resident.count {
            return Err(DeviceError::Unsupported(format!("{share:?}, of which {resident:?} are resident")));
        }
        let step = LinkedStep { share, kernel: self.kernel, threads: self.threads, slots: slots.base() };
        // SAFETY: the share's slots are filled, and stay while the device is borrowed.
        unsafe { step.run(states) }
    }

    fn probe_states(&mut self) -> Result<Vec<u8>, DeviceError> {
        let walks = self.residency.states()?;
        copy_of(self.scratch_bytes(u64::from(walks) * LINE_BYTES as u64)?)
    }

    fn sweep_round(&mut self, round: &SweepRound, handle: &Handle) -> Result<Digest, DeviceError> {
        let digest = self.sum_rows(round, handle)?;
        handle.advance(1);
        Ok(digest)
    }

    fn sweep_sums(&mut self, round: &SweepRound, handle: &Handle) -> Result<Vec<u8>, DeviceError> {
        self.sum_rows(round, handle)?;
        copy_of(self.scratch_bytes(sums_bytes(round.n, round.count))?)
    }

    fn open_sums(&mut self, round: &SweepRound, at: &[u64], handle: &Handle) -> Result<Vec<Opening>, DeviceError> {
        self.sum_rows(round, handle)?;
        let sums = self.scratch_bytes(sums_bytes(round.n, round.count))?;
        let mut values = vec![[0; 32]; sums.len() / CHUNK_BYTES as usize];
        fill_chaining_values(sums, CHUNK_BYTES as usize, &mut values, self.threads, handle)?;
        open_chunks(sums, &Tree::new(values.into_iter().map(assay_work::ChainingValue).collect()), at)
    }

    fn read(&mut self, slot: u32, first_byte: u64, out: &mut [u8]) -> Result<(), DeviceError> {
        out.copy_from_slice(self.slot_range(slot, first_byte, out.len() as u64)?);
        Ok(())
    }

    fn chaining_values(&mut self, slot: u32, subtree_bytes: u64) -> Result<Vec<ChainingValue>, DeviceError> {
        let resident = self.resident_slots()?.1;
        resident.check_subtrees(slot, subtree_bytes)?;
        let slot_bytes = resident.slot_bytes();
        let slot = self.slot_range(slot, 0, slot_bytes)?;
        let mut values = vec![[0; 32]; (slot_bytes / subtree_bytes) as usize];
        // A tenth of a second for the largest slot: cancelling can wait for it.
        fill_chaining_values(slot, subtree_bytes as usize, &mut values, self.threads, &Handle::default())?;
        Ok(values)
    }

    fn release(&mut self) {
        self.residency.clear();
        (self.slots, self.scratch, self.areas) = (None, None, None);
    }

    fn kernels(&self, _precision: Precision) -> Vec<String> {
        let others = KernelKind::available().filter(|kind| *kind != self.kernel.kind);
        std::iter::once(self.kernel.kind).chain(others).map(|kind| kind.name().to_owned()).collect()
    }

    /// A kernel is an instruction set: from now on it multiplies in every kind of work.
    fn choose_kernel(&mut self, _precision: Precision, kernel: &str) -> Result<(), DeviceError> {
        let kind: KernelKind = kernel.parse().map_err(|error| DeviceError::Unsupported(format!("{error}")))?;
        let missing = || DeviceError::Unsupported(format!("this processor does not run the kernel {kind}"));
        self.kernel = kind.kernel().ok_or_else(missing)?;
        Ok(())
    }

    fn time_products(&mut self, products: u32) -> Result<Duration, DeviceError> {
        self.residency.layout()?;
        let lost = || DeviceError::Sick("a device lost its pass".into());
        let pass = self.pass.ok_or_else(lost)?;
        let count = products.saturating_add(2).clamp(3, pass.count);
        let start = Instant::now();
        self.fill_part(&pass, count, &Handle::default(), PassStages::Products)?;
        Ok(start.elapsed())
    }

    fn write_area(&mut self, data: &[u8]) -> Result<Duration, DeviceError> {
        let [near, _] = match &mut self.areas {
            Some(areas) if areas[0].len() == data.len() => areas,
            areas => areas.insert([vec![0; data.len()], vec![0; data.len()]]),
        };
        let start = Instant::now();
        near.copy_from_slice(data);
        Ok(start.elapsed())
    }

    fn copy_area(&mut self) -> Result<Duration, DeviceError> {
        let [near, far] = self.areas.as_mut().ok_or_else(no_areas)?;
        let start = Instant::now();
        far.copy_from_slice(near);
        Ok(start.elapsed())
    }

    fn read_area(&mut self, area: Area, out: &mut [u8]) -> Result<Duration, DeviceError> {
        let [near, far] = self.areas.as_ref().ok_or_else(no_areas)?;
        let from = if area == Area::Near { near } else { far };
        let start = Instant::now();
        out.copy_from_slice(from.get(..out.len()).ok_or_else(no_areas)?);
        Ok(start.elapsed())
    }
}

fn copy_of(bytes: &[u8]) -> Result<Vec<u8>, DeviceError> {
    let mut copy = Vec::new();
    let busy = |_| DeviceError::Busy { needed_bytes: bytes.len() as u64, free_bytes: machine::available_bytes() };
    copy.try_reserve_exact(bytes.len()).map_err(busy)?;
    copy.extend_from_slice(bytes);
    Ok(copy)
}

fn no_areas() -> DeviceError {
    DeviceError::Unsupported("nothing so long was written to the areas of copies".into())
}

/// Chaining values of the subtrees of a string, each thread those of a stretch of it.
fn fill_chaining_values(
    text: &[u8],
    subtree: usize,
    values: &mut [ChainingValue],
    threads: usize,
    handle: &Handle,
) -> Result<(), DeviceError> {
    /// Bytes of a stretch, where subtrees are not larger.
    const STRETCH: usize = 1 << 20;
    let stretch = subtree.max(STRETCH.min(text.len()));
    let stretches = text.chunks(stretch).zip(values.chunks_mut(stretch / subtree)).enumerate();
    let stretches: Vec<_> = stretches.map(|(i, both)| Mutex::new((i * stretch, both))).collect();
    ThreadTeam::run(threads.min(stretches.len()), handle, |team, _| {
        while let Some(item) = team.take(stretches.len())? {
            let mut stretch = stretches[item].lock();
            let (start, (text, values)) = &mut *stretch;
            for (value, of) in values.iter_mut().zip(subtree_values(text, *start as u64, subtree as u64)) {
                *value = of.0;
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use assay_work::PassKey;

    use super::*;

    /// Regression test: memory that a cancelled pass had touched did not count as free.
    #[test]
    fn a_pass_that_was_cancelled_holds_no_memory() {
        let kernel = KernelKind::available().next().unwrap();
        let mut device = CpuDevice::new(DeviceId([1; 16]), "a processor".into(), 1 << 30, 1, kernel).unwrap();
        let pass = Pass { precision: Precision::Int8, key: PassKey([1; 32]), n: 256, offset: 0, count: 4 };
        device.fill(&pass, &Handle::default()).unwrap();
        assert!(device.slots.is_some() && device.scratch.is_some());
        let handle = Handle::default();
        handle.cancel();
        assert_eq!(device.fill(&pass, &handle), Err(DeviceError::Cancelled));
        assert!(device.slots.is_none() && device.scratch.is_none());
    }
}
