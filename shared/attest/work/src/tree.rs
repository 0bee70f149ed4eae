//! Subtrees of BLAKE3 trees: the opening of an aligned range of a hashed string (WORK.md, Openings).
//!
//! All strings here are a power of two long, so that their trees are perfect: level by level the chaining
//! values halve, until two are left, whose merge is the digest.

use blake3::hazmat::{HasherExt, Mode, merge_subtrees_root};

use super::bytes::{ChainingValue, Digest};
use super::lanes::{LANES, NumberedChunk, PAIR_BYTES, chunk_values, merge_pairs, numbered_values};

/// Bytes of a chunk, BLAKE3's smallest subtree.
pub const CHUNK_BYTES: u64 = 1024;

/// Chunks of a range from which on they are hashed faster by themselves than with those of other ranges.
const CONSECUTIVE: usize = 4;

/// Bytes of the range that a row of an n-by-n slot is opened as.
pub const fn row_range_bytes(n: u32) -> u64 {
    if n as u64 > CHUNK_BYTES { n as u64 } else { CHUNK_BYTES }
}

/// The chaining value of a subtree: an aligned power of two of bytes, from 1024, that starts at `first_byte`
/// of the whole string and is not the whole of it.
///
/// # Panics
/// When `subtree` is empty or `first_byte` is not the start of a chunk.
pub fn chaining_value(subtree: &[u8], first_byte: u64) -> ChainingValue {
    let mut hasher = blake3::Hasher::new();
    hasher.set_input_offset(first_byte);
    hasher.update(subtree);
    ChainingValue(hasher.finalize_non_root())
}

/// The chaining values of the subtrees of `subtree_bytes` each that `data`, a whole string, consists of.
///
/// # Panics
/// When `subtree_bytes` is not a power of two from 1024 to half of `data`, or `data` no power of two long.
pub fn chaining_values(data: &[u8], subtree_bytes: u64) -> Vec<ChainingValue> {
    assert_perfect(subtree_bytes, data.len() as u64);
    subtree_values(data, 0, subtree_bytes)
}

/// The chaining values of the subtrees of `subtree_bytes` each that `data` consists of, which starts at `first_byte` of a
/// longer string.
///
/// # Panics
/// When `data` is not whole subtrees, or `first_byte` not the start of one.
pub fn subtree_values(data: &[u8], first_byte: u64, subtree_bytes: u64) -> Vec<ChainingValue> {
    assert!(subtree_bytes.is_power_of_two() && subtree_bytes >= CHUNK_BYTES, "subtrees");
    assert!((data.len() as u64).is_multiple_of(subtree_bytes), "whole subtrees");
    assert!(first_byte.is_multiple_of(subtree_bytes), "the start of a subtree");
    let mut values = vec![ChainingValue([0; 32]); data.len() / CHUNK_BYTES as usize];
    fill_chunk_values(data, first_byte, &mut values);
    over_subtrees(values, subtree_bytes)
}

/// The values of the chunks of `data`, which starts at `first_byte` of a longer string.
fn fill_chunk_values(data: &[u8], first_byte: u64, values: &mut [ChainingValue]) {
    let chunks = data.as_chunks::<{ CHUNK_BYTES as usize }>().0;
    let firsts = (first_byte / CHUNK_BYTES..).step_by(LANES);
    for ((chunks, values), first) in chunks.chunks(LANES).zip(values.chunks_mut(LANES)).zip(firsts) {
        chunk_values(chunks, first, values);
    }
}

/// From the values of chunks to those of the subtrees that they are: each level has pairs of one subtree only.
fn over_subtrees(mut values: Vec<ChainingValue>, subtree_bytes: u64) -> Vec<ChainingValue> {
    for _ in 0..(subtree_bytes / CHUNK_BYTES).trailing_zeros() {
        values = parents(&values);
    }
    values
}

/// Number of siblings that lead from a range to the digest of the whole.
///
/// # Panics
/// As [`chaining_values`].
pub fn expected_siblings(range_bytes: u64, total_bytes: u64) -> usize {
    assert_perfect(range_bytes, total_bytes);
    (total_bytes / range_bytes).trailing_zeros() as usize
}

/// The siblings of subtree `index` among `values`, lowest first. [`Tree`] serves many of them at once.
///
/// # Panics
/// As [`Tree::new`] and [`Tree::siblings`].
pub fn siblings(values: &[ChainingValue], index: usize) -> Vec<ChainingValue> {
    Tree::new(values.to_vec()).siblings(index)
}

