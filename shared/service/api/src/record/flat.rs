//! Documents that are several things at once: serde reads no JSON text as it stands ([`RawValue`]) out of a flattened
//! part or a tagged enum, so that such a document is kept whole, and each of its parts is read from it.

use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// A document that was read whole.
#[derive(Debug)]
pub struct Document(Box<RawValue>);

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(Self)
    }
}

impl Document {
    /// A part of it: other fields are ignored.
    ///
    /// # Errors
    /// The part is missing or malformed.
    pub fn part<T: DeserializeOwned, E: Error>(&self) -> Result<T, E> {
        serde_json::from_str(self.0.get()).map_err(E::custom)
    }
}
