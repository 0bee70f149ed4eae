//! The fleet's rules in force: the policy file and the profiles of GPU models, read at the start and on a reload.

use std::path::{Path, PathBuf};

use assay_policy::expectations::{self, ExpectationsError};
use assay_policy::{Expectations, FileError, FleetPolicy, MAX_FILE_BYTES, ModelProfiles, Policy};
use clap::Args;

/// Where the rules of the fleet are, as written.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Fleet")]
pub struct RawFleet {
    /// File with the policy of the fleet: groups, their schedule, what is asked of them, and what follows
    #[arg(long, value_name = "FILE")]
    pub fleet_policy: Option<PathBuf>,
    /// File with profiles of GPU models, which come before the built-in ones
    #[arg(long, value_name = "FILE")]
    pub model_profiles: Option<PathBuf>,
}

/// Files with the rules of the fleet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FleetFiles {
    /// Policy file; `None`: one group with the validator's settings.
    pub policy: Option<PathBuf>,
    /// Profiles file; `None`: the built-in ones only.
    pub profiles: Option<PathBuf>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct FleetRules {
    pub policy: FleetPolicy,
    pub profiles: ModelProfiles,
}

/// Reasons why rules cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    #[error("{setting} {path}: {source}")]
    Read {
        /// Setting that names the file.
        setting: &'static str,
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    #[error("{setting} {path}: larger than {most} MiB", most = .most >> 20)]
    TooLarge {
        /// Setting that names the file.
        setting: &'static str,
        path: PathBuf,
        /// The limit in bytes.
        most: usize,
    },
    /// A value in the expectations is invalid.
    #[error(transparent)]
    Expectations(#[from] ExpectationsError),
    /// A value in a file is invalid.
    #[error(transparent)]
    File(#[from] FileError),
}

impl FleetFiles {
    /// Takes the settings as written.
    pub fn of(raw: &RawFleet) -> Self {
        Self { policy: raw.fleet_policy.clone(), profiles: raw.model_profiles.clone() }
    }

    /// Reads the files; `settings` is the policy that groups override.
    ///
    /// # Errors
    /// [`RulesError`]: no part of the files takes effect.
    pub fn load(&self, settings: &Policy) -> Result<FleetRules, RulesError> {
        let policy = match &self.policy {
            Some(path) => read_policy(path, Some(settings))?,
            None => FleetPolicy::default(),
        };
        let profiles = match &self.profiles {
            Some(path) => {
                let own =
                    ModelProfiles::parse(&read("model_profiles", path, MAX_FILE_BYTES)?, &path.display().to_string())?;
                ModelProfiles::built_in().with(own)
            }
            None => ModelProfiles::built_in(),
        };
        Ok(FleetRules { policy, profiles })
    }
}

/// Reads a policy file. Its groups override the policy of the settings, if given.
///
/// # Errors
/// [`RulesError`], with every problem in the file.
pub fn read_policy(path: &Path, settings: Option<&Policy>) -> Result<FleetPolicy, RulesError> {
    let text = read("fleet_policy", path, MAX_FILE_BYTES)?;
    Ok(FleetPolicy::parse(&text, &path.display().to_string(), settings)?)
}

/// Reads a file of expectations; none without a file.
pub fn read_expectations(path: Option<&Path>) -> Result<Expectations, RulesError> {
    let Some(path) = path else { return Ok(Expectations::default()) };
    Ok(Expectations::parse(path, &read("expectations", path, expectations::MAX_FILE_BYTES)?)?)
}

fn read(setting: &'static str, path: &Path, most: usize) -> Result<String, RulesError> {
    let failed = |source| RulesError::Read { setting, path: path.into(), source };
    if std::fs::metadata(path).map_err(failed)?.len() > most as u64 {
        return Err(RulesError::TooLarge { setting, path: path.into(), most });
    }
    std::fs::read_to_string(path).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expectations_are_read_where_a_file_is_named() {
        let missing = read_expectations(Some(Path::new("/no/such/file.toml"))).unwrap_err();
        assert!(missing.to_string().contains("expectations /no/such/file.toml"), "{missing}");
        assert_eq!(read_expectations(None).unwrap(), Expectations::default());
    }
}
