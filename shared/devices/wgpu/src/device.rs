//! One device driven through wgpu ([`assay_device`] defines a device).

use std::cell::Cell;
use std::fmt;
use std::time::{Duration, Instant};

use ::wgpu::Buffer;

use super::bind::Bindings;
use super::config::WgpuConfig;
use super::copies::{Copier, CopyAreas};
use super::copy::Staging;
use super::describe::{AdapterDescription, DescribedAdapter};
use super::digest::DigestTree;
use super::error::WgpuError;
use super::findings::FloatSums;
use super::flow::{self, Flow, FlowParts};
use super::gpu::{CreationFailure, Gpu};
use super::kernels::Kernels;
use super::memory::{self, DeviceBuffer, Memory, SlotPiece};
use super::pass::BufferedPass;
use super::plan::{self, AdapterBounds, BufferLayout, CHUNK_BYTES, GROUP_CHUNKS, HASH_BYTES, Region, STATE_BYTES};
use super::probe::ResidentWalks;
use super::shaders::{self, Dot};
use crate::PRECISIONS;
use assay_device::backend::{BackendKind, StartupProgress};
use assay_device::copies::Area;
use assay_device::pace::{DeviceRates, Timing, WorkKind};
use assay_device::resident::{Residency, Slots, hashes_of, merge_subtrees};
use assay_device::{
    Device, DeviceError, DeviceInfo, Handle, LinkedShare, Pass, ProbeRound, SlotRange, StateBytes, SweepRound,
};
use assay_work::challenge::{MAX_N, MIN_N};
use assay_work::probe::{state_from_bytes, sums_bytes};
use assay_work::{ChainingValue, Digest, Precision};

/// Bytes of sums that are read between two looks at the handle.
const READ_BYTES: u64 = 16 << 20;

/// An opened device. It takes memory for slots with the first pass, and keeps that until [`Device::release`].
pub struct WgpuDevice {
    pub(super) description: AdapterDescription,
    pub(super) config: WgpuConfig,
    pub(super) bounds: AdapterBounds,
    pub(super) kernels: Kernels,
    pub(super) precisions: Vec<Precision>,
    /// The self-test's findings about products with float sums.
    pub(super) float_sums: FloatSums,
    areas: Option<CopyAreas>,
    pub(super) parameters: Buffer,
    pub(super) staging: Staging,
    pub(super) bindings: Bindings,
    pub(super) rates: DeviceRates,
    /// The layout that the rates of the probe and of the sweep were measured on.
    paced: Option<BufferLayout>,
    /// The way to multiply that the products' rate was measured on.
    paced_dot: Option<Dot>,
    /// The kind of work that the rate of operands was measured on.
    paced_kind: Option<Precision>,
    pub(super) memory: Memory,
    /// The resident slots; of the last round of the probe, its walks and which states are its last.
    pub(super) residency: Residency<BufferLayout, (u32, usize)>,
    /// The pass whose slots these are.
    pub(super) pass: Option<Pass>,
    /// Declared last, so that it is dropped last.
    pub(super) gpu: Gpu,
}

impl WgpuDevice {
    /// Opens an adapter and compiles its shaders, where its driver has not kept them.
    pub(super) fn open(
        described: DescribedAdapter,
        config: WgpuConfig,
        progress: &mut dyn FnMut(StartupProgress),
    ) -> Result<Self, WgpuError> {
        let description = described.description.clone();
        let gpu = Gpu::open(described, config.dot.opens_cooperative())?;
        let bounds = AdapterBounds::new(&gpu.device.limits(), config.buffer_bytes);
        let kernels = Kernels::load(&gpu, &description, &config, progress)?;
        let not_made = |error: CreationFailure| match (description.title(), error) {
            (device, CreationFailure::OutOfMemory) => WgpuError::NoMemory { device },
            (device, CreationFailure::Refused(reason)) => WgpuError::Open { device, reason },
        };
        let parameters = flow::parameters(&gpu).map_err(not_made)?;
        let staging = Staging::new(&gpu).map_err(not_made)?;
        let mut device = Self {
            description: description.clone(),
            config,
            bounds,
            kernels,
            precisions: PRECISIONS.into(),
            float_sums: FloatSums::default(),
            areas: None,
            parameters,
            staging,
            bindings: Bindings::default(),
            rates: DeviceRates::new(Timing::HOST_CLOCK),
            paced: None,
            paced_dot: None,
            paced_kind: None,
            memory: Memory::default(),
            residency: Residency::default(),
            pass: None,
            gpu,
        };
        device.qualify()?;
        Ok(device)
    }

