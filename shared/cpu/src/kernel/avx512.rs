//! The kernel for AVX-512 with VNNI: `vpdpbusd` on 512 bits, 64 multiply-accumulates an instruction.
//!
//! Formula: `vpdpbusd` multiplies unsigned by signed bytes, so that Y is stored as `y + 128` (its sign bit
//! flipped) and `Σ x·y = Σ x·(y + 128) - 128 · Σ x`; the last term is the row's correction.
//! Layout: panels are `[k / 4][rows][4]` bytes, so that one 32-bit word is what one lane takes in one step.
//! Tile: 12 × 32, 24 sums of 16 lanes. A step over 4 elements of k loads 2 vectors of Y, broadcasts 12 words
//! of X, and issues 24 `vpdpbusd`: 14 loads for the 12 cycles that a core with two such units needs.
//! The last tile of a row block has 8 or 4 rows.
//! Exact: sums wrap mod 2³² (`vpdpbusd` without `s` does not saturate), and so does the mixing step.

use std::arch::x86_64::*;

use super::super::{mix, walk};
use super::{Kernel, KernelKind, PackX, PackY, ROW_GROUP, Tile};

const ROWS: usize = 12;
const COLUMNS: usize = 32;
/// Lanes of a vector of sums.
const LANES: usize = 16;
/// Steps after which the tile asks for one more line of the next panel of Y: as its own panel has two lines
/// a step, the 8 tiles of a large row block ask for all of it.
const STEPS_A_LINE: usize = 4;
/// Vectors of sums in a row of a tile.
const VECTORS: usize = COLUMNS / LANES;

const _: () = assert!(ROW_GROUP.is_multiple_of(COLUMNS) && ROWS * VECTORS + VECTORS < 32);

pub(super) const KERNEL: Kernel = Kernel {
    kind: KernelKind::Avx512Vnni,
    rows: ROWS,
    columns: COLUMNS,
    x_bytes: 1,
    pack_x,
    pack_y,
    tile,
    walk: walk::avx512,
};

pub(super) fn is_available() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vnni")
}

/// # Safety
/// The processor has the features; as [`PackX`] says of its fields.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn pack_x(p: &PackX) {
    let ones = _mm512_set1_epi8(1);
    let lanes: __mmask16 = (1 << p.rows) - 1;
    let mut sums = [_mm512_setzero_si512(); LANES];
    for first in (0..p.length).step_by(64) {
        let mut block = [_mm512_setzero_si512(); LANES];
        for row in 0..p.rows {
            // SAFETY: row `row` has `length` bytes, and `first + 64 <= length`.
            block[row] = unsafe { _mm512_loadu_si512(p.source.add(row * p.stride + first).cast()) };
            sums[row] = _mm512_dpbusd_epi32(sums[row], ones, block[row]);
        }
        transpose(&mut block);
        for (i, words) in block.into_iter().enumerate() {
            // SAFETY: groups `first / 4 …` of `rows` words lie in the panel; the mask writes no more.
            unsafe { _mm512_mask_storeu_epi32(p.panel.add((first / 4 + i) * p.rows * 4).cast(), lanes, words) };
        }
    }
    for (row, sum) in sums.into_iter().enumerate().take(p.rows) {
        let correction = _mm512_reduce_add_epi32(sum).wrapping_mul(-128) as u32;
        // SAFETY: there is a correction for each row.
        unsafe { p.corrections.add(row).write(correction) };
    }
}

/// # Safety
/// The processor has the features; as [`PackY`] says of its fields.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn pack_y(p: &PackY) {
    let sign = _mm512_set1_epi8(-128);
    for half in 0..VECTORS {
        for first in (0..p.length).step_by(64) {
            let mut block = [_mm512_setzero_si512(); LANES];
            for (i, words) in block.iter_mut().enumerate() {
                let row = half * LANES + i;
                // SAFETY: row `row < 32` has `length` bytes, and `first + 64 <= length`.
                let bytes = unsafe { _mm512_loadu_si512(p.source.add(row * p.stride + first).cast()) };
                *words = _mm512_xor_si512(bytes, sign);
            }
            transpose(&mut block);
            for (i, words) in block.into_iter().enumerate() {
                // SAFETY: group `first / 4 + i` of 32 words lies in the panel, which is aligned to 64.
                unsafe { _mm512_store_si512(p.panel.add((first / 4 + i) * COLUMNS * 4 + half * 64).cast(), words) };
            }
        }
    }
}

