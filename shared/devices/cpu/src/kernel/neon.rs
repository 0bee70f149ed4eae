//! The kernel for NEON with the dot product: `sdot`, 16 multiply-accumulates an instruction, and for F16 `smlal`, 4 of
//! them.
//!
//! Formula: `sdot` multiplies signed by signed bytes, `smlal` signed words, so nothing is corrected.
//! Layout: panels are `[κ / 4][rows][4]` bytes: one vector of X holds the group of 4 rows, of which `sdot`
//! takes one by its index, and one vector of Y that of 4 columns. For F16 they are `[κ][rows]` words: one vector of X
//! holds 8 rows, of which `smlal` takes one by its index, and one of Y 8 columns.
//! Tile: 8 × 8, 16 sums of 4 lanes; a step loads 2 vectors of X and 2 of Y for 16 `sdot`, or 1 of each for 16 `smlal`.
//! Exact: |C| ≤ κ · P < 2³¹ fits a lane, and so does every partial sum; the mixing step wraps mod 2³².
//!
//! `sdot` is written as assembly, because its intrinsic is not in stable Rust yet.

use std::arch::aarch64::*;
use std::arch::asm;

use super::super::{mix, row_sums, walk};
use super::{F16, FP4, FP8, INT8, Kernel, KernelKind, PackX, PackY, ROW_GROUP, Tile, TileKernel, pack};

pub(super) const ROWS: usize = 8;
pub(super) const COLUMNS: usize = 8;
/// Lanes of a vector of sums.
const LANES: usize = 4;

const _: () = assert!(ROW_GROUP.is_multiple_of(COLUMNS) && ROW_GROUP.is_multiple_of(ROWS));

pub(super) const KERNEL: Kernel = Kernel {
    kind: KernelKind::NeonDot,
    products: [of_bytes::<INT8>(), OF_WORDS, of_bytes::<FP8>(), of_bytes::<FP4>()],
    walk: walk::portable,
    sum_rows: row_sums::neon_dot,
};

const fn of_bytes<const KIND: usize>() -> TileKernel {
    TileKernel::of_bytes(KIND, [ROWS, COLUMNS], pack_x::<KIND, 4>, pack_y::<KIND, 4>, tile)
}

/// F16 on any NEON.
pub(super) const OF_WORDS: TileKernel =
    TileKernel::of_bytes(F16, [ROWS, COLUMNS], pack_x_words, pack_y_words, tile_of_words).of_words();

pub(super) fn is_available() -> bool {
    std::arch::is_aarch64_feature_detected!("neon") && std::arch::is_aarch64_feature_detected!("dotprod")
}

/// Packs X in groups of `G` bytes.
///
/// # Safety
/// As [`PackX`] says of its fields.
pub(super) unsafe fn pack_x<const KIND: usize, const G: usize>(p: &PackX) {
    // SAFETY: the caller's promises, passed on.
    unsafe { pack::pack_x::<u8, KIND, G, false>(p) };
}

/// Packs Y in groups of `G` bytes.
///
/// # Safety
/// As [`PackY`] says of its fields.
pub(super) unsafe fn pack_y<const KIND: usize, const G: usize>(p: &PackY) {
    // SAFETY: the caller's promises, passed on.
    unsafe { pack::pack_y::<u8, KIND, G, COLUMNS, 0>(p) };
}

/// # Safety
/// As [`PackX`] says of its fields.
unsafe fn pack_x_words(p: &PackX) {
    // SAFETY: the caller's promises, passed on.
    unsafe { pack::pack_x::<i16, F16, 1, false>(p) };
}

/// # Safety
/// As [`PackY`] says of its fields.
unsafe fn pack_y_words(p: &PackY) {
    // SAFETY: the caller's promises, passed on.
    unsafe { pack::pack_y::<i16, F16, 1, COLUMNS, 0>(p) };
}

/// Adds to each lane of `sum` the dot product of 4 bytes of `columns` with word `WORD` of `rows`.
macro_rules! dot {
    ($sum:expr, $columns:expr, $rows:expr, $word:literal) => {
        asm!(
            concat!("sdot {sum:v}.4s, {columns:v}.16b, {rows:v}.4b[", $word, "]"),
            sum = inout(vreg) $sum,
            columns = in(vreg) $columns,
            rows = in(vreg) $rows,
            options(pure, nomem, nostack, preserves_flags),
        )
    };
}

