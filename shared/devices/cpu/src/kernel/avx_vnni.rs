//! The kernel for AVX-VNNI: on 256 bits, `vpdpbusd`, 32 multiply-accumulates an instruction, and for F16 `vpdpwssd`,
//! 16 of them.
//!
//! Formula: as for AVX-512, bytes of Y are stored as `y + 128`, and `-128 · Σ x` is the row's correction.
//! Layout: panels are `[κ / 4][rows][4]` bytes or `[κ / 2][rows][2]` words, so that a lane takes one 32-bit word in one
//! step.
//! Tile: 6 × 16, 12 sums of 8 lanes, 2 vectors of Y and one broadcast word of X: 15 of the 16 registers.
//! The last tile of a row block has 4 or 2 rows.
//! Exact: sums wrap mod 2³² (neither instruction saturates without its `s`), and so does the mixing step.

use std::arch::asm;
use std::arch::x86_64::*;

use super::super::{row_sums, walk};
use super::{FP4, FP8, INT8, Kernel, KernelKind, PackX, PackY, ROW_GROUP, Tile, TileKernel, pack, x86};
use x86::by_rows;

const ROWS: usize = 6;
const COLUMNS: usize = 2 * x86::LANES;

const _: () = assert!(ROW_GROUP.is_multiple_of(COLUMNS) && 2 * ROWS + 2 < 16);

pub(super) const KERNEL: Kernel = Kernel {
    kind: KernelKind::AvxVnni,
    products: [of_bytes::<INT8>(), OF_WORDS, of_bytes::<FP8>(), of_bytes::<FP4>()],
    walk: walk::avx2,
    sum_rows: row_sums::avx_vnni,
};

const fn of_bytes<const KIND: usize>() -> TileKernel {
    TileKernel::of_bytes(KIND, [ROWS, COLUMNS], pack_x::<KIND>, pack_y::<KIND>, tile::<false>)
}

const OF_WORDS: TileKernel = x86::of_words::<COLUMNS>(ROWS, tile::<true>);

pub(super) fn is_available() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("avxvnni")
}

/// # Safety
/// The processor has the features; as [`PackX`] says of its fields.
#[target_feature(enable = "avx2")]
unsafe fn pack_x<const KIND: usize>(p: &PackX) {
    // SAFETY: the caller's promises, passed on.
    unsafe { pack::pack_x::<u8, KIND, 4, true>(p) };
}

/// # Safety
/// The processor has the features; as [`PackY`] says of its fields.
#[target_feature(enable = "avx2")]
unsafe fn pack_y<const KIND: usize>(p: &PackY) {
    // SAFETY: the caller's promises, passed on.
    unsafe { pack::pack_y::<u8, KIND, 4, COLUMNS, 0x80>(p) };
}

/// # Safety
/// The processor has the features; as [`Tile`] says of its fields.
unsafe fn tile<const WORDS: bool>(t: &Tile) {
    // SAFETY: the caller's promises, passed on.
    unsafe { by_rows!(t, tile_of, WORDS, [ROWS, 4, 2]) }
}

/// `vpdpwssd` as assembly: the compiler makes `vpmaddwd` and `vpaddd` of its intrinsic in places.
#[inline]
#[target_feature(enable = "avx2,avxvnni")]
fn dpwssd(mut sum: __m256i, a: __m256i, b: __m256i) -> __m256i {
    // SAFETY: only the registers named are read and written, and the processor has the instruction.
    unsafe {
        asm!("{{vex}} vpdpwssd {sum}, {a}, {b}", sum = inout(ymm_reg) sum, a = in(ymm_reg) a, b = in(ymm_reg) b,
            options(pure, nomem, nostack, preserves_flags));
    }
    sum
}

/// # Safety
/// As [`tile`]; `t.rows` is `R`.
#[target_feature(enable = "avx2,avxvnni")]
unsafe fn tile_of<const R: usize, const WORDS: bool>(t: &Tile) {
    let mut sums = [[_mm256_setzero_si256(); 2]; R];
    let (mut x, mut y) = (t.x.cast::<i32>(), t.y.cast::<i32>());
    for _ in 0..t.length / if WORDS { 2 } else { 4 } {
        // SAFETY: the panel of Y has 16 words for each group, and is aligned to 64.
        let columns = unsafe { [_mm256_load_si256(y.cast()), _mm256_load_si256(y.add(x86::LANES).cast())] };
        for (i, row) in sums.iter_mut().enumerate() {
            // SAFETY: the panel of X has R words for each group.
            let word = _mm256_set1_epi32(unsafe { x.add(i).read() });
            for (sum, column) in row.iter_mut().zip(columns) {
                *sum = if WORDS { dpwssd(*sum, column, word) } else { _mm256_dpbusd_avx_epi32(*sum, column, word) };
            }
        }
        (x, y) = (x.wrapping_add(R), y.wrapping_add(COLUMNS));
    }
    // SAFETY: the caller's promises, passed on.
    unsafe { x86::finish(t, sums) };
}
