//! The cut of a pass into items of work, and its memory besides the slots.
//!
//! Y, the second operand, is packed whole where two packed copies fit the budget: then the product of slot u
//! writes its rows packed once more, as the Y of slot u + 1. Larger matrices are packed by blocks of columns,
//! one block at a time. An item is a row block times a part of the columns; large row blocks come first and
//! small ones last, so that threads end together. X is packed by each thread for the item at hand, as many
//! rows at once as its share of the budget holds.

use std::ops::Range;

use super::kernel::{ROW_GROUP, TileKernel};
use assay_work::Precision;

/// The most bytes of packed Y.
const PACKED_Y_BYTES: usize = 32 << 20;
/// The most bytes of packed X for one thread, where that leaves a tile.
const PACKED_X_BYTES: usize = 1536 << 10;
/// The most bytes of packed X for all threads, where that leaves each a tile.
const ALL_PACKED_X_BYTES: usize = 24 << 20;
/// The most bytes of scratch memory besides a twentieth of the slots, in whole MiB: the promise is 64 MiB, and some of
/// it is left for the threads themselves.
const SCRATCH_BYTES: usize = 60 << 20;
/// Slots are at least this many times the rest of the scratch memory.
const SLOTS_PER_SCRATCH: usize = 20;
/// The fewest slots of a pass.
const MIN_SLOTS: usize = 3;
/// Rows of a large row block, which every kernel's tiles divide.
pub(super) const MAX_ROWS: usize = 3 * ROW_GROUP;
/// Bytes of a leaf that one item fills.
const LEAF_PIECE_BYTES: usize = 256 << 10;
/// Bytes of a slot that one item hashes, where that leaves at most [`MAX_HASH_PIECES`] and at least 4.
const HASH_PIECE_BYTES: usize = 64 << 10;
const MAX_HASH_PIECES: usize = 1024;
/// The fewest items for each thread that keep threads busy to the end.
const ITEMS_PER_THREAD: usize = 4;

/// How passes of one size run on one device.
#[derive(Debug)]
pub(super) struct PassPlan {
    pub(super) n: usize,
    /// How many threads work: fewer than there are where the packed X of all is beyond the bound.
    pub(super) threads: usize,
    /// Columns that are packed at once: n, or a power of two below it.
    pub(super) block_columns: usize,
    /// Whether a product writes its slot packed as well.
    pub(super) fused: bool,
    /// The row blocks, in multiples of [`ROW_GROUP`] rows.
    pub(super) row_blocks: Vec<Range<usize>>,
    /// Into how many parts the columns of a block are split.
    pub(super) splits: usize,
    /// Bytes of a leaf that one item fills.
    pub(super) leaf_piece: usize,
    /// Bytes of a slot that one item hashes.
    pub(super) hash_piece: usize,
    /// Rows of X that a thread packs at once, in whole tiles.
    pub(super) x_rows: usize,
    /// Bytes of packed X for one thread, and of the rows that its rule gives.
    x_bytes: usize,
    /// Bytes of the rows that a rule of the kind of work gives a thread at once.
    rule_bytes: usize,
    /// Bytes of one copy of packed Y.
    y_bytes: usize,
}

impl PassPlan {
    /// The plan for a valid matrix size.
    pub(super) fn new(kernel: &TileKernel, precision: Precision, n: usize, threads: usize) -> Self {
        let row_bytes = n * kernel.y_bytes;
        let fused = 2 * n * row_bytes <= PACKED_Y_BYTES;
        let block_columns = if fused { n } else { n.min(PACKED_Y_BYTES / row_bytes) };
        let tile_bytes = kernel.rows * n * kernel.x_bytes;
        let most_x_bytes = SCRATCH_BYTES - PACKED_Y_BYTES + MIN_SLOTS * n * n / SLOTS_PER_SCRATCH;
        let rule_bytes = if precision.has_rule() { kernel.rows.max(kernel.columns) * n } else { 0 };
        let threads = threads.min(most_x_bytes / (tile_bytes + rule_bytes));
        let x_budget = PACKED_X_BYTES.min(ALL_PACKED_X_BYTES / threads);
        let x_tiles = (x_budget.saturating_sub(rule_bytes) / tile_bytes).clamp(1, MAX_ROWS / kernel.rows);
        let row_blocks = row_blocks(n / ROW_GROUP, threads);
        let splits = (ITEMS_PER_THREAD * threads).div_ceil(row_blocks.len());
        let splits = if threads == 1 { 1 } else { splits.min(block_columns / ROW_GROUP) };
        let slot = n * n;
        Self {
            n,
            threads,
            block_columns,
            fused,
            row_blocks,
            splits,
            leaf_piece: slot.min(LEAF_PIECE_BYTES),
            hash_piece: HASH_PIECE_BYTES.max(slot / MAX_HASH_PIECES).min(slot / 4),
            x_rows: x_tiles * kernel.rows,
            x_bytes: x_tiles * tile_bytes + rule_bytes,
            rule_bytes,
            y_bytes: block_columns * row_bytes,
        }
    }

