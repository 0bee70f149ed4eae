//! The policy of a fleet: which miners are challenged when, how hard, and what follows. Read by [`FleetPolicy::parse`];
//! docs/policy.md explains each field.

mod file;

use std::collections::BTreeMap;
use std::time::Duration;

use assay_protocol::verdict::Mode;
use assay_work::Precision;
use serde::{Deserialize, Serialize};

use crate::Labels;
use crate::read::FileError;
use crate::rules::Rules;

/// Groups of a policy.
pub const MAX_GROUPS: usize = 256;
/// Labels of a miner, and of a group's selector.
pub const MAX_LABELS: usize = 32;
/// Bytes of a label's name, and of its value.
pub const MAX_LABEL_BYTES: usize = 63;
/// The name of the group of all miners that no other group takes.
pub const DEFAULT_GROUP: &str = "default";

/// What is asked of a fleet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FleetPolicy {
    /// In the order of the file; the last is [`DEFAULT_GROUP`] and takes every miner.
    pub groups: Vec<Group>,
    /// The label that says whose a miner is: distributions weigh its values alike.
    pub operator_label: String,
}

/// Miners that are treated alike.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Whom it takes.
    pub select: Selector,
    /// When its miners are challenged.
    pub cadence: Cadence,
    /// What they are asked.
    pub light: Kind,
    /// What some of the challenges ask instead.
    pub heavy: Option<Heavy>,
    /// The most of a host's device time in any day, in percent; `None`: no limit.
    pub duty_percent: Option<f64>,
    /// The most challenges of the group at once; `None`: as many as the validator allows.
    pub concurrency: Option<u32>,
    /// What the attestation state follows.
    pub rules: Rules,
    /// When its miners are challenged in the same moment.
    pub rounds: Option<Rounds>,
    /// How speed is judged.
    pub bands: BandPolicy,
    /// What findings about identity do.
    pub identity: IdentityPolicy,
    /// Receipts of its verdicts.
    pub receipts: ReceiptPolicy,
    /// Evidence of its verdicts.
    pub evidence: EvidencePolicy,
    /// What it judges otherwise than the validator's settings say.
    pub judge: Judge,
}

/// Whom a group takes: whoever meets all of these.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selector {
    /// Labels with these values; `*` is any value.
    pub labels: Labels,
    /// A text that the claimed model of every device contains, in any case of letters.
    pub model: Option<String>,
}

/// When miners are challenged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cadence {
    /// The mean of the waits, which are drawn without memory; `None`: the validator's `challenge_interval_s`.
    pub mean: Option<Duration>,
    /// The shortest wait. In this time after a challenge a miner knows that none comes.
    pub least: Duration,
    /// The longest wait; `None`: ten times the mean.
    pub most: Option<Duration>,
    /// Whether a miner is challenged when it connects; `None`: as the validator's `challenge_on_connect` says.
    pub at_connect: Option<bool>,
}

/// How a challenge is verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModeChoice {
    /// Replay where it fits in the replay budget, else audit.
    Auto,
    /// Every pass again.
    Replay,
    /// Some iterations again.
    ReplaySample,
    /// Drawn elements.
    Audit,
}

impl ModeChoice {
    /// Every choice.
    pub const ALL: [Self; 4] = [Self::Auto, Self::Replay, Self::ReplaySample, Self::Audit];

    /// The name in the policy file, that of the setting `mode`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self.mode() {
            None => "auto",
            Some(mode) => mode.name(),
        }
    }

    /// The mode; `None` for [`Self::Auto`].
    #[must_use]
    pub const fn mode(self) -> Option<Mode> {
        match self {
            Self::Auto => None,
            Self::Replay => Some(Mode::Replay),
            Self::ReplaySample => Some(Mode::ReplaySample),
            Self::Audit => Some(Mode::Audit),
        }
    }
}

