//! The entry of a verdict, and bundles of entries.

use assay_work::ChallengeId;
use assay_work::bytes::decode_hex;

use crate::error::LogError;
use crate::hash::{HASH_BYTES, Hash, sha256};

/// The first line of an entry.
const VERSION: &str = "assay-log-entry/v1";
/// In the place of a receipt's digest.
const NO_RECEIPT: &str = "none";
/// Bytes of the largest entry that is read; one of this version has 208.
pub const MAX_ENTRY_BYTES: usize = 256;

/// An entry: the commitment to a verdict and its receipt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerdictEntry {
    pub challenge: ChallengeId,
    /// SHA-256 of the verdict's JSON as the records have it.
    pub verdict: [u8; HASH_BYTES],
    /// SHA-256 of the receipt's token; `None` without a receipt.
    pub receipt: Option<[u8; HASH_BYTES]>,
}

impl VerdictEntry {
    /// The entry of a verdict's JSON and a receipt's token.
    pub fn of(challenge: ChallengeId, verdict: &str, receipt: Option<&str>) -> Self {
        let receipt = receipt.map(|token| sha256(token.as_bytes()));
        Self { challenge, verdict: sha256(verdict.as_bytes()), receipt }
    }

    /// The bytes of the leaf: four lines.
    pub fn encode(&self) -> String {
        let receipt = self.receipt.map_or_else(|| NO_RECEIPT.to_owned(), hex::encode);
        let (challenge, verdict) = (self.challenge, hex::encode(self.verdict));
        format!("{VERSION}\nchallenge {challenge}\nverdict {verdict}\nreceipt {receipt}\n")
    }

    /// Reads the bytes of a leaf.
    ///
    /// # Errors
    /// [`LogError::Malformed`]: any other bytes than [`VerdictEntry::encode`] writes.
    pub fn decode(bytes: &[u8]) -> Result<Self, LogError> {
        let entry = str::from_utf8(bytes).ok().and_then(parse);
        let entry = entry.filter(|entry| entry.encode().as_bytes() == bytes);
        entry.ok_or_else(|| LogError::malformed(format!("an entry is not in the form {VERSION}")))
    }

    /// The hash of the leaf.
    pub fn leaf(&self) -> Hash {
        Hash::leaf(self.encode().as_bytes())
    }
}

fn parse(text: &str) -> Option<VerdictEntry> {
    let mut lines = text.strip_prefix(VERSION)?.strip_prefix('\n')?.lines();
    let mut field = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ');
    let challenge = field("challenge")?.parse().ok()?;
    let verdict = digest(field("verdict")?)?;
    let receipt = match field("receipt")? {
        NO_RECEIPT => None,
        text => Some(digest(text)?),
    };
    Some(VerdictEntry { challenge, verdict, receipt })
}

fn digest(text: &str) -> Option<[u8; HASH_BYTES]> {
    let mut digest = [0; HASH_BYTES];
    decode_hex(text, &mut digest).ok().map(|()| digest)
}

/// Adds an entry to a bundle: its length in two bytes, big-endian, and its bytes.
pub fn bundle(entry: &VerdictEntry, into: &mut Vec<u8>) {
    let bytes = entry.encode();
    // An entry has 208 bytes at most.
    into.extend_from_slice(&(bytes.len() as u16).to_be_bytes());
    into.extend_from_slice(bytes.as_bytes());
}

/// The entries of a bundle, which must be `width`, each with the end of its bytes.
///
/// # Errors
/// [`LogError::Malformed`]: another number of entries, or bytes that are none.
pub fn unbundle(mut bytes: &[u8], width: u16) -> Result<Vec<(VerdictEntry, usize)>, LogError> {
    let (whole, mut entries) = (bytes.len(), Vec::new());
    while let Some((length, rest)) = bytes.split_first_chunk::<2>() {
        let length = usize::from(u16::from_be_bytes(*length));
        let (entry, rest) = rest.split_at_checked(length).ok_or_else(|| LogError::malformed("an entry is cut"))?;
        entries.push((VerdictEntry::decode(entry)?, whole - rest.len()));
        if entries.len() > usize::from(width) {
            break;
        }
        bytes = rest;
    }
    if entries.len() != usize::from(width) || !bytes.is_empty() {
        return Err(LogError::malformed(format!("a bundle does not have its {width} entries")));
    }
    Ok(entries)
}