    pub const fn description(&self) -> &AdapterDescription {
        &self.description
    }

    /// Bytes that a challenge could take now, those held for one included.
    pub(super) fn free_bytes(&self) -> u64 {
        let is_host_memory = self.description.software || self.description.integrated;
        memory::free_bytes(&self.gpu, self.memory.held_bytes(), is_host_memory, self.config.memory_bytes)
    }

    pub(super) fn resident(&self) -> Result<BufferLayout, DeviceError> {
        self.residency.layout()
    }

    /// The layout of a pass, unless the adapter's limits forbid it.
    fn layout(&self, pass: &Pass) -> Result<BufferLayout, DeviceError> {
        let (n, count, largest) = (pass.n, pass.count, self.bounds.largest_n());
        if n > largest {
            let bytes = self.bounds.buffer_bytes;
            let text =
                format!("n = {n}: with buffers of {bytes} bytes, which is all that it binds, {largest} is the largest");
            return Err(DeviceError::Unsupported(text));
        }
        let layout = BufferLayout::new(&self.bounds, n, count);
        if layout.is_possible(&self.bounds) {
            return Ok(layout);
        }
        Err(DeviceError::Unsupported(format!("{count} slots: the digests of so many are more than it binds")))
    }

    /// The largest matrix size, where that is not the largest of all.
    fn least_detail(&self) -> String {
        let largest = self.bounds.largest_n();
        if largest < MAX_N { format!(", n up to {largest}") } else { String::new() }
    }

    fn run_pass(&mut self, pass: &Pass, layout: &BufferLayout, handle: &Handle) -> Result<Vec<Digest>, DeviceError> {
        let (free_bytes, made) = (self.free_bytes(), self.memory.made());
        let expansion = shaders::expansion(pass.precision, self.kernels.dot(pass.precision));
        let fitted = self.memory.fit(&self.gpu, &self.bounds, layout, expansion, free_bytes);
        if fitted.is_err() || self.memory.made() != made {
            // Groups name buffers that are gone.
            self.bindings.clear();
        }
        fitted?;
        self.prepare_probe(layout)?;
        let prepared = self.kernels.prepare_products(&self.gpu, pass.precision, pass.n);
        prepared.map_err(|error| self.refused(&error))?;
        self.pace_products(pass);
        if self.paced.replace(*layout) != Some(*layout) {
            // Lines out of a cache are no measure of lines out of memory.
            self.rates.forget(WorkKind::Probe);
            self.rates.forget(WorkKind::Sweep);
        }
        let Self { gpu, bindings, parameters, rates, memory, kernels, config, .. } = self;
        let completion_counter = Some((&kernels.completion_counter, memory.values(layout, layout.completion_counter)));
        let parts =
            FlowParts { gpu, bindings, parameters, rates, handle, stall_limit: config.stall_limit, completion_counter };
        let poison = config.poison;
        let filling = BufferedPass { pass: *pass, layout: *layout, kernels, memory, poison, expanded: Cell::default() };
        let mut flow = Flow::new(parts);
        filling.run(&mut flow)?;
        let completion = flow.expected_completion();
        let bytes = self.read_completed(layout, layout.digests, completion)?;
        Ok(hashes_of(&bytes).map(Digest).collect())
    }

    /// Compiles the probe over the slots of a layout, and the sweep, unless they were.
    pub(super) fn prepare_probe(&mut self, layout: &BufferLayout) -> Result<(), DeviceError> {
        let buffers = layout.slot_buffers().len() as u32;
        let prepared = self.kernels.prepare_probe(&self.gpu, &self.bounds, buffers);
        prepared.map_err(|error| self.refused(&error))
    }

    /// Makes room for the operands of the resident pass's products, now that they multiply another way.
    fn fit_operands(&mut self) -> Result<(), DeviceError> {
        let (Ok(layout), Some(pass)) = (self.resident(), self.pass) else { return Ok(()) };
        let expansion = shaders::expansion(pass.precision, self.kernels.dot(pass.precision));
        let (free_bytes, made) = (self.free_bytes(), self.memory.made());
        let fitted = self.memory.fit_operands(&self.gpu, &layout, expansion, free_bytes);
        if fitted.is_err() || self.memory.made() != made {
            // Groups name buffers that are gone.
            self.bindings.clear();
        }
        fitted.inspect_err(|_| self.residency.clear())
    }

