//! The self-test of a matrix unit on a device: its launches ([`assay_device::accumulator`] has the test).

use std::sync::Arc;
use std::time::Duration;

use super::driver::{Context, CudaEvent, DeviceMemory, PinnedMemory, Stream};
use super::error::Fault;
use super::family::KernelFamily;
use super::kernels::Kernels;
use super::product::Product;
use super::products::LoadedKernel;
use super::wait;
use assay_device::DeviceError;
use assay_device::accumulator::{LAUNCH_ROWS, RandomLaunch, SumFormat, SumsUnderTest, Unit, UnitFinding, examine};
use assay_work::{Precision, product};

/// Rows and columns of a launch's result.
const N: u32 = LAUNCH_ROWS as u32;
/// The number of the slot that launches compute.
const SLOT: u32 = 2;
/// Bytes of a row after which the test of draining drains, and how often: the first, one in the middle, the last.
const DRAINED_CHUNK_BYTES: usize = 256;
const DRAINED_CHUNKS: usize = 3;

/// The context, stream and limits of a launch.
#[derive(Clone, Copy)]
pub(super) struct LaunchContext<'a> {
    /// The context, which is bound.
    pub(super) context: &'a Arc<Context>,
    pub(super) stream: &'a Stream,
    /// The longest time of one launch.
    pub(super) stall_limit: Duration,
    pub(super) most_terms: Option<u32>,
}

struct SelfTestLaunches<'a> {
    bench: LaunchContext<'a>,
    kernels: &'a Kernels,
    loaded: &'a LoadedKernel,
    /// Operands of either side, and how they get there.
    operands: [(PinnedMemory, DeviceMemory); 2],
    /// The sums of the tiles of one launch.
    sums: DeviceMemory,
    /// Sums on their way out, or a slot.
    pinned_sums: PinnedMemory,
    done: CudaEvent,
}

/// Examines a family's unit with the kernel that computes products, over rows as long as its longest chunk.
///
/// # Errors
/// Any [`DeviceError`]; it says nothing about the unit.
pub(super) fn test(
    bench: LaunchContext<'_>,
    kernels: &Kernels,
    loaded: &LoadedKernel,
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
    let row_bytes = unit.row_bytes().max(DRAINED_CHUNKS * DRAINED_CHUNK_BYTES);
    let mut launches = SelfTestLaunches::new(bench, kernels, loaded, row_bytes)?;
    let mut finding = examine(&unit, &mut launches)?;
    if finding.is_exact() && unit.sums == SumFormat::Float32 {
        finding.failed = launches.drained(unit)?;
    }
    Ok(finding)
}

/// The unit's own sums of a product of [`LAUNCH_ROWS`] rows on each side, row-major, from operands at the given
/// addresses.
#[cfg(feature = "bench")]
pub(super) fn sums_of(
    bench: LaunchContext<'_>,
    kernels: &Kernels,
    loaded: &LoadedKernel,
    product: &Product,
) -> Result<Vec<f64>, DeviceError> {
    let launches = SelfTestLaunches::new(bench, kernels, loaded, product.depth as usize)?;
    let words = launches.sums_at((product.left, product.right), product.depth)?;
    let family = loaded.family;
    Ok(words.into_iter().map(|word| family.sums().value(word, family.format.kind_step())).collect())
}

/// How many tiles a launch has, all in one block: a persistent kernel's second tile begins where the first one left its
/// ring, its barriers and its sums.
fn tiles_at_once(family: &KernelFamily) -> u32 {
    if family.is_persistent { family.tiles(N) } else { 1 }
}

impl<'a> SelfTestLaunches<'a> {
    /// With memory for operands of `row_bytes` bytes a row.
    fn new(
        bench: LaunchContext<'a>,
        kernels: &'a Kernels,
        loaded: &'a LoadedKernel,
        row_bytes: usize,
    ) -> Result<Self, DeviceError> {
        let sums_bytes = 4 * loaded.family.tile_elements() * u64::from(tiles_at_once(loaded.family));
        let operand = || {
            let pinned = PinnedMemory::new(bench.context, LAUNCH_ROWS * row_bytes)?;
            Ok::<_, Fault>((pinned, DeviceMemory::new(bench.context, (LAUNCH_ROWS * row_bytes) as u64)?))
        };
        Ok(Self {
            bench,
            kernels,
            loaded,
            operands: [operand()?, operand()?],
            sums: DeviceMemory::new(bench.context, sums_bytes)?,
            pinned_sums: PinnedMemory::new(bench.context, sums_bytes as usize)?,
            done: CudaEvent::new(bench.context)?,
        })
    }

    /// The tiles of one launch, whose sums are in `pinned_sums` then.
    fn tiles(&self, operands: (u64, u64), depth: u32, first: u32) -> Result<(), DeviceError> {
        let mut product = self.product(operands, tiles_at_once(self.loaded.family));
        (product.slot, product.raw) = (0, 1);
        (product.depth, product.chunk, product.first_tile) = (depth, depth, first);
        // SAFETY: operands have `depth` bytes in each of their rows, sums are as large as `new` took them, and all live until
        // the wait has ended, or the context is lost; a raw product touches no slot.
        unsafe { self.kernels.multiply_in(self.bench.stream, self.loaded, product, 1) }?;
        self.sums.copy_out(self.bench.stream, 0, self.pinned_sums.bytes(), &self.pinned_sums)?;
        self.wait()
    }