/// Transposes 16 rows of 16 words.
#[inline]
#[target_feature(enable = "avx512f")]
fn transpose(rows: &mut [__m512i; 16]) {
    let mut pairs = [_mm512_setzero_si512(); 16];
    for i in 0..8 {
        pairs[2 * i] = _mm512_unpacklo_epi32(rows[2 * i], rows[2 * i + 1]);
        pairs[2 * i + 1] = _mm512_unpackhi_epi32(rows[2 * i], rows[2 * i + 1]);
    }
    let mut quads = [_mm512_setzero_si512(); 16];
    for i in 0..4 {
        quads[4 * i] = _mm512_unpacklo_epi64(pairs[4 * i], pairs[4 * i + 2]);
        quads[4 * i + 1] = _mm512_unpackhi_epi64(pairs[4 * i], pairs[4 * i + 2]);
        quads[4 * i + 2] = _mm512_unpacklo_epi64(pairs[4 * i + 1], pairs[4 * i + 3]);
        quads[4 * i + 3] = _mm512_unpackhi_epi64(pairs[4 * i + 1], pairs[4 * i + 3]);
    }
    for i in 0..4 {
        // Lane l of quads[i], [4 + i], [8 + i], [12 + i] holds words of column 4 l + i.
        let low = _mm512_shuffle_i32x4::<0x88>(quads[i], quads[4 + i]);
        let low_odd = _mm512_shuffle_i32x4::<0xdd>(quads[i], quads[4 + i]);
        let high = _mm512_shuffle_i32x4::<0x88>(quads[8 + i], quads[12 + i]);
        let high_odd = _mm512_shuffle_i32x4::<0xdd>(quads[8 + i], quads[12 + i]);
        rows[i] = _mm512_shuffle_i32x4::<0x88>(low, high);
        rows[4 + i] = _mm512_shuffle_i32x4::<0x88>(low_odd, high_odd);
        rows[8 + i] = _mm512_shuffle_i32x4::<0xdd>(low, high);
        rows[12 + i] = _mm512_shuffle_i32x4::<0xdd>(low_odd, high_odd);
    }
}

/// # Safety
/// The processor has the features; as [`Tile`] says of its fields.
unsafe fn tile(t: &Tile) {
    // SAFETY: the caller's promises, passed on.
    unsafe {
        match t.rows {
            ROWS => tile_of::<ROWS>(t),
            8 => tile_of::<8>(t),
            4 => tile_of::<4>(t),
            rows => unreachable!("row blocks are multiples of {ROW_GROUP}, whose last tile cannot have {rows} rows"),
        }
    }
}

/// One step: 4 elements of k.
///
/// # Safety
/// 32 words, aligned to 64 bytes, are readable at `y`, and R words at `x`.
#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
unsafe fn multiply<const R: usize>(x: *const i32, y: *const i32, sums: &mut [[__m512i; VECTORS]; R]) {
    let mut columns = [_mm512_setzero_si512(); VECTORS];
    for (j, column) in columns.iter_mut().enumerate() {
        // SAFETY: the caller's promise.
        *column = unsafe { _mm512_load_si512(y.add(LANES * j).cast()) };
    }
    for (i, row) in sums.iter_mut().enumerate() {
        // SAFETY: the caller's promise.
        let word = _mm512_set1_epi32(unsafe { x.add(i).read() });
        for (sum, column) in row.iter_mut().zip(columns) {
            *sum = _mm512_dpbusd_epi32(*sum, column, word);
        }
    }
}

/// # Safety
/// As [`tile`]; `t.rows` is `R`.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn tile_of<const R: usize>(t: &Tile) {
    let mut sums = [[_mm512_setzero_si512(); VECTORS]; R];
    let (mut x, mut y, mut next_y) = (t.x.cast::<i32>(), t.y.cast::<i32>(), t.next_y);
    for _ in 0..t.length / (4 * STEPS_A_LINE) {
        _mm_prefetch::<_MM_HINT_T1>(next_y.cast());
        next_y = next_y.wrapping_add(64);
        for _ in 0..STEPS_A_LINE {
            // SAFETY: the panels have words for `length / 4` steps, 32 of Y and R of X each; that of Y is aligned to 64.
            unsafe { multiply::<R>(x, y, &mut sums) };
            (x, y) = (x.wrapping_add(R), y.wrapping_add(COLUMNS));
        }
    }
    let lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    let first = _mm512_add_epi32(lanes, _mm512_set1_epi32(t.first_column as i32));
    for (i, row) in sums.into_iter().enumerate() {
        // SAFETY: there is a bias for each row.
        let bias = _mm512_add_epi32(first, _mm512_set1_epi32(unsafe { t.row_bias.add(i).read() } as i32));
        for (j, sum) in row.into_iter().enumerate() {
            let bias = _mm512_add_epi32(bias, _mm512_set1_epi32((LANES * j) as i32));
            let elements = mix_lanes(_mm512_add_epi32(sum, bias));
            // SAFETY: the tile's rows of 32 bytes are writable.
            unsafe { _mm_storeu_si128(t.out.add(i * t.stride + LANES * j).cast(), elements) };
        }
    }
}

/// [`mix::mix`] of 16 lanes.
#[inline]
#[target_feature(enable = "avx512f")]
fn mix_lanes(x: __m512i) -> __m128i {
    let x = _mm512_mullo_epi32(x, _mm512_set1_epi32(mix::FIRST_FACTOR as i32));
    let x = _mm512_xor_si512(x, _mm512_srli_epi32::<16>(x));
    let x = _mm512_mullo_epi32(x, _mm512_set1_epi32(mix::SECOND_FACTOR as i32));
    _mm512_cvtepi32_epi8(_mm512_srli_epi32::<24>(x))
}
