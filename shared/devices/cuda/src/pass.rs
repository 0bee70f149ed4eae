//! A pass: leaves, products and digests on two streams (WORK.md, A pass).
//!
//! Slot u+1 is multiplied while slot u is hashed: by idle warps of the product, or on the hash stream, which waits, on the
//! device, for each slot's end. The host only enqueues, polls, and copies all digests at the end.

use super::driver::{CudaEvent, DeviceMemory, Stream};
use super::error::Fault;
use super::flow::{Flow, LaunchPurpose};
use super::kernels::Kernels;
use super::multiply::Multiplier;
use super::plan::{COUNTER_BYTES, HASH_BYTES, MemoryLayout};
use super::product::HashedSlot;
use assay_device::pace::{WorkKind, Workload};
use assay_device::{DeviceError, Pass};
use assay_work::keys::parents;

/// The value of a poisoned byte: neither zero nor any that a kernel writes by rule.
pub(super) const POISON: u8 = 0xA5;

/// A pass over memory that was laid out for it.
pub(super) struct FillPass<'a> {
    pub(super) pass: &'a Pass,
    /// The places of its buffers.
    pub(super) layout: &'a MemoryLayout,
    pub(super) kernels: &'a Kernels,
    pub(super) slots: &'a DeviceMemory,
    pub(super) scratch: &'a DeviceMemory,
    /// Whether to overwrite all of it first.
    pub(super) poison: bool,
}

