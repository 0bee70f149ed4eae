//! The self-test of a matrix unit on a device: its launches ([`assay_device::accumulator`] has the test).

use std::sync::Arc;
use std::time::Duration;

use super::driver::{Context, CudaEvent, DeviceMemory, PinnedMemory, Stream};
use super::kernels::Kernels;
use super::product::Product;
use super::products::Loaded;
use super::wait;
use assay_device::DeviceError;
use assay_device::accumulator::{LAUNCH_ROWS, SumsUnderTest, Unit, UnitFinding, examine};
use assay_work::Precision;

/// Rows and columns of a launch's result.
const N: u32 = LAUNCH_ROWS as u32;

/// What a launch runs on.
#[derive(Clone, Copy)]
pub(super) struct Bench<'a> {
    /// The context, which is bound.
    pub(super) context: &'a Arc<Context>,
    /// Where launches are enqueued.
    pub(super) stream: &'a Stream,
    /// For how long one may take.
    pub(super) stall_limit: Duration,
    /// The most operands of a row.
    pub(super) most_terms: Option<u32>,
}

struct Launches<'a> {
    bench: Bench<'a>,
    kernels: &'a Kernels,
    loaded: &'a Loaded,
    /// Operands of either side, and how they get there.
    operands: [(PinnedMemory, DeviceMemory); 2],
    /// The sums of one tile.
    sums: DeviceMemory,
    pinned_sums: PinnedMemory,
    done: CudaEvent,
}

/// Examines a family's unit with the kernel that computes products, over rows as long as its longest chunk.
///
/// # Errors
/// Any [`DeviceError`], which says nothing about the unit.
pub(super) fn test(
    bench: Bench<'_>,
    kernels: &Kernels,
    loaded: &Loaded,
    precision: Precision,
) -> Result<UnitFinding, DeviceError> {
    let family = loaded.family;
    let unit = Unit {
        name: family.name().to_owned(),
        precision,
        format: family.format,
        sums: family.sums(),
        terms: family.chunk_terms(precision).min(bench.most_terms.unwrap_or(u32::MAX)),
    };
    let operand_bytes = LAUNCH_ROWS * unit.row_bytes();
    let sums_bytes = 4 * family.tile_elements();
    let operand = || {
        let pinned = PinnedMemory::new(bench.context, operand_bytes)?;
        Ok::<_, super::error::Fault>((pinned, DeviceMemory::new(bench.context, operand_bytes as u64)?))
    };
    let mut launches = Launches {
        bench,
        kernels,
        loaded,
        operands: [operand()?, operand()?],
        sums: DeviceMemory::new(bench.context, sums_bytes)?,
        pinned_sums: PinnedMemory::new(bench.context, sums_bytes as usize)?,
        done: CudaEvent::new(bench.context)?,
    };
    examine(&unit, &mut launches)
}

impl Launches<'_> {
    /// One tile, whose sums are in `pinned_sums` then.
    fn tile(&self, depth: u32, number: u32) -> Result<(), DeviceError> {
        let [(_, left), (_, right)] = &self.operands;
        let mut product = Product::of_slots(0, N, (0, 0), 2, 1);
        (product.left, product.right, product.slot) = (left.address(), right.address(), 0);
        (product.sums, product.raw) = (self.sums.address(), 1);
        (product.depth, product.chunk, product.first_tile) = (depth, depth, number);
        let stream = self.bench.stream;
        // SAFETY: operands and sums are as large as `test` took them, and live until the wait below has ended, or the
        // context is lost; a raw product touches no slot.
        unsafe { self.kernels.multiply(stream, self.loaded, product) }?;
        self.sums.copy_out(stream, 0, self.pinned_sums.bytes(), &self.pinned_sums)?;
        self.done.record(stream)?;
        let doing = || format!("testing the unit of {}", self.loaded.family.name());
        let done = || self.done.is_done(doing);
        wait::until(self.bench.context, self.bench.stall_limit, None, doing, done)
    }
}

impl SumsUnderTest for Launches<'_> {
    fn sums(&mut self, left: &[u8], right: &[u8]) -> Result<Vec<u32>, DeviceError> {
        for ((pinned, memory), codes) in self.operands.iter_mut().zip([left, right]) {
            pinned.as_mut_slice().copy_from_slice(codes);
            memory.copy_in(self.bench.stream, pinned, pinned.bytes())?;
        }
        let family = self.loaded.family;
        let (rows, columns) = (family.tile_rows as usize, family.tile_columns as usize);
        let depth = (left.len() / LAUNCH_ROWS) as u32;
        let mut sums = vec![0; LAUNCH_ROWS * LAUNCH_ROWS];
        for number in 0..family.tiles(N) {
            self.tile(depth, number)?;
            // Tiles are numbered down each column of tiles (kernels/cuda/tiles.cuh): there is one band alone.
            let tiles_down = LAUNCH_ROWS / rows;
            let (row, column) = (number as usize % tiles_down * rows, number as usize / tiles_down * columns);
            let words = self.pinned_sums.as_slice().chunks_exact(4 * columns);
            for (r, words) in words.enumerate() {
                let to = &mut sums[(row + r) * LAUNCH_ROWS + column..][..columns];
                for (sum, word) in to.iter_mut().zip(words.as_chunks::<4>().0) {
                    *sum = u32::from_le_bytes(*word);
                }
            }
        }
        Ok(sums)
    }
}
