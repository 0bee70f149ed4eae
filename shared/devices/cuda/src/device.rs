//! One CUDA device ([`assay_device`] defines a device).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::cache::Trial;
use super::config::CudaConfig;
use super::copies::{Copier, CopyAreas};
use super::describe::{self, DeviceDescription};
use super::driver::library::Library;
use super::driver::{Context, CudaEvent, DeviceMemory, PinnedMemory, Priority, Stream};
use super::error::{CudaError, Fault};
use super::family::{self, FAMILIES, KernelFamily};
use super::flow::{Flow, Lane, LaunchMarks};
use super::kernels::{KEYSTREAM_BLOCK_BYTES, Kernels};
use super::memory::Memory;
use super::multiply::Multiplier;
use super::pass::FillPass;
use super::plan::{self, BLOCK_CHUNKS, CHUNK_BYTES, HASH_BYTES, MemoryLayout, STATE_BYTES};
use super::probe::{ResidentRound, RoundWork};
use super::products::{self, LoadFailure};
use super::self_test::{self, LaunchContext};
use super::{modules, wait};
use assay_device::backend::{BackendKind, StartupProgress};
use assay_device::copies::Area;
use assay_device::pace::{DeviceRates, Timing, WorkKind};
use assay_device::resident::{Residency, Slots, hashes_of, merge_subtrees};
use assay_device::{
    Device, DeviceError, DeviceInfo, Handle, LinkedShare, MAX_STEPPED_STATES, Pass, PeerSlots, ProbeRound, SharedSlots,
    SlotRange, StateBytes, SweepRound, check_size,
};
use assay_work::keys::parents;
use assay_work::probe::LINE_BYTES;
use assay_work::{ChainingValue, Digest, Precision};

/// Memory of the host that copies go through, piece by piece.
const STAGING_BYTES: usize = 4 << 20;
/// The word behind the states of linked walks that reports another device's line.
const FLAG_BYTES: usize = 4;
/// For how long products that are timed may take: a driver that hangs ends here.
const MAX_TIMED: Duration = Duration::from_secs(100);

/// An opened device. It takes memory for slots with the first pass, and keeps that until [`Device::release`].
pub struct CudaDevice {
    pub(super) description: DeviceDescription,
    pub(super) config: CudaConfig,
    pub(super) kernels: Kernels,
    areas: Option<CopyAreas>,
    pub(super) compute: Stream,
    hash: Stream,
    compute_marks: LaunchMarks,
    hash_marks: LaunchMarks,
    copied: CudaEvent,
    staging: PinnedMemory,
    rates: DeviceRates,
    /// The kind of work whose products have that rate.
    rates_of: Option<Precision>,
    pub(super) memory: Memory,
    /// The resident slots, and the walks of the last round of the probe.
    pub(super) residency: Residency<MemoryLayout>,
    /// The pass whose slots these are.
    pub(super) pass: Option<Pass>,
    pub(super) context: Arc<Context>,
}

impl CudaDevice {
    /// Opens a device: makes its context and compiles its kernels, where the driver has not kept them.
    pub(super) fn open(
        library: Library,
        description: DeviceDescription,
        config: CudaConfig,
        progress: &mut dyn FnMut(StartupProgress),
    ) -> Result<Self, CudaError> {
        let title = description.title();
        let failed = |fault| CudaError::of_device(&title, fault);
        let handle = describe::handle(description.ordinal).map_err(failed)?;
        let context = Arc::new(Context::new(library, handle).map_err(failed)?);
        let kernels = Kernels::load(&context, &description, &config, progress)?;
        let mut device = Self::with_kernels(context, description.clone(), config, kernels).map_err(failed)?;
        device.choose_tested()?;
        device.kernels.products.require_int8(&device.description)?;
        Ok(device)
    }

    /// For each kind of work the first family that loads and passes the self-test, of those that need it and are faster than the
    /// chosen one, if there is one.
    fn choose_tested(&mut self) -> Result<(), CudaError> {
        if !self.config.float_units {
            return Ok(());
        }
        for precision in Precision::ALL {
            let chosen = self.kernels.products.of(precision).map(|loaded| loaded.family.choice);
            let candidates = family::candidates(precision, self.config.kernel, self.description.capability);
            let faster = candidates.into_iter().take_while(|family| Some(family.choice) != chosen);
            for family in faster.filter(|family| family.needs_test()) {
                match self.prepare_family(precision, family) {
                    Ok(()) => {
                        self.kernels.products.choose(precision, family);
                        break;
                    }
                    Err(LoadFailure::Family(reason)) => {
                        self.kernels.products.pass_over(&self.description, family, &reason);
                    }
                    Err(LoadFailure::Device(fault)) => {
                        return Err(CudaError::of_device(&self.description.title(), fault));
                    }
                }
            }
        }
        Ok(())
    }