/// # Safety
/// The processor has the features; as [`Tile`] says of its fields.
#[target_feature(enable = "neon,dotprod")]
unsafe fn tile(t: &Tile) {
    debug_assert_eq!(t.rows, ROWS, "row blocks are multiples of 32");
    let mut sums = [[vdupq_n_s32(0); 2]; ROWS];
    let (mut x, mut y) = (t.x.cast::<i8>(), t.y.cast::<i8>());
    for _ in 0..t.length / 4 {
        // SAFETY: both panels have 8 words for each group.
        let (rows, columns) = unsafe { ([vld1q_s8(x), vld1q_s8(x.add(16))], [vld1q_s8(y), vld1q_s8(y.add(16))]) };
        for half in 0..2 {
            for j in 0..2 {
                // SAFETY: `sdot` reads and writes the registers named only; the processor has it.
                unsafe {
                    dot!(sums[4 * half][j], columns[j], rows[half], "0");
                    dot!(sums[4 * half + 1][j], columns[j], rows[half], "1");
                    dot!(sums[4 * half + 2][j], columns[j], rows[half], "2");
                    dot!(sums[4 * half + 3][j], columns[j], rows[half], "3");
                }
            }
        }
        (x, y) = (x.wrapping_add(4 * ROWS), y.wrapping_add(4 * COLUMNS));
    }
    // SAFETY: the caller's promises, passed on.
    unsafe { finish(t, &sums) };
}

/// # Safety
/// The processor has the features; as [`Tile`] says of its fields.
#[target_feature(enable = "neon")]
unsafe fn tile_of_words(t: &Tile) {
    debug_assert_eq!(t.rows, ROWS, "row blocks are multiples of 32");
    let mut sums = [[vdupq_n_s32(0); 2]; ROWS];
    let (mut x, mut y) = (t.x.cast::<i16>(), t.y.cast::<i16>());
    /// One row: its operand, a lane of the vector of X, times the 8 columns.
    macro_rules! multiply {
        ($rows:expr, $columns:expr; $($row:literal)*) => {$(
            sums[$row][0] = vmlal_laneq_s16::<$row>(sums[$row][0], vget_low_s16($columns), $rows);
            sums[$row][1] = vmlal_high_laneq_s16::<$row>(sums[$row][1], $columns, $rows);
        )*};
    }
    for _ in 0..t.length {
        // SAFETY: both panels have 8 words for each operand.
        let (rows, columns) = unsafe { (vld1q_s16(x), vld1q_s16(y)) };
        multiply!(rows, columns; 0 1 2 3 4 5 6 7);
        (x, y) = (x.wrapping_add(ROWS), y.wrapping_add(COLUMNS));
    }
    // SAFETY: the caller's promises, passed on.
    unsafe { finish(t, &sums) };
}

/// Mixes the sums of a tile of 8 rows and writes its elements.
///
/// # Safety
/// As [`Tile`] says of its fields.
#[inline]
#[target_feature(enable = "neon")]
pub(super) unsafe fn finish(t: &Tile, sums: &[[int32x4_t; 2]; ROWS]) {
    for (i, row) in sums.iter().enumerate() {
        // SAFETY: there is a bias for each row, and the tile's rows of 8 bytes are writable.
        unsafe {
            let bias = t.row_bias.add(i).read().wrapping_add(t.first_column);
            vst1_u8(t.out.add(i * t.stride), mix_lanes(*row, bias));
        }
    }
}

/// [`mix::mix`] of 8 lanes, whose biases are `bias`, `bias + 1`, …
#[inline]
#[target_feature(enable = "neon")]
fn mix_lanes(sums: [int32x4_t; 2], bias: u32) -> uint8x8_t {
    let lanes = vreinterpretq_u32_u64(vcombine_u64(vcreate_u64(1 << 32), vcreate_u64((3 << 32) | 2)));
    let mut words = [vdup_n_u16(0); 2];
    for (j, word) in words.iter_mut().enumerate() {
        let bias = vaddq_u32(lanes, vdupq_n_u32(bias.wrapping_add((LANES * j) as u32)));
        let x = vaddq_u32(vreinterpretq_u32_s32(sums[j]), bias);
        let x = vmulq_n_u32(x, mix::FIRST_FACTOR);
        let x = veorq_u32(x, vshrq_n_u32::<16>(x));
        let x = vmulq_n_u32(x, mix::SECOND_FACTOR);
        *word = vmovn_u32(vshrq_n_u32::<24>(x));
    }
    vmovn_u16(vcombine_u16(words[0], words[1]))
}
