//! A miner as it is recorded.

use crate::document::json;
use crate::{Approval, Labels, MinerRecord, Result};

/// A selection of miners; an empty field selects all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MinerFilter {
    pub status: Option<Approval>,
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

pub(crate) fn status_of(text: &str) -> Result<Approval> {
    json(&format!("\"{text}\""), "status")
}