    /// Loads a family, and tests its unit where it needs that: for a kind with a rule with the operands of INT8.
    fn prepare_family(&mut self, precision: Precision, family: &'static KernelFamily) -> Result<(), LoadFailure> {
        let precision = precision.of_bytes();
        self.kernels.products.load(&self.context, &self.description, family)?;
        let is_tested = self.config.untested || !family.needs_test();
        if !is_tested && self.kernels.products.finding(precision, family).is_none() {
            let Some(loaded) = self.kernels.products.get(family) else {
                return Err(LoadFailure::Family("not loaded".into()));
            };
            if self.context.is_lost() {
                return Err(LoadFailure::Family("not tested: the device was lost before".into()));
            }
            self.launch_plain().map_err(|error| LoadFailure::Family(format!("not tested: {error}")))?;
            let trial = self.begin_trial(family)?;
            // A launch that fails says nothing about the unit, and a lost device is found at its next use.
            let tested = self_test::test(self.bench(), &self.kernels, loaded, precision);
            if !self.context.is_lost() {
                trial.end();
            }
            let finding =
                tested.map_err(|error| LoadFailure::Family(format!("its unit could not be tested: {error}")))?;
            let driver = self.context.library().version;
            tracing::info!(device = %self.description.id, driver, "{finding}");
            self.kernels.products.units.push(finding);
        }
        match self.kernels.products.finding(precision, family).and_then(|finding| finding.failed.clone()) {
            Some(failed) => Err(LoadFailure::Family(format!("its unit is not exact for {precision}: {failed}"))),
            None => Ok(()),
        }
    }

    /// Launches a plain kernel: a sick device fails here, and not in the test of a unit.
    fn launch_plain(&self) -> Result<(), DeviceError> {
        let memory = DeviceMemory::new(&self.context, KEYSTREAM_BLOCK_BYTES)?;
        // SAFETY: the memory lives until the wait has ended, or the context is lost.
        let enqueued =
            unsafe { self.kernels.keystream(&self.compute, &[0; 32], 0, memory.address(), KEYSTREAM_BLOCK_BYTES) };
        let doing = || "running a first kernel".to_owned();
        wait::for_enqueued(&self.compute, &self.copied, self.config.stall_limit, enqueued, doing)
    }

