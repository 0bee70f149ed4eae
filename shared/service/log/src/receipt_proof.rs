//! The proof that a receipt is in a log (C2SP `tlog-proof`), with the entry as its extra data.

use std::fmt;
use std::str::FromStr;

use assay_work::ChallengeId;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::checkpoint::{SignedCheckpoint, decimal};
use crate::entry::{MAX_ENTRY_BYTES, VerdictEntry};
use crate::error::LogError;
use crate::hash::{Hash, sha256};
use crate::note::{MAX_NOTE_BYTES, NoteKey};
use crate::proof::{MAX_PROOF_HASHES, includes};

/// Bytes of the largest proof: hashes in base64, the entry, the checkpoint.
pub const MAX_PROOF_BYTES: usize = MAX_NOTE_BYTES + 2 * MAX_ENTRY_BYTES + (MAX_PROOF_HASHES + 2) * 64;
const VERSION: &str = "c2sp.org/tlog-proof@v1";

/// A proof, unchecked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceiptProof {
    pub entry: VerdictEntry,
    pub index: u64,
    pub hashes: Vec<Hash>,
    /// The signed checkpoint.
    pub note: String,
}

impl ReceiptProof {
    /// Checks that the token of a receipt for a challenge is the one of the entry, and the entry in the log; gives the
    /// checkpoint. A log has one entry for each challenge, which an entry under another challenge would get around.
    ///
    /// # Errors
    /// [`LogError`]: nothing is proved.
    pub fn check(
        &self,
        (challenge, token): (ChallengeId, &str),
        log: &NoteKey,
        witnesses: &[NoteKey],
    ) -> Result<SignedCheckpoint, LogError> {
        if self.entry.challenge != challenge || self.entry.receipt != Some(sha256(token.as_bytes())) {
            return Err(LogError::inconsistent("the proof is of another receipt"));
        }
        let signed = SignedCheckpoint::open(&self.note, log, witnesses)?;
        let (size, root) = (signed.checkpoint.size, &signed.checkpoint.root);
        if !includes(self.entry.leaf(), self.index, size, &self.hashes, root) {
            return Err(LogError::inconsistent("the proof does not lead to the root of its checkpoint"));
        }
        if let Some(missing) = signed.missing(witnesses).next() {
            return Err(LogError::Inconsistent(missing));
        }
        Ok(signed)
    }
}

impl fmt::Display for ReceiptProof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { entry, index, hashes, note } = self;
        writeln!(f, "{VERSION}\nextra {}\nindex {index}", STANDARD.encode(entry.encode()))?;
        hashes.iter().try_for_each(|hash| writeln!(f, "{hash}"))?;
        write!(f, "\n{note}")
    }
}

impl FromStr for ReceiptProof {
    type Err = LogError;

    fn from_str(text: &str) -> Result<Self, LogError> {
        let wrong = |what: &str| LogError::malformed(format!("not a proof of a receipt: {what}"));
        if text.len() > MAX_PROOF_BYTES {
            return Err(wrong("it is too large"));
        }
        let (head, note) = text.split_once("\n\n").ok_or_else(|| wrong("no checkpoint"))?;
        let mut lines = head.split('\n');
        if lines.next() != Some(VERSION) {
            return Err(wrong("another first line than c2sp.org/tlog-proof@v1"));
        }
        let mut field = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ');
        let entry = field("extra").and_then(|extra| STANDARD.decode(extra).ok()).ok_or_else(|| wrong("no entry"))?;
        let index = field("index").and_then(decimal).ok_or_else(|| wrong("no index"))?;
        let hashes: Vec<Hash> = lines.take(MAX_PROOF_HASHES + 1).map(str::parse).collect::<Result<_, _>>()?;
        if hashes.len() > MAX_PROOF_HASHES {
            return Err(wrong("too many hashes"));
        }
        Ok(Self { entry: VerdictEntry::decode(&entry)?, index, hashes, note: note.to_owned() })
    }
}
