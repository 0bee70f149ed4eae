//! BLAKE3's chunks and merges, many at once in the lanes of the processor's vectors: one after another, merges take as
//! long as the rest of a check of openings.
//!
//! BLAKE3's documented functions give one chaining value at a time. The function by which its crate hashes long strings
//! is public, but not promised to stay: a release without it does not build, and the vectors hold its results.

use blake3::IncrementCounter;
use blake3::platform::Platform;

use super::bytes::ChainingValue;

#[cfg(target_arch = "x86_64")]
mod avx2;

/// Merges in one call: as many as the widest vectors have lanes.
pub(crate) const LANES: usize = 16;
/// Bytes of two chaining values.
pub(crate) const PAIR_BYTES: usize = 64;

/// BLAKE3's initial state: SHA-256's words.
const START: [u32; 8] =
    [0x6A09_E667, 0xBB67_AE85, 0x3C6E_F372, 0xA54F_F53A, 0x510E_527F, 0x9B05_688C, 0x1F83_D9AB, 0x5BE0_CD19];
/// Bytes of a chunk.
const CHUNK_BYTES: usize = 1024;
/// A chunk, and its number in its string.
pub(crate) type NumberedChunk<'a> = (&'a [u8; CHUNK_BYTES], u64);
/// Chunks of any numbers in one call, and the fewest that take longer one after another.
const GROUP: usize = 8;
#[cfg(target_arch = "x86_64")]
const LEAST_OF_GROUP: usize = 3;
/// The flags of the first and of the last block of a chunk.
const CHUNK_ENDS: [u8; 2] = [1 << 0, 1 << 1];
/// The flag of a parent.
const PARENT: u8 = 1 << 2;
/// The flag of the last one of a string, whose value is the digest.
const ROOT: u8 = 1 << 3;

/// Merges each pair into its place in `values`; `is_root`: into digests of whole strings.
///
/// # Panics
/// When there are more than [`LANES`] pairs, or not a place for each.
pub(crate) fn merge_pairs(pairs: &[[u8; PAIR_BYTES]], values: &mut [ChainingValue], is_root: bool) {
    hash(pairs, (0, IncrementCounter::No), if is_root { PARENT | ROOT } else { PARENT }, [0, 0], values);
}

/// The values of consecutive chunks from number `first` on; no chunk is a whole string.
///
/// # Panics
/// When there are more than [`LANES`], or not a place for each in `values`.
pub(crate) fn chunk_values(chunks: &[[u8; CHUNK_BYTES]], first: u64, values: &mut [ChainingValue]) {
    hash(chunks, (first, IncrementCounter::Yes), 0, CHUNK_ENDS, values);
}

fn hash<const N: usize>(
    inputs: &[[u8; N]],
    (first, increment): (u64, IncrementCounter),
    flags: u8,
    [start, end]: [u8; 2],
    values: &mut [ChainingValue],
) {
    assert!(inputs.len() <= LANES && inputs.len() == values.len(), "as many as there are lanes");
    let Some(any) = inputs.first() else { return };
    let mut lanes = [any; LANES];
    lanes.iter_mut().zip(inputs).for_each(|(lane, input)| *lane = input);
    // The rest of four lanes, one after another, would take as long as each four.
    let filled = if inputs.len() == 1 { 1 } else { inputs.len().next_multiple_of(4) };
    let mut hashed = [0; 32 * LANES];
    Platform::detect().hash_many(&lanes[..filled], &START, first, increment, flags, start, end, &mut hashed);
    for (value, hashed) in values.iter_mut().zip(hashed.as_chunks::<32>().0) {
        *value = ChainingValue(*hashed);
    }
}

/// The values of chunks, each with a number of its own; no chunk is a whole string.
///
/// # Panics
/// When there is not a place for each in `values`.
pub(crate) fn numbered_values(chunks: &[NumberedChunk<'_>], values: &mut [ChainingValue]) {
    assert_eq!(chunks.len(), values.len(), "a place for each");
    for (chunks, values) in chunks.chunks(GROUP).zip(values.chunks_mut(GROUP)) {
        #[cfg(target_arch = "x86_64")]
        if chunks.len() >= LEAST_OF_GROUP && is_x86_feature_detected!("avx2") {
            let group = std::array::from_fn(|place| chunks[place.min(chunks.len() - 1)]);
            // SAFETY: the processor has the instructions.
            #[allow(unsafe_code)]
            values.copy_from_slice(&unsafe { avx2::values(&group) }[..values.len()]);
            continue;
        }
        for ((chunk, number), value) in chunks.iter().zip(values) {
            chunk_values(std::slice::from_ref(chunk), *number, std::slice::from_mut(value));
        }
    }
}

#[cfg(test)]
mod tests {
    use blake3::hazmat::{HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root};

    use super::*;

    #[test]
    fn many_chunks_are_those_of_one_after_another() {
        let chunks: Vec<[u8; CHUNK_BYTES]> =
            (0..LANES).map(|chunk| std::array::from_fn(|byte| (chunk * 31 + byte).wrapping_mul(167) as u8)).collect();
        for first in [0, 1, 77, (1 << 32) - 3, 1 << 40] {
            for count in 0..=LANES {
                let mut values = [ChainingValue([0; 32]); LANES];
                chunk_values(&chunks[..count], first, &mut values[..count]);
                for ((chunk, number), value) in chunks[..count].iter().zip(first..).zip(values) {
                    let mut hasher = blake3::Hasher::new();
                    hasher.set_input_offset(number * CHUNK_BYTES as u64);
                    assert_eq!(value.0, hasher.update(chunk).finalize_non_root(), "chunk {number} of {count}");
                }
            }
        }
    }

    #[test]
    fn chunks_of_any_numbers_are_those_of_one_after_another() {
        let chunks: Vec<[u8; CHUNK_BYTES]> =
            (0..19).map(|chunk| std::array::from_fn(|byte| (chunk * 89 + byte).wrapping_mul(211) as u8)).collect();
        let numbers = (0..).map(|place: u64| place.pow(5) * 0x1_0001 + ((place % 3) << 32));
        let numbered: Vec<NumberedChunk<'_>> = chunks.iter().zip(numbers).collect();
        for count in 0..=numbered.len() {
            let mut values = vec![ChainingValue([0; 32]); count];
            numbered_values(&numbered[..count], &mut values);
            for ((chunk, number), value) in numbered.iter().zip(values) {
                let mut hasher = blake3::Hasher::new();
                hasher.set_input_offset(number * CHUNK_BYTES as u64);
                assert_eq!(value.0, hasher.update(*chunk).finalize_non_root(), "chunk {number} of {count}");
            }
        }
    }

    #[test]
    fn many_merges_are_those_of_one_after_another() {
        let pairs: [[u8; PAIR_BYTES]; LANES] =
            std::array::from_fn(|pair| std::array::from_fn(|byte| (pair * 64 + byte).wrapping_mul(167) as u8));
        for count in 0..=LANES {
            for is_root in [false, true] {
                let mut values = [ChainingValue([0; 32]); LANES];
                merge_pairs(&pairs[..count], &mut values[..count], is_root);
                for (pair, value) in pairs[..count].iter().zip(values) {
                    let (left, right) = (pair[..32].try_into().unwrap(), pair[32..].try_into().unwrap());
                    let expected = if is_root {
                        *merge_subtrees_root(left, right, Mode::Hash).as_bytes()
                    } else {
                        merge_subtrees_non_root(left, right, Mode::Hash)
                    };
                    assert_eq!(value.0, expected, "{count} pairs, root: {is_root}");
                }
            }
        }
    }
}
