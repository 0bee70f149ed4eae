//! Copies of the records, in files of the validator's machine.

use std::path::PathBuf;

use assay_records::Actor;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Document, OperationError};
use crate::validator::Validator;

/// Writes all records into a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Export {
    /// The folder, which is made.
    pub folder: PathBuf,
    /// The form of its files.
    pub format: ExportFormat,
}

/// The form of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExportFormat {
    /// A JSON object for each row.
    JsonLines,
    /// Apache Parquet.
    Parquet,
}

/// Copies the records, as they are at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backup {
    /// A file that is not there yet.
    pub file: PathBuf,
}

impl Export {
    pub(super) async fn make(self, validator: &Validator, actor: &Actor) -> Result<Document, OperationError> {
        let _ = (validator, actor);
        Err(OperationError::NotPossible("not yet".into()))
    }
}

impl Backup {
    pub(super) async fn make(self, validator: &Validator, actor: &Actor) -> Result<Document, OperationError> {
        let _ = (validator, actor, json!(null));
        Err(OperationError::NotPossible("not yet".into()))
    }
}
