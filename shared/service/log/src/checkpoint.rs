//! Checkpoints of logs (C2SP `tlog-checkpoint`).

use assay_protocol::identity::Identity;
use assay_work::PublicKey;

use crate::error::LogError;
use crate::hash::Hash;
use crate::note::{KeyKind, Note, NoteKey};
use crate::proof::MAX_TREE_SIZE;

/// Before a validator's key in the origin of its log. No other message that the key signs begins so: those of the protocol
/// begin with `assay v1`, those of TLS with blanks or a byte of DER.
const ORIGIN: &str = "assay-log/";

/// The head of a log at one size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// The name of the log.
    pub origin: String,
    /// Number of entries.
    pub size: u64,
    pub root: Hash,
}

/// A checkpoint with the signature of its log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedCheckpoint {
    /// The note, as it was read.
    pub note: String,
    pub checkpoint: Checkpoint,
    /// The known witnesses that cosigned it.
    pub cosigned: Vec<NoteKey>,
}

/// The key of a validator's log: the key of its sessions, under a name of its own.
pub fn log_key(validator: PublicKey) -> NoteKey {
    let name = format!("{ORIGIN}{validator}");
    // The name is of plain characters and short.
    NoteKey::new(name, KeyKind::Note, validator).unwrap_or_else(|_| unreachable!("a name of hex digits"))
}

impl Checkpoint {
    /// Reads the text of a note. Extension lines are passed over.
    ///
    /// # Errors
    /// [`LogError::Malformed`]: not a checkpoint, or of a tree larger than any.
    pub fn parse(text: &str) -> Result<Self, LogError> {
        let wrong = || LogError::malformed("not the text of a checkpoint");
        let body = text.strip_suffix('\n').ok_or_else(wrong)?;
        let lines: Vec<_> = body.split('\n').collect();
        let [origin, size, root, ..] = lines[..] else { return Err(wrong()) };
        if lines.iter().any(|line| line.is_empty()) {
            return Err(wrong());
        }
        let size = decimal(size).filter(|size| *size <= MAX_TREE_SIZE).ok_or_else(wrong)?;
        Ok(Self { origin: origin.to_owned(), size, root: root.parse()? })
    }

    /// The text of the note.
    pub fn text(&self) -> String {
        format!("{}\n{}\n{}\n", self.origin, self.size, self.root)
    }

    /// The signed note of a validator's log.
    pub fn sign(&self, identity: &Identity) -> String {
        let text = self.text();
        let line = log_key(identity.public_key()).sign(identity, &text, 0);
        format!("{text}\n{line}")
    }
}

impl SignedCheckpoint {
    /// Reads a note and checks that the log signed it; a cosignature of one of these witnesses must hold if it is there.
    ///
    /// # Errors
    /// [`LogError::Malformed`] or [`LogError::Inconsistent`].
    pub fn open(note: &str, log: &NoteKey, witnesses: &[NoteKey]) -> Result<Self, LogError> {
        let parsed = Note::parse(note)?;
        let checkpoint = Checkpoint::parse(parsed.text)?;
        if checkpoint.origin != log.name() {
            return Err(LogError::inconsistent(format!("the checkpoint is of another log than {}", log.name())));
        }
        if parsed.signature(log)?.is_none() {
            return Err(LogError::inconsistent(format!("{} did not sign the checkpoint", log.name())));
        }
        let mut cosigned = Vec::new();
        for witness in witnesses {
            if parsed.signature(witness)?.is_some() {
                cosigned.push(witness.clone());
            }
        }
        Ok(Self { note: note.to_owned(), checkpoint, cosigned })
    }

    /// For each of these witnesses that did not cosign it, a sentence.
    pub fn missing(&self, witnesses: &[NoteKey]) -> impl Iterator<Item = String> {
        let missing = witnesses.iter().filter(|witness| !self.cosigned.contains(witness));
        missing.map(|witness| format!("{} did not cosign the checkpoint", witness.name()))
    }
}

/// A decimal number without leading zeros.
pub fn decimal(text: &str) -> Option<u64> {
    text.parse::<u64>().ok().filter(|number| number.to_string() == text)
}