    /// The rates of another way to multiply, and of another kind's operands, are no estimates.
    fn pace_products(&mut self, pass: &Pass) {
        let dot = self.kernels.dot_for(pass.precision, pass.n);
        if self.paced_dot.replace(dot) != Some(dot) {
            self.rates.forget(WorkKind::Product);
        }
        if self.paced_kind.replace(pass.precision) != Some(pass.precision) {
            self.rates.forget(WorkKind::Expand);
        }
    }

    /// Runs a round that leaves states, or sums, of so many bytes. Gives its digest, and the result of `run`.
    fn run_round<T>(
        &mut self,
        layout: &BufferLayout,
        states_bytes: u64,
        handle: &Handle,
        run: impl for<'a> FnOnce(&ResidentWalks<'a>, &mut Flow<'a>) -> Result<T, DeviceError>,
    ) -> Result<(Digest, T), DeviceError> {
        let free_bytes = self.free_bytes();
        let fitted = self.memory.fit_states(&self.gpu, &self.bounds, layout, states_bytes, free_bytes);
        if fitted.is_err() {
            // Then there is nothing left.
            self.residency.clear();
        }
        fitted?;
        let Self { gpu, bindings, parameters, rates, memory, kernels, config, bounds, .. } = self;
        let completion_counter = Some((&kernels.completion_counter, memory.values(layout, layout.completion_counter)));
        let parts =
            FlowParts { gpu, bindings, parameters, rates, handle, stall_limit: config.stall_limit, completion_counter };
        let walking = ResidentWalks { layout: *layout, bounds, kernels, memory };
        let mut flow = Flow::new(parts);
        let ran = run(&walking, &mut flow)?;
        let completion = flow.expected_completion();
        let bytes = self.read_completed(layout, layout.round_digest, completion)?;
        let mut digest = [0; HASH_BYTES as usize];
        digest.copy_from_slice(&bytes);
        Ok((Digest(digest), ran))
    }

    /// A round of the sweep over the resident slots, whose states are gone: its sums take their memory.
    fn run_sweep(&mut self, round: &SweepRound, handle: &Handle) -> Result<Digest, DeviceError> {
        let (layout, asked) = (self.resident()?, Slots { n: round.n, count: round.count });
        self.residency.filled(layout);
        if layout.slots() != asked {
            return Err(DeviceError::Unsupported(format!(
                "a sweep over {asked:?}, and {:?} are resident",
                layout.slots()
            )));
        }
        self.gpu.check()?;
        // Another way to multiply may have been chosen since.
        self.prepare_probe(&layout)?;
        Ok(self.run_round(&layout, layout.sums_bytes(), handle, |walks, flow| walks.sweep(flow, round))?.0)
    }

    /// The bytes of a set of states, or of sums, which are many.
    fn read_states(&self, bytes: u64, set: usize, handle: &Handle) -> Result<Vec<u8>, DeviceError> {
        let mut all = Vec::with_capacity(bytes as usize);
        for piece in &self.memory.states(&self.bounds, bytes)[set] {
            for first in (0..piece.bytes).step_by(READ_BYTES as usize) {
                handle.check()?;
                let bytes = READ_BYTES.min(piece.bytes - first);
                all.extend(self.read_piece(SlotPiece { first: piece.first + first, bytes, ..*piece })?);
            }
        }
        Ok(all)
    }

