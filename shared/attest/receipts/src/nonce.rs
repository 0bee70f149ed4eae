//! Nonces of relying parties (RFC 9711, section 4.1; draft-ietf-rats-ear-04, section 3).

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

/// Bytes of the shortest nonce: 12 characters, the fewest that draft-ietf-rats-ear-04 allows.
pub const MIN_NONCE_BYTES: usize = 9;
/// Bytes of the longest nonce.
pub const MAX_NONCE_BYTES: usize = 64;
/// Characters of the longest nonce.
pub const MAX_NONCE_CHARS: usize = 86;

/// A nonce as a token has it: 9 to 64 bytes in base64url without padding. It is compared as text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct EatNonce(String);

/// The text is not a nonce.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected a nonce of 9 to 64 bytes in base64url without padding (12 to 86 of A-Z a-z 0-9 - _; a text of your \
     own has a multiple of 4), such as `openssl rand -hex 16` prints"
)]
pub struct NonceError;

impl EatNonce {
    /// The nonce of these bytes.
    ///
    /// # Errors
    /// [`NonceError`] when they are fewer than 9 or more than 64.
    pub fn of_bytes(bytes: &[u8]) -> Result<Self, NonceError> {
        let allowed = (MIN_NONCE_BYTES..=MAX_NONCE_BYTES).contains(&bytes.len());
        if allowed { Ok(Self(URL_SAFE_NO_PAD.encode(bytes))) } else { Err(NonceError) }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for EatNonce {
    type Err = NonceError;

    fn from_str(text: &str) -> Result<Self, NonceError> {
        if text.len() > MAX_NONCE_CHARS {
            return Err(NonceError);
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| NonceError)?;
        Self::of_bytes(&bytes)
    }
}

impl TryFrom<String> for EatNonce {
    type Error = NonceError;

    fn try_from(text: String) -> Result<Self, NonceError> {
        text.parse()
    }
}

impl From<EatNonce> for String {
    fn from(nonce: EatNonce) -> Self {
        nonce.0
    }
}

impl fmt::Display for EatNonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonces_have_9_to_64_bytes_in_base64url() {
        let longest = EatNonce::of_bytes(&[0xa5; MAX_NONCE_BYTES]).unwrap().to_string();
        assert_eq!(longest.len(), MAX_NONCE_CHARS);
        for good in ["AAAAAAAAAAAA", "00112233445566778899aabbccddeeff", "a-b_c-d_e-f_", longest.as_str()] {
            assert_eq!(good.parse::<EatNonce>().unwrap().as_str(), good);
        }
        let too_long = format!("{longest}A");
        // Too short, of a length that no bytes have, with bits that no byte has, in other alphabets, with padding.
        for wrong in [
            "",
            "AAAAAAAAAAA",
            "AAAAAAAAAAAAA",
            "AAAAAAAAAAAAAB",
            "a+b/c+d/e+f/",
            "AAAAAAAAAAA=",
            "nonce of mine",
            &too_long,
        ] {
            assert_eq!(wrong.parse::<EatNonce>(), Err(NonceError), "{wrong}");
        }
        assert_eq!(EatNonce::of_bytes(&[0; 8]), Err(NonceError));
        assert_eq!(EatNonce::of_bytes(&[0; 65]), Err(NonceError));
    }
}
