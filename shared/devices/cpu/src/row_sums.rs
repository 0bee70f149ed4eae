//! Sums of rows under the weights of a sweep (WORK.md, Sweep), one function an instruction set.
//!
//! Formula: `y = Σ_k s[k] · z[k]`, bytes as two's complement. `vpdpbusd` multiplies unsigned by signed bytes, so that it takes
//! `s + 128` (its sign bit flipped), and `128 · Σ z`, the same for all rows, is taken off.
//! Order: one row after another, four vectors at a time with a vector of sums each, so that memory is read in order and
//! no multiplication waits for the one before. Weights that the first-level cache does not hold beside the rows are
//! loaded once for four rows.
//! Exact: |y| ≤ 2²⁹, and with flipped signs at most 2³⁰, so that no partial sum wraps. A pair of words adds up to 2¹⁵.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// Writes the sums, little-endian, of rows that are as long as the weights: a multiple of 256 bytes. Rows come in groups
/// of [`ROWS_AT_ONCE`]. The processor must have the function's features.
pub(super) type SumRows = unsafe fn(rows: &[u8], weights: &[u8], sums: &mut [[u8; 4]]);

/// Rows come in multiples of this many.
pub(super) const ROWS_AT_ONCE: usize = 4;
/// The most weights that stay in the first-level cache while rows go through it.
#[cfg(target_arch = "x86_64")]
const NEAR_BYTES: usize = 8 << 10;

/// Plain Rust that the compiler vectorises as it can.
pub(super) fn portable(rows: &[u8], weights: &[u8], sums: &mut [[u8; 4]]) {
    sum_each(rows, weights, sums);
}

/// The compiler makes `sdot` of it.
#[cfg(target_arch = "aarch64")]
#[target_feature(enable = "neon,dotprod")]
pub(super) fn neon_dot(rows: &[u8], weights: &[u8], sums: &mut [[u8; 4]]) {
    sum_each(rows, weights, sums);
}

