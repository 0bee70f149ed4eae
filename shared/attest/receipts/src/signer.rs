//! The key that receipts are signed with, its rotation, and the JWK set beside it.
//!
//! The key file and its statements are those of [`key_file`](assay_protocol::key_file): a rotation replaces the secret
//! key, and the old one vouches for the new one as long as the overlap lasts. That long its public half stays in the
//! set, so that receipts from before the rotation can be checked.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use assay_protocol::identity::{Identity, random_bytes};
use assay_protocol::key_file::{KeyFileError, KeyRotation, Rotation};
use assay_protocol::successor::Lineage;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::RwLock;
use serde_json::json;

use crate::keys::{KeySet, key_id};
use crate::subject::Subject;
use crate::verify::TOKEN_TYPE;

/// Signs receipts.
#[derive(Debug)]
pub struct Signer {
    key_file: PathBuf,
    build: String,
    identity: RwLock<Identity>,
}

/// A signed receipt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// Its id, the token's `jti`: 32 hex digits.
    pub id: String,
    /// The id of the key that signed it.
    pub key_id: String,
    /// When it was issued, in seconds since 1970.
    pub issued_s: u64,
    /// From when on it must not be accepted, in seconds since 1970.
    pub expires_s: u64,
    /// The JSON Web Token.
    pub token: String,
}

/// The key to sign with is not available.
#[derive(Debug, thiserror::Error)]
pub enum SignerError {
    /// The key file.
    #[error(transparent)]
    Key(#[from] KeyFileError),
    /// The JWK set cannot be written.
    #[error("cannot write the JWK set of receipts to {path}: the folder of the key file must be writable")]
    KeySet {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The JWK set has a key that the key file does not know, as after a copy of a part of the files.
    #[error(
        "{set} has key {id}, which {key_file} and {key_file}.successors do not know: put all three back from one copy, or \
         remove {set} to give that key up"
    )]
    LostKey {
        /// The set.
        set: PathBuf,
        /// The id of the key.
        id: String,
        /// The key file.
        key_file: PathBuf,
    },
}

/// Why a receipt could not be issued.
#[derive(Debug, thiserror::Error)]
pub enum ReceiptIssueError {
    /// The operating system gave no random bytes for its id.
    #[error("the operating system gave no random bytes: {0}")]
    Random(String),
    /// The claims have no JSON.
    #[error("cannot encode the claims of a receipt: {0}")]
    Json(#[from] serde_json::Error),
}

/// The file with the JWK set of a key file: `receipt.jwks.json` beside `receipt.key`.
pub fn key_set_file(key_file: &Path) -> PathBuf {
    key_file.with_extension("jwks.json")
}

impl Signer {
    /// Opens the key, which is made on first use, and writes its JWK set. `build` is the program and its version.
    ///
    /// # Errors
    /// [`SignerError`], with its remedy.
    pub fn open(key_file: &Path, build: impl Into<String>) -> Result<Self, SignerError> {
        let identity = Identity::load_or_create(key_file)?;
        check_key_set(key_file, &identity)?;
        write_key_set(key_file, &identity)?;
        Ok(Self { key_file: key_file.into(), build: build.into(), identity: RwLock::new(identity) })
    }

    /// Reads the key again, after a rotation, for [`Signer::sign_with`].
    ///
    /// # Errors
    /// [`SignerError`].
    pub fn read_again(&self) -> Result<Identity, SignerError> {
        let identity = Identity::load_or_create(&self.key_file)?;
        check_key_set(&self.key_file, &identity)?;
        write_key_set(&self.key_file, &identity)?;
        Ok(identity)
    }

    /// Signs with this key from now on; returns whether it is another one.
    pub fn sign_with(&self, identity: Identity) -> bool {
        let before = std::mem::replace(&mut *self.identity.write(), identity);
        before.public_key() != self.identity.read().public_key()
    }

