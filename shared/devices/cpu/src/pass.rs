//! A pass: leaves, fused products, digests, on all threads of a device (WORK.md, A pass).
//!
//! Threads take items from one queue and wait for one another between phases: leaves; packing of Y where the product
//! before did not do it; the tiles of a product, followed in the same queue by the hashing of the slot
//! before it, which fills the time in which other threads finish their last tiles.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::hash::{Pieces, chaining_value};
use super::kernel::{PackX, PackY, ROW_GROUP, Tile, TileKernel};
use super::mix::SLOT_FACTOR;
use super::plan::{MAX_ROWS, PassPlan};
use super::thread_team::{EarlyExit, ThreadTeam};
use assay_device::{DeviceError, Handle, Pass};
use assay_work::rule::SlotRule;
use assay_work::{Digest, keys};

/// Which parts of a pass to run; all of them, but for measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(feature = "bench"), expect(dead_code, reason = "benchmarks alone do leaves or digests alone"))]
pub(super) enum PassStages {
    All,
    /// The products alone, over leaves that an earlier pass left.
    Products,
    /// The leaves alone.
    Leaves,
    /// The digests alone, of slots that an earlier pass left.
    Digests,
}

/// The shared state of a pass's threads.
pub(super) struct PassRun<'a> {
    pub(super) pass: &'a Pass,
    pub(super) plan: &'a PassPlan,
    /// The kernel, for the pass's kind of work.
    pub(super) kernel: &'static TileKernel,
    /// The first byte of slot 0; `count · n²` bytes.
    pub(super) slots: *mut u8,
    /// The first byte of the scratch memory; `plan.scratch_bytes()`, aligned to 64.
    pub(super) scratch: *mut u8,
    pub(super) stages: PassStages,
}

// SAFETY: the pointers are to memory that one call of `run` owns; which thread writes which bytes in which
// phase is decided by the queue, and phases are parted by barriers.
unsafe impl Sync for PassRun<'_> {}

/// The threads' messages to one another besides slots.
struct PassState {
    /// For each row block, how many of its parts are done, counted on from product to product.
    parts_done: Vec<AtomicUsize>,
    /// The slots being hashed, by the parity of their index.
    hashing: [Mutex<Pieces>; 2],
    digests: Mutex<Vec<Digest>>,
}

