//! Successor statements: an old key states which key follows it, and until when that stands.
//!
//! A statement is `old_key ‖ new_key ‖ u64(until) ‖ signature`, 136 bytes; the signature is the old key's over `"assay
//! v1 succeed" ‖ old_key ‖ new_key ‖ u64(until)`. A side that pins the old key, or has it on a list, follows the
//! statements to the new one, in chains of at most 8, until the first of them expires. The session proves that the
//! other side holds the new key.

use std::cmp::Reverse;

use assay_work::bytes::decode_hex;
use assay_work::{PublicKey, Signature};

use crate::signature::verify;

/// Statements that are followed, kept and sent: one key change a month with an overlap of half a year.
pub const MAX_SUCCESSORS: usize = 8;
/// Bytes of an encoded statement.
pub const SUCCESSOR_BYTES: usize = 136;
/// Seconds of the longest overlap: a year. An old key that vouches for ever could never be given up.
pub const MAX_OVERLAP_S: u64 = 365 * 86_400;
/// Seconds that the reader's clock may be behind the clock of a statement's maker: a day.
const CLOCK_SLACK_S: u64 = 86_400;
/// The start of the signed message.
const NAME: &[u8; 16] = b"assay v1 succeed";

/// A statement of `old_key` that `new_key` stands for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Successor {
    /// The key that signs.
    pub old_key: PublicKey,
    /// The key that follows it.
    pub new_key: PublicKey,
    /// The end of the overlap, in seconds since 1970: from then on the statement says nothing.
    pub until_unix_seconds: u64,
    /// The old key's, over the message.
    pub signature: Signature,
}

/// An error of encoded statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SuccessorError {
    /// No multiple of the length of a statement.
    #[error("expected successor statements of {SUCCESSOR_BYTES} bytes each, found {0} bytes")]
    Length(usize),
    /// More statements than a chain has.
    #[error("found {0} successor statements; at most {MAX_SUCCESSORS} are allowed")]
    TooMany(usize),
    /// A text that is not the hex form of a statement.
    #[error("expected {} lower-case hex digits in each line", 2 * SUCCESSOR_BYTES)]
    Hex,
}

impl Successor {
    /// The statement of `old_key`, which `sign` signs with, that `new_key` follows it until then.
    pub fn sign(
        old_key: PublicKey,
        new_key: PublicKey,
        until_unix_seconds: u64,
        sign: impl FnOnce(&[u8]) -> Signature,
    ) -> Self {
        let signature = sign(&message(&old_key, &new_key, until_unix_seconds));
        Self { old_key, new_key, until_unix_seconds, signature }
    }

    /// The 136 bytes.
    pub fn encode(&self) -> [u8; SUCCESSOR_BYTES] {
        let mut bytes = [0; SUCCESSOR_BYTES];
        bytes[..32].copy_from_slice(&self.old_key.0);
        bytes[32..64].copy_from_slice(&self.new_key.0);
        bytes[64..72].copy_from_slice(&self.until_unix_seconds.to_le_bytes());
        bytes[72..].copy_from_slice(&self.signature.0);
        bytes
    }

    /// Reads 136 bytes. The signature is not verified: [`follow`] does that.
    ///
    /// # Errors
    /// [`SuccessorError::Length`].
    pub fn decode(bytes: &[u8]) -> Result<Self, SuccessorError> {
        let bytes: &[u8; SUCCESSOR_BYTES] = bytes.try_into().map_err(|_| SuccessorError::Length(bytes.len()))?;
        Ok(Self::from(*bytes))
    }

    /// Reads the hex form.
    ///
    /// # Errors
    /// [`SuccessorError::Hex`].
    pub fn from_hex(text: &str) -> Result<Self, SuccessorError> {
        let mut bytes = [0; SUCCESSOR_BYTES];
        decode_hex(text, &mut bytes).map_err(|_| SuccessorError::Hex)?;
        Ok(Self::from(bytes))
    }

    /// The hex form.
    pub fn to_hex(&self) -> String {
        hex::encode(self.encode())
    }

    /// Whether it stands at this time, by its date alone. One that ends further ahead than an overlap may last never
    /// stands.
    #[must_use]
    pub const fn is_current(&self, now_unix_seconds: u64) -> bool {
        now_unix_seconds < self.until_unix_seconds
            && self.until_unix_seconds - now_unix_seconds <= MAX_OVERLAP_S + CLOCK_SLACK_S
    }

    /// Whether the old key signed it, strictly.
    #[must_use]
    pub fn is_signed(&self) -> bool {
        let message = message(&self.old_key, &self.new_key, self.until_unix_seconds);
        self.old_key != self.new_key && verify(&self.old_key, &message, &self.signature)
    }
}

