//! Copies of the records, in files of the validator's machine.

use std::path::{Path, PathBuf};

use assay_api::{WrittenFile, WrittenFolder};
use assay_records::{Actor, Format, RecordsError};

use super::OperationError;
use crate::validator::Validator;

/// Writes all records into a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    /// The folder, which is made.
    pub folder: PathBuf,
    /// The form of its files.
    pub format: Format,
}

/// Copies the records, as they are at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backup {
    /// A file that is not there yet.
    pub file: PathBuf,
}

impl Export {
    /// Writes them.
    ///
    /// # Errors
    /// [`OperationError`].
    pub async fn write(self, validator: &Validator, actor: &Actor) -> Result<WrittenFolder, OperationError> {
        let Self { folder, format } = self;
        let exported = validator.records.export(format, &folder).await.map_err(not_written)?;
        noted(validator, actor, "export", &folder).await;
        Ok(WrittenFolder { exported, folder: folder.display().to_string(), format })
    }
}

impl Backup {
    /// Copies them.
    ///
    /// # Errors
    /// [`OperationError`].
    pub async fn write(self, validator: &Validator, actor: &Actor) -> Result<WrittenFile, OperationError> {
        let Self { file } = self;
        validator.records.backup(&file).await.map_err(not_written)?;
        noted(validator, actor, "backup", &file).await;
        let bytes = std::fs::metadata(&file).map(|file| file.len()).unwrap_or_default();
        Ok(WrittenFile { file: file.display().to_string(), bytes })
    }
}

/// A copy that cannot be made where it was asked for is for whoever asked to mend, not for later.
fn not_written(error: RecordsError) -> OperationError {
    match error {
        error if error.is_trouble() => OperationError::Records(error),
        error => OperationError::NotPossible(error.to_string()),
    }
}

/// Notes who made a copy. The copy is made, whether that can be noted or not.
async fn noted(validator: &Validator, actor: &Actor, action: &str, path: &Path) {
    if let Err(error) = validator.records.note_action(actor, action, None, &path.display().to_string()).await {
        tracing::warn!(path = %path.display(), by = actor.name, "the records do not have who made a copy of them: {error}");
    }
}
