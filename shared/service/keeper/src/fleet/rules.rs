//! The fleet's policy file, read at the start and on a reload.

use std::path::{Path, PathBuf};

use assay_policy::{FileError, FleetRules, MAX_FILE_BYTES, Policy};

/// Reasons why a policy file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    #[error("fleet_policy {path}: {source}")]
    Read {
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    #[error("fleet_policy {path}: larger than {} MiB", MAX_FILE_BYTES >> 20)]
    TooLarge { path: PathBuf },
    /// A value in the file is invalid.
    #[error(transparent)]
    File(#[from] FileError),
}

/// Reads a policy file; without one there is one group with the validator's settings. Groups override the policy of
/// the settings, if given.
///
/// # Errors
/// [`RulesError`], with every problem in the file; no part of it takes effect.
pub fn read(path: Option<&Path>, settings: Option<&Policy>) -> Result<FleetRules, RulesError> {
    let Some(path) = path else { return Ok(FleetRules::default()) };
    let failed = |source| RulesError::Read { path: path.into(), source };
    if std::fs::metadata(path).map_err(failed)?.len() > MAX_FILE_BYTES as u64 {
        return Err(RulesError::TooLarge { path: path.into() });
    }
    let text = std::fs::read_to_string(path).map_err(failed)?;
    Ok(FleetRules::parse(&text, &path.display().to_string(), settings)?)
}