/// What a challenge asks, laid over the validator's settings of the same names: what is `None` is as these say.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "each field is the setting of its name: docs/settings.md")]
pub struct Kind {
    /// `light` or `heavy`.
    pub name: String,
    pub kinds: Option<Vec<Precision>>,
    pub mode: Option<ModeChoice>,
    pub replay_budget: Option<Duration>,
    pub n: Option<u32>,
    pub n_min: Option<u32>,
    pub min_slots: Option<u32>,
    pub iterations: Option<u32>,
    pub fill_percent: Option<u32>,
    pub max_matrices: Option<u32>,
    pub samples: Option<u32>,
    pub segments: Option<u32>,
    pub sampled_iterations: Option<u32>,
    pub commit_deadline: Option<Duration>,
    pub probe_target: Option<Duration>,
    pub probe_deadline: Option<Duration>,
    pub linked_probe: Option<bool>,
    pub linked_min_gb_per_s: Option<f64>,
    pub min_held_percent: Option<u32>,
}

/// Heavy challenges.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Heavy {
    /// What they ask.
    pub kind: Kind,
    /// The percentage of challenges that are heavy, drawn for each.
    pub share_percent: f64,
}

/// Rounds: members of a group are challenged in the same moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rounds {
    /// The mean of the waits between rounds, drawn without memory; `None`: only when an operator asks for one.
    pub mean: Option<Duration>,
    /// Whose miners are in one round.
    pub by: RoundScope,
    /// A member that has not taken its challenge by then failed to start in time.
    pub start_within: Duration,
    /// The most members of a round; `None`: all. Others are drawn into the next ones.
    pub most: Option<u32>,
}

/// Whose miners are in one round.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RoundScope {
    /// Those of the whole group.
    #[default]
    All,
    /// Those of one operator, by the policy's `operator_label`.
    Operator,
    /// Those that connect from one block of addresses: a /24 of IPv4, a /48 of IPv6.
    Address,
    /// Those whose first device claims one model.
    Model,
}

impl RoundScope {
    /// Every scope.
    pub const ALL: [Self; 4] = [Self::All, Self::Operator, Self::Address, Self::Model];

    /// The name in the policy file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Operator => "operator",
            Self::Address => "address",
            Self::Model => "model",
        }
    }
}

/// How speed and memory are judged against the profile of a model and against the fleet.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BandPolicy {
    /// Whether what the profile of a model says against a device fails it; otherwise it is recorded.
    pub enforce_profile: bool,
    /// Whether what the fleet's own distribution says does.
    pub enforce_fleet: bool,
    /// The fewest other hosts that a band rests on.
    pub least_hosts: u32,
    /// The fewest other operators that a band rests on.
    pub least_operators: u32,
    /// Half of a band, in robust standard deviations.
    pub width: f64,
    /// Half of a band at least, in percent of the median.
    pub least_width_percent: f64,
    /// The least percentage of the profile's tensor peak.
    pub least_tops_percent: f64,
    /// The least percentage of the profile's memory bandwidth.
    pub least_bandwidth_percent: f64,
    /// The least percentage of the profile's memory, of what the challenge asked to fill.
    pub least_memory_percent: f64,
    /// How far above the profile's figures is still believed, in percent.
    pub above_percent: f64,
    /// Work that took less time than this is not held against the profile: the start weighs too much.
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

/// Whom a finding that proves a lie fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Enforce {
    /// Nobody: it is recorded.
    Record,
    /// Whoever is proved to lie. Where one of two lies and it is not known which: both, if they are one operator's, else
    /// the one that came later.
    Proved,
    /// Both sides, whoever they are.
    Both,
}

impl Enforce {
    /// Every choice.
    pub const ALL: [Self; 3] = [Self::Record, Self::Proved, Self::Both];

    /// The name in the policy file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Record => "record",
            Self::Proved => "proved",
            Self::Both => "both",
        }
    }
}

/// What findings about identity do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdentityPolicy {
    /// One device id at two miners at once.
    pub device_at_two_miners: Enforce,
    /// One key at two hosts at once.
    pub key_at_two_addresses: Enforce,
}

impl Default for IdentityPolicy {
    fn default() -> Self {
        Self { device_at_two_miners: Enforce::Proved, key_at_two_addresses: Enforce::Proved }
    }
}

/// Receipts of verdicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiptPolicy {
    /// How long a receipt is valid, at most: never beyond the attestation.
    pub lifetime: Duration,
}

