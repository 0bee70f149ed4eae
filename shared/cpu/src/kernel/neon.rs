//! The kernel for NEON with the dot product: `sdot`, 16 multiply-accumulates an instruction.
//!
//! Formula: `sdot` multiplies signed by signed bytes, so nothing is corrected.
//! Layout: panels are `[k / 4][rows][4]` bytes: one vector of X holds the group of 4 rows, of which `sdot`
//! takes one by its index, and one vector of Y that of 4 columns.
//! Tile: 8 × 8, 16 sums of 4 lanes; a step loads 2 vectors of X and 2 of Y for 16 `sdot`.
//! Exact: |C| ≤ 2²⁹ fits a lane, and so does every partial sum; the mixing step wraps mod 2³².
//!
//! `sdot` is written as assembly, because its intrinsic is not in stable Rust yet.

use std::arch::aarch64::*;
use std::arch::asm;

use super::super::{mix, walk};
use super::{Kernel, KernelKind, PackX, PackY, ROW_GROUP, Tile, pack};

const ROWS: usize = 8;
const COLUMNS: usize = 8;
/// Lanes of a vector of sums.
const LANES: usize = 4;

const _: () = assert!(ROW_GROUP.is_multiple_of(COLUMNS) && ROW_GROUP.is_multiple_of(ROWS));

pub(super) const KERNEL: Kernel = Kernel {
    kind: KernelKind::NeonDot,
    rows: ROWS,
    columns: COLUMNS,
    x_bytes: 1,
    pack_x,
    pack_y,
    tile,
    walk: walk::portable,
};

pub(super) fn is_available() -> bool {
    std::arch::is_aarch64_feature_detected!("neon") && std::arch::is_aarch64_feature_detected!("dotprod")
}

/// # Safety
/// As [`PackX`] says of its fields.
unsafe fn pack_x(p: &PackX) {
    // SAFETY: the caller's promises, passed on.
    unsafe { pack::pack_x_by_four::<false>(p) };
}

/// # Safety
/// As [`PackY`] says of its fields.
unsafe fn pack_y(p: &PackY) {
    // SAFETY: the caller's promises, passed on.
    unsafe { pack::pack_y_groups::<4, COLUMNS, 0>(p) };
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
    for (i, row) in sums.into_iter().enumerate() {
        // SAFETY: there is a bias for each row, and the tile's rows of 8 bytes are writable.
        unsafe {
            let bias = t.row_bias.add(i).read().wrapping_add(t.first_column);
            vst1_u8(t.out.add(i * t.stride), mix_lanes(row, bias));
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
