//! Settings of the evidence store: location, selection and limits.

use std::path::{Path, PathBuf};
use std::time::Duration;

use assay_evidence::{EvidenceLocation, StoreLimits};
use assay_program::settings::{Settings, SettingsError};
use clap::Args;

/// Folder for evidence, and for uploads to a bucket, beside the key file.
const FOLDER: &str = "evidence";
/// The longest age of evidence and verdicts, in days: ten years.
const MAX_AGE_D: u64 = 3650;
/// The most GiB of evidence: a pebibyte.
const MAX_GIB: u64 = 1 << 20;

/// What is kept of challenges, as written.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Evidence")]
pub struct RawEvidence {
    /// Folder or s3://bucket/prefix for the evidence of challenges, by which `rejudge` judges them again; the settings of
    /// a bucket come from the environment: AWS_REGION, AWS_ENDPOINT, AWS_ACCESS_KEY_ID, … [default: evidence/ beside key_file]
    #[arg(long, value_name = "FOLDER|URL")]
    pub evidence: Option<String>,
    /// Days after which evidence is removed; 0: never
    #[arg(long, value_name = "DAYS", default_value_t = 180)]
    pub evidence_max_age_d: u64,
    /// Total size of the evidence in GiB, above which the oldest is removed; 0: no limit
    #[arg(long, value_name = "GIB", default_value_t = 100)]
    pub evidence_max_gib: u64,
    /// Days after which verdicts are removed from the records, once nothing rests on them; 0: never
    #[arg(long, value_name = "DAYS", default_value_t = 730)]
    pub verdicts_max_age_d: u64,
}

/// Checked settings of the evidence store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvidenceConfig {
    pub location: EvidenceLocation,
    /// Folder for evidence that waits for upload.
    pub outbox: PathBuf,
    /// Limits on size and age.
    pub limits: StoreLimits,
    /// The greatest age of verdicts.
    pub verdicts_max_age: Option<Duration>,
}

impl EvidenceConfig {
    /// Checks the raw settings.
    ///
    /// # Errors
    /// [`SettingsError::Value`] for the first value out of bounds, with the bound and its reason.
    pub fn check<R: Args>(settings: &Settings<R>, raw: &RawEvidence, key_file: &Path) -> Result<Self, SettingsError> {
        let beside = key_file.with_file_name(FOLDER);
        let location = match &raw.evidence {
            Some(text) => settings.parsed("evidence", text)?,
            None => EvidenceLocation::Folder(beside.clone()),
        };
        let age = |name, days| {
            let days = settings.in_range(name, days, 0..=MAX_AGE_D, "ten years are as good as for ever")?;
            Ok(Some(Duration::from_secs(days * 86_400)).filter(|age| !age.is_zero()))
        };
        let verdicts_max_age = age("verdicts_max_age_d", raw.verdicts_max_age_d)?;
        let max_age = age("evidence_max_age_d", raw.evidence_max_age_d)?;
        let size = "no store is larger than a pebibyte";
        let gib = settings.in_range("evidence_max_gib", raw.evidence_max_gib, 0..=MAX_GIB, size)?;
        let limits = StoreLimits { max_age, max_bytes: Some(gib << 30).filter(|bytes| *bytes > 0) };
        Ok(Self { location, outbox: beside, limits, verdicts_max_age })
    }
}
