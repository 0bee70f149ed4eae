//! Products of one kind of work, slot after slot: operands are expanded where the unit does not take a slot's bytes, or a
//! rule makes others of them, then multiplied.

use super::driver::{DeviceMemory, Stream};
use super::error::Fault;
use super::kernels::Kernels;
use super::operands::HeldOperands;
use super::plan::MemoryLayout;
use super::product::Product;
use super::products::{LoadedKernel, most_tiles};
use assay_device::pace::{WorkKind, Workload};
use assay_device::{DeviceError, Pass};
use assay_work::Precision;

/// The kernel and operands that multiply the slots of a pass.
pub(super) struct Multiplier<'a> {
    kernels: &'a Kernels,
    /// The product kernel in use.
    loaded: &'a LoadedKernel,
    pass: &'a Pass,
    layout: &'a MemoryLayout,
    slots: &'a DeviceMemory,
    scratch: &'a DeviceMemory,
    held: HeldOperands,
}

impl<'a> Multiplier<'a> {
    /// A multiplier over slots in the places of `layout`, which has room for products of this kind.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] where the device does not compute this kind of work.
    pub(super) fn new(
        kernels: &'a Kernels,
        pass: &'a Pass,
        layout: &'a MemoryLayout,
        slots: &'a DeviceMemory,
        scratch: &'a DeviceMemory,
    ) -> Result<Self, DeviceError> {
        let none = || DeviceError::Unsupported(format!("this device does not compute work of kind {}", pass.precision));
        let loaded = kernels.products.of(pass.precision).ok_or_else(none)?;
        assert!(layout.slots_bytes() <= slots.bytes(), "slots of this layout");
        Ok(Self { kernels, loaded, pass, layout, slots, scratch, held: HeldOperands::default() })
    }

    pub(super) const fn tiles(&self) -> u32 {
        self.loaded.family.tiles(self.layout.n)
    }

    pub(super) fn most_tiles(&self) -> u32 {
        most_tiles(self.loaded.family, self.pass.precision, self.layout.n, self.kernels.multiprocessors())
    }

    pub(super) const fn tile_work(&self) -> u64 {
        self.loaded.family.tile_work(self.pass.precision, self.layout.n)
    }

    /// Whether slots are operands as they are.
    pub(super) fn takes_slots(&self) -> bool {
        self.loaded.family.takes_slots(self.pass.precision)
    }

    /// Whether a launch of a whole product hashes another slot as well.
    pub(super) const fn hashes(&self) -> bool {
        self.loaded.family.is_persistent
    }

    /// The rule's part of a product, in a kind that has one: a slot's bytes.
    pub(super) fn by_rule(&self) -> Option<Workload> {
        let expanded = Workload { kind: WorkKind::Expand, units: self.layout.slot_bytes() };
        self.pass.precision.has_rule().then_some(expanded)
    }

    /// The product that gives slot `u`, all tiles of it, and the operands of both parents as expanded on the stream.
    /// Earlier work of the stream writes the parents.
    pub(super) fn operands(&mut self, stream: &Stream, u: u32, parents: (u32, u32)) -> Result<Product, Fault> {
        let (n, family, precision) = (self.layout.n, self.loaded.family, self.pass.precision);
        let mut product = Product::of_slots(self.slots.address(), n, parents, u, self.tiles());
        assert!(u < self.layout.count && parents.0 < u && parents.1 < u, "slots of this pass");
        if self.takes_slots() {
            return Ok(product);
        }
        let matrix_bytes = self.layout.slot_bytes() * u64::from(family.bytes_per_byte(precision));
        let sides = u64::from(family.expanded_sides(precision));
        assert!(sides * matrix_bytes <= self.layout.operands.bytes, "room for the operands that are written");
        let first = self.layout.operands.address(self.scratch);
        if precision == Precision::Field {
            // SAFETY: as below; products before this one, which read the place, are earlier work of the stream.
            unsafe { self.kernels.field(stream, product.right, first, n, u) }?;
            product.right = first;
            return Ok(product);
        }
        if precision == Precision::Network {
            // SAFETY: as for precision 7.
            unsafe { self.kernels.network(stream, product.left, first, self.pass, u) }?;
            product.left = first;
            return Ok(product);
        }
        let from = [product.left, product.right];
        let held = self.held.hold(<[u32; 2]>::from(parents));
        for (held, from) in held.into_iter().zip(from).filter(|(held, _)| held.is_new) {
            let to = first + held.place as u64 * matrix_bytes;
            // SAFETY: the slot and the place lie in memory that outlives the enqueued work, as the caller's does; they
            // are as large as asserted.
            unsafe { self.kernels.expand(stream, from, to, matrix_bytes, precision, family.format) }?;
        }
        product.left = first + held[0].place as u64 * matrix_bytes;
        product.right = first + held[1].place as u64 * matrix_bytes;
        product.depth = n * family.bytes_per_byte(precision);
        product.chunk = family.chunk_bytes(precision, n);
        if family.drains(precision, n) {
            let blocks = u64::from(self.most_tiles());
            assert!(4 * family.tile_elements() * blocks <= self.layout.sums.bytes, "room for drained sums");
            product.sums = self.layout.sums.address(self.scratch);
        }
        Ok(product)
    }

    /// Enqueues tiles of a product.
    ///
    /// # Safety
    /// `product` is the result of [`Self::operands`] for this stream, with tiles that it has, at most
    /// [`Self::most_tiles`] of them; slots and scratch memory live until the stream is done.
    pub(super) unsafe fn multiply(&self, stream: &Stream, product: Product) -> Result<(), Fault> {
        debug_assert!(product.tiles <= self.most_tiles(), "sums for each block");
        // SAFETY: the caller's promise.
        unsafe { self.kernels.multiply(stream, self.loaded, product) }
    }

    /// Enqueues all of a product, its operands first.
    ///
    /// # Safety
    /// As [`Self::multiply`]; earlier work of the stream writes all slots before `u`.
    pub(super) unsafe fn multiply_all(&mut self, stream: &Stream, u: u32, parents: (u32, u32)) -> Result<(), Fault> {
        let mut product = self.operands(stream, u, parents)?;
        let (tiles, most) = (self.tiles(), self.most_tiles());
        while product.first_tile < tiles {
            product.tiles = most.min(tiles - product.first_tile);
            // SAFETY: the caller's promise.
            unsafe { self.multiply(stream, product) }?;
            product.first_tile += product.tiles;
        }
        Ok(())
    }
}