#[inline(always)]
fn sum_each(rows: &[u8], weights: &[u8], sums: &mut [[u8; 4]]) {
    let product = |(s, z): (&u8, &u8)| i32::from(s.cast_signed()) * i32::from(z.cast_signed());
    for (row, sum) in rows.chunks_exact(weights.len()).zip(sums) {
        *sum = row.iter().zip(weights).map(product).fold(0, i32::wrapping_add).to_le_bytes();
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
pub(super) fn avx512(rows: &[u8], weights: &[u8], sums: &mut [[u8; 4]]) {
    let (zero, flip, excess) = (_mm512_setzero_si512(), _mm512_set1_epi8(-128), excess(weights));
    let dot = |sum, s: &[u8; 64], z: &[u8; 64]| {
        // SAFETY: both are 64 bytes.
        let (s, z) = unsafe { (_mm512_loadu_si512(s.as_ptr().cast()), _mm512_loadu_si512(z.as_ptr().cast())) };
        _mm512_dpbusd_epi32(sum, _mm512_xor_si512(s, flip), z)
    };
    let add = |a, b| _mm512_add_epi32(a, b);
    sum_vectors(rows, weights, sums, zero, dot, add, |sum| _mm512_reduce_add_epi32(sum) - excess);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,avxvnni")]
pub(super) fn avx_vnni(rows: &[u8], weights: &[u8], sums: &mut [[u8; 4]]) {
    let (zero, flip, excess) = (_mm256_setzero_si256(), _mm256_set1_epi8(-128), excess(weights));
    let dot = |sum, s: &[u8; 32], z: &[u8; 32]| {
        // SAFETY: both are 32 bytes.
        let (s, z) = unsafe { (_mm256_loadu_si256(s.as_ptr().cast()), _mm256_loadu_si256(z.as_ptr().cast())) };
        _mm256_dpbusd_avx_epi32(sum, _mm256_xor_si256(s, flip), z)
    };
    let add = |a, b| _mm256_add_epi32(a, b);
    sum_vectors(rows, weights, sums, zero, dot, add, |sum| reduce(sum) - excess);
}

/// Bytes are extended to words: `vpmaddubsw`, which takes bytes, saturates.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
pub(super) fn avx2(rows: &[u8], weights: &[u8], sums: &mut [[u8; 4]]) {
    let dot = |sum, s: &[u8; 16], z: &[u8; 16]| {
        // SAFETY: both are 16 bytes.
        let (s, z) = unsafe { (_mm_loadu_si128(s.as_ptr().cast()), _mm_loadu_si128(z.as_ptr().cast())) };
        _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_cvtepi8_epi16(s), _mm256_cvtepi8_epi16(z)))
    };
    sum_vectors(rows, weights, sums, _mm256_setzero_si256(), dot, |a, b| _mm256_add_epi32(a, b), |sum| reduce(sum));
}

/// The excess of a sum whose row has its sign bits flipped.
#[cfg(target_arch = "x86_64")]
fn excess(weights: &[u8]) -> i32 {
    128 * weights.iter().map(|z| i32::from(z.cast_signed())).sum::<i32>()
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn reduce(sum: __m256i) -> i32 {
    let sum = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256::<1>(sum));
    let sum = _mm_add_epi32(sum, _mm_unpackhi_epi64(sum, sum));
    _mm_cvtsi128_si32(_mm_add_epi32(sum, _mm_shuffle_epi32::<1>(sum)))
}

/// Sums rows by vectors of `BYTES` bytes: `dot` adds the products of two of them to the lanes of a vector of sums, `add`
/// adds those of two, `reduce` those of one.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn sum_vectors<V: Copy, const BYTES: usize>(
    rows: &[u8],
    weights: &[u8],
    sums: &mut [[u8; 4]],
    zero: V,
    dot: impl Fn(V, &[u8; BYTES], &[u8; BYTES]) -> V,
    add: impl Fn(V, V) -> V,
    reduce: impl Fn(V) -> i32,
) {
    let (rows, weights) = (rows.as_chunks().0, weights.as_chunks().0);
    let vectors = weights.len();
    if vectors * BYTES <= NEAR_BYTES {
        for (row, sum) in rows.chunks_exact(vectors).zip(sums) {
            let mut lanes = [zero; 4];
            for (row, weights) in row.as_chunks::<4>().0.iter().zip(weights.as_chunks::<4>().0) {
                lanes = std::array::from_fn(|i| dot(lanes[i], &row[i], &weights[i]));
            }
            let [a, b, c, d] = lanes;
            *sum = reduce(add(add(a, b), add(c, d))).to_le_bytes();
        }
        return;
    }
    for (rows, sums) in rows.chunks_exact(ROWS_AT_ONCE * vectors).zip(sums.as_chunks_mut::<ROWS_AT_ONCE>().0) {
        let mut lanes = [zero; ROWS_AT_ONCE];
        for (k, weights) in weights.iter().enumerate() {
            lanes = std::array::from_fn(|i| dot(lanes[i], &rows[i * vectors + k], weights));
        }
        *sums = lanes.map(|lanes| reduce(lanes).to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::super::kernel::KernelKind;
    use assay_work::probe::row_sum;

    const PATTERNS: [fn(usize) -> u8; 8] = [
        |_| 0x80,
        |_| 0x7F,
        |i| [0x80, 0x7F][i % 2],
        |i| [0x7F, 0x80][i % 2],
        |_| 0xFF,
        |i| i as u8,
        |i| 1 << (i % 8),
        |i| ((i * i) ^ (i >> 3)).wrapping_mul(167) as u8,
    ];

    /// The largest sums of both signs, rows that differ from their neighbours, and bytes at odd addresses.
    #[test]
    fn every_kernel_sums_the_extremes() {
        for kernel in KernelKind::available().filter_map(KernelKind::kernel) {
            for n in [256, 512, 8192, 16_384, 32_768] {
                let bytes = |pattern: fn(usize) -> u8| (0..=n).map(pattern).collect::<Vec<_>>();
                for weights in PATTERNS.map(bytes) {
                    let rows: Vec<u8> = PATTERNS.map(|pattern| bytes(pattern).split_off(1)).concat();
                    let expected: Vec<_> =
                        rows.chunks(n).map(|row| row_sum(row, &weights[1..]).to_le_bytes()).collect();
                    let mut sums = [[0xA5; 4]; PATTERNS.len()];
                    // SAFETY: the processor has the features of a kernel that is available.
                    unsafe { (kernel.sum_rows)(&rows, &weights[1..], &mut sums) };
                    assert_eq!(sums, expected[..], "{}, n = {n}, weights {:?}", kernel.kind, &weights[1..5]);
                }
            }
        }
    }
}