/// Evidence of verdicts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct EvidencePolicy {
    /// The percentage of passes whose evidence is kept, drawn for each; that of others always is.
    pub passes_percent: f64,
}

/// What a verdict says of a device that the key showed before and that takes no part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the values of the setting of this name: docs/settings.md")]
pub enum DeviceMissing {
    Warn,
    Inconclusive,
    Fail,
}

impl DeviceMissing {
    /// Every choice.
    pub const ALL: [Self; 3] = [Self::Warn, Self::Inconclusive, Self::Fail];

    /// The name in the policy file, that of the setting's value.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Warn => "warn",
            Self::Inconclusive => "inconclusive",
            Self::Fail => "fail",
        }
    }
}

/// What a group judges otherwise than the validator's settings of the same names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "each field is the setting of its name: docs/settings.md")]
pub struct Judge {
    pub device_missing: Option<DeviceMissing>,
    pub abandoned_limit: Option<u32>,
    pub abandoned_window: Option<u32>,
    pub rate_factor: Option<f64>,
    pub peak_tops: Option<f64>,
    pub peak_tops_f16: Option<f64>,
    pub peak_tops_fp8: Option<f64>,
    pub peak_tops_fp4: Option<f64>,
    pub bus_gb_per_s: Option<f64>,
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
            judge: Judge::default(),
        }
    }
}

impl Default for FleetPolicy {
    /// One group, which is challenged as the validator's settings say.
    fn default() -> Self {
        Self { groups: vec![Group::default()], operator_label: "operator".to_owned() }
    }
}

impl FleetPolicy {
    /// Reads a policy; `file` is its name in messages.
    ///
    /// # Errors
    /// [`FileError`] with every problem that the file has: nothing of it is in force.
    pub fn parse(text: &str, file: &str) -> Result<Self, FileError> {
        file::policy(text, file)
    }

    /// The group of a miner with these labels, whose devices claim these models: the first that takes it.
    ///
    /// # Panics
    /// For a policy without groups, which [`FleetPolicy::parse`] does not give.
    #[must_use]
    pub fn group_of(&self, labels: &Labels, models: &[&str]) -> &Group {
        let (last, others) = self.groups.split_last().expect("a policy has a group");
        others.iter().find(|group| group.select.takes(labels, models)).unwrap_or(last)
    }

    /// The group of this name.
    #[must_use]
    pub fn group(&self, name: &str) -> Option<&Group> {
        self.groups.iter().find(|group| group.name == name)
    }

    /// Whose a miner is; `None` when no label says it.
    #[must_use]
    pub fn operator_of<'a>(&self, labels: &'a Labels) -> Option<&'a str> {
        labels.get(&self.operator_label).map(String::as_str)
    }
}

impl Selector {
    /// Whether it takes a miner. One without devices is taken by no model.
    #[must_use]
    pub fn takes(&self, labels: &Labels, models: &[&str]) -> bool {
        let has =
            |(name, wanted): (&String, &String)| labels.get(name).is_some_and(|value| wanted == "*" || value == wanted);
        let contains = |wanted: &String| {
            let wanted = wanted.to_lowercase();
            !models.is_empty() && models.iter().all(|model| model.to_lowercase().contains(&wanted))
        };
        self.labels.iter().all(has) && self.model.as_ref().is_none_or(contains)
    }
}

/// Checks a label.
///
/// # Errors
/// What is wrong with its name or value.
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

/// Labels as they are typed: `rack=7,pool=a`.
///
/// # Errors
/// What is wrong with one of them, or that there are too many.
pub fn parse_labels(text: &str) -> Result<Labels, String> {
    let mut labels = BTreeMap::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once('=').ok_or("a label is NAME=VALUE, such as rack=7")?;
        check_label(name, value)?;
        if labels.insert(name.to_owned(), value.to_owned()).is_some() {
            return Err(format!("the label {name} is given twice"));
        }
    }
    if labels.len() > MAX_LABELS { Err(format!("more than {MAX_LABELS} labels")) } else { Ok(labels) }
}

#[cfg(test)]
mod tests;