    /// The device as self-tests are launched on it.
    pub(super) const fn bench(&self) -> LaunchContext<'_> {
        let CudaConfig { stall_limit, float_test_terms: most_terms, .. } = self.config;
        LaunchContext { context: &self.context, stream: &self.compute, stall_limit, most_terms }
    }

    /// Notes that a family is being tested. One whose tests keep losing the device is not tested again, so that the next start
    /// has the device with another family.
    fn begin_trial(&self, family: &KernelFamily) -> Result<Trial, LoadFailure> {
        let module = modules::find(family.module()).ok_or_else(|| LoadFailure::Family("not in this build".into()))?;
        let (driver, id) = (self.context.library().version, self.description.id.0);
        Trial::begin(self.config.cache_folder.as_deref(), module, driver, &id).map_err(|path| {
            let again = format!("remove {} to test it again", path.display());
            LoadFailure::Family(format!("its last tests on this device did not end; {again}"))
        })
    }

    fn with_kernels(
        context: Arc<Context>,
        description: DeviceDescription,
        config: CudaConfig,
        kernels: Kernels,
    ) -> Result<Self, Fault> {
        Ok(Self {
            // Slot u's digest and slot u + 1's product become ready together: the next product waits for the product,
            // and only the pass's end waits for the digest, which fills the time that the product leaves idle.
            compute: Stream::new(&context, Priority::High)?,
            hash: Stream::new(&context, Priority::Low)?,
            compute_marks: LaunchMarks::new(&context)?,
            hash_marks: LaunchMarks::new(&context)?,
            copied: CudaEvent::new(&context)?,
            staging: PinnedMemory::new(&context, STAGING_BYTES)?,
            memory: Memory::new(&context, config.plain_memory, description.integrated),
            rates: DeviceRates::new(Timing::DEVICE_EVENTS),
            residency: Residency::default(),
            pass: None,
            rates_of: None,
            areas: None,
            description,
            config,
            kernels,
            context,
        })
    }

    pub const fn description(&self) -> &DeviceDescription {
        &self.description
    }

    /// Makes the context current on this thread; fails when the device is lost.
    pub(super) fn bind(&self) -> Result<(), DeviceError> {
        if self.context.is_lost() {
            return Err(DeviceError::Sick("it failed before; the process that drives it must start again".into()));
        }
        Ok(self.context.bind()?)
    }

    /// Free memory, including this object's own; 0 when the device does not answer.
    fn free_bytes(&self) -> u64 {
        let free = self.bind().and_then(|()| Ok(self.memory.free_bytes()?));
        free.unwrap_or_else(|error| {
            tracing::warn!(device = %self.description.id, %error, "free memory is not known");
            0
        })
    }

    pub(super) fn resident(&self) -> Result<MemoryLayout, DeviceError> {
        self.residency.layout()
    }

    fn copier(&self) -> Copier<'_> {
        Copier { context: &self.context, stream: &self.compute, stall_limit: self.config.stall_limit }
    }

    /// The areas of copies, where they are `bytes` bytes long.
    fn areas_of(&self, bytes: usize) -> Result<&CopyAreas, DeviceError> {
        let missing = || DeviceError::Unsupported("nothing so long was written to the areas of copies".into());
        self.areas.as_ref().filter(|areas| areas.bytes() >= bytes).ok_or_else(missing)
    }

    /// Copies `out.len()` bytes of device memory from `first` on, piece by piece.
    fn copy_out(&self, memory: &DeviceMemory, first: u64, out: &mut [u8]) -> Result<(), DeviceError> {
        for (at, piece) in (first..).step_by(STAGING_BYTES).zip(out.chunks_mut(self.staging.bytes())) {
            memory.copy_out(&self.compute, at, piece.len(), &self.staging)?;
            self.copied.record(&self.compute)?;
            let doing = || "copying to the host".to_owned();
            let done = || self.copied.is_done(doing);
            wait::until(&self.context, self.config.stall_limit, None, doing, done)?;
            piece.copy_from_slice(&self.staging.as_slice()[..piece.len()]);
        }
        Ok(())
    }

    /// The name of the family that computes a kind of work.
    fn family_name(&self, precision: Precision) -> &'static str {
        self.kernels.products.of(precision).map_or("none", |loaded| loaded.family.name())
    }

    fn run_pass(&mut self, pass: &Pass, layout: &MemoryLayout, handle: &Handle) -> Result<Vec<Digest>, DeviceError> {
        self.memory.fit(layout)?;
        let (slots, scratch) = self.memory.slots_and_scratch()?;
        let filling = FillPass { pass, layout, kernels: &self.kernels, slots, scratch, poison: self.config.poison };
        let mut flow = Flow {
            context: &self.context,
            compute: Lane::new(&self.compute, &self.compute_marks),
            hash: Lane::new(&self.hash, &self.hash_marks),
            rates: &mut self.rates,
            handle,
            stall_limit: self.config.stall_limit,
        };
        filling.run(&mut flow)?;
        let mut bytes = vec![0; layout.digests.bytes as usize];
        self.copy_out(scratch, layout.digests.first, &mut bytes)?;
        Ok(hashes_of(&bytes).map(Digest).collect())
    }

    /// A round over the own slots, or over those of all devices.
    fn run_round(
        &mut self,
        work: RoundWork<'_>,
        layout: &MemoryLayout,
        handle: &Handle,
    ) -> Result<Digest, DeviceError> {
        self.bind()?;
        self.memory.fit_states(work.bytes())?;
        let (slots, scratch) = self.memory.slots_and_scratch()?;
        let states = self.memory.states()?;
        let poison = self.config.poison;
        let peers = matches!(work, RoundWork::LinkedWalks(_)).then(|| self.memory.peers()).transpose()?;
        let running = ResidentRound { work, layout, kernels: &self.kernels, slots, scratch, states, peers, poison };
        let mut flow = Flow {
            context: &self.context,
            compute: Lane::new(&self.compute, &self.compute_marks),
            hash: Lane::new(&self.hash, &self.hash_marks),
            rates: &mut self.rates,
            handle,
            stall_limit: self.config.stall_limit,
        };
        running.run(&mut flow)?;
        let mut digest = [0; HASH_BYTES as usize];
        self.copy_out(scratch, layout.round_digest.first, &mut digest)?;
        Ok(Digest(digest))
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
        self.run_round(RoundWork::Sums(round), &layout, handle)
    }

    /// The first bytes of the memory of states, which are many where they are sums.
    fn copy_states(&self, bytes: u64, handle: &Handle) -> Result<Vec<u8>, DeviceError> {
        let mut out = vec![0; bytes as usize];
        for (at, piece) in (0..).step_by(STAGING_BYTES).zip(out.chunks_mut(STAGING_BYTES)) {
            handle.check()?;
            self.copy_out(self.memory.states()?, at, piece)?;
        }
        Ok(out)
    }

    /// One step of linked walks: their states and the word that reports foreign lines in one copy there, and one back.
    fn run_step(&mut self, share: &LinkedShare, states: &mut [StateBytes]) -> Result<(), DeviceError> {
        const { assert!(MAX_STEPPED_STATES * LINE_BYTES + FLAG_BYTES <= STAGING_BYTES) };
        let refused_at = states.len() * LINE_BYTES;
        let bytes = refused_at + FLAG_BYTES;
        self.memory.fit_stepped(bytes as u64)?;
        let staged = &mut self.staging.as_mut_slice()[..bytes];
        staged[..refused_at].copy_from_slice(states.as_flattened());
        staged[refused_at..].fill(0);
        let (stream, stepped) = (&self.compute, self.memory.stepped()?);
        let (slots, _) = self.memory.slots_and_scratch()?;
        let (to, refused) = (stepped.address(), stepped.address() + refused_at as u64);
        stepped.copy_in(stream, &self.staging, bytes)?;
        // At most MAX_STEPPED_STATES.
        let walks = states.len() as u32;
        // SAFETY: the share's slots are resident, and states and word fit as just made sure of; all stay until the copy
        // below, which follows on the same stream and is waited for, or the context is lost.
        let launched = unsafe { self.kernels.step(stream, slots.address(), share, walks, to, refused) };
        let enqueued = launched.and_then(|()| stepped.copy_out(stream, 0, bytes, &self.staging));
        let doing = || "stepping linked walks".to_owned();
        wait::for_enqueued(stream, &self.copied, self.config.stall_limit, enqueued, doing)?;
        let (moved, refused) = self.staging.as_slice()[..bytes].split_at(refused_at);
        if refused.iter().any(|byte| *byte != 0) {
            return Err(DeviceError::Unsupported(format!("a line of another device than that of {share:?}")));
        }
        states.as_flattened_mut().copy_from_slice(moved);
        Ok(())
    }

    /// Chaining values of subtrees that a block of the kernel can make.
    fn subtrees(
        &self,
        layout: &MemoryLayout,
        slot: u32,
        subtree_chunks: u64,
    ) -> Result<Vec<ChainingValue>, DeviceError> {
        let (slots, scratch) = self.memory.slots_and_scratch()?;
        let data = slots.address() + u64::from(slot) * layout.slot_bytes();
        let to = layout.values.address(scratch);
        // SAFETY: the slot is resident, and `values` has room for all chunks of one; both stay until the copy below,
        // which follows on the same stream and is waited for, or the context is lost.
        unsafe { self.kernels.subtrees(&self.compute, data, layout.slot_bytes(), subtree_chunks as u32, to) }?;
        let subtrees = layout.slot_bytes() / CHUNK_BYTES / subtree_chunks;
        let mut bytes = vec![0; (subtrees * HASH_BYTES) as usize];
        self.copy_out(scratch, layout.values.first, &mut bytes)?;
        Ok(hashes_of(&bytes).map(ChainingValue).collect())
    }
}

