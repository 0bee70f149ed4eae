//! Ed25519 identities: made on first use, kept in a file that only its owner reads, and what they sign.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use ed25519_dalek::{Signer, SigningKey, VerifyingKey};

use assay_work::{Nonce, PublicKey, Signature};
use zeroize::Zeroizing;

use crate::channel::{Channel, ChannelMismatch};

/// The largest key file that is read: 64 digits and some blanks.
const MAX_KEY_FILE_BYTES: u64 = 4096;

/// What stands before the seed in PKCS #8: version 1, id-Ed25519, 34 and 32 bytes of octets (RFC 8410, section 7).
const PKCS8_HEADER: [u8; 16] = [48, 46, 2, 1, 0, 48, 5, 6, 3, 43, 101, 112, 4, 34, 4, 32];

/// Why a key could not be had.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The file could not be read, made or written.
    #[error("key file {path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// There is a folder, a device or a pipe of that name.
    #[error("key file {0} is no regular file: name a file, such as {example}", example = .0.join("miner.key").display())]
    NoFile(PathBuf),
    /// The file holds something else than one key.
    #[error("key file {0} does not hold 64 lower-case hex digits: restore it, or move it away to have a new key made")]
    Malformed(PathBuf),
    /// Others can read the file.
    #[error(
        "key file {path} can be read by others (mode {mode:03o}): chmod 600 it, or move it away to have a new key made"
    )]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The operating system gave no random bytes.
    #[error("the operating system gave no random bytes: {0}")]
    Random(String),
}

/// One side's signing key.
#[derive(Clone)]
pub struct Identity(SigningKey);

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Identity({})", self.public_key())
    }
}

impl Identity {
    /// The identity of an RFC 8032 seed.
    #[must_use]
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        Self(SigningKey::from_bytes(seed))
    }

    /// Reads the key file, or makes one with mode 0600 (and its folder) when there is none. Windows has no modes: whoever
    /// may read the folder may read the key.
    ///
    /// # Errors
    /// [`IdentityError`], each with its remedy; a malformed or exposed file is never overwritten.
    pub fn load_or_create(path: &Path) -> Result<Self, IdentityError> {
        match fs::metadata(path) {
            // What is no file may have no end.
            Ok(found) if !found.is_file() => return Err(IdentityError::NoFile(path.into())),
            Ok(found) if found.len() > MAX_KEY_FILE_BYTES => return Err(IdentityError::Malformed(path.into())),
            _ => {}
        }
        match fs::read(path) {
            Ok(text) => Self::parse(path, &String::from_utf8_lossy(&text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::create(path),
            Err(source) => Err(IdentityError::File { path: path.into(), source }),
        }
    }

    fn parse(path: &Path, text: &str) -> Result<Self, IdentityError> {
        check_mode(path)?;
        let mut seed = [0; 32];
        assay_work::bytes::decode_hex(text.trim_end(), &mut seed).map_err(|_| IdentityError::Malformed(path.into()))?;
        Ok(Self::from_seed(&seed))
    }

    fn create(path: &Path) -> Result<Self, IdentityError> {
        let file_error = |source| IdentityError::File { path: path.into(), source };
        let seed: [u8; 32] = random_bytes().map_err(IdentityError::Random)?;
        if let Some(folder) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
            fs::create_dir_all(folder).map_err(file_error)?;
        }
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(path).map_err(file_error)?;
        if let Err(error) = writeln!(file, "{}", hex::encode(seed)).and_then(|()| file.sync_all()) {
            // Half a key would be refused for ever; that the disk is full is known already.
            let _ = fs::remove_file(path);
            return Err(file_error(error));
        }
        Ok(Self::from_seed(&seed))
    }

    /// The public half.
    #[must_use]
    pub fn public_key(&self) -> PublicKey {
        PublicKey(self.0.verifying_key().to_bytes())
    }

    /// The secret key in PKCS #8 version 1 (RFC 8410), as the makers of certificates take it. Overwritten when dropped.
    #[must_use]
    pub fn pkcs8_der(&self) -> Zeroizing<[u8; 48]> {
        let mut der = Zeroizing::new([0; 48]);
        der[..16].copy_from_slice(&PKCS8_HEADER);
        der[16..].copy_from_slice(self.0.as_bytes());
        der
    }

    /// Signs the raw bytes (RFC 8032, no prehash).
    #[must_use]
    pub fn sign(&self, message: &[u8]) -> Signature {
        Signature(self.0.sign(message).to_bytes())
    }
}

/// Whether `signature` is `key`'s over `message`, strictly: small-order keys and points are refused.
#[must_use]
pub fn verify(key: &PublicKey, message: &[u8], signature: &Signature) -> bool {
    VerifyingKey::from_bytes(&key.0)
        .is_ok_and(|key| key.verify_strict(message, &ed25519_dalek::Signature::from_bytes(&signature.0)).is_ok())
}

/// What both sides of a session sign: the version, both keys, both nonces and the channel, under a name of its own.
#[derive(Debug, Clone, Copy)]
pub struct SessionTranscript {
    /// The protocol version agreed on.
    pub version: u32,
    /// The validator's key.
    pub validator_key: PublicKey,
    /// The miner's key.
    pub miner_key: PublicKey,
    /// The validator's nonce.
    pub nonce: Nonce,
    /// The miner's nonce.
    pub miner_nonce: Nonce,
    /// What the session's bytes pass through.
    pub channel: Channel,
}

