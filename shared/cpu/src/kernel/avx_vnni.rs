//! The kernel for AVX-VNNI: `vpdpbusd` on 256 bits, 32 multiply-accumulates an instruction.
//!
//! Formula: as for AVX-512, Y is stored as `y + 128`, and `-128 · Σ x` is the row's correction.
//! Layout: panels are `[k / 4][rows][4]` bytes, so that one 32-bit word is what one lane takes in one step.
//! Tile: 6 × 16, 12 sums of 8 lanes, 2 vectors of Y and one broadcast word of X: 15 of the 16 registers.
//! The last tile of a row block has 4 or 2 rows.
//! Exact: sums wrap mod 2³² (`vpdpbusd` without `s` does not saturate), and so does the mixing step.

use std::arch::x86_64::*;

use super::super::walk;
use super::{Kernel, KernelKind, PackX, PackY, ROW_GROUP, Tile, pack, x86};

const ROWS: usize = 6;
const COLUMNS: usize = 2 * x86::LANES;

const _: () = assert!(ROW_GROUP.is_multiple_of(COLUMNS) && 2 * ROWS + 2 < 16);

pub(super) const KERNEL: Kernel = Kernel {
    kind: KernelKind::AvxVnni,
    rows: ROWS,
    columns: COLUMNS,
    x_bytes: 1,
    pack_x,
    pack_y,
    tile,
    walk: walk::avx2,
};

pub(super) fn is_available() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("avxvnni")
}

/// # Safety
/// The processor has the features; as [`PackX`] says of its fields.
#[target_feature(enable = "avx2")]
unsafe fn pack_x(p: &PackX) {
    // SAFETY: the caller's promises, passed on.
    unsafe { pack::pack_x_by_four::<true>(p) };
}

/// # Safety
/// The processor has the features; as [`PackY`] says of its fields.
#[target_feature(enable = "avx2")]
unsafe fn pack_y(p: &PackY) {
    // SAFETY: the caller's promises, passed on.
    unsafe { pack::pack_y_groups::<4, COLUMNS, 0x80>(p) };
}

/// # Safety
/// The processor has the features; as [`Tile`] says of its fields.
unsafe fn tile(t: &Tile) {
    // SAFETY: the caller's promises, passed on.
    unsafe {
        match t.rows {
            ROWS => tile_of::<ROWS>(t),
            4 => tile_of::<4>(t),
            2 => tile_of::<2>(t),
            rows => unreachable!("row blocks are multiples of {ROW_GROUP}, whose last tile cannot have {rows} rows"),
        }
    }
}

/// # Safety
/// As [`tile`]; `t.rows` is `R`.
#[target_feature(enable = "avx2,avxvnni")]
unsafe fn tile_of<const R: usize>(t: &Tile) {
    let mut sums = [[_mm256_setzero_si256(); 2]; R];
    let (mut x, mut y) = (t.x.cast::<i32>(), t.y.cast::<i32>());
    for _ in 0..t.length / 4 {
        // SAFETY: the panel of Y has 16 words for each group, and is aligned to 64.
        let columns = unsafe { [_mm256_load_si256(y.cast()), _mm256_load_si256(y.add(x86::LANES).cast())] };
        for (i, row) in sums.iter_mut().enumerate() {
            // SAFETY: the panel of X has R words for each group.
            let word = _mm256_set1_epi32(unsafe { x.add(i).read() });
            for (sum, column) in row.iter_mut().zip(columns) {
                *sum = _mm256_dpbusd_avx_epi32(*sum, column, word);
            }
        }
        (x, y) = (x.wrapping_add(R), y.wrapping_add(COLUMNS));
    }
    // SAFETY: the caller's promises, passed on.
    unsafe { x86::finish(t, sums) };
}
