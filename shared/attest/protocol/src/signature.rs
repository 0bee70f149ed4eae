//! Ed25519 signatures as every side verifies them.

use assay_work::{PublicKey, Signature};
use ed25519_dalek::VerifyingKey;

/// Whether `signature` is `key`'s over `message`, strictly: small-order keys and points are refused.
#[must_use]
pub fn verify(key: &PublicKey, message: &[u8], signature: &Signature) -> bool {
    VerifyingKey::from_bytes(&key.0)
        .is_ok_and(|key| key.verify_strict(message, &ed25519_dalek::Signature::from_bytes(&signature.0)).is_ok())
}
