//! Signatures of webhooks, by the specification of Standard Webhooks: HMAC-SHA256 over the id, the time of the attempt
//! and the body, under a secret of the webhook's own.

use std::fmt;
use std::str::FromStr;

use assay_protocol::identity::random_bytes;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// What the text of every secret begins with.
const PREFIX: &str = "whsec_";
/// Bytes of a secret that the specification allows.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// The secret of a webhook.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

/// Why a text is no secret of a webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected {PREFIX} and 24 to 64 bytes in Base64")]
pub struct SecretError;

impl Secret {
    /// A new one.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub fn random() -> Result<Self, String> {
        random_bytes::<32>().map(|bytes| Self(bytes.to_vec()))
    }

    /// From the bytes that the records keep; `None` where there are none.
    #[must_use]
    pub fn kept(bytes: Vec<u8>) -> Option<Self> {
        (!bytes.is_empty()).then_some(Self(bytes))
    }

    /// As the records keep it.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The text of the receiver: shown once.
    #[must_use]
    pub fn text(&self) -> String {
        format!("{PREFIX}{}", BASE64_STANDARD.encode(&self.0))
    }

    /// The header `webhook-signature` of a message.
    #[must_use]
    pub fn sign(&self, id: &str, unix_s: u64, body: &[u8]) -> String {
        // A key of any length will do for HMAC.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.0) else { return String::new() };
        mac.update(format!("{id}.{unix_s}.").as_bytes());
        mac.update(body);
        format!("v1,{}", BASE64_STANDARD.encode(mac.finalize().into_bytes()))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl FromStr for Secret {
    type Err = SecretError;

    fn from_str(text: &str) -> Result<Self, SecretError> {
        let bytes = text.strip_prefix(PREFIX).and_then(|text| BASE64_STANDARD.decode(text).ok()).ok_or(SecretError)?;
        if SECRET_BYTES.contains(&bytes.len()) { Ok(Self(bytes)) } else { Err(SecretError) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the specification's own libraries.
    #[test]
    fn the_signature_is_that_of_the_specification() {
        let secret: Secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".parse().unwrap();
        let signature = secret.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn a_secret_is_read_as_it_is_shown() {
        let secret = Secret::random().unwrap();
        assert_eq!(secret.text().parse(), Ok(secret.clone()));
        assert_eq!(secret.text().len(), 6 + 44);
        assert_eq!(format!("{secret:?}"), "Secret");
        for text in
            ["", "whsec_", "whsec_AAAA", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2L%"]
        {
            assert_eq!(text.parse::<Secret>(), Err(SecretError), "{text}");
        }
    }
}