    /// One step of linked walks, which all name lines of this device: there in one write, and back in one copy.
    fn run_step(
        &mut self,
        share: &LinkedShare,
        layout: &BufferLayout,
        states: &mut [StateBytes],
    ) -> Result<(), DeviceError> {
        let free_bytes = self.free_bytes().saturating_sub(self.memory.held_bytes());
        self.memory.fit_stepped(&self.gpu, &self.bounds, layout, free_bytes)?;
        let handle = Handle::default();
        let Self { gpu, bindings, parameters, rates, memory, kernels, config, bounds, .. } = self;
        let (handle, stall_limit) = (&handle, config.stall_limit);
        let (bytes, part_bytes) = (states.as_flattened_mut(), memory.stepped()[0][0].bytes as usize);
        gpu.calling(|| {
            let buffers = memory.stepped()[0].iter();
            bytes.chunks(part_bytes).zip(buffers).for_each(|(part, to)| gpu.queue.write_buffer(&to.raw, 0, part));
        })?;
        let completion_counter = Some((&kernels.completion_counter, memory.values(layout, layout.completion_counter)));
        let parts = FlowParts { gpu, bindings, parameters, rates, handle, stall_limit, completion_counter };
        let mut flow = Flow::new(parts);
        let walking = ResidentWalks { layout: *layout, bounds, kernels, memory };
        let last = walking.step(&mut flow, share, bytes.len() / STATE_BYTES as usize)?;
        let completion = flow.expected_completion();
        self.read_completed(layout, layout.round_digest, completion)?;
        for (part, from) in bytes.chunks_mut(part_bytes).zip(&self.memory.stepped()[last]) {
            self.staging.read(&self.gpu, stall_limit, SlotPiece::whole(from), 0, part)?;
        }
        Ok(())
    }

    /// Chaining values of subtrees that a workgroup can make.
    fn subtrees(&mut self, layout: &BufferLayout, slot: u32, chunks: u64) -> Result<Vec<ChainingValue>, DeviceError> {
        let handle = Handle::default();
        let Self { gpu, bindings, parameters, rates, memory, kernels, config, .. } = self;
        let (handle, stall_limit) = (&handle, config.stall_limit);
        let completion_counter = Some((&kernels.completion_counter, memory.values(layout, layout.completion_counter)));
        let parts = FlowParts { gpu, bindings, parameters, rates, handle, stall_limit, completion_counter };
        let mut flow = Flow::new(parts);
        let pieces = (0..layout.pieces_per_slot).map(|piece| memory.piece(layout, slot, piece));
        let hashing = DigestTree { kernels, memory, layout: *layout };
        hashing.subtrees(&mut flow, pieces, chunks.ilog2(), false, layout.values.first)?;
        flow.finish()?;
        let completion = flow.expected_completion();
        self.read_completed(layout, layout.round_digest, completion)?;
        let mut region = layout.values;
        region.values = layout.slot_bytes() / CHUNK_BYTES / chunks;
        let bytes = self.read_piece(self.memory.values(layout, region))?;
        Ok(hashes_of(&bytes).map(ChainingValue).collect())
    }

    /// A region that lies before the completion counter, once the counter shows that every submission was carried out.
    fn read_completed(&self, layout: &BufferLayout, region: Region, completion: u32) -> Result<Vec<u8>, DeviceError> {
        let counter = layout.completion_counter;
        let both = Region { first: region.first, values: counter.first + counter.values - region.first };
        let mut bytes = self.read_piece(self.memory.values(layout, both))?;
        let found = bytes.split_off(((counter.first - region.first) * HASH_BYTES) as usize);
        if found[..4] != completion.to_le_bytes() {
            return Err(self.gpu.lose("its driver called work done that was not carried out"));
        }
        bytes.truncate((region.values * HASH_BYTES) as usize);
        Ok(bytes)
    }

    /// The device's fault, or, where it is well, `Unsupported` for good: a shader that could not be compiled.
    pub(super) fn refused(&self, error: &WgpuError) -> DeviceError {
        self.gpu.check().err().unwrap_or_else(|| DeviceError::Unsupported(error.to_string()))
    }

    fn copier(&self) -> Copier<'_> {
        Copier { gpu: &self.gpu, staging: &self.staging, stall_limit: self.config.stall_limit }
    }

    /// The areas of copies, where they are `bytes` bytes long.
    fn areas_of(&self, bytes: u64) -> Result<&CopyAreas, DeviceError> {
        let missing = || DeviceError::Unsupported("nothing so long was written to the areas of copies".into());
        self.areas.as_ref().filter(|areas| areas.bytes() >= bytes).ok_or_else(missing)
    }

    pub(super) fn take_area(&mut self, bytes: u64) -> Result<DeviceBuffer, DeviceError> {
        let free_bytes = self.free_bytes().saturating_sub(self.memory.held_bytes());
        let busy = DeviceError::Busy { needed_bytes: bytes, free_bytes };
        if bytes > plan::usable_bytes(free_bytes) {
            return Err(busy);
        }
        self.memory.other(&self.gpu, bytes).map_err(|error| match error {
            CreationFailure::OutOfMemory => busy,
            CreationFailure::Refused(why) => self.gpu.lose(&why),
        })
    }

    pub(super) fn read_piece(&self, piece: SlotPiece<'_>) -> Result<Vec<u8>, DeviceError> {
        let mut bytes = vec![0; piece.bytes as usize];
        self.staging.read(&self.gpu, self.config.stall_limit, piece, 0, &mut bytes)?;
        Ok(bytes)
    }
}