impl FillPass<'_> {
    /// Fills all slots and leaves their digests in the scratch memory. When it fails, no launch is pending, or the
    /// device is lost.
    pub(super) fn run(&self, flow: &mut Flow<'_>) -> Result<(), DeviceError> {
        match self.enqueue_all(flow).and_then(|()| flow.finish()) {
            // The driver may refuse a launch, for memory, and run those before it.
            Err(error) if !flow.is_lost() => flow.drain().and(Err(error)),
            other => other,
        }
    }

    fn enqueue_all(&self, flow: &mut Flow<'_>) -> Result<(), DeviceError> {
        let pass = self.pass;
        flow.handle.check()?;
        let Self { kernels, layout, slots, scratch, .. } = *self;
        let mut multiplier = Multiplier::new(kernels, pass, layout, slots, scratch)?;
        self.clear(flow)?;
        let first = self.leaf(flow, 0)?;
        self.digest(flow, 0, first)?;
        let mut filled = self.leaf(flow, 1)?;
        for u in 2..pass.count {
            filled = self.product(flow, &mut multiplier, u, filled)?;
        }
        flow.make_way(Workload { kind: WorkKind::Product, units: 0 })?;
        Ok(self.digest(flow, pass.count - 1, filled)?)
    }

    /// Clears the words that must be zero before the first digest; in the debug mode, poisons all other memory as if it
    /// had never been written.
    fn clear(&self, flow: &Flow<'_>) -> Result<(), Fault> {
        let stream = flow.compute.stream;
        if self.poison {
            self.slots.set(stream, 0, self.slots.bytes(), POISON)?;
            self.scratch.set(stream, 0, self.scratch.bytes(), POISON)?;
        }
        let arrivals = self.layout.arrivals;
        self.scratch.set(stream, arrivals.first, arrivals.bytes, 0)
    }

    fn leaf<'f>(&self, flow: &mut Flow<'f>, u: u32) -> Result<&'f CudaEvent, DeviceError> {
        let (key, stream_id) = (self.pass.key.as_bytes(), self.pass.offset + u);
        let enqueue = |stream: &Stream| {
            // SAFETY: slot u lies in `slots`, which outlives the flow: that ends drained, or with the context lost.
            unsafe { self.kernels.keystream(stream, key, stream_id, self.slot(u), self.layout.slot_bytes()) }
        };
        Ok(flow.compute(LaunchPurpose::Leaf(u), None, enqueue)?)
    }

    /// One product, in as many launches as its time asks for; gives the mark of the last one's end. Has the slot before
    /// hashed, which `before` marks the end of.
    fn product<'f>(
        &self,
        flow: &mut Flow<'f>,
        multiplier: &mut Multiplier<'_>,
        u: u32,
        before: &CudaEvent,
    ) -> Result<&'f CudaEvent, DeviceError> {
        let (tiles, most, tile_work) = (multiplier.tiles(), multiplier.most_tiles(), multiplier.tile_work());
        let (by_rule, takes_slots) = (multiplier.by_rule(), multiplier.takes_slots());
        let mut expanded = None;
        let mut enqueue = |stream: &Stream| {
            expanded = Some(multiplier.operands(stream, u, parents(&self.pass.key, u))?);
            Ok(())
        };
        if takes_slots {
            // Nothing is enqueued: a mark would only delay the product.
            enqueue(flow.compute.stream)?;
        } else {
            flow.make_way(by_rule.unwrap_or(Workload { kind: WorkKind::Product, units: 0 }))?;
            flow.compute(LaunchPurpose::Operands(u), by_rule, enqueue)?;
        }
        let Some(mut product) = expanded else { return Err(DeviceError::Sick("no operands were enqueued".into())) };
        loop {
            let left = tiles - product.first_tile;
            let first = self.kernels.multiprocessors();
            let pieces = |flow: &Flow<'_>| flow.pieces(WorkKind::Product, left, tile_work, first).min(most);
            flow.make_way(Workload { kind: WorkKind::Product, units: u64::from(pieces(flow)) * tile_work })?;
            // The rates may have changed while it waited for room; a launch has the latest size.
            product.tiles = pieces(flow);
            let work = Workload { kind: WorkKind::Product, units: u64::from(product.tiles) * tile_work };
            let mut purpose = LaunchPurpose::Product(u);
            if product.tiles == tiles && multiplier.hashes() {
                purpose = LaunchPurpose::ProductAndDigest(u);
                product.hashed = self.hashed(u - 1);
            } else if product.first_tile == 0 {
                self.digest(flow, u - 1, before)?;
            }
            let enqueue = |stream: &Stream| {
                // SAFETY: the slots and the scratch memory outlive the flow, as above; earlier work of this stream
                // fills both parents, and the tiles are some that an n-by-n product has.
                unsafe { multiplier.multiply(stream, product) }
            };
            let end = flow.compute(purpose, Some(work), enqueue)?;
            product.first_tile += product.tiles;
            if product.first_tile == tiles {
                return Ok(end);
            }
        }
    }

    /// Has a slot hashed on the hash stream, once it is `filled`.
    fn digest(&self, flow: &mut Flow<'_>, u: u32, filled: &CudaEvent) -> Result<(), Fault> {
        let (layout, scratch) = (self.layout, self.scratch);
        let (partials, arrivals) = (layout.partials.address(scratch), layout.arrivals.address(scratch));
        flow.hash.stream.wait_for(filled)?;
        flow.hash(u, |stream| {
            let (slot, digest) = (self.slot(u), self.digest_of(u));
            // SAFETY: all of it lies in `slots` and `scratch`, which outlive the flow, as above. Digests follow one
            // another on one stream, so that one set of partial results serves all.
            unsafe { self.kernels.digest(stream, slot, layout.slot_bytes(), partials, arrivals, digest) }
        })
    }

    /// A slot that a product hashes: such products follow one another on one stream, too, with partial results of their own.
    fn hashed(&self, u: u32) -> HashedSlot {
        let MemoryLayout { values, arrivals, .. } = self.layout;
        let (partials, arrivals) = (values.address(self.scratch), arrivals.address(self.scratch) + COUNTER_BYTES);
        HashedSlot { slot: self.slot(u), partials, arrivals, digest: self.digest_of(u) }
    }

    /// The address of a slot's digest.
    fn digest_of(&self, u: u32) -> u64 {
        self.layout.digests.address(self.scratch) + u64::from(u) * HASH_BYTES
    }

    fn slot(&self, u: u32) -> u64 {
        assert!(u < self.layout.count && self.layout.slots_bytes() <= self.slots.bytes(), "a slot of this pass");
        self.slots.address() + u64::from(u) * self.layout.slot_bytes()
    }
}
