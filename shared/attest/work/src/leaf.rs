//! Leaves: slots 0 and 1 of a device, cut from a keystream (WORK.md, Notation and A pass).

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::bytes::PassKey;

const WORD_BYTES: usize = 4;

/// Fills `out` with bytes `first_byte …` of leaf `stream`, which is the share's `offset + u`.
///
/// `first_byte = row · n` gives rows of the leaf; any other position is as good.
pub fn leaf(key: &PassKey, stream: u32, first_byte: u64, out: &mut [u8]) {
    keystream(key.as_bytes(), stream, first_byte, out);
}

/// Fills `out` with bytes `first_byte …` of `KEYSTREAM(key, stream)`.
pub fn keystream(key: &[u8; 32], stream: u32, first_byte: u64, out: &mut [u8]) {
    let mut rng = ChaCha8Rng::from_seed(*key);
    rng.set_stream(u64::from(stream));
    rng.set_word_pos(u128::from(first_byte / WORD_BYTES as u64));
    // The generator seeks to words: the bytes of the first word before `first_byte` are dropped.
    let skip = (first_byte % WORD_BYTES as u64) as usize;
    let head = if skip == 0 { 0 } else { out.len().min(WORD_BYTES - skip) };
    if head > 0 {
        let mut word = [0; WORD_BYTES];
        rng.fill_bytes(&mut word);
        out[..head].copy_from_slice(&word[skip..skip + head]);
    }
    rng.fill_bytes(&mut out[head..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ChaCha with 8 rounds written out from Bernstein's description: an oracle that shares no code with the crate.
    fn chacha8_block(key: &[u8; 32], block: u64, stream: u64) -> [u8; 64] {
        let word = |bytes: &[u8], i: usize| u32::from_le_bytes(bytes[4 * i..4 * i + 4].try_into().unwrap());
        let mut start = [0_u32; 16];
        for (i, w) in start.iter_mut().enumerate() {
            *w = match i {
                0..4 => word(b"expand 32-byte k", i),
                4..12 => word(key, i - 4),
                12 => block as u32,
                13 => (block >> 32) as u32,
                14 => stream as u32,
                _ => (stream >> 32) as u32,
            };
        }
        let mut s = start;
        let mut quarter = |a: usize, b: usize, c: usize, d: usize| {
            for (x, y, z, turn) in [(a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)] {
                s[x] = s[x].wrapping_add(s[y]);
                s[z] = (s[z] ^ s[x]).rotate_left(turn);
            }
        };
        for _ in 0..4 {
            (0..4).for_each(|i| quarter(i, 4 + i, 8 + i, 12 + i));
            (0..4).for_each(|i| quarter(i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4));
        }
        let mut out = [0; 64];
        for i in 0..16 {
            out[4 * i..4 * i + 4].copy_from_slice(&s[i].wrapping_add(start[i]).to_le_bytes());
        }
        out
    }

    #[test]
    fn is_the_keystream_of_the_description() {
        let key: [u8; 32] = std::array::from_fn(|i| (i * 7 + 3) as u8);
        // The last block is where the counter no longer fits in 32 bits.
        for block in [0, 1, 5, (1 << 24) - 1, u64::from(u32::MAX), 1 << 32] {
            for stream in [0, 1, 1_048_575, u32::MAX] {
                let mut out = [0; 64];
                keystream(&key, stream, block * 64, &mut out);
                assert_eq!(out, chacha8_block(&key, block, u64::from(stream)), "block {block}, stream {stream}");
            }
        }
    }

    #[test]
    fn any_range_is_a_piece_of_the_whole() {
        let key = PassKey([9; 32]);
        let mut whole = [0; 1024];
        leaf(&key, 12, 0, &mut whole);
        for first in [0, 1, 2, 3, 4, 63, 64, 65, 250, 511, 1000] {
            for len in [0, 1, 2, 3, 4, 5, 24] {
                let mut piece = vec![0; len];
                leaf(&key, 12, first as u64, &mut piece);
                assert_eq!(piece, whole[first..first + len], "{len} bytes from {first}");
            }
        }
    }
}