/// The digest that a range at `first_byte` and its siblings lead to.
///
/// # Panics
/// When the range is not an aligned power of two of bytes from 1024 to half of `total_bytes`, or there are not
/// [`expected_siblings`]: a caller checks both first.
pub fn digest_of_range(bytes: &[u8], first_byte: u64, siblings: &[ChainingValue], total_bytes: u64) -> Digest {
    assert_eq!(siblings.len(), expected_siblings(bytes.len() as u64, total_bytes), "siblings up to the root");
    digests_of_ranges(&[RangePath { bytes, first_byte, siblings }], total_bytes)[0]
}

/// A range of a string, and its way to the digest.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RangePath<'a> {
    pub bytes: &'a [u8],
    pub first_byte: u64,
    pub siblings: &'a [ChainingValue],
}

/// The digests that ranges of one length lead to, each in a string of `total_bytes`: equal to [`digest_of_range`] of
/// each, with the merges of all of them level by level together.
///
/// # Panics
/// As [`digest_of_range`], for each.
pub(crate) fn digests_of_ranges(ranges: &[RangePath<'_>], total_bytes: u64) -> Vec<Digest> {
    let mut digests = Vec::with_capacity(ranges.len());
    for ranges in ranges.chunks(LANES) {
        let range_bytes = ranges[0].bytes.len() as u64;
        let levels = expected_siblings(range_bytes, total_bytes);
        let chunks = (range_bytes / CHUNK_BYTES) as usize;
        let mut values = vec![ChainingValue([0; 32]); ranges.len() * chunks];
        let mut numbered: Vec<NumberedChunk<'_>> = Vec::with_capacity(values.len());
        for (values, RangePath { bytes, first_byte, siblings }) in values.chunks_mut(chunks).zip(ranges) {
            assert_eq!((bytes.len() as u64, siblings.len()), (range_bytes, levels), "ranges of one length");
            assert!(first_byte.is_multiple_of(range_bytes) && *first_byte < total_bytes, "an aligned range");
            if chunks < CONSECUTIVE {
                numbered.extend(bytes.as_chunks().0.iter().zip(first_byte / CHUNK_BYTES..));
            } else {
                fill_chunk_values(bytes, *first_byte, values);
            }
        }
        if chunks < CONSECUTIVE {
            numbered_values(&numbered, &mut values);
        }
        let mut values = over_subtrees(values, range_bytes);
        for level in 0..levels {
            let mut pairs = [[0; PAIR_BYTES]; LANES];
            for ((pair, value), RangePath { first_byte, siblings, .. }) in pairs.iter_mut().zip(&*values).zip(ranges) {
                let (left, right) = in_order((first_byte / range_bytes) >> level, value, &siblings[level]);
                pair[..32].copy_from_slice(left.as_bytes());
                pair[32..].copy_from_slice(right.as_bytes());
            }
            merge_pairs(&pairs[..ranges.len()], &mut values, level + 1 == levels);
        }
        digests.extend(values.iter().map(|value| Digest(value.0)));
    }
    digests
}

/// The upper part of a string's tree, from the chaining values of equal subtrees up to the digest.
#[derive(Debug, Clone)]
pub struct Tree {
    /// The values given, then half as many a level, down to the two below the root.
    levels: Vec<Vec<ChainingValue>>,
}

impl Tree {
    /// Builds the levels above `values`, which are those of all subtrees of the string, in order.
    ///
    /// # Panics
    /// When there are not a power of two of them, at least two.
    pub fn new(values: Vec<ChainingValue>) -> Self {
        assert!(values.len() >= 2 && values.len().is_power_of_two(), "values of a perfect tree");
        let mut levels = vec![values];
        while let Some(below) = levels.last().filter(|level| level.len() > 2) {
            levels.push(parents(below));
        }
        Self { levels }
    }

    /// The siblings of value `index`, lowest first.
    ///
    /// # Panics
    /// When there is no such value.
    pub fn siblings(&self, index: usize) -> Vec<ChainingValue> {
        self.levels.iter().enumerate().map(|(height, level)| level[(index >> height) ^ 1]).collect()
    }

    /// The digest of the whole string.
    pub fn digest(&self) -> Digest {
        let top = &self.levels[self.levels.len() - 1];
        root(&top[0], &top[1])
    }
}

/// The chaining values one level up: each of two neighbours, neither of which is below the root.
pub fn parents(values: &[ChainingValue]) -> Vec<ChainingValue> {
    let mut merged = vec![ChainingValue([0; 32]); values.len() / 2];
    for (values, merged) in values.chunks(2 * LANES).zip(merged.chunks_mut(LANES)) {
        let mut pairs = [[0; PAIR_BYTES]; LANES];
        for (pair, values) in pairs.iter_mut().zip(values.chunks_exact(2)) {
            pair[..32].copy_from_slice(values[0].as_bytes());
            pair[32..].copy_from_slice(values[1].as_bytes());
        }
        merge_pairs(&pairs[..merged.len()], merged, false);
    }
    merged
}

fn in_order<'a>(
    index: u64,
    value: &'a ChainingValue,
    sibling: &'a ChainingValue,
) -> (&'a ChainingValue, &'a ChainingValue) {
    if index.is_multiple_of(2) { (value, sibling) } else { (sibling, value) }
}