impl PassRun<'_> {
    /// Fills all slots and gives their digests (an empty list where the stages leave them out).
    ///
    /// # Safety
    /// The memory behind `slots` and `scratch` is as large as the fields say and used by nothing else; the plan is for
    /// this product and this `n`; the slots that the stages read were written before.
    ///
    /// # Errors
    /// [`DeviceError::Cancelled`] and [`DeviceError::Sick`], as [`ThreadTeam::run`].
    pub(super) unsafe fn run(&self, handle: &Handle) -> Result<Vec<Digest>, DeviceError> {
        let pieces = self.plan.slot_bytes() / self.plan.hash_piece;
        let hashes = matches!(self.stages, PassStages::All | PassStages::Digests);
        let hashed = if hashes { self.pass.count as usize } else { 0 };
        let shared = PassState {
            parts_done: self.plan.row_blocks.iter().map(|_| AtomicUsize::new(0)).collect(),
            hashing: [0, 1].map(|_| Mutex::new(Pieces::new(pieces))),
            digests: Mutex::new(vec![Digest([0; 32]); hashed]),
        };
        ThreadTeam::run(self.plan.threads, handle, |team, thread| match self.stages {
            PassStages::All | PassStages::Products => self.work(&shared, team, thread, handle),
            PassStages::Leaves => self.leaves(team),
            PassStages::Digests => self.digests(&shared, team),
        })?;
        Ok(shared.digests.into_inner())
    }

    /// One thread's part of the pass.
    fn work(&self, shared: &PassState, team: &ThreadTeam<'_>, thread: usize, handle: &Handle) -> Result<(), EarlyExit> {
        let report = |slots| {
            if thread == 0 {
                handle.advance(slots)
            }
        };
        if self.stages == PassStages::All {
            self.leaves(team)?;
            team.barrier()?;
        }
        report(2);
        for u in 2..self.pass.count {
            self.product(shared, team, thread, u)?;
            report(1);
        }
        let last = self.pass.count - 1;
        self.items(team, 0, |_| Ok(()), shared, last..last + 1)?;
        team.barrier()
    }

    fn leaves(&self, team: &ThreadTeam<'_>) -> Result<(), EarlyExit> {
        let (slot, piece) = (self.plan.slot_bytes(), self.plan.leaf_piece);
        while let Some(item) = team.take(2 * slot / piece)? {
            let start = item * piece;
            let mut stream = ChaCha8Rng::from_seed(*self.pass.key.as_bytes());
            stream.set_stream(u64::from(self.pass.offset) + (start / slot) as u64);
            // A word is 4 bytes.
            stream.set_word_pos((start % slot / 4) as u128);
            // SAFETY: the item's bytes, which lie in slots 0 and 1; each item is taken once.
            stream.fill_bytes(unsafe { std::slice::from_raw_parts_mut(self.slots.add(start), piece) });
        }
        Ok(())
    }

    /// Hashes all slots, one after the other.
    fn digests(&self, shared: &PassState, team: &ThreadTeam<'_>) -> Result<(), EarlyExit> {
        for slot in 0..self.pass.count {
            self.items(team, 0, |_| Ok(()), shared, slot..slot + 1)?;
            team.barrier()?;
        }
        Ok(())
    }

    /// Fills slot `u`, and hashes the slots that are done and not hashed yet. Ends with a barrier.
    fn product(&self, shared: &PassState, team: &ThreadTeam<'_>, thread: usize, u: u32) -> Result<(), EarlyExit> {
        let plan = self.plan;
        let (earlier, previous) = keys::parents(&self.pass.key, u);
        let rule = self.rule(u);
        for first in (0..plan.n).step_by(plan.block_columns) {
            if u == 2 || !plan.fused {
                self.pack_block(team, thread, previous, first)?;
                team.barrier()?;
            }
            let product =
                SlotProduct { rule: &rule, u, earlier, first, copy: if plan.fused { u as usize % 2 } else { 0 } };
            let is_last_block = first + plan.block_columns == plan.n;
            let to_hash = if !is_last_block {
                0..0
            } else if u == 2 {
                0..2
            } else {
                u - 1..u
            };
            let tiles = plan.row_blocks.len() * plan.splits;
            self.items(team, tiles, |item| self.tiles(shared, team, thread, &product, item), shared, to_hash)?;
            team.barrier()?;
        }
        Ok(())
    }

    /// Packs `block_columns` rows of slot `previous` from row `first` on, as columns of the product.
    fn pack_block(&self, team: &ThreadTeam<'_>, thread: usize, previous: u32, first: usize) -> Result<(), EarlyExit> {
        while let Some(item) = team.take(self.plan.block_columns / ROW_GROUP)? {
            let row = item * ROW_GROUP;
            self.pack_rows(thread, previous, first + row..first + row + ROW_GROUP, first, 0);
        }
        Ok(())
    }

    /// Packs rows of a slot, as the rule of the next one takes them, into a copy of Y whose column 0 is row `first` of the
    /// slot.
    fn pack_rows(&self, thread: usize, slot: u32, rows: Range<usize>, first: usize, copy: usize) {
        let (n, rule) = (self.plan.n, self.rule(slot + 1));
        for row in rows.step_by(self.kernel.columns) {
            let panel = self.plan.y_offset(copy) + (row - first) * n * self.kernel.y_bytes;
            // SAFETY: the rows lie in a slot that is filled, the panel in the copy; the processor has the kernel's
            // features, and only this thread has these rows.
            unsafe {
                let source = if rule.keeps_y() {
                    self.row(slot, row).cast_const()
                } else {
                    let rows = row..row + self.kernel.columns;
                    self.rule_rows(thread, rows, |row| rule.y(self.row_bytes(slot, row), row as u32))
                };
                (self.kernel.pack_y)(&PackY { source, stride: n, length: n, panel: self.scratch.add(panel) });
            }
        }
    }

    /// Takes `tiles` items of a product, then those that hash the slots `to_hash`.
    fn items(
        &self,
        team: &ThreadTeam<'_>,
        tiles: usize,
        mut tile: impl FnMut(usize) -> Result<(), EarlyExit>,
        shared: &PassState,
        to_hash: Range<u32>,
    ) -> Result<(), EarlyExit> {
        let pieces = self.plan.slot_bytes() / self.plan.hash_piece;
        let hashes = if self.stages == PassStages::Products { 0 } else { to_hash.len() * pieces };
        while let Some(item) = team.take(tiles + hashes)? {
            match item.checked_sub(tiles) {
                None => tile(item)?,
                Some(item) => self.hash_piece(shared, to_hash.start + (item / pieces) as u32, item % pieces),
            }
        }
        Ok(())
    }

    fn hash_piece(&self, shared: &PassState, slot: u32, piece: usize) {
        let (bytes, start) = (self.plan.hash_piece, piece * self.plan.hash_piece);
        // SAFETY: the slot was filled in an earlier phase, and no thread writes it in this one.
        let part = unsafe { std::slice::from_raw_parts(self.row(slot, 0).add(start), bytes) };
        let value = chaining_value(part, start as u64);
        let mut pieces = shared.hashing[slot as usize % 2].lock();
        if let Some(digest) = pieces.put(piece, value) {
            shared.digests.lock()[slot as usize] = digest;
        }
    }

    /// One item of a product: the tiles of a row block and a part of the columns.
    fn tiles(
        &self,
        shared: &PassState,
        team: &ThreadTeam<'_>,
        thread: usize,
        product: &SlotProduct<'_>,
        item: usize,
    ) -> Result<(), EarlyExit> {
        let plan = self.plan;
        let (block, split) = (item / plan.splits, item % plan.splits);
        let rows = &plan.row_blocks[block];
        for first in rows.clone().step_by(plan.x_rows) {
            let rows = first..rows.end.min(first + plan.x_rows);
            let mut bias = [0; MAX_ROWS];
            self.pack_x_rows(thread, product, &rows, &mut bias);
            for column in plan.columns(product.first, split).step_by(self.kernel.columns) {
                team.check()?;
                self.column_of_tiles(thread, product, &rows, &bias, column);
            }
        }
        let is_last_part = (shared.parts_done[block].fetch_add(1, Ordering::AcqRel) + 1).is_multiple_of(plan.splits);
        if plan.fused && is_last_part && product.u + 1 < self.pass.count {
            self.pack_rows(thread, product.u, rows.clone(), 0, 1 - product.copy);
        }
        Ok(())
    }

    /// Packs rows of the product's X for this thread, and writes the start of each row's sums to `bias`.
    fn pack_x_rows(&self, thread: usize, product: &SlotProduct<'_>, rows: &Range<usize>, bias: &mut [u32]) {
        let (n, kernel) = (self.plan.n, self.kernel);
        for row in rows.clone().step_by(kernel.rows) {
            let within = row - rows.start;
            // SAFETY: the rows lie in a slot that is filled, the panel in this thread's scratch memory, and there
            // is a bias for each of them; the processor has the kernel's features.
            unsafe {
                let rows = row..rows.end.min(row + kernel.rows);
                let source = match product.rule {
                    rule if rule.keeps_x() => self.row(product.earlier, row).cast_const(),
                    rule => {
                        let slot = std::slice::from_raw_parts(self.row(product.earlier, 0), self.plan.slot_bytes());
                        self.rule_rows(thread, rows.clone(), |row| rule.x_of_slot(slot, row as u32))
                    }
                };
                (kernel.pack_x)(&PackX {
                    source,
                    stride: n,
                    rows: rows.len(),
                    length: n,
                    panel: self.x_panel(thread, within),
                    corrections: bias.as_mut_ptr().add(within),
                });
            }
        }
        for (row, bias) in rows.clone().zip(bias) {
            *bias = bias.wrapping_add((row * n) as u32).wrapping_add(product.u.wrapping_mul(SLOT_FACTOR));
        }
    }

    /// The tiles of a row block over one panel of Y.
    fn column_of_tiles(
        &self,
        thread: usize,
        product: &SlotProduct<'_>,
        rows: &Range<usize>,
        bias: &[u32],
        column: usize,
    ) {
        let (n, kernel) = (self.plan.n, self.kernel);
        let row_bytes = n * kernel.y_bytes;
        let y = self.plan.y_offset(product.copy) + (column - product.first) * row_bytes;
        let next_y = y + kernel.columns * row_bytes;
        for row in rows.clone().step_by(kernel.rows) {
            let within = row - rows.start;
            // SAFETY: both panels are packed, and the tile lies in slot u, of which no other thread has this part;
            // the processor has the kernel's features.
            unsafe {
                (kernel.tile)(&Tile {
                    rows: kernel.rows.min(rows.end - row),
                    length: n * kernel.operands,
                    x: self.x_panel(thread, within),
                    y: self.scratch.add(y),
                    next_y: self.scratch.wrapping_add(next_y + within * row_bytes * kernel.columns / MAX_ROWS),
                    row_bias: bias.as_ptr().add(within),
                    first_column: column as u32,
                    out: self.row(product.u, row).add(column),
                    stride: n,
                });
            }
        }
    }

    fn rule(&self, u: u32) -> SlotRule {
        SlotRule::new(self.pass.precision, &self.pass.key, self.pass.n, u)
    }

    /// Writes the rows that a rule gives to this thread's scratch memory, and gives their first byte.
    fn rule_rows<'s>(&self, thread: usize, rows: Range<usize>, rule: impl Fn(usize) -> Cow<'s, [u8]>) -> *const u8 {
        let first = self.scratch.wrapping_add(self.plan.rule_offset(thread));
        for (place, row) in rows.enumerate() {
            let bytes = rule(row);
            // SAFETY: the plan has room for a tile's rows for each thread of a kind with a rule.
            unsafe { bytes.as_ptr().copy_to_nonoverlapping(first.add(place * self.plan.n), self.plan.n) };
        }
        first
    }

    /// # Safety
    /// `slot < count` and `row < n`, and no thread writes the row while it is used.
    unsafe fn row_bytes(&self, slot: u32, row: usize) -> &[u8] {
        // SAFETY: the caller's promise keeps it inside the slots.
        unsafe { std::slice::from_raw_parts(self.row(slot, row), self.plan.n) }
    }

    /// # Safety
    /// `slot < count` and `row < n`.
    unsafe fn row(&self, slot: u32, row: usize) -> *mut u8 {
        // SAFETY: the caller's promise keeps it inside the slots.
        unsafe { self.slots.add(slot as usize * self.plan.slot_bytes() + row * self.plan.n) }
    }

    /// # Safety
    /// `thread < threads`, and row `within` is inside a row block.
    unsafe fn x_panel(&self, thread: usize, within: usize) -> *mut u8 {
        let offset = self.plan.x_offset(thread) + within * self.plan.n * self.kernel.x_bytes;
        // SAFETY: the caller's promise keeps it inside the thread's scratch memory.
        unsafe { self.scratch.add(offset) }
    }
}

/// One product, or one block of columns of it.
struct SlotProduct<'a> {
    rule: &'a SlotRule,
    /// The slot that it fills.
    u: u32,
    /// The slot that is X.
    earlier: u32,
    /// The first column of the block.
    first: usize,
    /// The packed copy that is Y.
    copy: usize,
}
