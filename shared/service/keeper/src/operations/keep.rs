//! Exports and backups of the records, to files on the validator's machine.

use std::path::Path;

use assay_api::{WrittenFile, WrittenFolder};
use assay_records::{Actor, RecordsError};

use super::{OperationError, Result};
use crate::validator::Validator;

/// Writes all records into a folder, which is created.
pub async fn export(validator: &Validator, folder: &Path, actor: &Actor) -> Result<WrittenFolder> {
    let exported = validator.records.export(folder).await.map_err(not_written)?;
    noted(validator, actor, "export", folder).await;
    Ok(WrittenFolder { exported, folder: folder.display().to_string() })
}

/// Copies the records as of one moment into a file, which must not exist; `check`: everything is checked first.
pub async fn backup(validator: &Validator, file: &Path, check: bool, actor: &Actor) -> Result<WrittenFile> {
    if check {
        validator.records.refuse_damage().await.map_err(not_written)?;
    }
    validator.records.backup(file).await.map_err(not_written)?;
    noted(validator, actor, "backup", file).await;
    let bytes = std::fs::metadata(file).map(|file| file.len()).unwrap_or_default();
    Ok(WrittenFile { file: file.display().to_string(), bytes })
}

/// A failed copy is the caller's to correct: it is not retried.
fn not_written(error: RecordsError) -> OperationError {
    match error {
        error if error.is_trouble() => OperationError::Records(error),
        error => OperationError::NotPossible(error.to_string()),
    }
}

/// Records the author of a copy. The copy stands even if that fails.
async fn noted(validator: &Validator, actor: &Actor, action: &str, path: &Path) {
    if let Err(error) = validator.records.note_action(actor, action, None, &path.display().to_string()).await {
        tracing::warn!(path = %path.display(), by = actor.name, "the records do not have who made a copy of them: {error}");
    }
}