impl Device for CudaDevice {
    fn info(&self) -> DeviceInfo {
        let d = &self.description;
        let products = &self.kernels.products;
        let mut detail = format!("kernel {}, {}", self.family_name(Precision::Int8), d.detail());
        for reason in &products.passed_over {
            detail.push_str("; not ");
            detail.push_str(reason);
        }
        let free_bytes = plan::usable_bytes(self.free_bytes());
        DeviceInfo {
            id: d.id,
            name: d.name.clone(),
            backend: BackendKind::Cuda,
            detail,
            precisions: products.precisions(),
            units: products.units.clone(),
            total_bytes: d.memory_bytes,
            free_bytes,
        }
    }

    fn fault(&self) -> Option<DeviceError> {
        self.bind().err()
    }

    fn slots_that_fit(&self, n: u32) -> u32 {
        if check_size(n).is_err() {
            return 0;
        }
        let room = products::room(&self.kernels.products.precisions(), n, &self.description);
        plan::slots_that_fit(n, room, self.free_bytes())
    }

    fn fill(&mut self, pass: &Pass, handle: &Handle) -> Result<Vec<Digest>, DeviceError> {
        self.residency.begin_fill(pass, &self.kernels.products.precisions())?;
        self.bind()?;
        let room = products::room(&[pass.precision], pass.n, &self.description);
        let layout = MemoryLayout::new(pass.n, pass.count, room);
        if self.rates_of.replace(pass.precision) != Some(pass.precision) {
            self.rates.forget(WorkKind::Product);
            self.rates.forget(WorkKind::Expand);
        }
        let digests = self.run_pass(pass, &layout, handle)?;
        self.residency.filled(layout);
        self.pass = Some(*pass);
        Ok(digests)
    }

