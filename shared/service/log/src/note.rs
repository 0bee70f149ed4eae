//! Signed notes (C2SP `signed-note`): keys, signature lines, and cosignatures (`tlog-cosignature`, Ed25519).

use std::fmt;
use std::str::FromStr;

use assay_protocol::identity::{Identity, verify};
use assay_work::{PublicKey, Signature};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::error::LogError;
use crate::hash::sha256;

/// Bytes of the largest note: 16 signatures of 5 kB in base64 and more.
pub const MAX_NOTE_BYTES: usize = 128 << 10;
/// Signature lines of a note.
const MAX_SIGNATURES: usize = 64;
/// Bytes of a key's name.
const MAX_NAME_BYTES: usize = 256;
/// The beginning of a signature line.
const DASH: &str = "\u{2014} ";

/// The message that a key signs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    /// The text of a note, as a log does.
    Note = 1,
    /// The text of a checkpoint with the time, as a witness does.
    Cosignature = 4,
}

/// A named public key; a text is its verifier key (vkey).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoteKey {
    name: String,
    kind: KeyKind,
    key: PublicKey,
}

impl NoteKey {
    /// # Errors
    /// [`LogError::Malformed`] for a name that no signature line can have.
    pub fn new(name: impl Into<String>, kind: KeyKind, key: PublicKey) -> Result<Self, LogError> {
        let name = name.into();
        let is_plain = |c: char| !c.is_whitespace() && !c.is_control() && c != '+';
        if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.chars().all(is_plain) {
            return Err(LogError::malformed("a key's name is empty or long, or has a blank or a plus"));
        }
        Ok(Self { name, kind, key })
    }

    /// The key of a witness.
    ///
    /// # Errors
    /// [`LogError::Malformed`], also for the key of a log.
    pub fn witness(text: &str) -> Result<Self, LogError> {
        let key: Self = text.parse()?;
        let of_log = || LogError::malformed("the key is that of a log, not of a witness");
        if key.kind == KeyKind::Cosignature { Ok(key) } else { Err(of_log()) }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub const fn kind(&self) -> KeyKind {
        self.kind
    }

    fn material(&self) -> Vec<u8> {
        [&[self.kind as u8], self.key.0.as_slice()].concat()
    }

    fn id(&self) -> [u8; 4] {
        let hash = sha256(&[self.name.as_bytes(), b"\n", &self.material()].concat());
        [hash[0], hash[1], hash[2], hash[3]]
    }

    /// The signature line of a note's text by this key, whose secret half is given.
    pub fn sign(&self, secret: &Identity, text: &str, unix_s: u64) -> String {
        let mut bytes = self.id().to_vec();
        if self.kind == KeyKind::Cosignature {
            bytes.extend_from_slice(&unix_s.to_be_bytes());
        }
        bytes.extend_from_slice(&secret.sign(&self.message(text, unix_s)).0);
        format!("{DASH}{} {}\n", self.name, STANDARD.encode(bytes))
    }

    fn message(&self, text: &str, unix_s: u64) -> Vec<u8> {
        match self.kind {
            KeyKind::Note => text.as_bytes().to_vec(),
            KeyKind::Cosignature => format!("cosignature/v1\ntime {unix_s}\n{text}").into_bytes(),
        }
    }

    fn verifies(&self, text: &str, signature: &[u8]) -> bool {
        let (unix_s, signature) = match self.kind {
            KeyKind::Note => (0, signature),
            KeyKind::Cosignature => match signature.split_first_chunk() {
                Some((time, rest)) => (u64::from_be_bytes(*time), rest),
                None => return false,
            },
        };
        let is_time = unix_s > 0 || self.kind == KeyKind::Note;
        let signature = <[u8; 64]>::try_from(signature).map(Signature);
        is_time
            && i64::try_from(unix_s).is_ok()
            && signature.is_ok_and(|signature| verify(&self.key, &self.message(text, unix_s), &signature))
    }
}

impl fmt::Display for NoteKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}+{}", self.name, hex::encode(self.id()), STANDARD.encode(self.material()))
    }
}

impl FromStr for NoteKey {
    type Err = LogError;

    fn from_str(text: &str) -> Result<Self, LogError> {
        let wrong = || LogError::malformed("expected a verifier key of Ed25519, NAME+ID+KEY");
        let (name, rest) = text.split_once('+').ok_or_else(wrong)?;
        let (_, material) = rest.split_once('+').ok_or_else(wrong)?;
        let material = STANDARD.decode(material).map_err(|_| wrong())?;
        let (kind, key) = material.split_first().ok_or_else(wrong)?;
        let kind = [KeyKind::Note, KeyKind::Cosignature].into_iter().find(|known| *known as u8 == *kind);
        let key = PublicKey::try_from(key).map_err(|_| wrong())?;
        let key = Self::new(name, kind.ok_or_else(wrong)?, key)?;
        if key.to_string() == text { Ok(key) } else { Err(wrong()) }
    }
}

/// A parsed note.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note<'a> {
    /// The signed text, with its last newline.
    pub text: &'a str,
    signatures: Vec<SignatureLine<'a>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct SignatureLine<'a> {
    line: &'a str,
    name: &'a str,
    id: [u8; 4],
    signature: Vec<u8>,
}

impl<'a> Note<'a> {
    /// # Errors
    /// [`LogError::Malformed`]: not a signed note, or too large.
    pub fn parse(note: &'a str) -> Result<Self, LogError> {
        if note.len() > MAX_NOTE_BYTES || note.chars().any(|c| c < ' ' && c != '\n') {
            return Err(LogError::malformed("a note is too large, or has control characters"));
        }
        let (before, lines) =
            note.rsplit_once("\n\n").ok_or_else(|| LogError::malformed("a note has no signatures"))?;
        Ok(Self { text: &note[..=before.len()], signatures: signature_lines(lines)? })
    }

    /// The line of this key's signature, which holds; `None` where the key did not sign.
    ///
    /// # Errors
    /// [`LogError::Inconsistent`]: a signature by name and id of this key does not hold.
    pub fn signature(&self, key: &NoteKey) -> Result<Option<&'a str>, LogError> {
        let id = key.id();
        let mut found = None;
        for line in self.signatures.iter().filter(|line| line.name == key.name && line.id == id) {
            if !key.verifies(self.text, &line.signature) {
                return Err(LogError::inconsistent(format!("a signature of {} does not hold", key.name)));
            }
            found = Some(line.line);
        }
        Ok(found)
    }
}

/// Signature lines, each with its newline.
fn signature_lines(lines: &str) -> Result<Vec<SignatureLine<'_>>, LogError> {
    let wrong = || LogError::malformed("a signature line of a note is malformed");
    if lines.is_empty() || !lines.ends_with('\n') {
        return Err(wrong());
    }
    let lines: Vec<_> = lines.split_inclusive('\n').take(MAX_SIGNATURES + 1).collect();
    if lines.len() > MAX_SIGNATURES {
        return Err(LogError::malformed("a note has too many signatures"));
    }
    let parsed = lines.into_iter().map(|line| {
        let (name, signature) = line.strip_prefix(DASH)?.strip_suffix('\n')?.split_once(' ')?;
        let bytes = STANDARD.decode(signature).ok()?;
        let (id, signature) = bytes.split_first_chunk()?;
        let is_name = !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || c == '+');
        is_name.then(|| SignatureLine { line, name, id: *id, signature: signature.to_vec() })
    });
    parsed.collect::<Option<_>>().ok_or_else(wrong)
}