impl SessionTranscript {
    /// What the validator signs in its welcome.
    #[must_use]
    pub fn welcome_message(&self) -> Vec<u8> {
        self.message(b"assay v1 welcome")
    }

    /// What the miner signs in its proof.
    #[must_use]
    pub fn proof_message(&self) -> Vec<u8> {
        self.message(b"assay v1 session")
    }

    /// Checks the validator's signature in its welcome.
    ///
    /// # Errors
    /// What the channel may have to do with it, when the signature does not hold.
    pub fn check_welcome(&self, signature: &Signature) -> Result<(), ChannelMismatch> {
        self.check(&self.validator_key, signature, Self::welcome_message)
    }

    /// Checks the miner's signature in its proof.
    ///
    /// # Errors
    /// As [`Self::check_welcome`].
    pub fn check_proof(&self, signature: &Signature) -> Result<(), ChannelMismatch> {
        self.check(&self.miner_key, signature, Self::proof_message)
    }

    fn check(
        &self,
        key: &PublicKey,
        signature: &Signature,
        message: fn(&Self) -> Vec<u8>,
    ) -> Result<(), ChannelMismatch> {
        let holds_for = |channel| verify(key, &message(&Self { channel, ..*self }), signature);
        if holds_for(self.channel) { Ok(()) } else { Err(self.channel.mismatch(holds_for)) }
    }

    fn message(&self, name: &[u8]) -> Vec<u8> {
        let mut message = name.to_vec();
        message.extend_from_slice(&self.version.to_le_bytes());
        for part in [&self.validator_key.0, &self.miner_key.0, &self.nonce.0, &self.miner_nonce.0] {
            message.extend_from_slice(part);
        }
        message.extend_from_slice(&self.channel.bytes());
        message
    }
}

/// Bytes from the operating system's random source.
///
/// # Errors
/// What the system said, when it has none to give.
pub fn random_bytes<const N: usize>() -> Result<[u8; N], String> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes)
}

#[cfg(unix)]
fn check_mode(path: &Path) -> Result<(), IdentityError> {
    use std::os::unix::fs::PermissionsExt;
    let metadata = fs::metadata(path).map_err(|source| IdentityError::File { path: path.into(), source })?;
    let mode = metadata.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(IdentityError::Exposed { path: path.into(), mode });
    }
    Ok(())
}

/// Elsewhere a file has no mode: on Windows it inherits who may read it from its folder, which by default is in the
/// user's profile, and there that is the user, administrators and the system.
#[cfg(not(unix))]
fn check_mode(_path: &Path) -> Result<(), IdentityError> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_made_once_and_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state/miner.key");
        let first = Identity::load_or_create(&path).unwrap();
        let again = Identity::load_or_create(&path).unwrap();
        assert_eq!(first.public_key(), again.public_key());
        let other = Identity::load_or_create(&folder.path().join("other.key")).unwrap();
        assert_ne!(first.public_key(), other.public_key());
    }

    #[cfg(unix)]
    #[test]
    fn a_key_is_its_owners_alone() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.key");
        Identity::load_or_create(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(Identity::load_or_create(&path), Err(IdentityError::Exposed { mode: 0o640, .. })));
    }

    #[test]
    fn a_malformed_key_is_refused_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.key");
        Identity::load_or_create(&path).unwrap();
        fs::write(&path, "not a key\n").unwrap();
        assert!(matches!(Identity::load_or_create(&path), Err(IdentityError::Malformed(_))));
        assert_eq!(fs::read_to_string(&path).unwrap(), "not a key\n");
    }

    #[test]
    fn what_is_no_file_is_refused_and_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let error = Identity::load_or_create(folder.path()).unwrap_err();
        assert!(matches!(error, IdentityError::NoFile(_)) && error.to_string().contains("miner.key"), "{error}");
        // It has no end.
        #[cfg(unix)]
        assert!(matches!(Identity::load_or_create(Path::new("/dev/zero")), Err(IdentityError::NoFile(_))));
        let large = folder.path().join("large");
        fs::write(&large, vec![b'a'; 5000]).unwrap();
        assert!(matches!(Identity::load_or_create(&large), Err(IdentityError::Malformed(_))));
    }

    /// The example of RFC 8410, section 10.3.
    #[test]
    fn the_secret_key_is_written_as_pkcs8() {
        let seed = "d4ee72dbf913584ad5b6d8f1f769f8ad3afe7c28cbf1d4fbe097a88f44755842";
        let mut bytes = [0; 32];
        hex::decode_to_slice(seed, &mut bytes).unwrap();
        let der = Identity::from_seed(&bytes).pkcs8_der();
        assert_eq!(hex::encode(*der), format!("302e020100300506032b657004220420{seed}"));
    }

    #[test]
    fn a_signature_holds_for_its_key_and_message_only() {
        let identity = Identity::from_seed(&[7; 32]);
        let signature = identity.sign(b"message");
        assert!(verify(&identity.public_key(), b"message", &signature));
        assert!(!verify(&identity.public_key(), b"massage", &signature));
        assert!(!verify(&Identity::from_seed(&[8; 32]).public_key(), b"message", &signature));
        // The neutral point as key accepts any message under the lax rule; the strict one refuses it.
        let mut neutral = [0; 32];
        neutral[0] = 1;
        let mut forged = [0; 64];
        forged[0] = 1;
        assert!(!verify(&PublicKey(neutral), b"message", &Signature(forged)));
    }
}
