//! JSON documents in columns.

use crate::RecordsError;

/// A JSON document in a column.
pub(crate) fn json<T: serde::de::DeserializeOwned>(text: &str, what: &'static str) -> Result<T, RecordsError> {
    serde_json::from_str(text).map_err(|source| RecordsError::Malformed { what, source })
}

pub(crate) fn to_json<T: serde::Serialize>(value: &T, what: &'static str) -> Result<String, RecordsError> {
    serde_json::to_string(value).map_err(|source| RecordsError::Malformed { what, source })
}
