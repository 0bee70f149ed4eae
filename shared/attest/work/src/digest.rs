//! Digests of slots, and the root of a pass (WORK.md, A pass).

use super::bytes::{Digest, Root};

/// `digest[u]`: BLAKE3 over the slot's row-major bytes.
pub fn slot_digest(slot: &[u8]) -> Digest {
    Digest(*blake3::hash(slot).as_bytes())
}

/// `root[p]`: BLAKE3 over the digests of slots `0 … count-1`.
pub fn pass_root(digests: &[Digest]) -> Root {
    let mut hasher = blake3::Hasher::new();
    for digest in digests {
        hasher.update(digest.as_bytes());
    }
    Root(*hasher.finalize().as_bytes())
}