    pub(super) const fn slot_bytes(&self) -> usize {
        self.n * self.n
    }

    /// Where packed copy `copy` (0 or 1) of Y starts in the scratch memory.
    pub(super) const fn y_offset(&self, copy: usize) -> usize {
        copy * self.y_bytes
    }

    /// Where the packed X of a thread starts in the scratch memory.
    pub(super) const fn x_offset(&self, thread: usize) -> usize {
        (if self.fused { 2 } else { 1 }) * self.y_bytes + thread * self.x_bytes
    }

    /// Where the rows that a rule gives a thread start in the scratch memory.
    pub(super) const fn rule_offset(&self, thread: usize) -> usize {
        self.x_offset(thread + 1) - self.rule_bytes
    }

    pub(super) const fn scratch_bytes(&self) -> u64 {
        self.x_offset(self.threads) as u64
    }

    /// The columns of part `split` of the block that starts at column `first`, in whole panels of Y.
    pub(super) fn columns(&self, first: usize, split: usize) -> Range<usize> {
        let groups = self.block_columns / ROW_GROUP;
        let edge = |split: usize| first + groups * split / self.splits * ROW_GROUP;
        edge(split)..edge(split + 1)
    }
}

/// Cuts `all` row groups into blocks of [`MAX_ROWS`]; for several threads the last blocks are single groups.
fn row_blocks(all: usize, threads: usize) -> Vec<Range<usize>> {
    let largest = MAX_ROWS / ROW_GROUP;
    let small = if threads == 1 { 0 } else { all.min(2 * threads * largest) };
    let mut blocks = Vec::new();
    let mut first = 0;
    while first < all {
        let groups = if first < all - small { largest.min(all - small - first) } else { 1 };
        blocks.push(first * ROW_GROUP..(first + groups) * ROW_GROUP);
        first += groups;
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::super::config::MAX_THREADS;
    use super::super::kernel::KernelKind;
    use super::*;

    fn plans() -> impl Iterator<Item = PassPlan> {
        let kernels = KernelKind::available().filter_map(KernelKind::kernel);
        let products =
            kernels.flat_map(|kernel| Precision::ALL.map(|precision| (kernel.product(precision), precision)));
        products.flat_map(|(product, precision)| {
            let sizes = (8..=15).map(|log| 1 << log);
            sizes.flat_map(move |n| {
                [1, 2, 3, 16, 128, MAX_THREADS].map(|threads| PassPlan::new(product, precision, n, threads))
            })
        })
    }

    #[test]
    fn items_cover_every_row_and_column_once() {
        for plan in plans() {
            let mut row = 0;
            for block in &plan.row_blocks {
                assert_eq!(block.start, row);
                assert!(block.len().is_multiple_of(ROW_GROUP) && block.len() <= MAX_ROWS);
                row = block.end;
            }
            assert_eq!(row, plan.n);
            for first in (0..plan.n).step_by(plan.block_columns) {
                let mut column = first;
                for split in 0..plan.splits {
                    let columns = plan.columns(first, split);
                    assert_eq!(columns.start, column);
                    column = columns.end;
                }
                assert_eq!(column, first + plan.block_columns);
            }
        }
    }

    /// The promise of bounded memory: slots, 5 % and 64 MiB; some of the latter is left for the threads themselves.
    #[test]
    fn scratch_stays_within_its_bound() {
        for plan in plans() {
            let smallest_pass = 3 * plan.slot_bytes() as u64;
            assert!(plan.scratch_bytes() <= smallest_pass / 20 + (60 << 20), "{plan:?}");
        }
    }

    /// Threads are left out only where their packed X is beyond the bound: tiles of 32 rows of two bytes an element, as AMX
    /// has for FP4, take twice as much as all others, and so do kinds with a rule.
    #[test]
    fn all_threads_work_but_on_the_largest_matrices() {
        for kernel in KernelKind::available().filter_map(KernelKind::kernel) {
            for precision in Precision::ALL {
                let product = kernel.product(precision);
                let threads = |n, threads| PassPlan::new(product, precision, n, threads).threads;
                let least = if precision.has_rule() || product.rows * product.x_bytes > 32 { 64 } else { 128 };
                assert!(threads(16_384, 128) >= least, "{} {precision}", kernel.kind);
                assert!(threads(32_768, MAX_THREADS) >= 64, "{} {precision}", kernel.kind);
            }
        }
    }
}
