//! The policy of a fleet: selection of miners, schedule and strength of challenges, and consequences, with the
//! expectations of miners and the profiles of models. Read by [`FleetRules::parse`]; docs/settings.md explains each
//! field.

mod file;

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Labels;
use crate::challenge::Policy;
use crate::expectations::Expectations;
use crate::fields::Overrides;
use crate::profile::ModelProfiles;
use crate::read::{self, FileError};
use crate::rules::Rules;

/// The most groups of a policy.
pub const MAX_GROUPS: usize = 256;
/// The most labels of a miner, and of a group's selector.
pub const MAX_LABELS: usize = 32;
/// The most bytes of a label's name, and of its value.
pub const MAX_LABEL_BYTES: usize = 63;
/// Name of the group for all miners that no other group takes.
pub const DEFAULT_GROUP: &str = "default";

/// The contents of a policy file.
#[derive(Debug, Clone, PartialEq)]
pub struct FleetRules {
    pub policy: FleetPolicy,
    /// The built-in profiles, with those of the file before them.
    pub profiles: ModelProfiles,
    pub expectations: Arc<Expectations>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FleetPolicy {
    /// Groups in the order of the file; the last is [`DEFAULT_GROUP`] and takes every miner.
    pub groups: Vec<Group>,
    /// Label that names a miner's operator: distributions weigh its values alike.
    pub operator_label: String,
}

/// Miners that share a policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Group {
    pub name: String,
    pub select: Selector,
    pub cadence: Cadence,
    /// Settings of light challenges.
    pub light: Kind,
    /// Settings and share of heavy challenges; `None`: all are light.
    pub heavy: Option<Heavy>,
    /// The most of a host's device time in any day, in percent; `None`: no limit.
    pub duty_percent: Option<f64>,
    /// The most challenges of the group at once; `None`: as many as the validator allows.
    pub concurrency: Option<u32>,
    /// Rules of the attestation state.
    pub rules: Rules,
    /// Rounds of its miners; `None`: no rounds.
    pub rounds: Option<Rounds>,
    pub bands: BandPolicy,
    /// Consequences of findings about identity.
    pub identity: IdentityPolicy,
    pub receipts: ReceiptPolicy,
    pub evidence: EvidencePolicy,
    /// Overrides of the validator's settings for judging.
    pub judge: Overrides,
}

/// Criteria of a group: a miner must meet all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selector {
    /// Labels with these values; `*` is any value.
    pub labels: Labels,
    /// A text that the claimed model of every device contains, in any case of letters.
    pub model: Option<String>,
}

/// Schedule of a group's challenges.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cadence {
    /// The mean of the waits, which are drawn memorylessly; `None`: the validator's `challenge_interval_s`.
    pub mean: Option<Duration>,
    /// The shortest wait. For this time after a challenge a miner can be sure that no other follows.
    pub least: Duration,
    /// The longest wait; `None`: ten times the mean.
    pub most: Option<Duration>,
    /// Whether a miner is challenged when it connects; `None`: the validator's `challenge_on_connect`.
    pub at_connect: Option<bool>,
}

/// Settings of a kind of challenge.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Kind {
    /// `light` or `heavy`.
    pub name: String,
    /// Overrides of the validator's settings.
    #[serde(flatten)]
    pub asks: Overrides,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Heavy {
    /// Settings of heavy challenges.
    pub kind: Kind,
    /// Percentage of challenges that are heavy, drawn for each.
    pub share_percent: f64,
}

/// Rounds: members of a group are challenged at the same time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rounds {
    /// The mean of the waits between rounds, drawn memorylessly; `None`: only on an operator's request.
    pub mean: Option<Duration>,
    /// Time limit of the start: a member that has not taken its challenge by then failed to start.
    pub start_within: Duration,
    /// The most members of a round; `None`: all. The remaining ones are drawn into later rounds.
    pub most: Option<u32>,
}

/// Judging of speed and memory, against the profile of a model and against the fleet.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BandPolicy {
    /// Whether findings against the profile of a model fail a device; otherwise they are recorded.
    pub enforce_profile: bool,
    /// Whether findings against the fleet's own distribution fail a device.
    pub enforce_fleet: bool,
    /// The least number of other hosts for a band.
    pub least_hosts: u32,
    /// The least number of other operators for a band.
    pub least_operators: u32,
    /// Half-width of a band, in robust standard deviations of logarithms.
    pub width: f64,
    /// The least half-width of a band: percent above the median, and the same ratio below it.
    pub least_width_percent: f64,
    /// The least percentage of the profile's tensor peak.
    pub least_tops_percent: f64,
    /// The least percentage of the profile's memory bandwidth.
    pub least_bandwidth_percent: f64,
    /// The least percentage of the profile's memory, scaled by the share that the challenge fills.
    pub least_memory_percent: f64,
    /// Tolerance above the profile's figures, in percent.
    pub above_percent: f64,
    /// Work shorter than this many seconds is not compared with the profile: the start weighs too much.
    pub least_seconds: f64,
}

impl Default for BandPolicy {
    fn default() -> Self {
        Self {
            enforce_profile: false,
            enforce_fleet: false,
            least_hosts: 8,
            least_operators: 5,
            width: 4.0,
            least_width_percent: 15.0,
            least_tops_percent: 25.0,
            least_bandwidth_percent: 10.0,
            least_memory_percent: 80.0,
            above_percent: 25.0,
            least_seconds: 2.0,
        }
    }
}

