//! Ed25519 identities, and the messages that they sign. Their files are in [`key_file`](crate::key_file).

use std::sync::Arc;

use ed25519_dalek::{Signer, SigningKey};

use assay_work::{Nonce, PublicKey, Signature};
use zeroize::Zeroizing;

use crate::channel::{Channel, ChannelMismatch};
pub use crate::signature::verify;
use crate::successor::Successor;

/// The bytes before the seed in PKCS #8: version 1, id-Ed25519, 34 and 32 bytes of octets (RFC 8410, section 7).
const PKCS8_HEADER: [u8; 16] = [48, 46, 2, 1, 0, 48, 5, 6, 3, 43, 101, 112, 4, 34, 4, 32];

/// One side's signing key, and the statements by which its earlier keys are followed to it. Clones share both; the secret
/// is overwritten when the last one is dropped.
#[derive(Clone)]
pub struct Identity {
    key: Arc<SigningKey>,
    successors: Arc<[Successor]>,
    origin: PublicKey,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Identity({})", self.public_key())
    }
}

impl Identity {
    /// The identity of an RFC 8032 seed, which followed no other.
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        let key = Arc::new(SigningKey::from_bytes(seed));
        let origin = PublicKey(key.verifying_key().to_bytes());
        Self { key, successors: [].into(), origin }
    }

    /// The same key after those that made these statements, and the first of which was `origin`.
    pub fn following(self, successors: &[Successor], origin: PublicKey) -> Self {
        Self { successors: successors.into(), origin, ..self }
    }

    /// The public half.
    pub fn public_key(&self) -> PublicKey {
        PublicKey(self.key.verifying_key().to_bytes())
    }

    /// The statements by which earlier keys are followed to this one, at most
    /// [`MAX_SUCCESSORS`](crate::successor::MAX_SUCCESSORS).
    pub fn successors(&self) -> &[Successor] {
        &self.successors
    }

    /// The first key, of which this one is a successor or itself. Values that are derived from the key and must outlast
    /// it, such as ids of devices, are derived from this one.
    pub const fn origin(&self) -> PublicKey {
        self.origin
    }

    /// The secret key in PKCS #8 version 1 (RFC 8410), as the makers of certificates take it. Overwritten when dropped.
    pub fn pkcs8_der(&self) -> Zeroizing<[u8; 48]> {
        let mut der = Zeroizing::new([0; 48]);
        der[..16].copy_from_slice(&PKCS8_HEADER);
        der[16..].copy_from_slice(self.key.as_bytes());
        der
    }

    /// This key's statement that `new_key` follows it until then.
    pub fn succeed(&self, new_key: PublicKey, until_unix_seconds: u64) -> Successor {
        Successor::sign(self.public_key(), new_key, until_unix_seconds, |message| self.sign(message))
    }

    /// Signs the raw bytes (RFC 8032, no prehash).
    pub fn sign(&self, message: &[u8]) -> Signature {
        Signature(self.key.sign(message).to_bytes())
    }
}

/// The transcript that both sides of a session sign: the version, both keys, both nonces and the channel, under a name
/// of its own.
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
    /// The path of the session's bytes.
    pub channel: Channel,
}

impl SessionTranscript {
    /// The message that the validator signs in its welcome.
    pub fn welcome_message(&self) -> Vec<u8> {
        self.message(b"assay v1 welcome")
    }

    /// The message that the miner signs in its proof.
    pub fn proof_message(&self) -> Vec<u8> {
        self.message(b"assay v1 session")
    }

    /// Checks the validator's signature in its welcome.
    ///
    /// # Errors
    /// The channel's part in it, when the signature does not hold.
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
/// The system's error, when it gives no bytes.
pub fn random_bytes<const N: usize>() -> Result<[u8; N], String> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

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
