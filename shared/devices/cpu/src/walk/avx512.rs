//! Walks with AVX-512: a state is one vector, and the addresses of four walks are computed at once.

use std::arch::x86_64::*;

use super::{BATCH, FIRST_FACTOR, SECOND_FACTOR, WalkBatch};

/// Walks whose sums are folded together.
const QUAD: usize = 4;

/// Where the lines of four walks lie, at the even places. Written as one vector and read word by word at once:
/// a vector across two lines of the cache would halve the rate of the walk.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct SpacedOffsets([u64; 8]);

/// # Safety
/// As [`super::portable`]; `walks` is a multiple of 4, and the processor has AVX-512 F.
#[target_feature(enable = "avx512f")]
pub(in super::super) unsafe fn avx512(batch: &WalkBatch) {
    let quads = batch.walks / QUAD;
    let mut offsets = [SpacedOffsets([0; 8]); BATCH / QUAD];
    for (quad, offsets) in offsets[..quads].iter_mut().enumerate() {
        // SAFETY: the quad's four states are inside the batch's, which are aligned.
        let states = unsafe { load(batch.states.add(quad * QUAD).cast()) };
        locate(batch, &states, offsets);
    }
    for _ in 0..batch.steps {
        for (quad, offsets) in offsets[..quads].iter_mut().enumerate() {
            let place: *mut __m512i = batch.states.wrapping_add(quad * QUAD).cast();
            // SAFETY: as above.
            let mut states = unsafe { load(place) };
            for (i, state) in states.iter_mut().enumerate() {
                // SAFETY: `locate` gives offsets of whole lines that the caller promised; lines are aligned to 64.
                let line = unsafe { _mm512_load_si512(batch.slots.wrapping_add(offsets.0[2 * i] as usize).cast()) };
                *state = step(*state, line);
                // SAFETY: as above.
                unsafe { _mm512_store_si512(place.add(i), *state) };
            }
            locate(batch, &states, offsets);
        }
    }
}

/// # Safety
/// Four aligned states are readable at `place`.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn load(place: *const __m512i) -> [__m512i; QUAD] {
    // SAFETY: the caller's promise.
    unsafe {
        [
            _mm512_load_si512(place),
            _mm512_load_si512(place.add(1)),
            _mm512_load_si512(place.add(2)),
            _mm512_load_si512(place.add(3)),
        ]
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn step(state: __m512i, line: __m512i) -> __m512i {
    let x = _mm512_mullo_epi32(_mm512_xor_si512(state, line), _mm512_set1_epi32(FIRST_FACTOR as i32));
    let t = _mm512_xor_si512(x, _mm512_srli_epi32::<15>(x));
    let next = _mm512_rol_epi32::<7>(_mm512_alignr_epi32::<1>(t, t));
    _mm512_add_epi32(_mm512_mullo_epi32(t, _mm512_set1_epi32(SECOND_FACTOR as i32)), next)
}

/// Writes where the next lines of four walks lie, at the even places of `offsets`, and asks for them.
#[inline]
#[target_feature(enable = "avx512f")]
fn locate(batch: &WalkBatch, states: &[__m512i; QUAD], SpacedOffsets(offsets): &mut SpacedOffsets) {
    let turns = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    let turned = states.map(|s| _mm512_rolv_epi32(s, turns));
    let a = fold(&turned, |x, y| _mm512_xor_si512(x, y));
    let b = fold(states, |x, y| _mm512_add_epi32(x, y));
    let slot = _mm512_srli_epi64::<32>(_mm512_mul_epu32(a, _mm512_set1_epi64(i64::from(batch.count))));
    // Lines of a slot: a power of two, at most 2^24.
    let line = _mm512_srli_epi64::<32>(_mm512_mul_epu32(b, _mm512_set1_epi64((batch.slot_bytes / 64) as i64)));
    let shift = _mm_cvtsi32_si128(batch.slot_bytes.trailing_zeros() as i32);
    let offset = _mm512_add_epi64(_mm512_sll_epi64(slot, shift), _mm512_slli_epi64::<6>(line));
    // SAFETY: `offsets` is 64 writable bytes, aligned.
    unsafe { _mm512_store_si512(offsets.as_mut_ptr().cast(), offset) };
    for offset in offsets.iter().step_by(2) {
        super::prefetch(batch.slots.wrapping_add(*offset as usize));
    }
}

/// Folds each of four vectors to one word; word i fills the 128-bit lane i of the result.
#[inline(always)]
fn fold(v: &[__m512i; QUAD], op: impl Fn(__m512i, __m512i) -> __m512i) -> __m512i {
    // SAFETY: called from functions that have AVX-512 F only, into which it is inlined.
    unsafe {
        let halves = |x, y| op(_mm512_shuffle_i64x2::<0x44>(x, y), _mm512_shuffle_i64x2::<0xee>(x, y));
        let (low, high) = (halves(v[0], v[1]), halves(v[2], v[3]));
        let lanes = op(_mm512_shuffle_i64x2::<0x88>(low, high), _mm512_shuffle_i64x2::<0xdd>(low, high));
        let pairs = op(lanes, _mm512_shuffle_epi32::<0x4e>(lanes));
        op(pairs, _mm512_shuffle_epi32::<0xb1>(pairs))
    }
}