assay_work::names! {
    /// The miners that a finding about identity fails, by the names of the policy file.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Enforcement {
        /// No miner: the finding is recorded.
        Record = "record",
        /// Each miner proved to lie. Where one of two lies and it is unknown which: both, if they are one operator's,
        /// else the later one.
        Proved = "proved",
        /// Both sides of the finding.
        Both = "both",
    }
}

/// Consequences of findings about identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdentityPolicy {
    /// One device id at two miners at once.
    pub device_at_two_miners: Enforcement,
    /// One key at two hosts at once.
    pub key_at_two_addresses: Enforcement,
}

impl Default for IdentityPolicy {
    fn default() -> Self {
        Self { device_at_two_miners: Enforcement::Proved, key_at_two_addresses: Enforcement::Proved }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiptPolicy {
    /// The longest validity of a receipt; it never exceeds the attestation.
    pub lifetime: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct EvidencePolicy {
    /// Percentage of passes whose evidence is kept, drawn for each; evidence of other verdicts is always kept.
    pub passes_percent: f64,
}

impl Default for Group {
    fn default() -> Self {
        Self {
            name: DEFAULT_GROUP.to_owned(),
            select: Selector::default(),
            cadence: Cadence::default(),
            light: Kind { name: "light".to_owned(), ..Kind::default() },
            heavy: None,
            duty_percent: None,
            concurrency: None,
            rules: Rules::default(),
            rounds: None,
            bands: BandPolicy::default(),
            identity: IdentityPolicy::default(),
            receipts: ReceiptPolicy { lifetime: Duration::from_secs(24 * 3600) },
            evidence: EvidencePolicy { passes_percent: 1.0 },
            judge: Overrides::default(),
        }
    }
}

impl Default for FleetPolicy {
    /// One group, challenged according to the validator's settings.
    fn default() -> Self {
        Self { groups: vec![Group::default()], operator_label: "operator".to_owned() }
    }
}

impl Default for FleetRules {
    fn default() -> Self {
        let (policy, expectations) = Default::default();
        Self { policy, profiles: ModelProfiles::built_in(), expectations }
    }
}

impl FleetRules {
    /// Reads a policy file. Its groups override the policy of the settings, if given; `file` is its name in messages.
    ///
    /// # Errors
    /// [`FileError`] with every problem in the file; no part of it takes effect.
    pub fn parse(text: &str, file: &str, settings: Option<&Policy>) -> Result<Self, FileError> {
        read::whole(text, file, |section| Self {
            policy: file::policy(section, settings),
            profiles: ModelProfiles::built_in().with(ModelProfiles::read(section)),
            expectations: Arc::new(Expectations::read(section)),
        })
    }
}

impl Group {
    /// The policy of its challenges of a kind: the validator's policy, overridden by the group.
    pub fn over(&self, policy: &Policy, kind: &Kind) -> Policy {
        policy.with(&self.judge).with(&kind.asks)
    }
}

impl FleetPolicy {
    /// Returns the group of a miner with these labels, whose devices claim these models: the first that takes it.
    ///
    /// # Panics
    /// For a policy without groups, which [`FleetRules::parse`] never returns.
    pub fn group_of<M: AsRef<str>>(&self, labels: &Labels, models: &[M]) -> &Group {
        let (last, others) = self.groups.split_last().expect("a policy has a group");
        others.iter().find(|group| group.select.takes(labels, models)).unwrap_or(last)
    }

    pub fn group(&self, name: &str) -> Option<&Group> {
        self.groups.iter().find(|group| group.name == name)
    }

    /// Returns a miner's operator; `None` without the label.
    pub fn operator_of<'a>(&self, labels: &'a Labels) -> Option<&'a str> {
        labels.get(&self.operator_label).map(String::as_str)
    }
}

impl Selector {
    /// Returns whether it takes a miner. A model criterion never takes a miner without devices.
    pub fn takes<M: AsRef<str>>(&self, labels: &Labels, models: &[M]) -> bool {
        let has =
            |(name, wanted): (&String, &String)| labels.get(name).is_some_and(|value| wanted == "*" || value == wanted);
        let contains = |wanted: &String| {
            let wanted = wanted.to_lowercase();
            !models.is_empty() && models.iter().all(|model| model.as_ref().to_lowercase().contains(&wanted))
        };
        self.labels.iter().all(has) && self.model.as_ref().is_none_or(contains)
    }

    /// Returns whether it takes every miner that another selector takes.
    pub(super) fn covers(&self, other: &Self) -> bool {
        let has = |(name, wanted): (&String, &String)| {
            other.labels.get(name).is_some_and(|value| wanted == "*" || value == wanted)
        };
        let is_in = |part: &String| {
            other.model.as_ref().is_some_and(|model| model.to_lowercase().contains(&part.to_lowercase()))
        };
        self.labels.iter().all(has) && self.model.as_ref().is_none_or(is_in)
    }
}

/// Checks a label's name and value.
///
/// # Errors
/// The problem with the name or the value.
pub fn check_label(name: &str, value: &str) -> Result<(), String> {
    let is_word = |text: &str| {
        (1..=MAX_LABEL_BYTES).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte))
    };
    if !is_word(name) {
        return Err(format!("a label's name has 1 to {MAX_LABEL_BYTES} letters, digits, '-', '_', '.' or '/'"));
    }
    if !is_word(value) {
        return Err(format!("a label's value has 1 to {MAX_LABEL_BYTES} letters, digits, '-', '_', '.' or '/'"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
