//! BLAKE3's chunks of any numbers, eight at once. Its crate hashes chunks side by side only where their numbers follow
//! one another, which those of openings do not: one after another they take three times as long.

use std::arch::x86_64::*;

use super::{CHUNK_BYTES, CHUNK_ENDS, GROUP, NumberedChunk, START};
use crate::bytes::ChainingValue;

/// Bytes of a block, and of a row of eight words.
const BLOCK_BYTES: usize = 64;
const ROW_BYTES: usize = 32;
/// The words of each round: in their order, then each time in this order of those before.
const ROUNDS: [[usize; 16]; 7] = {
    const ORDER: [usize; 16] = [2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8];
    let mut rounds = [[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]; 7];
    let mut at = 16;
    while at < 7 * 16 {
        rounds[at / 16][at % 16] = rounds[at / 16 - 1][ORDER[at % 16]];
        at += 1;
    }
    rounds
};

/// The values of chunks; no chunk is a whole string.
#[target_feature(enable = "avx2")]
pub(super) fn values(chunks: &[NumberedChunk<'_>; GROUP]) -> [ChainingValue; GROUP] {
    let all = |word: u32| _mm256_set1_epi32(word.cast_signed());
    let [low, high] = [0, 32].map(|shift| {
        let words = chunks.map(|(_, number)| ((number >> shift) as u32).to_le_bytes());
        row(words.as_flattened(), 0)
    });
    let mut value = START.map(all);
    for first in (0..CHUNK_BYTES).step_by(BLOCK_BYTES) {
        let left = transposed(chunks.map(|(chunk, _)| row(chunk, first)));
        let right = transposed(chunks.map(|(chunk, _)| row(chunk, first + ROW_BYTES)));
        let block = std::array::from_fn(|word| if word < 8 { left[word] } else { right[word - 8] });
        let start = if first == 0 { CHUNK_ENDS[0] } else { 0 };
        let end = if first + BLOCK_BYTES == CHUNK_BYTES { CHUNK_ENDS[1] } else { 0 };
        let last = [low, high, all(BLOCK_BYTES as u32), all(u32::from(start | end))];
        let mut state = std::array::from_fn(|word| match word {
            0..8 => value[word],
            8..12 => all(START[word - 8]),
            _ => last[word - 12],
        });
        mix(&mut state, &block);
        value = std::array::from_fn(|word| _mm256_xor_si256(state[word], state[word + 8]));
    }
    transposed(value).map(|words| {
        let words = [
            _mm256_extract_epi64::<0>(words),
            _mm256_extract_epi64::<1>(words),
            _mm256_extract_epi64::<2>(words),
            _mm256_extract_epi64::<3>(words),
        ];
        let mut bytes = [0; 32];
        bytes.copy_from_slice(words.map(i64::to_le_bytes).as_flattened());
        ChainingValue(bytes)
    })
}

/// The seven rounds.
#[target_feature(enable = "avx2")]
fn mix(state: &mut [__m256i; 16], block: &[__m256i; 16]) {
    for words in &ROUNDS {
        let words = words.map(|word| block[word]);
        quarter(state, [0, 4, 8, 12], [words[0], words[1]]);
        quarter(state, [1, 5, 9, 13], [words[2], words[3]]);
        quarter(state, [2, 6, 10, 14], [words[4], words[5]]);
        quarter(state, [3, 7, 11, 15], [words[6], words[7]]);
        quarter(state, [0, 5, 10, 15], [words[8], words[9]]);
        quarter(state, [1, 6, 11, 12], [words[10], words[11]]);
        quarter(state, [2, 7, 8, 13], [words[12], words[13]]);
        quarter(state, [3, 4, 9, 14], [words[14], words[15]]);
    }
}

/// BLAKE3's G.
#[inline]
#[target_feature(enable = "avx2")]
fn quarter(state: &mut [__m256i; 16], [a, b, c, d]: [usize; 4], [x, y]: [__m256i; 2]) {
    state[a] = _mm256_add_epi32(_mm256_add_epi32(state[a], state[b]), x);
    state[d] = rotated::<16, 16>(_mm256_xor_si256(state[d], state[a]));
    state[c] = _mm256_add_epi32(state[c], state[d]);
    state[b] = rotated::<12, 20>(_mm256_xor_si256(state[b], state[c]));
    state[a] = _mm256_add_epi32(_mm256_add_epi32(state[a], state[b]), y);
    state[d] = rotated::<8, 24>(_mm256_xor_si256(state[d], state[a]));
    state[c] = _mm256_add_epi32(state[c], state[d]);
    state[b] = rotated::<7, 25>(_mm256_xor_si256(state[b], state[c]));
}

#[inline]
#[target_feature(enable = "avx2")]
fn rotated<const RIGHT: i32, const LEFT: i32>(words: __m256i) -> __m256i {
    _mm256_or_si256(_mm256_srli_epi32::<RIGHT>(words), _mm256_slli_epi32::<LEFT>(words))
}

/// Eight words from `first` on.
#[inline]
#[target_feature(enable = "avx2")]
fn row(bytes: &[u8], first: usize) -> __m256i {
    let mut words = [[0; 8]; 4];
    words.as_flattened_mut().copy_from_slice(&bytes[first..first + ROW_BYTES]);
    let [a, b, c, d] = words.map(i64::from_le_bytes);
    _mm256_setr_epi64x(a, b, c, d)
}

/// Columns from rows of eight words.
#[inline]
#[target_feature(enable = "avx2")]
fn transposed(rows: [__m256i; 8]) -> [__m256i; 8] {
    let pair = |row| (_mm256_unpacklo_epi32(rows[row], rows[row + 1]), _mm256_unpackhi_epi32(rows[row], rows[row + 1]));
    let four = |row| {
        let ((a, b), (c, d)) = (pair(row), pair(row + 2));
        let (first, second) = (_mm256_unpacklo_epi64(a, c), _mm256_unpackhi_epi64(a, c));
        [first, second, _mm256_unpacklo_epi64(b, d), _mm256_unpackhi_epi64(b, d)]
    };
    let (upper, lower) = (four(0), four(4));
    std::array::from_fn(|column| match column {
        0..4 => _mm256_permute2x128_si256::<0x20>(upper[column], lower[column]),
        _ => _mm256_permute2x128_si256::<0x31>(upper[column - 4], lower[column - 4]),
    })
}