    fn probe_round(&mut self, round: &ProbeRound, handle: &Handle) -> Result<Digest, DeviceError> {
        let layout = self.residency.begin_round(round)?;
        let digest = self.run_round(RoundWork::Walks(round), &layout, handle)?;
        self.residency.walked(round.walks);
        handle.advance(1);
        Ok(digest)
    }

    fn share_slots(&mut self) -> Result<Option<SharedSlots>, DeviceError> {
        self.resident()?;
        self.bind()?;
        self.memory.share_slots()
    }

    fn map_peers(&mut self, peers: &[PeerSlots]) -> Result<bool, DeviceError> {
        let resident = self.resident()?.slots();
        resident.check_peers(peers)?;
        self.bind()?;
        // Other devices may be further away.
        self.rates.forget(WorkKind::LinkedProbe);
        self.memory.map_peers(peers)
    }

    fn linked_round(&mut self, round: &ProbeRound, handle: &Handle) -> Result<Digest, DeviceError> {
        let layout = self.residency.begin_round(round)?;
        let digest = self.run_round(RoundWork::LinkedWalks(round), &layout, handle)?;
        self.residency.walked(round.walks);
        handle.advance(1);
        Ok(digest)
    }

    fn unmap_peers(&mut self) {
        self.memory.unmap_peers();
    }

    fn step_states(&mut self, share: &LinkedShare, states: &mut [StateBytes]) -> Result<(), DeviceError> {
        share.check(states.len())?;
        let resident = self.resident()?.slots();
        if share.n != resident.n || share.count > resident.count {
            return Err(DeviceError::Unsupported(format!("{share:?}, of which {resident:?} are resident")));
        }
        self.bind()?;
        if states.is_empty() { Ok(()) } else { self.run_step(share, states) }
    }

    fn probe_states(&mut self) -> Result<Vec<u8>, DeviceError> {
        let walks = self.residency.states()?;
        self.bind()?;
        self.copy_states(u64::from(walks) * STATE_BYTES, &Handle::default())
    }

    fn sweep_round(&mut self, round: &SweepRound, handle: &Handle) -> Result<Digest, DeviceError> {
        let digest = self.run_sweep(round, handle)?;
        handle.advance(1);
        Ok(digest)
    }

    fn sweep_sums(&mut self, round: &SweepRound, handle: &Handle) -> Result<Vec<u8>, DeviceError> {
        self.run_sweep(round, handle)?;
        self.copy_states(RoundWork::Sums(round).bytes(), handle)
    }

    fn read(&mut self, slot: u32, first_byte: u64, out: &mut [u8]) -> Result<(), DeviceError> {
        let layout = self.resident()?;
        layout.slots().check_range(SlotRange { slot, first_byte, bytes: out.len() as u64 })?;
        self.bind()?;
        let (slots, _) = self.memory.slots_and_scratch()?;
        self.copy_out(slots, u64::from(slot) * layout.slot_bytes() + first_byte, out)
    }

