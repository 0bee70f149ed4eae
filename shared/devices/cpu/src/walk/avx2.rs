//! Walks with AVX2: a state is two vectors, and the addresses of four walks are computed at once.

use std::arch::x86_64::*;

use super::{BATCH, FIRST_FACTOR, SECOND_FACTOR, WalkBatch, prefetch};

/// Walks whose sums are folded together.
const QUAD: usize = 4;

/// The words 0 … 7 and 8 … 15 of a state or a line.
type Halves = [__m256i; 2];

/// Where the lines of four walks lie. Written as one vector and read word by word at once:
/// a vector across two lines of the cache would halve the rate of the walk.
#[derive(Clone, Copy)]
#[repr(align(32))]
struct QuadOffsets([u64; QUAD]);

/// # Safety
/// As [`super::portable`]; `walks` is a multiple of 4, and the processor has AVX2.
#[target_feature(enable = "avx2")]
pub(in super::super) unsafe fn avx2(batch: &WalkBatch) {
    let quads = batch.walks / QUAD;
    let mut offsets = [QuadOffsets([0; QUAD]); BATCH / QUAD];
    for (quad, offsets) in offsets[..quads].iter_mut().enumerate() {
        let place = batch.states.wrapping_add(quad * QUAD);
        // SAFETY: the quad's four states are inside the batch's, which are aligned.
        let states = std::array::from_fn(|i| unsafe { load(place.wrapping_add(i).cast()) });
        locate(batch, &states, offsets);
    }
    for _ in 0..batch.steps {
        for (quad, offsets) in offsets[..quads].iter_mut().enumerate() {
            let place = batch.states.wrapping_add(quad * QUAD);
            let mut states = [[_mm256_setzero_si256(); 2]; QUAD];
            for (i, state) in states.iter_mut().enumerate() {
                let address: *mut __m256i = place.wrapping_add(i).cast();
                // SAFETY: the states as above; `locate` gives offsets of whole lines that the caller
                // promised, aligned to 64.
                unsafe {
                    *state = step(load(address), load(batch.slots.wrapping_add(offsets.0[i] as usize).cast()));
                    _mm256_store_si256(address, state[0]);
                    _mm256_store_si256(address.add(1), state[1]);
                }
            }
            locate(batch, &states, offsets);
        }
    }
}

/// # Safety
/// 64 bytes aligned to 32 are readable at `place`.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn load(place: *const __m256i) -> Halves {
    // SAFETY: the caller's promise.
    unsafe { [_mm256_load_si256(place), _mm256_load_si256(place.add(1))] }
}

#[inline]
#[target_feature(enable = "avx2")]
fn step(state: Halves, line: Halves) -> Halves {
    let t: Halves = std::array::from_fn(|h| {
        let x = _mm256_mullo_epi32(_mm256_xor_si256(state[h], line[h]), _mm256_set1_epi32(FIRST_FACTOR as i32));
        _mm256_xor_si256(x, _mm256_srli_epi32::<15>(x))
    });
    // Each half turned by one word; the word that comes in last is the other half's first.
    let turned = t.map(|t| _mm256_permutevar8x32_epi32(t, _mm256_setr_epi32(1, 2, 3, 4, 5, 6, 7, 0)));
    std::array::from_fn(|h| {
        let next = _mm256_blend_epi32::<0x80>(turned[h], turned[1 - h]);
        let next = _mm256_or_si256(_mm256_slli_epi32::<7>(next), _mm256_srli_epi32::<25>(next));
        _mm256_add_epi32(_mm256_mullo_epi32(t[h], _mm256_set1_epi32(SECOND_FACTOR as i32)), next)
    })
}

/// Writes where the next lines of four walks lie, and asks for them.
#[inline]
#[target_feature(enable = "avx2")]
fn locate(batch: &WalkBatch, states: &[Halves; QUAD], QuadOffsets(offsets): &mut QuadOffsets) {
    let left = [_mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14), _mm256_setr_epi32(16, 18, 20, 22, 24, 26, 28, 30)];
    // A shift by 32, which stands for a turn by 0, gives 0.
    let right = left.map(|left| _mm256_sub_epi32(_mm256_set1_epi32(32), left));
    let turn = |h: usize, s: __m256i| _mm256_or_si256(_mm256_sllv_epi32(s, left[h]), _mm256_srlv_epi32(s, right[h]));
    let xor = |x, y| _mm_xor_si128(x, y);
    let add = |x, y| _mm_add_epi32(x, y);
    let a = fold(states.map(|s| _mm256_xor_si256(turn(0, s[0]), turn(1, s[1]))), xor);
    let b = fold(states.map(|s| _mm256_add_epi32(s[0], s[1])), add);
    let slot = _mm256_mul_epu32(_mm256_cvtepu32_epi64(a), _mm256_set1_epi64x(i64::from(batch.count)));
    // Lines of a slot: a power of two, at most 2^24.
    let line = _mm256_mul_epu32(_mm256_cvtepu32_epi64(b), _mm256_set1_epi64x((batch.slot_bytes / 64) as i64));
    let shift = _mm_cvtsi32_si128(batch.slot_bytes.trailing_zeros() as i32);
    let slot = _mm256_sll_epi64(_mm256_srli_epi64::<32>(slot), shift);
    let offset = _mm256_add_epi64(slot, _mm256_slli_epi64::<6>(_mm256_srli_epi64::<32>(line)));
    // SAFETY: `offsets` is 32 writable bytes, aligned.
    unsafe { _mm256_store_si256(offsets.as_mut_ptr().cast(), offset) };
    for offset in offsets {
        prefetch(batch.slots.wrapping_add(*offset as usize));
    }
}

/// Folds each of four vectors to one word.
#[inline]
#[target_feature(enable = "avx2")]
fn fold(v: [__m256i; QUAD], op: impl Fn(__m128i, __m128i) -> __m128i) -> __m128i {
    let v = v.map(|v| op(_mm256_castsi256_si128(v), _mm256_extracti128_si256::<1>(v)));
    let pairs = |x, y| op(_mm_unpacklo_epi32(x, y), _mm_unpackhi_epi32(x, y));
    let (low, high) = (pairs(v[0], v[1]), pairs(v[2], v[3]));
    op(_mm_unpacklo_epi64(low, high), _mm_unpackhi_epi64(low, high))
}
