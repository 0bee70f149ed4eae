//! The kernel for AVX2: `vpmaddwd` on words, 16 multiply-accumulates an instruction.
//!
//! Formula: `vpmaddwd` multiplies 16-bit words and adds neighbours; `vpmaddubsw`, which takes bytes,
//! saturates and cannot be used.
//! Layout: panels are `[κ / 2][rows][2]`; X is stored sign-extended, in 16-bit words, Y in bytes that the
//! tile extends as it loads them, and for F16 in words.
//! Tile: 6 × 16, 12 sums of 8 lanes, 2 vectors of Y and one broadcast pair of X. The last tile of a row
//! block has 4 or 2 rows.
//! Exact: a pair of products is at most 2 · 192², and sums wrap mod 2³², as does the mixing step.

use std::arch::x86_64::*;

use super::super::{row_sums, walk};
use super::{FP4, FP8, INT8, Kernel, KernelKind, PackY, ROW_GROUP, Tile, TileKernel, operands_per_byte, pack, x86};
use x86::by_rows;

const ROWS: usize = 6;
const COLUMNS: usize = 2 * x86::LANES;

const _: () = assert!(ROW_GROUP.is_multiple_of(COLUMNS) && 2 * ROWS + 2 < 16);

pub(super) const KERNEL: Kernel = Kernel {
    kind: KernelKind::Avx2,
    products: [of_bytes::<INT8>(), OF_WORDS, of_bytes::<FP8>(), of_bytes::<FP4>()],
    walk: walk::avx2,
    sum_rows: row_sums::avx2,
};

const fn of_bytes<const KIND: usize>() -> TileKernel {
    let of_bytes =
        TileKernel::of_bytes(KIND, [ROWS, COLUMNS], x86::pack_x_words::<KIND>, pack_y::<KIND>, tile::<false>);
    TileKernel { x_bytes: 2 * operands_per_byte(KIND), ..of_bytes }
}

const OF_WORDS: TileKernel = x86::of_words::<COLUMNS>(ROWS, tile::<true>);

pub(super) fn is_available() -> bool {
    is_x86_feature_detected!("avx2")
}

/// # Safety
/// The processor has the features; as [`PackY`] says of its fields.
#[target_feature(enable = "avx2")]
unsafe fn pack_y<const KIND: usize>(p: &PackY) {
    // SAFETY: the caller's promises, passed on.
    unsafe { pack::pack_y::<u8, KIND, 2, COLUMNS, 0>(p) };
}

/// # Safety
/// The processor has the features; as [`Tile`] says of its fields.
unsafe fn tile<const WORDS: bool>(t: &Tile) {
    // SAFETY: the caller's promises, passed on.
    unsafe { by_rows!(t, tile_of, WORDS, [ROWS, 4, 2]) }
}

/// # Safety
/// As [`tile`]; `t.rows` is `R`.
#[target_feature(enable = "avx2")]
unsafe fn tile_of<const R: usize, const WORDS: bool>(t: &Tile) {
    let mut sums = [[_mm256_setzero_si256(); 2]; R];
    let (mut x, mut y) = (t.x.cast::<i32>(), t.y);
    for _ in 0..t.length / 2 {
        // SAFETY: the panel of Y has 16 pairs of bytes or words for each group, and is aligned to 64.
        let columns = unsafe {
            if WORDS {
                [_mm256_load_si256(y.cast()), _mm256_load_si256(y.add(32).cast())]
            } else {
                [_mm_load_si128(y.cast()), _mm_load_si128(y.add(16).cast())].map(|bytes| _mm256_cvtepi8_epi16(bytes))
            }
        };
        for (i, row) in sums.iter_mut().enumerate() {
            // SAFETY: the panel of X has R pairs of words for each group.
            let pair = _mm256_set1_epi32(unsafe { x.add(i).read() });
            for (sum, column) in row.iter_mut().zip(columns) {
                *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(column, pair));
            }
        }
        (x, y) = (x.wrapping_add(R), y.wrapping_add(if WORDS { 4 } else { 2 } * COLUMNS));
    }
    // SAFETY: the caller's promises, passed on.
    unsafe { x86::finish(t, sums) };
}