impl From<[u8; SUCCESSOR_BYTES]> for Successor {
    fn from(bytes: [u8; SUCCESSOR_BYTES]) -> Self {
        let part = |from: usize| std::array::from_fn(|i| bytes[from + i]);
        Self {
            old_key: PublicKey(part(0)),
            new_key: PublicKey(part(32)),
            until_unix_seconds: u64::from_le_bytes(std::array::from_fn(|i| bytes[64 + i])),
            signature: Signature(std::array::from_fn(|i| bytes[72 + i])),
        }
    }
}

impl From<Successor> for [u8; SUCCESSOR_BYTES] {
    fn from(statement: Successor) -> Self {
        statement.encode()
    }
}

/// Statements one after the other, as a certificate carries them.
pub fn encode_all(statements: &[Successor]) -> Vec<u8> {
    statements.iter().flat_map(Successor::encode).collect()
}

/// Reads the form of [`encode_all`]. No signature is verified.
///
/// # Errors
/// [`SuccessorError::Length`], [`SuccessorError::TooMany`].
pub fn decode_all(bytes: &[u8]) -> Result<Vec<Successor>, SuccessorError> {
    let (statements, rest) = bytes.as_chunks::<SUCCESSOR_BYTES>();
    if !rest.is_empty() {
        return Err(SuccessorError::Length(bytes.len()));
    }
    if statements.len() > MAX_SUCCESSORS {
        return Err(SuccessorError::TooMany(statements.len()));
    }
    Ok(statements.iter().map(|bytes| Successor::from(*bytes)).collect())
}

/// Whether `to` is `from`, or follows it by a chain of statements that all stand at this time. More than 8 statements
/// are never followed. Each signature is verified at most once.
#[must_use]
pub fn follow(from: &PublicKey, to: &PublicKey, statements: &[Successor], now_unix_seconds: u64) -> bool {
    from == to || Lineage::verify(*to, statements).until(from, |s| s.is_current(now_unix_seconds)).is_some()
}

/// A key and the statements that came with it, each of them signed by its old key. Dates are not looked at yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lineage {
    key: PublicKey,
    statements: Vec<Successor>,
}

impl Lineage {
    /// The lineage of a key that follows no other.
    pub const fn alone(key: PublicKey) -> Self {
        Self { key, statements: Vec::new() }
    }

    /// Of a key that says that these statements lead to it. One whose signature does not hold is passed over; of more
    /// than 8 all are.
    pub fn verify(key: PublicKey, statements: &[Successor]) -> Self {
        let statements = if statements.len() > MAX_SUCCESSORS { &[] } else { statements };
        let mut statements: Vec<_> = statements.iter().copied().filter(Successor::is_signed).collect();
        // Of several from one key to another, the one that stands longest.
        statements.sort_by_key(|statement| Reverse(statement.until_unix_seconds));
        Self { key, statements }
    }

    /// The key.
    pub const fn key(&self) -> PublicKey {
        self.key
    }

    /// Those on the ways to the key among those that `stands` lets through, nearest first, each old key once.
    pub fn standing(&self, stands: impl Fn(&Successor) -> bool) -> Vec<Successor> {
        let mut found: Vec<Successor> = Vec::new();
        let mut reached = vec![self.key];
        let mut next = 0;
        while let Some(key) = reached.get(next).copied() {
            next += 1;
            for statement in self.statements.iter().filter(|s| s.new_key == key) {
                if !reached.contains(&statement.old_key) && stands(statement) {
                    reached.push(statement.old_key);
                    found.push(*statement);
                }
            }
        }
        found
    }

    /// The time until which the key follows `from`, by statements that `stands` accepts: the end of the first that
    /// ends, in seconds since 1970. `None` where it does not follow.
    pub fn until(&self, from: &PublicKey, stands: impl Fn(&Successor) -> bool) -> Option<u64> {
        let standing = self.standing(stands);
        let (mut key, mut until) = (*from, None);
        // Each old key is reached once, so that one way leads on from it.
        while let Some(statement) = standing.iter().find(|s| s.old_key == key) {
            key = statement.new_key;
            until =
                Some(until.map_or(statement.until_unix_seconds, |until: u64| until.min(statement.until_unix_seconds)));
        }
        until
    }
}

fn message(old_key: &PublicKey, new_key: &PublicKey, until_unix_seconds: u64) -> Vec<u8> {
    let mut message = NAME.to_vec();
    message.extend_from_slice(&old_key.0);
    message.extend_from_slice(&new_key.0);
    message.extend_from_slice(&until_unix_seconds.to_le_bytes());
    message
}

#[cfg(test)]
mod tests;