    /// A product of operands at these addresses in `tiles` tiles.
    fn product(&self, operands: (u64, u64), tiles: u32) -> Product {
        let mut product = Product::of_slots(0, N, (0, 0), SLOT, tiles);
        ((product.left, product.right), product.sums) = (operands, self.sums.address());
        product
    }

    /// Where the operands are that were copied in.
    fn copied_in(&self) -> (u64, u64) {
        let [(_, left), (_, right)] = &self.operands;
        (left.address(), right.address())
    }

    /// Waits for the enqueued work.
    fn wait(&self) -> Result<(), DeviceError> {
        self.done.record(self.bench.stream)?;
        let doing = || format!("testing the unit of {}", self.loaded.family.name());
        let done = || self.done.is_done(doing);
        wait::until(self.bench.context, self.bench.stall_limit, None, doing, done)
    }

    fn copy_in(&mut self, left: &[u8], right: &[u8]) -> Result<(), DeviceError> {
        for ((pinned, memory), codes) in self.operands.iter_mut().zip([left, right]) {
            pinned.as_mut_slice()[..codes.len()].copy_from_slice(codes);
            memory.copy_in(self.bench.stream, pinned, codes.len())?;
        }
        Ok(())
    }

    /// Multiplies rows whose sums are drained on the way, through mixing: only the largest matrices of a kind of work
    /// have them. Gives the difference from integer arithmetic, if the tile has one.
    fn drained(&mut self, unit: Unit) -> Result<Option<String>, DeviceError> {
        let family = self.loaded.family;
        let row_bytes = DRAINED_CHUNKS * DRAINED_CHUNK_BYTES;
        let unit = Unit { terms: (row_bytes * 8 / family.format.bits()) as u32, ..unit };
        let operands = RandomLaunch::new(&unit);
        self.copy_in(&operands.left, &operands.right)?;
        let slot = DeviceMemory::new(self.bench.context, u64::from(N * N))?;
        let mut product = self.product(self.copied_in(), 1);
        (product.slot, product.depth) = (slot.address(), row_bytes as u32);
        product.chunk = DRAINED_CHUNK_BYTES as u32;
        // SAFETY: as for `tiles`; the slot holds an N-by-N matrix, and lives as long.
        unsafe { self.kernels.multiply_in(self.bench.stream, self.loaded, product, 1) }?;
        let tile_rows = (family.tile_rows * N) as usize;
        slot.copy_out(self.bench.stream, 0, tile_rows, &self.pinned_sums)?;
        self.wait()?;
        let (rows, columns) = (0..family.tile_rows, 0..family.tile_columns);
        let wrong = rows.flat_map(|row| columns.clone().map(move |column| (row, column))).find(|&(row, column)| {
            let at = row * N + column;
            let byte = product::mix(operands.sum(row as usize, column as usize), at, SLOT) as u8;
            self.pinned_sums.as_slice()[at as usize] != byte
        });
        Ok(wrong.map(|(row, column)| format!("drained sums are wrong, first at row {row}, column {column}")))
    }

    /// The sums of operands of `depth` bytes a row, row-major.
    fn sums_at(&self, operands: (u64, u64), depth: u32) -> Result<Vec<u32>, DeviceError> {
        let family = self.loaded.family;
        let (rows, columns) = (family.tile_rows as usize, family.tile_columns as usize);
        let mut sums = vec![0; LAUNCH_ROWS * LAUNCH_ROWS];
        let at_once = tiles_at_once(family);
        let tile_words = family.tile_elements() as usize;
        for number in 0..family.tiles(N) {
            let within = number % at_once;
            if within == 0 {
                self.tiles(operands, depth, number)?;
            }
            // Tiles are numbered down each column of tiles (kernels/cuda/tiles.cuh): there is one band alone.
            let tiles_down = LAUNCH_ROWS / rows;
            let (row, column) = (number as usize % tiles_down * rows, number as usize / tiles_down * columns);
            let words = &self.pinned_sums.as_slice()[4 * tile_words * within as usize..][..4 * tile_words];
            for (r, words) in words.chunks_exact(4 * columns).enumerate() {
                let to = &mut sums[(row + r) * LAUNCH_ROWS + column..][..columns];
                for (sum, word) in to.iter_mut().zip(words.as_chunks::<4>().0) {
                    *sum = u32::from_le_bytes(*word);
                }
            }
        }
        Ok(sums)
    }
}

impl SumsUnderTest for SelfTestLaunches<'_> {
    fn sums(&mut self, left: &[u8], right: &[u8]) -> Result<Vec<u32>, DeviceError> {
        self.copy_in(left, right)?;
        self.sums_at(self.copied_in(), (left.len() / LAUNCH_ROWS) as u32)
    }
}
