//! The fleet's rules in force: the policy file and the profiles of GPU models, read at the start and on a reload.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use assay_fleet::policy::{DeviceMissing as Missing, Judge};
use assay_fleet::{FileError, FleetPolicy, Group, Kind, MAX_FILE_BYTES, ModelProfiles};
use clap::Args;

use crate::policy::{DeviceMissing, Policy};

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

/// Where the rules of the fleet are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FleetFiles {
    /// The policy; `None`: one group that is treated as the settings say.
    pub policy: Option<PathBuf>,
    /// The profiles; `None`: the built-in ones.
    pub profiles: Option<PathBuf>,
}

/// The rules that are in force.
#[derive(Debug, Clone, PartialEq)]
pub struct FleetRules {
    /// The policy.
    pub policy: FleetPolicy,
    /// The profiles of GPU models.
    pub profiles: ModelProfiles,
}

/// Why rules cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    /// A file cannot be read.
    #[error("{setting} {path}: {source}")]
    Read {
        /// The setting that names it.
        setting: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file is too large.
    #[error("{setting} {path}: larger than {most} KiB", most = MAX_FILE_BYTES >> 10)]
    TooLarge {
        /// The setting that names it.
        setting: &'static str,
        /// The file.
        path: PathBuf,
    },
    /// Something in a file cannot be.
    #[error(transparent)]
    File(#[from] FileError),
}

impl FleetFiles {
    /// What was written.
    #[must_use]
    pub fn of(raw: &RawFleet) -> Self {
        Self { policy: raw.fleet_policy.clone(), profiles: raw.model_profiles.clone() }
    }

    /// Reads the files.
    ///
    /// # Errors
    /// [`RulesError`]: nothing of them is in force.
    pub fn load(&self) -> Result<FleetRules, RulesError> {
        let policy = match &self.policy {
            Some(path) => read_policy(path)?,
            None => FleetPolicy::default(),
        };
        let profiles = match &self.profiles {
            Some(path) => {
                let own = ModelProfiles::parse(&read("model_profiles", path)?, &path.display().to_string())?;
                ModelProfiles::built_in().with(own)
            }
            None => ModelProfiles::built_in(),
        };
        Ok(FleetRules { policy, profiles })
    }
}

/// Reads a policy file.
///
/// # Errors
/// [`RulesError`], with every problem in the file.
pub fn read_policy(path: &Path) -> Result<FleetPolicy, RulesError> {
    Ok(FleetPolicy::parse(&read("fleet_policy", path)?, &path.display().to_string())?)
}

fn read(setting: &'static str, path: &Path) -> Result<String, RulesError> {
    let failed = |source| RulesError::Read { setting, path: path.into(), source };
    if std::fs::metadata(path).map_err(failed)?.len() > MAX_FILE_BYTES as u64 {
        return Err(RulesError::TooLarge { setting, path: path.into() });
    }
    std::fs::read_to_string(path).map_err(failed)
}

/// What a challenge of a group asks: the validator's policy with the group's values laid over it.
#[must_use]
pub fn laid_over(policy: &Policy, group: &Group, kind: Option<&Kind>) -> Arc<Policy> {
    let mut policy = policy.clone();
    judged_by(&mut policy, &group.judge);
    if let Some(kind) = kind {
        asked_by(&mut policy, kind);
    }
    Arc::new(policy)
}

fn set<T: Copy>(value: Option<T>, field: &mut T) {
    if let Some(value) = value {
        *field = value;
    }
}

fn judged_by(policy: &mut Policy, judge: &Judge) {
    let Judge { device_missing, abandoned_limit, abandoned_window, rate_factor, bus_gb_per_s, .. } = *judge;
    let missing = device_missing.map(|missing| match missing {
        Missing::Warn => DeviceMissing::Warn,
        Missing::Inconclusive => DeviceMissing::Inconclusive,
        Missing::Fail => DeviceMissing::Fail,
    });
    set(missing, &mut policy.device_missing);
    set(abandoned_limit, &mut policy.abandoned.limit);
    set(abandoned_window, &mut policy.abandoned.window);
    set(rate_factor, &mut policy.hiding.rate_factor);
    let hiding = &mut policy.hiding;
    for (tops, peak_per_s) in [
        (judge.peak_tops, &mut hiding.peak_per_s),
        (judge.peak_tops_f16, &mut hiding.peak_f16_per_s),
        (judge.peak_tops_fp8, &mut hiding.peak_fp8_per_s),
        (judge.peak_tops_fp4, &mut hiding.peak_fp4_per_s),
    ] {
        set(tops.map(|tops| Some(tops * 1e12 / 2.0)), peak_per_s);
    }
    set(bus_gb_per_s.map(|rate| rate * 1e9), &mut policy.hiding.bus_bytes_per_s);
}

fn asked_by(policy: &mut Policy, kind: &Kind) {
    let Kind {
        name: _,
        kinds,
        mode,
        replay_budget,
        n,
        n_min,
        min_slots,
        iterations,
        fill_percent,
        max_matrices,
        samples,
        segments,
        sampled_iterations,
        commit_deadline,
        probe_target,
        probe_deadline,
        linked_probe,
        linked_min_gb_per_s,
        min_held_percent,
    } = kind;
    if let Some(kinds) = kinds {
        policy.kinds.clone_from(kinds);
    }
    set(mode.map(|mode| mode.mode()), &mut policy.mode);
    set(*replay_budget, &mut policy.replay_budget);
    if n.is_some() {
        // A smallest size of the settings was meant for theirs.
        (policy.n, policy.n_min) = (*n, *n_min);
    } else if n_min.is_some() {
        policy.n_min = *n_min;
    }
    set(*min_slots, &mut policy.min_slots);
    set(*iterations, &mut policy.iterations);
    set(*fill_percent, &mut policy.fill_percent);
    set(*max_matrices, &mut policy.max_matrices);
    set(*samples, &mut policy.samples);
    set(*segments, &mut policy.segments);
    set(*sampled_iterations, &mut policy.sampled_iterations);
    set(*commit_deadline, &mut policy.commit_deadline);
    if let Some(target) = probe_target {
        policy.probe.target = *target;
        policy.probe.deadline = policy.probe.deadline.max(*target * 10);
    }
    set(*probe_deadline, &mut policy.probe.deadline);
    match linked_probe {
        Some(true) => _ = policy.linked.get_or_insert_default(),
        Some(false) => policy.linked = None,
        None => {}
    }
    if let (Some(linked), Some(least)) = (&mut policy.linked, linked_min_gb_per_s) {
        linked.min_gb_per_s = *least;
    }
    set(min_held_percent.map(|percent| f64::from(percent) / 100.0), &mut policy.hiding.min_held);
}