impl Device for WgpuDevice {
    fn info(&self) -> DeviceInfo {
        let d = &self.description;
        let free_bytes = self.free_bytes();
        DeviceInfo {
            id: d.id,
            name: d.name.clone(),
            backend: BackendKind::Wgpu,
            detail: format!("{}, {}{}", self.kernels.detail(), d.detail(), self.least_detail()),
            precisions: self.precisions.clone(),
            units: self.float_sums.findings(),
            total_bytes: d.memory_bytes.or(self.config.memory_bytes).unwrap_or(free_bytes),
            free_bytes: plan::usable_bytes(free_bytes),
        }
    }

    fn fault(&self) -> Option<DeviceError> {
        self.gpu.check().err()
    }

    fn slots_that_fit(&self, n: u32) -> u32 {
        plan::slots_that_fit(&self.bounds, n, self.free_bytes())
    }

    fn fill(&mut self, pass: &Pass, handle: &Handle) -> Result<Vec<Digest>, DeviceError> {
        self.residency.begin_fill(pass, &self.precisions)?;
        let layout = self.layout(pass)?;
        self.gpu.check()?;
        handle.check()?;
        let digests = self.run_pass(pass, &layout, handle)?;
        self.residency.filled(layout);
        self.pass = Some(*pass);
        Ok(digests)
    }

    fn probe_round(&mut self, round: &ProbeRound, handle: &Handle) -> Result<Digest, DeviceError> {
        let layout = self.residency.begin_round(round)?;
        self.gpu.check()?;
        let states_bytes = u64::from(round.walks) * STATE_BYTES;
        let (digest, last) = self.run_round(&layout, states_bytes, handle, |walks, flow| walks.round(flow, round))?;
        self.residency.walked((round.walks, last));
        handle.advance(1);
        Ok(digest)
    }

    fn step_states(&mut self, share: &LinkedShare, states: &mut [StateBytes]) -> Result<(), DeviceError> {
        share.check(states.len())?;
        let layout = self.resident()?;
        let resident = layout.slots();
        if share.n != resident.n || share.count > resident.count {
            return Err(DeviceError::Unsupported(format!("{share:?}, of which {resident:?} are resident")));
        }
        for state in &*states {
            share.line_of(&state_from_bytes(state))?;
        }
        self.gpu.check()?;
        if states.is_empty() { Ok(()) } else { self.run_step(share, &layout, states) }
    }

    fn probe_states(&mut self) -> Result<Vec<u8>, DeviceError> {
        let (walks, last) = self.residency.states()?;
        self.gpu.check()?;
        self.read_states(u64::from(walks) * STATE_BYTES, last, &Handle::default())
    }

    fn sweep_round(&mut self, round: &SweepRound, handle: &Handle) -> Result<Digest, DeviceError> {
        let digest = self.run_sweep(round, handle)?;
        handle.advance(1);
        Ok(digest)
    }

    fn sweep_sums(&mut self, round: &SweepRound, handle: &Handle) -> Result<Vec<u8>, DeviceError> {
        self.run_sweep(round, handle)?;
        self.read_states(sums_bytes(round.n, round.count), 0, handle)
    }

    fn read(&mut self, slot: u32, first_byte: u64, out: &mut [u8]) -> Result<(), DeviceError> {
        let layout = self.resident()?;
        layout.slots().check_range(SlotRange { slot, first_byte, bytes: out.len() as u64 })?;
        self.gpu.check()?;
        let (mut at, mut rest) = (first_byte, out);
        while !rest.is_empty() {
            let inside = at % layout.piece_bytes;
            let here = (layout.piece_bytes - inside).min(rest.len() as u64);
            let (part, after) = rest.split_at_mut(here as usize);
            let piece = self.memory.piece(&layout, slot, at / layout.piece_bytes);
            self.staging.read(&self.gpu, self.config.stall_limit, piece, inside, part)?;
            (at, rest) = (at + here, after);
        }
        Ok(())
    }