    /// Replaces the key in a file by a new one. The old one stays in the JWK set as long as the overlap lasts.
    ///
    /// # Errors
    /// [`SignerError`]; there must be a key.
    pub fn rotate(key_file: &Path, overlap: Duration, now_s: u64) -> Result<KeyRotation, SignerError> {
        let rotation = Rotation::begin(key_file, now_s)?;
        // Without an overlap the keys before are given up.
        if !overlap.is_zero() {
            check_key_set(key_file, &Identity::load_or_create(key_file)?)?;
        }
        let rotated = rotation.finish(overlap, now_s)?;
        write_key_set(key_file, &Identity::load_or_create(key_file)?)?;
        Ok(rotated)
    }

    /// The JWK set at a moment: the key that signs, and those before it whose overlap lasts.
    pub fn key_set(&self, now_s: u64) -> KeySet {
        key_set(&self.identity.read(), now_s)
    }

    /// Issues a receipt.
    ///
    /// # Errors
    /// [`ReceiptIssueError`].
    pub fn issue(&self, subject: &Subject<'_>) -> Result<Receipt, ReceiptIssueError> {
        let identity = self.identity.read().clone();
        let id = random_bytes::<16>().map_err(ReceiptIssueError::Random)?;
        let claims = subject.claims(format!("{:032x}", u128::from_be_bytes(id)), &self.build);
        let key_id = key_id(&identity.public_key());
        let header = json!({ "alg": "EdDSA", "typ": TOKEN_TYPE, "kid": key_id });
        let token = sign(&identity, &header.to_string(), &serde_json::to_string(&claims)?);
        Ok(Receipt { id: claims.jti, key_id, issued_s: claims.iat, expires_s: claims.exp, token })
    }
}

/// The compact form (RFC 7515, section 7.1). No library signs with a key that is overwritten when it is dropped.
fn sign(identity: &Identity, header: &str, claims: &str) -> String {
    let message = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
    let signature = identity.sign(message.as_bytes());
    format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature.0))
}

fn key_set(identity: &Identity, now_s: u64) -> KeySet {
    let lineage = Lineage::verify(identity.public_key(), identity.successors());
    // A key ends with the first statement on its way to the one that signs.
    let old = identity.successors().iter().filter_map(|statement| {
        let until_s = lineage.until(&statement.old_key, |_| true).filter(|until_s| *until_s > now_s)?;
        Some((statement.old_key, Some(until_s)))
    });
    KeySet::of([(identity.public_key(), None)].into_iter().chain(old))
}

/// Refuses to drop a key from the set whose receipts are still accepted.
fn check_key_set(key_file: &Path, identity: &Identity) -> Result<(), SignerError> {
    let set = key_set_file(key_file);
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let before = fs::read_to_string(&set).ok().and_then(|text| KeySet::parse(&text).ok());
    match before.as_ref().and_then(|before| before.lost_in(&key_set(identity, 0), now_s)) {
        Some(id) => Err(SignerError::LostKey { id: id.to_owned(), set, key_file: key_file.into() }),
        None => Ok(()),
    }
}

/// Writes the set as a whole: a reader finds the old one or the new one.
fn write_key_set(key_file: &Path, identity: &Identity) -> Result<(), SignerError> {
    let path = key_set_file(key_file);
    // A key is loaded with the statements that last.
    let text = format!("{:#}\n", key_set(identity, 0).to_json());
    if fs::read_to_string(&path).is_ok_and(|found| found == text) {
        return Ok(());
    }
    replace(&path, &text).map_err(|source| SignerError::KeySet { path: path.clone(), source })
}

/// Puts a file in the place of another. Root may do so in the folder of a service's user: a link there is not followed.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_extension("json.new");
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).open(&new)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all())?;
    fs::rename(&new, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 8037, appendix A.4, with the key of appendix A.1.
    #[test]
    fn tokens_are_signed_as_in_rfc_8037() {
        let seed = URL_SAFE_NO_PAD.decode("nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A").unwrap();
        let identity = Identity::from_seed(&seed.try_into().unwrap());
        let token = sign(&identity, r#"{"alg":"EdDSA"}"#, "Example of Ed25519 signing");
        assert_eq!(
            token,
            "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc.\
             hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg"
        );
    }
}
