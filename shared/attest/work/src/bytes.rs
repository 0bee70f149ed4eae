//! Byte strings of fixed length, each a type of its own, written as lower-case hex.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Why a text is not the hex form of a byte string.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HexError {
    /// The text has another length than the type asks for.
    #[error("expected {expected} hex digits, found {found}")]
    Length {
        /// Digits of the type: twice its bytes.
        expected: usize,
        /// Characters of the text.
        found: usize,
    },
    /// The text holds something other than `0-9` and `a-f`.
    #[error("expected lower-case hex digits only")]
    Digit,
}

/// Reads lower-case hex into `out`.
///
/// # Errors
/// [`HexError`] when the length is not twice that of `out`, or a character is not a lower-case hex digit.
pub fn decode_hex(text: &str, out: &mut [u8]) -> Result<(), HexError> {
    if text.len() != 2 * out.len() {
        return Err(HexError::Length { expected: 2 * out.len(), found: text.chars().count() });
    }
    if !text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
        return Err(HexError::Digit);
    }
    hex::decode_to_slice(text, out).map_err(|_| HexError::Digit)
}

/// Serde for byte strings whose length another field decides, as lower-case hex.
pub mod hex_vec {
    use super::{Deserialize, Deserializer, Serializer, de, decode_hex};

    /// Writes lower-case hex.
    ///
    /// # Errors
    /// Fails when the serializer does.
    pub fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&hex::encode(bytes))
    }

    /// Reads lower-case hex.
    ///
    /// # Errors
    /// An odd length or a character that is no lower-case hex digit.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        let mut bytes = vec![0; text.len() / 2];
        decode_hex(&text, &mut bytes).map_err(de::Error::custom)?;
        Ok(bytes)
    }
}

macro_rules! byte_string {
    ($(#[$doc:meta])* $name:ident, $len:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub [u8; $len]);

        impl $name {
            /// The length in bytes.
            pub const LEN: usize = $len;

            /// The bytes.
            pub const fn as_bytes(&self) -> &[u8; $len] {
                &self.0
            }
        }

        impl AsRef<[u8]> for $name {
            fn as_ref(&self) -> &[u8] {
                &self.0
            }
        }

        impl From<[u8; $len]> for $name {
            fn from(bytes: [u8; $len]) -> Self {
                Self(bytes)
            }
        }

        impl TryFrom<&[u8]> for $name {
            type Error = std::array::TryFromSliceError;
            fn try_from(bytes: &[u8]) -> Result<Self, Self::Error> {
                bytes.try_into().map(Self)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&hex::encode(self.0))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($name), hex::encode(self.0))
            }
        }

        impl FromStr for $name {
            type Err = HexError;
            fn from_str(text: &str) -> Result<Self, HexError> {
                let mut bytes = [0; $len];
                decode_hex(text, &mut bytes)?;
                Ok(Self(bytes))
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
            }
        }

        #[cfg(feature = "schema")]
        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                let pattern = format!("^[0-9a-f]{{{}}}$", 2 * $len);
                utoipa::openapi::schema::ObjectBuilder::new()
                    .schema_type(utoipa::openapi::schema::Type::String)
                    .pattern(Some(pattern))
                    .into()
            }
        }

        #[cfg(feature = "schema")]
        impl utoipa::ToSchema for $name {}
    };
}

byte_string!(
    /// A compute device, as the host names it: stable over restarts, distinct on one host.
    DeviceId, 16
);
byte_string!(
    /// A challenge's id: random, never used twice.
    ChallengeId, 16
);
byte_string!(
    /// A challenge's nonce, from the operating system's random source, never used twice.
    Nonce, 32
);
byte_string!(
    /// An Ed25519 public key.
    PublicKey, 32
);
byte_string!(
    /// An Ed25519 signature.
    Signature, 64
);
byte_string!(
    /// The key that binds the work to one challenge (WORK.md, Keys).
    WorkKey, 32
);
byte_string!(
    /// The key of one pass of one device (WORK.md, Keys).
    PassKey, 32
);
byte_string!(
    /// A BLAKE3 digest: of a slot, or of a round of the probe.
    Digest, 32
);
byte_string!(
    /// The root of a pass: BLAKE3 over the digests of its slots.
    Root, 32
);
byte_string!(
    /// A SHA-256 checksum: of a device, of a commitment, of a probe answer.
    Checksum, 32
);
byte_string!(
    /// The seed of a residency probe, from the operating system's random source, never used twice.
    ProbeSeed, 32
);
byte_string!(
    /// The key of one device's probe (WORK.md, Residency probe).
    ProbeKey, 32
);
byte_string!(
    /// The key of one round of one device's probe (WORK.md, Residency probe).
    RoundKey, 32
);
byte_string!(
    /// The hash of a subtree of a BLAKE3 tree below the root. It is not a [`Digest`].
    ChainingValue, 32
);

impl Root {
    /// `root[-1]`: the root that the first pass follows.
    pub const BEFORE_FIRST: Self = Self([0; 32]);
}

impl Digest {
    /// `probe_digest[-1]`: the digest that the first round of a probe follows.
    pub const BEFORE_FIRST: Self = Self([0; 32]);
}