    fn chaining_values(&mut self, slot: u32, subtree_bytes: u64) -> Result<Vec<[u8; 32]>, DeviceError> {
        let layout = self.resident()?;
        layout.slots().check_subtrees(slot, subtree_bytes)?;
        self.gpu.check()?;
        let chunks = subtree_bytes / CHUNK_BYTES;
        let made = chunks.min(GROUP_CHUNKS);
        let values = self.subtrees(&layout, slot, made)?;
        Ok(merge_subtrees(values, (chunks / made).ilog2()))
    }

    fn release(&mut self) {
        self.residency.clear();
        self.bindings.clear();
        self.areas = None;
        self.memory.release(&self.gpu);
    }

    fn kernels(&self, precision: Precision) -> Vec<String> {
        let current = self.kernels.dot(precision);
        let may = |dot: &Dot| *dot != current && self.may_multiply_by(precision, *dot);
        let others = Dot::of(precision).iter().copied().filter(may);
        [current].into_iter().chain(others).map(|dot| dot.name().to_owned()).collect()
    }

    fn choose_kernel(&mut self, precision: Precision, kernel: &str) -> Result<(), DeviceError> {
        let dot = Dot::of(precision).iter().copied().find(|dot| dot.name() == kernel);
        let dot =
            dot.ok_or_else(|| DeviceError::Unsupported(format!("no product of {precision} is called {kernel}")))?;
        if dot == self.kernels.dot(precision) {
            return Ok(());
        }
        self.gpu.check()?;
        if !self.has_exact_sums(precision, dot)? {
            return Err(DeviceError::Unsupported("its float sums have not passed the self-test".into()));
        }
        let before = self.kernels.dot(precision);
        self.kernels.multiply_by(precision, dot);
        let prepared = self.kernels.prepare_products(&self.gpu, precision, self.pass.map_or(MIN_N, |pass| pass.n));
        let prepared = prepared.map_err(|error| self.refused(&error)).and_then(|()| self.fit_operands());
        prepared.inspect_err(|_| self.kernels.multiply_by(precision, before))
    }

    fn time_products(&mut self, products: u32) -> Result<Duration, DeviceError> {
        let layout = self.resident()?;
        let none = || DeviceError::Unsupported("no pass is resident on this device".into());
        let pass = self.pass.ok_or_else(none)?;
        self.gpu.check()?;
        self.pace_products(&pass);
        let handle = Handle::default();
        let Self { gpu, bindings, parameters, rates, memory, kernels, config, .. } = self;
        let (handle, stall_limit) = (&handle, config.stall_limit);
        let parts = FlowParts { gpu, bindings, parameters, rates, handle, stall_limit, completion_counter: None };
        let mut flow = Flow::new(parts);
        let filling = BufferedPass { pass, layout, kernels, memory, poison: false, expanded: Cell::default() };
        let start = Instant::now();
        (2..products.saturating_add(2).clamp(3, pass.count)).try_for_each(|u| filling.product(&mut flow, u))?;
        flow.finish()?;
        Ok(start.elapsed())
    }

    fn write_area(&mut self, data: &[u8]) -> Result<Duration, DeviceError> {
        self.gpu.check()?;
        let bytes = data.len() as u64;
        if self.areas.as_ref().is_none_or(|areas| areas.bytes() != bytes) {
            // Areas of another length are freed first.
            self.areas = None;
            self.areas = Some(CopyAreas { near: self.take_area(bytes)?, far: self.take_area(bytes)? });
        }
        self.areas_of(bytes)?.write(self.copier(), data)
    }

    fn copy_area(&mut self) -> Result<Duration, DeviceError> {
        self.gpu.check()?;
        self.areas_of(0)?.copy(self.copier())
    }

    fn read_area(&mut self, area: Area, out: &mut [u8]) -> Result<Duration, DeviceError> {
        self.gpu.check()?;
        self.areas_of(out.len() as u64)?.read(self.copier(), area, out)
    }
}

impl fmt::Debug for WgpuDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WgpuDevice").field("id", &self.description.id).finish_non_exhaustive()
    }
}
