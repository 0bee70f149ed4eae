//! A miner as it is recorded.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::document::json;
use crate::{Due, RecordsError};

/// The labels of a miner, set by operators.
pub type Labels = BTreeMap<String, String>;

/// Whether a miner takes part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = MinerStatus))]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// No decision yet.
    Pending,
    /// It takes part.
    Approved,
    /// It is not challenged until it is resumed.
    Suspended,
    /// It is excluded permanently.
    Revoked,
}

impl Status {
    pub const ALL: [Self; 4] = [Self::Pending, Self::Approved, Self::Suspended, Self::Revoked];

    /// The stable name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Approved => "approved",
            Self::Suspended => "suspended",
            Self::Revoked => "revoked",
        }
    }

    /// The stricter of two, for records that turn out to be one miner's.
    pub(crate) fn stricter(self, other: Self) -> Self {
        let strictness = |status| match status {
            // No decision: the other one's counts.
            Self::Pending => 0,
            Self::Approved => 1,
            Self::Suspended => 2,
            Self::Revoked => 3,
        };
        if strictness(other) > strictness(self) { other } else { self }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Status {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|status| status.name() == text);
        found.ok_or_else(|| format!("no status {text:?}: there are pending, approved, suspended and revoked"))
    }
}

/// The last verdict about a miner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct LastVerdict {
    /// The challenge.
    pub challenge: String,
    /// Its outcome.
    pub outcome: String,
    /// Sending time of the challenge.
    pub at_ms: i64,
}

/// A miner.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct MinerRecord {
    /// Its id: the first of its keys that the records know.
    pub id: String,
    /// Its newest key.
    pub key: String,
    /// Every key of it, oldest first.
    pub keys: Vec<String>,
    /// Whether it takes part.
    pub status: Status,
    /// Labels set by operators.
    pub labels: Labels,
    /// Its attestation state.
    pub state: String,
    /// The data behind its state, as of its last conclusion.
    #[cfg_attr(feature = "schema", schema(value_type = Option<Object>))]
    pub standing: Option<Box<RawValue>>,
    /// Time of its first connection.
    pub first_seen_ms: i64,
    /// Time of its last connection or disconnection.
    pub last_seen_ms: i64,
    /// Address of its last connection.
    pub address: String,
    /// Software named in its last connection: a claim.
    pub software: String,
    /// Its next challenge.
    pub due: Option<Due>,
    /// Its last verdict.
    pub last_verdict: Option<LastVerdict>,
    /// The validator that it is connected to.
    pub connected_to: Option<String>,
}

/// A selection of miners; an empty field selects all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MinerFilter {
    pub status: Option<Status>,
    pub state: Option<String>,
    /// Labels that it has, all of them.
    pub labels: Labels,
    /// The product name of a device that it lists now.
    pub model: Option<String>,
    pub outcome: Option<String>,
    /// A text that is somewhere in its keys, its labels, its address or its software, in capitals or not.
    pub text: Option<String>,
    /// Only those connected to a validator now, or only the others.
    pub connected: Option<bool>,
    /// Only those that follow this id in order of ids.
    pub after: Option<String>,
    /// The most rows, [`MAX_ROWS`](crate::MAX_ROWS) at most.
    pub limit: Option<u32>,
}

impl MinerFilter {
    /// Whether the database leaves out all that it leaves out. It does not where labels are asked for: no SQL for JSON
    /// is the same in both databases.
    pub(crate) fn is_sql(&self) -> bool {
        self.labels.is_empty() && self.connected.is_none() && self.text.is_none()
    }

    /// Whether a miner fits the conditions that the database does not compare.
    pub(crate) fn fits(&self, miner: &MinerRecord) -> bool {
        self.labels.iter().all(|(name, value)| miner.labels.get(name) == Some(value))
            && self.connected.is_none_or(|wanted| wanted == miner.connected_to.is_some())
            && self.text.as_ref().is_none_or(|text| has_text(miner, &text.to_lowercase()))
    }
}

/// Whether a text in small letters occurs in the names of a miner.
fn has_text(miner: &MinerRecord, text: &str) -> bool {
    let labels = miner.labels.iter().map(|(name, value)| format!("{name}={value}"));
    let names = [&miner.id, &miner.address, &miner.software].into_iter().cloned();
    let mut texts = names.chain(miner.keys.iter().cloned()).chain(labels);
    texts.any(|named| named.to_lowercase().contains(text))
}

pub(crate) fn status_of(text: &str) -> Result<Status, RecordsError> {
    json(&format!("\"{text}\""), "status")
}
