//! The kernel for AVX-512 with VNNI: on 512 bits, `vpdpbusd`, 64 multiply-accumulates an instruction, and for F16
//! `vpdpwssd`, 32 of them.
//!
//! Formula: `vpdpbusd` multiplies unsigned by signed bytes, so that Y is stored as `y + 128` (its sign bit flipped) and
//! `Σ x·y = Σ x·(y + 128) - 128 · Σ x`; the last term is the row's correction. `vpdpwssd` multiplies signed words,
//! without correction.
//! Layout: panels are `[κ / 4][rows][4]` bytes, or `[κ / 2][rows][2]` words, so that a lane takes one 32-bit word in
//! one step. Of 64 bytes, those of F16 become two vectors of words; those of FP4 the operands of their low halves, then
//! those of their high halves.
//! Tile: 12 × 32, 24 sums of 16 lanes. A step loads 2 vectors of Y, broadcasts 12 words of X, and issues 24
//! multiplications: 14 loads for the 12 cycles that a core with two such units needs.
//! The last tile of a row block has 8 or 4 rows.
//! Exact: sums wrap mod 2³² (neither instruction saturates without its `s`), and so does the mixing step.

use std::arch::asm;
use std::arch::x86_64::*;

use super::super::{mix, row_sums, walk};
use super::{
    F16, FP4, FP8, INT8, Kernel, KernelKind, PackX, PackY, ROW_GROUP, Tile, TileKernel, operands_per_byte, x86::by_rows,
};

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
    products: [product::<INT8>(), F16_PRODUCT, product::<FP8>(), product::<FP4>()],
    walk: walk::avx512,
    sum_rows: row_sums::avx512,
};

pub(super) const F16_PRODUCT: TileKernel = product::<F16>();

const fn product<const KIND: usize>() -> TileKernel {
    TileKernel {
        rows: ROWS,
        columns: COLUMNS,
        operands: operands_per_byte(KIND),
        x_bytes: vectors(KIND),
        y_bytes: vectors(KIND),
        pack_x: pack_x::<KIND>,
        pack_y: pack_y::<KIND, FLIPPED>,
        tile: if KIND == F16 { tile::<true> } else { tile::<false> },
    }
}

/// Vectors of operands that a vector of bytes becomes.
const fn vectors(kind: usize) -> usize {
    if kind == F16 { 2 } else { operands_per_byte(kind) }
}

/// The stored form of Y's bytes: as they are, or as `y + 128`. Words are as they are.
pub(super) const PLAIN: bool = false;
/// As `y + 128`.
pub(super) const FLIPPED: bool = true;

pub(super) fn is_available() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vnni")
}

/// Magnitudes of FP8: of an operand's low 4 bits with bit 4 unset, and set.
const FP8_MAGNITUDES: [[i8; 16]; 2] = [
    [8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 20, 22, 24, 26, 28, 30],
    [32, 36, 40, 44, 48, 52, 56, 60, 64, 72, 80, 88, 96, 104, 112, 120],
];
/// The operands of FP4's codes.
const FP4_OPERANDS: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// The operands of 64 bytes; the second vector is 0 where [`vectors`] is 1.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn decode<const KIND: usize>(bytes: __m512i) -> [__m512i; 2] {
    let look_up = |table: [i8; 16], of: __m512i| {
        // SAFETY: 16 bytes are read.
        let table = unsafe { _mm_loadu_si128(table.as_ptr().cast()) };
        _mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), of)
    };
    let low_halves = _mm512_set1_epi8(15);
    match KIND {
        F16 => [_mm512_castsi512_si256(bytes), _mm512_extracti64x4_epi64::<1>(bytes)].map(|bytes| {
            let words = _mm512_cvtepi8_epi16(bytes);
            _mm512_add_epi16(words, _mm512_srai_epi16::<1>(words))
        }),
        FP8 => {
            let codes = _mm512_and_si512(bytes, low_halves);
            let large = _mm512_test_epi8_mask(bytes, _mm512_set1_epi8(16));
            let [small, magnitudes] = FP8_MAGNITUDES.map(|table| look_up(table, codes));
            let magnitudes = _mm512_mask_blend_epi8(large, small, magnitudes);
            let negative = _mm512_movepi8_mask(bytes);
            let zero = _mm512_setzero_si512();
            [_mm512_mask_sub_epi8(magnitudes, negative, zero, magnitudes), zero]
        }
        FP4 => [bytes, _mm512_srli_epi16::<4>(bytes)]
            .map(|codes| look_up(FP4_OPERANDS, _mm512_and_si512(codes, low_halves))),
        _ => [bytes, _mm512_setzero_si512()],
    }
}

/// # Safety
/// The processor has the features; as [`PackX`] says of its fields.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn pack_x<const KIND: usize>(p: &PackX) {
    let ones = _mm512_set1_epi8(1);
    let lanes: __mmask16 = (1 << p.rows) - 1;
    let mut sums = [_mm512_setzero_si512(); LANES];
    for first in (0..p.length).step_by(64) {
        let mut blocks = [[_mm512_setzero_si512(); LANES]; 2];
        for row in 0..p.rows {
            // SAFETY: row `row` has `length` bytes, and `first + 64 <= length`.
            let bytes = unsafe { _mm512_loadu_si512(p.source.add(row * p.stride + first).cast()) };
            for (block, operands) in blocks.iter_mut().zip(decode::<KIND>(bytes)).take(vectors(KIND)) {
                block[row] = operands;
                if KIND != F16 {
                    sums[row] = _mm512_dpbusd_epi32(sums[row], ones, operands);
                }
            }
        }
        let groups = first / 4 * vectors(KIND);
        for (half, block) in blocks.iter_mut().enumerate().take(vectors(KIND)) {
            transpose(block);
            for (i, words) in block.iter().enumerate() {
                // SAFETY: these groups of `rows` words lie in the panel; the mask writes no more.
                unsafe {
                    let group = p.panel.add((groups + half * LANES + i) * p.rows * 4);
                    _mm512_mask_storeu_epi32(group.cast(), lanes, *words);
                }
            }
        }
    }
    for (row, sum) in sums.into_iter().enumerate().take(p.rows) {
        let correction = _mm512_reduce_add_epi32(sum).wrapping_mul(-128) as u32;
        // SAFETY: there is a correction for each row.
        unsafe { p.corrections.add(row).write(correction) };
    }
}

