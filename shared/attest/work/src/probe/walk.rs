//! One walk of the probe: its start, the line of each step, and the state after the line.

use super::super::bytes::RoundKey;
use super::super::leaf::keystream;

/// Bytes of a line of a slot, and of a state.
pub const LINE_BYTES: usize = 64;

const WORDS: usize = 16;
/// The multiplier before the shift.
pub const FIRST_FACTOR: u32 = 0x9E37_79B1;
/// How far a word is shifted onto itself.
pub const SHIFT: u32 = 15;
/// The multiplier after the shift.
pub const SECOND_FACTOR: u32 = 0x85EB_CA6B;
/// How far the next word is turned before it is added.
pub const NEIGHBOUR_TURN: u32 = 7;

/// The state of a walk, `s[0 … 15]`.
pub type WalkState = [u32; WORDS];

/// The state that walk `walk` starts a round with: block `walk` of the round's keystream.
pub fn start_state(key: &RoundKey, walk: u32) -> WalkState {
    let mut bytes = [0; LINE_BYTES];
    keystream(key.as_bytes(), 0, u64::from(walk) * LINE_BYTES as u64, &mut bytes);
    state_from_bytes(&bytes)
}

/// The line that a walk in this state reads next, of `count` slots of n-by-n: `(slot, line)`, where the line
/// is the 64 bytes from byte `64 · line` of the slot on.
pub fn position(state: &WalkState, count: u32, n: u32) -> (u32, u32) {
    let mixed = (0..).zip(state).fold(0, |mixed, (k, s)| mixed ^ s.rotate_left(2 * k));
    let sum = state.iter().fold(0_u32, |sum, &s| sum.wrapping_add(s));
    let lines = u64::from(n) * u64::from(n) / LINE_BYTES as u64;
    (high_product(mixed, u64::from(count)), high_product(sum, lines))
}

/// Moves a walk on over the line that it read.
pub fn step(state: &mut WalkState, line: &[u8; LINE_BYTES]) {
    let words = state_from_bytes(line);
    let t: WalkState = std::array::from_fn(|k| {
        let t = (state[k] ^ words[k]).wrapping_mul(FIRST_FACTOR);
        t ^ (t >> SHIFT)
    });
    for (k, s) in state.iter_mut().enumerate() {
        *s = t[k].wrapping_mul(SECOND_FACTOR).wrapping_add(t[(k + 1) % WORDS].rotate_left(NEIGHBOUR_TURN));
    }
}

/// A state as it stands in `out[r]`.
pub fn state_bytes(state: &WalkState) -> [u8; LINE_BYTES] {
    let mut bytes = [0; LINE_BYTES];
    for (out, word) in bytes.chunks_exact_mut(4).zip(state) {
        out.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// The words of a line, or of a state as it stands in `out[r]`.
pub fn state_from_bytes(bytes: &[u8; LINE_BYTES]) -> WalkState {
    std::array::from_fn(|k| u32::from_le_bytes([bytes[4 * k], bytes[4 * k + 1], bytes[4 * k + 2], bytes[4 * k + 3]]))
}

/// `(x · y) >> 32`, below `y`, which is at most 2²⁴ here.
const fn high_product(x: u32, y: u64) -> u32 {
    ((x as u64 * y) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn positions_lie_in_the_slots(state: WalkState, count in 3_u32..=1 << 20, log_n in 8_u32..=15) {
            let (slot, line) = position(&state, count, 1 << log_n);
            prop_assert!(slot < count);
            prop_assert!(line < 1 << (2 * log_n - 6));
        }

        /// A step loses nothing of the line: two lines lead to two states.
        #[test]
        fn every_bit_of_a_line_counts(state: WalkState, line: [u8; 32], bit in 0_usize..512) {
            let mut whole = [0; LINE_BYTES];
            whole[..32].copy_from_slice(&line);
            let (mut one, mut other) = (state, state);
            step(&mut one, &whole);
            whole[bit / 8] ^= 1 << (bit % 8);
            step(&mut other, &whole);
            prop_assert_ne!(one, other);
        }

        #[test]
        fn bytes_and_words_are_the_same_state(state: WalkState) {
            prop_assert_eq!(state_from_bytes(&state_bytes(&state)), state);
        }
    }

    #[test]
    fn the_ends_of_the_range_are_the_first_and_the_last_line() {
        assert_eq!(position(&[0; WORDS], 5, 256), (0, 0));
        let mut state = [0; WORDS];
        state[0] = u32::MAX;
        assert_eq!(position(&state, 1 << 20, 32_768), ((1 << 20) - 1, (1 << 24) - 1));
    }
}
