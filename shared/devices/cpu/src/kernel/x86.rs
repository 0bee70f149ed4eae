//! The common parts of the two 256-bit kernels: operands as words, and their epilogue.

use std::arch::x86_64::*;

use super::super::mix;
use super::{F16, PackX, PackY, Tile, TileKernel, pack};

/// Computes a tile by the function for its number of rows.
macro_rules! by_rows {
    ($tile:ident, $tile_of:ident, $words:ident, [$($rows:tt),+]) => {
        match $tile.rows {
            $($rows => $tile_of::<$rows, $words>($tile),)+
            rows => unreachable!("row blocks are multiples of {ROW_GROUP}, whose last tile cannot have {rows} rows"),
        }
    };
}
pub(super) use by_rows;

/// Lanes of a vector of sums.
pub(super) const LANES: usize = 8;

/// Packs X as pairs of words: `[κ / 2][rows][2]`.
///
/// # Safety
/// The processor has the features; as [`PackX`] says of its fields.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn pack_x_words<const KIND: usize>(p: &PackX) {
    // SAFETY: the caller's promises, passed on.
    unsafe { pack::pack_x::<i16, KIND, 2, false>(p) };
}

/// Packs Y as pairs of words: `[κ / 2][columns][2]`.
///
/// # Safety
/// The processor has the features; as [`PackY`] says of its fields.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn pack_y_words<const KIND: usize, const COLUMNS: usize>(p: &PackY) {
    // SAFETY: the caller's promises, passed on.
    unsafe { pack::pack_y::<i16, KIND, 2, COLUMNS, 0>(p) };
}

/// A kernel's part for F16, in words.
pub(super) const fn of_words<const COLUMNS: usize>(rows: usize, tile: unsafe fn(&Tile)) -> TileKernel {
    TileKernel::of_bytes(F16, [rows, COLUMNS], pack_x_words::<F16>, pack_y_words::<F16, COLUMNS>, tile).of_words()
}

/// Mixes the sums of a tile of R rows and 16 columns and writes its elements.
///
/// # Safety
/// As [`Tile`] says of its fields; `t.rows` is `R`.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn finish<const R: usize>(t: &Tile, sums: [[__m256i; 2]; R]) {
    let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    let first = _mm256_add_epi32(lanes, _mm256_set1_epi32(t.first_column as i32));
    for (i, row) in sums.into_iter().enumerate() {
        // SAFETY: there is a bias for each row.
        let bias = _mm256_add_epi32(first, _mm256_set1_epi32(unsafe { t.row_bias.add(i).read() } as i32));
        let low = mix_lanes(_mm256_add_epi32(row[0], bias));
        let high = _mm256_add_epi32(row[1], _mm256_add_epi32(bias, _mm256_set1_epi32(LANES as i32)));
        // SAFETY: the tile's rows of 16 bytes are writable.
        unsafe { _mm_storeu_si128(t.out.add(i * t.stride).cast(), narrow(low, mix_lanes(high))) };
    }
}

/// [`mix::mix`] of 8 lanes, each left in 32 bits.
#[inline]
#[target_feature(enable = "avx2")]
fn mix_lanes(x: __m256i) -> __m256i {
    let x = _mm256_mullo_epi32(x, _mm256_set1_epi32(mix::FIRST_FACTOR as i32));
    let x = _mm256_xor_si256(x, _mm256_srli_epi32::<16>(x));
    let x = _mm256_mullo_epi32(x, _mm256_set1_epi32(mix::SECOND_FACTOR as i32));
    _mm256_srli_epi32::<24>(x)
}

/// The low bytes of 16 lanes, in order; all lanes are below 256.
#[inline]
#[target_feature(enable = "avx2")]
fn narrow(low: __m256i, high: __m256i) -> __m128i {
    // Packing works within 128-bit halves: the 64-bit quarters come out as low 0, high 0, low 1, high 1.
    let words = _mm256_permute4x64_epi64::<0xd8>(_mm256_packus_epi32(low, high));
    _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256::<1>(words))
}
