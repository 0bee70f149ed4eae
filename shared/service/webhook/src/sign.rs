//! Signatures of webhooks, by the specification of Standard Webhooks: HMAC-SHA256 over the id, the time of the attempt
//! and the body, under a secret of the webhook's own.

use std::fmt;
use std::str::FromStr;

use assay_protocol::identity::random_bytes;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Prefix of the text of every secret.
const PREFIX: &str = "whsec_";
/// Lengths of a secret allowed by the specification, in bytes.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

#[derive(Clone, PartialEq, Eq)]
pub struct SigningSecret(Vec<u8>);

/// The text is not a secret of a webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected {PREFIX} and 24 to 64 bytes in Base64")]
pub struct SecretError;

impl SigningSecret {
    /// Creates a random secret.
    ///
    /// # Errors
    /// The system has no random bytes.
    pub fn random() -> Result<Self, String> {
        random_bytes::<32>().map(|bytes| Self(bytes.to_vec()))
    }

    /// Restores a secret from its stored bytes.
    pub const fn kept(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// The bytes to store.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The text for the receiver, shown once.
    pub fn text(&self) -> String {
        format!("{PREFIX}{}", BASE64_STANDARD.encode(&self.0))
    }

    /// The value of the header `webhook-signature` of a message.
    pub fn sign(&self, id: &str, unix_s: u64, body: &[u8]) -> String {
        // HMAC accepts keys of any length.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.0) else { return String::new() };
        mac.update(format!("{id}.{unix_s}.").as_bytes());
        mac.update(body);
        format!("v1,{}", BASE64_STANDARD.encode(mac.finalize().into_bytes()))
    }
}

impl fmt::Debug for SigningSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningSecret")
    }
}

impl FromStr for SigningSecret {
    type Err = SecretError;

    fn from_str(text: &str) -> Result<Self, SecretError> {
        let bytes = text.strip_prefix(PREFIX).and_then(|text| BASE64_STANDARD.decode(text).ok()).ok_or(SecretError)?;
        if SECRET_BYTES.contains(&bytes.len()) { Ok(Self(bytes)) } else { Err(SecretError) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example in the specification's own libraries.
    #[test]
    fn the_signature_is_that_of_the_specification() {
        let secret: SigningSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".parse().unwrap();
        let signature = secret.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn a_secret_is_read_as_it_is_shown() {
        let secret = SigningSecret::random().unwrap();
        assert_eq!(secret.text().parse(), Ok(secret.clone()));
        assert_eq!(secret.text().len(), 6 + 44);
        assert_eq!(format!("{secret:?}"), "SigningSecret");
        for text in
            ["", "whsec_", "whsec_AAAA", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2L%"]
        {
            assert_eq!(text.parse::<SigningSecret>(), Err(SecretError), "{text}");
        }
    }
}