    fn chaining_values(&mut self, slot: u32, subtree_bytes: u64) -> Result<Vec<[u8; 32]>, DeviceError> {
        let layout = self.resident()?;
        layout.slots().check_subtrees(slot, subtree_bytes)?;
        self.bind()?;
        let chunks = subtree_bytes / CHUNK_BYTES;
        let made = chunks.min(BLOCK_CHUNKS);
        let values = self.subtrees(&layout, slot, made)?;
        Ok(merge_subtrees(values, (chunks / made).ilog2()))
    }

    fn release(&mut self) {
        self.residency.clear();
        self.areas = None;
        self.memory.release();
    }

    fn kernels(&self, precision: Precision) -> Vec<String> {
        let Some(current) = self.kernels.products.of(precision) else { return Vec::new() };
        let (choice, capability) = (current.family.choice, self.description.capability);
        let others = FAMILIES.iter().filter(|family| {
            family.computes.contains(&precision) && (family.runs_on)(capability) && family.choice != choice
        });
        std::iter::once(current.family).chain(others).map(|family| family.name().to_owned()).collect()
    }

    fn choose_kernel(&mut self, precision: Precision, kernel: &str) -> Result<(), DeviceError> {
        if self.family_name(precision) == kernel {
            return Ok(());
        }
        self.bind()?;
        let unknown = || DeviceError::Unsupported(format!("no family that computes {precision} is called {kernel}"));
        let of_kind = |family: &&KernelFamily| family.name() == kernel && family.computes.contains(&precision);
        let family = FAMILIES.iter().find(of_kind).ok_or_else(unknown)?;
        self.prepare_family(precision, family).map_err(|not| match not {
            LoadFailure::Family(reason) => DeviceError::Unsupported(format!("{kernel}: {reason}")),
            LoadFailure::Device(fault) => fault.into(),
        })?;
        self.kernels.products.choose(precision, family);
        // The rate of another family is no estimate.
        self.rates.forget(WorkKind::Product);
        Ok(())
    }

    fn time_products(&mut self, products: u32) -> Result<Duration, DeviceError> {
        let layout = self.resident()?;
        let lost = || DeviceError::Unsupported("no pass is resident on this device".into());
        let pass = self.pass.ok_or_else(lost)?;
        self.bind()?;
        let (slots, scratch) = self.memory.slots_and_scratch()?;
        let mut multiplier = Multiplier::new(&self.kernels, &pass, &layout, slots, scratch)?;
        let (start, end) = (CudaEvent::new(&self.context)?, CudaEvent::new(&self.context)?);
        start.record(&self.compute)?;
        let enqueued = (2..products.saturating_add(2).clamp(3, pass.count)).try_for_each(|u| {
            // SAFETY: all slots are resident; the wait below is for the stream, or the context is lost.
            unsafe { multiplier.multiply_all(&self.compute, u, parents(&pass.key, u)) }
        });
        wait::for_enqueued(&self.compute, &end, MAX_TIMED, enqueued, || "timing products".to_owned())?;
        Ok(end.since(&start)?)
    }

    fn write_area(&mut self, data: &[u8]) -> Result<Duration, DeviceError> {
        self.bind()?;
        let mut areas = match self.areas.take() {
            Some(areas) if areas.bytes() == data.len() => areas,
            old => {
                // Areas of another length are freed first.
                drop(old);
                CopyAreas::take(self.copier(), &self.memory, data.len())?
            }
        };
        let took = areas.write(self.copier(), data);
        self.areas = Some(areas);
        took
    }

    fn copy_area(&mut self) -> Result<Duration, DeviceError> {
        self.bind()?;
        self.areas_of(0)?.copy(self.copier())
    }

    fn read_area(&mut self, area: Area, out: &mut [u8]) -> Result<Duration, DeviceError> {
        self.bind()?;
        self.areas_of(out.len())?.read(self.copier(), area, out)
    }
}

impl fmt::Debug for CudaDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let family = self.family_name(Precision::Int8);
        f.debug_struct("CudaDevice").field("id", &self.description.id).field("family", &family).finish_non_exhaustive()
    }
}
