//! The kernel for NEON with the matrix multiplication of bytes: `smmla`, 32 multiply-accumulates an instruction. F16 is
//! computed as by the kernel for `sdot`.
//!
//! Formula: `smmla` multiplies 2 rows by 2 columns of 8 signed bytes, so nothing is corrected.
//! Layout: panels are `[κ / 8][rows][8]` bytes: one vector of X holds 2 rows, one of Y 2 columns.
//! Tile: 8 × 8, 4 × 4 blocks of 2 × 2 sums; a step loads 4 vectors of X and 4 of Y for 16 `smmla`.
//! Exact: |C| ≤ κ · P < 2³¹ fits a lane, and so does every partial sum; the mixing step wraps mod 2³².
//!
//! `smmla` is written as assembly, because its intrinsic is not in stable Rust yet.

use std::arch::aarch64::*;
use std::arch::asm;

use super::super::{row_sums, walk};
use super::neon::{self, COLUMNS, ROWS};
use super::{FP4, FP8, INT8, Kernel, KernelKind, Tile, TileKernel};

/// Operands of a row that one step takes.
const STEP: usize = 8;
/// Pairs of rows, and of columns.
const PAIRS: usize = 4;

const _: () = assert!(ROWS == 2 * PAIRS && COLUMNS == 2 * PAIRS);

pub(super) const KERNEL: Kernel = Kernel {
    kind: KernelKind::NeonI8mm,
    products: [of_bytes::<INT8>(), neon::OF_WORDS, of_bytes::<FP8>(), of_bytes::<FP4>()],
    walk: walk::portable,
    sum_rows: row_sums::neon_dot,
};

const fn of_bytes<const KIND: usize>() -> TileKernel {
    TileKernel::of_bytes(KIND, [ROWS, COLUMNS], neon::pack_x::<KIND, STEP>, neon::pack_y::<KIND, STEP>, tile)
}

pub(super) fn is_available() -> bool {
    neon::is_available() && std::arch::is_aarch64_feature_detected!("i8mm")
}

/// # Safety
/// The processor has the features; as [`Tile`] says of its fields.
#[target_feature(enable = "neon,i8mm")]
unsafe fn tile(t: &Tile) {
    debug_assert_eq!(t.rows, ROWS, "row blocks are multiples of 32");
    let mut blocks = [[vdupq_n_s32(0); PAIRS]; PAIRS];
    let (mut x, mut y) = (t.x.cast::<i8>(), t.y.cast::<i8>());
    for _ in 0..t.length / STEP {
        // SAFETY: both panels have 64 bytes for each step.
        let [rows, columns] = unsafe { [x, y].map(|p| [0, 16, 32, 48].map(|at| vld1q_s8(p.add(at)))) };
        for (blocks, rows) in blocks.iter_mut().zip(rows) {
            for (block, columns) in blocks.iter_mut().zip(columns) {
                // SAFETY: `smmla` reads and writes the registers named only; the processor has it.
                unsafe {
                    asm!(
                        "smmla {block:v}.4s, {rows:v}.16b, {columns:v}.16b",
                        block = inout(vreg) *block,
                        rows = in(vreg) rows,
                        columns = in(vreg) columns,
                        options(pure, nomem, nostack, preserves_flags),
                    );
                }
            }
        }
        (x, y) = (x.wrapping_add(STEP * ROWS), y.wrapping_add(STEP * COLUMNS));
    }
    let mut sums = [[vdupq_n_s32(0); 2]; ROWS];
    for (pair, blocks) in blocks.iter().enumerate() {
        for half in 0..2 {
            // A block is 2 sums of the first row, then 2 of the second.
            let [left, right] = [blocks[2 * half], blocks[2 * half + 1]].map(|block| vreinterpretq_u64_s32(block));
            sums[2 * pair][half] = vreinterpretq_s32_u64(vzip1q_u64(left, right));
            sums[2 * pair + 1][half] = vreinterpretq_s32_u64(vzip2q_u64(left, right));
        }
    }
    // SAFETY: the caller's promises, passed on.
    unsafe { neon::finish(t, &sums) };
}
