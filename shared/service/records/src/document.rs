//! JSON documents in columns.

use crate::{RecordsError, Result};

/// The error of an event's document.
pub(crate) fn malformed(source: serde_json::Error) -> RecordsError {
    RecordsError::Malformed { what: "event", source }
}

/// A JSON document in a column.
pub(crate) fn json<T: serde::de::DeserializeOwned>(text: &str, what: &'static str) -> Result<T> {
    serde_json::from_str(text).map_err(|source| RecordsError::Malformed { what, source })
}

pub(crate) fn to_json<T: serde::Serialize>(value: &T, what: &'static str) -> Result<String> {
    serde_json::to_string(value).map_err(|source| RecordsError::Malformed { what, source })
}
