//! Merkle tree hashes (RFC 6962, section 2.1) with SHA-256.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use crate::error::LogError;

/// Bytes of a hash.
pub const HASH_BYTES: usize = 32;

/// A hash of an entry or of a subtree; a text is its base64.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Hash(pub [u8; HASH_BYTES]);

/// SHA-256 of bytes, without a prefix.
pub fn sha256(bytes: &[u8]) -> [u8; HASH_BYTES] {
    Sha256::digest(bytes).into()
}

impl Hash {
    /// The hash of an entry.
    pub fn leaf(entry: &[u8]) -> Self {
        Self(Sha256::new().chain_update([0]).chain_update(entry).finalize().into())
    }

    /// The hash of a node above two subtrees.
    pub fn node(left: &Self, right: &Self) -> Self {
        Self(Sha256::new().chain_update([1]).chain_update(left.0).chain_update(right.0).finalize().into())
    }

    /// The root of a tree without entries.
    pub fn empty() -> Self {
        Self(sha256(&[]))
    }

    /// The root above these hashes of subtrees of one size, at least one.
    pub fn above(hashes: &[Self]) -> Self {
        match hashes {
            [] => Self::empty(),
            [hash] => *hash,
            _ => {
                let (left, right) = hashes.split_at(hashes.len().next_power_of_two() / 2);
                Self::node(&Self::above(left), &Self::above(right))
            }
        }
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&STANDARD.encode(self.0))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hash({self})")
    }
}

impl FromStr for Hash {
    type Err = LogError;

    fn from_str(text: &str) -> Result<Self, LogError> {
        let bytes = STANDARD.decode(text).ok().and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self).ok_or_else(|| LogError::malformed("a hash is not 32 bytes in base64"))
    }
}