fn root(left: &ChainingValue, right: &ChainingValue) -> Digest {
    Digest(*merge_subtrees_root(left.as_bytes(), right.as_bytes(), Mode::Hash).as_bytes())
}

fn assert_perfect(subtree_bytes: u64, total_bytes: u64) {
    assert!(subtree_bytes.is_power_of_two() && total_bytes.is_power_of_two(), "subtrees of a perfect tree");
    assert!(subtree_bytes >= CHUNK_BYTES && subtree_bytes <= total_bytes / 2, "subtrees below the root");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::slot_digest;

    fn data(len: usize) -> Vec<u8> {
        (0..len as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 23) as u8).collect()
    }

    #[test]
    fn every_range_of_every_size_leads_to_the_digest() {
        for total in [2048_usize, 4096, 65_536] {
            let data = data(total);
            let digest = slot_digest(&data);
            let mut range = 1024;
            while range < total {
                let tree = Tree::new(chaining_values(&data, range as u64));
                assert_eq!(tree.digest(), digest);
                let paths: Vec<_> = (0..total / range).map(|index| tree.siblings(index)).collect();
                let ranges = data.chunks_exact(range).zip((0..).step_by(range)).zip(&paths);
                let ranges: Vec<_> =
                    ranges.map(|((bytes, first_byte), siblings)| RangePath { bytes, first_byte, siblings }).collect();
                assert!(digests_of_ranges(&ranges, total as u64).iter().all(|found| *found == digest));
                for (index, bytes) in data.chunks_exact(range).enumerate() {
                    let path = tree.siblings(index);
                    assert_eq!(path.len(), expected_siblings(range as u64, total as u64));
                    let found = digest_of_range(bytes, (index * range) as u64, &path, total as u64);
                    assert_eq!(found, digest, "range {index} of {range} bytes in {total}");
                }
                range *= 2;
            }
        }
    }

    #[test]
    fn a_range_moved_or_with_its_siblings_swapped_leads_elsewhere() {
        let data = data(8192);
        let digest = slot_digest(&data);
        let mut path = siblings(&chaining_values(&data, 1024), 2);
        assert_ne!(digest_of_range(&data[2048..3072], 3072, &path, 8192), digest);
        path.swap(0, 1);
        assert_ne!(digest_of_range(&data[2048..3072], 2048, &path, 8192), digest);
        // A tree over both gives the same siblings as each subtree alone.
        let right = siblings(&chaining_values(&data, 1024), 2);
        let range = |first_byte, siblings| RangePath { bytes: &data[2048..3072], first_byte, siblings };
        let ranges = [range(2048, &right[..]), range(3072, &right), range(2048, &path)];
        let found = digests_of_ranges(&ranges, 8192);
        assert_eq!(found[0], digest);
        assert_eq!(
            found[1..],
            ranges[1..]
                .iter()
                .map(|it| digest_of_range(it.bytes, it.first_byte, it.siblings, 8192))
                .collect::<Vec<_>>()
        );
        assert!(digests_of_ranges(&[], 8192).is_empty());
    }

    #[test]
    #[should_panic(expected = "siblings up to the root")]
    fn another_number_of_siblings_is_a_mistake_of_the_caller() {
        let _ = digest_of_range(&[0; 1024], 0, &[ChainingValue([0; 32])], 4096);
    }
}