/// Packs bytes with their sign bit flipped when `FLIP`.
///
/// # Safety
/// The processor has the features; as [`PackY`] says of its fields.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
pub(super) unsafe fn pack_y<const KIND: usize, const FLIP: bool>(p: &PackY) {
    let flip = _mm512_set1_epi8(if FLIP && KIND != F16 { -128 } else { 0 });
    for half in 0..VECTORS {
        for first in (0..p.length).step_by(64) {
            let mut blocks = [[_mm512_setzero_si512(); LANES]; 2];
            for i in 0..LANES {
                let row = half * LANES + i;
                // SAFETY: row `row < 32` has `length` bytes, and `first + 64 <= length`.
                let bytes = unsafe { _mm512_loadu_si512(p.source.add(row * p.stride + first).cast()) };
                for (block, operands) in blocks.iter_mut().zip(decode::<KIND>(bytes)).take(vectors(KIND)) {
                    block[i] = _mm512_xor_si512(operands, flip);
                }
            }
            let groups = first / 4 * vectors(KIND);
            for (part, block) in blocks.iter_mut().enumerate().take(vectors(KIND)) {
                transpose(block);
                for (i, words) in block.iter().enumerate() {
                    // SAFETY: these groups of 32 words lie in the panel, which is aligned to 64.
                    unsafe {
                        let group = p.panel.add((groups + part * LANES + i) * COLUMNS * 4 + half * 64);
                        _mm512_store_si512(group.cast(), *words);
                    }
                }
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
unsafe fn tile<const WORDS: bool>(t: &Tile) {
    // SAFETY: the caller's promises, passed on.
    unsafe { by_rows!(t, tile_of, WORDS, [ROWS, 8, 4]) }
}

/// `vpdpwssd` as assembly: the compiler makes `vpmaddwd` and `vpaddd` of its intrinsic in places.
#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
fn dpwssd(mut sum: __m512i, a: __m512i, b: __m512i) -> __m512i {
    // SAFETY: only the registers named are read and written, and the processor has the instruction.
    unsafe {
        asm!("vpdpwssd {sum}, {a}, {b}", sum = inout(zmm_reg) sum, a = in(zmm_reg) a, b = in(zmm_reg) b,
            options(pure, nomem, nostack, preserves_flags));
    }
    sum
}

/// One step: 4 elements of κ, 2 for `WORDS`.
///
/// # Safety
/// 32 words, aligned to 64 bytes, are readable at `y`, and R words at `x`.
#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
unsafe fn multiply<const R: usize, const WORDS: bool>(
    x: *const i32,
    y: *const i32,
    sums: &mut [[__m512i; VECTORS]; R],
) {
    let mut columns = [_mm512_setzero_si512(); VECTORS];
    for (j, column) in columns.iter_mut().enumerate() {
        // SAFETY: the caller's promise.
        *column = unsafe { _mm512_load_si512(y.add(LANES * j).cast()) };
    }
    for (i, row) in sums.iter_mut().enumerate() {
        // SAFETY: the caller's promise.
        let word = _mm512_set1_epi32(unsafe { x.add(i).read() });
        for (sum, column) in row.iter_mut().zip(columns) {
            *sum = if WORDS { dpwssd(*sum, column, word) } else { _mm512_dpbusd_epi32(*sum, column, word) };
        }
    }
}

/// # Safety
/// As [`tile`]; `t.rows` is `R`.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn tile_of<const R: usize, const WORDS: bool>(t: &Tile) {
    let mut sums = [[_mm512_setzero_si512(); VECTORS]; R];
    let (mut x, mut y, mut next_y) = (t.x.cast::<i32>(), t.y.cast::<i32>(), t.next_y);
    for _ in 0..t.length / (if WORDS { 2 } else { 4 } * STEPS_A_LINE) {
        _mm_prefetch::<_MM_HINT_T1>(next_y.cast());
        next_y = next_y.wrapping_add(64);
        for _ in 0..STEPS_A_LINE {
            // SAFETY: the panels have words for these steps, 32 of Y and R of X each; that of Y is aligned to 64.
            unsafe { multiply::<R, WORDS>(x, y, &mut sums) };
            (x, y) = (x.wrapping_add(R), y.wrapping_add(COLUMNS));
        }
    }
    // SAFETY: the caller's promises, passed on.
    unsafe { finish(t, &sums) };
}

/// Mixes the sums of a tile and writes its elements.
///
/// # Safety
/// As [`Tile`] says of its fields; there are sums for all rows.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn finish(t: &Tile, sums: &[[__m512i; VECTORS]]) {
    let lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    let first = _mm512_add_epi32(lanes, _mm512_set1_epi32(t.first_column as i32));
    for (i, row) in sums.iter().enumerate() {
        // SAFETY: there is a bias for each row.
        let bias = _mm512_add_epi32(first, _mm512_set1_epi32(unsafe { t.row_bias.add(i).read() } as i32));
        for (j, &sum) in row.iter().enumerate() {
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
