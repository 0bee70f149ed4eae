//! BLAKE3 of long strings by pieces, so that several threads can hash one string (WORK.md, Openings).
//!
//! Every string here is a power of two long, and so are its pieces: each piece is a whole subtree.

use blake3::hazmat::{HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root};
use parking_lot::Mutex;

use assay_device::DeviceError;
use assay_work::Digest;
/// The smallest piece: one chunk of BLAKE3.
pub(super) use assay_work::tree::CHUNK_BYTES;

/// Bytes of states or sums that one item hashes.
const PIECE_BYTES: usize = 64 << 10;

/// The chaining value of a subtree that is not the root.
pub(super) type ChainingValue = [u8; 32];

/// The chaining value of the piece that starts `offset` bytes into its string.
pub(super) fn chaining_value(piece: &[u8], offset: u64) -> ChainingValue {
    let mut hasher = blake3::Hasher::new();
    hasher.set_input_offset(offset);
    hasher.update(piece);
    hasher.finalize_non_root()
}

/// A string being hashed: the chaining values of its pieces, in whatever order they come.
pub(super) struct Pieces {
    values: Vec<ChainingValue>,
    missing: usize,
}

impl Pieces {
    /// A string of `count` pieces, a power of two from 2.
    pub(super) fn new(count: usize) -> Self {
        debug_assert!(count.is_power_of_two() && count >= 2);
        Self { values: vec![[0; 32]; count], missing: count }
    }

    /// Takes a piece's chaining value, each piece once; gives the digest with the last one, and starts anew.
    pub(super) fn put(&mut self, index: usize, value: ChainingValue) -> Option<Digest> {
        self.values[index] = value;
        self.missing -= 1;
        if self.missing > 0 {
            return None;
        }
        self.missing = self.values.len();
        Some(self.digest())
    }

    /// Merges level by level; the values are spent.
    fn digest(&mut self) -> Digest {
        let mut width = self.values.len();
        while width > 2 {
            width /= 2;
            for i in 0..width {
                self.values[i] = merge_subtrees_non_root(&self.values[2 * i], &self.values[2 * i + 1], Mode::Hash);
            }
        }
        Digest(merge_subtrees_root(&self.values[0], &self.values[1], Mode::Hash).into())
    }
}

/// A string that the threads of a team hash together, each piece as it comes.
pub(super) struct SharedDigest {
    /// Bytes of a piece, which item `i` of a queue hashes from byte `i · piece` on.
    pub(super) piece: usize,
    /// How many pieces there are.
    pub(super) items: usize,
    pieces: Mutex<Pieces>,
    digest: Mutex<Option<Digest>>,
}

impl SharedDigest {
    /// A string of `bytes` bytes, a power of two from 4096.
    pub(super) fn new(bytes: usize) -> Self {
        let piece = PIECE_BYTES.min(bytes / 4).max(CHUNK_BYTES as usize);
        let items = bytes / piece;
        Self { piece, items, pieces: Mutex::new(Pieces::new(items)), digest: Mutex::new(None) }
    }

    pub(super) fn put(&self, item: usize, piece: &[u8]) {
        let value = chaining_value(piece, (item * self.piece) as u64);
        if let Some(whole) = self.pieces.lock().put(item, value) {
            *self.digest.lock() = Some(whole);
        }
    }

    /// The digest, once every piece was put.
    ///
    /// # Errors
    /// [`DeviceError::Sick`] when one was not.
    pub(super) fn take(self) -> Result<Digest, DeviceError> {
        self.digest.into_inner().ok_or_else(|| DeviceError::Sick("a round ended without its digest".into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_in_any_order_give_the_digest_of_the_whole() {
        let text: Vec<u8> = (0..65536_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for piece in [1024, 4096, 32768] {
            let mut pieces = Pieces::new(text.len() / piece);
            for _round in 0..2 {
                let mut digest = None;
                for (i, part) in text.chunks(piece).enumerate().rev() {
                    assert_eq!(digest, None);
                    digest = pieces.put(i, chaining_value(part, (i * piece) as u64));
                }
                assert_eq!(digest, Some(Digest(blake3::hash(&text).into())));
            }
        }
    }
}
