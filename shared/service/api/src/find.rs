//! The objects that an id stands for.

use crate::record::flat::Document;
use crate::record::{ChallengeRecord, DeviceEvent, DeviceRecord, FullVerdict, ReceiptRecord};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use crate::{MinerDetail, Round};

/// The item of an id, or of its first digits, with its related records.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = Found)]
#[serde(rename_all = "snake_case", tag = "found")]
pub enum SearchResult {
    /// A challenge that has a verdict.
    #[serde(rename = "challenge")]
    Verdict(Box<FullVerdict>),
    /// A challenge without a verdict.
    Challenge(ChallengeRecord),
    /// A miner.
    Miner(Box<MinerDetail>),
    /// A device.
    Device(DeviceDetail),
    /// A receipt.
    Receipt(ReceiptDetail),
    /// A round.
    Round(Round),
}

/// A device: the miners that list or listed it, and its changes.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Device)]
pub struct DeviceDetail {
    /// Its id: a claim.
    pub device_id: String,
    /// Its record at each miner.
    pub at: Vec<DeviceRecord>,
    /// Its last changes, newest first.
    pub events: Vec<DeviceEvent>,
}

/// A signed receipt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Receipt)]
pub struct ReceiptDetail {
    /// The receipt.
    #[serde(flatten)]
    pub record: ReceiptRecord,
    /// The challenge of its verdict.
    pub challenge: String,
    /// Proof that the validator's log has it (C2SP tlog-proof); absent until it is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_proof: Option<String>,
}

/// The kinds of a [`SearchResult`].
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum SearchResultKind {
    Challenge,
    Miner,
    Device,
    Receipt,
    Round,
}

#[derive(Deserialize)]
struct Tag {
    found: SearchResultKind,
    /// Of a challenge that has a verdict.
    #[serde(default)]
    verdict: Option<serde::de::IgnoredAny>,
}

impl<'de> Deserialize<'de> for SearchResult {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let document = Document::deserialize(deserializer)?;
        let Tag { found, verdict } = document.part::<_, D::Error>()?;
        Ok(match found {
            SearchResultKind::Challenge if verdict.is_some() => Self::Verdict(document.part()?),
            SearchResultKind::Challenge => Self::Challenge(document.part()?),
            SearchResultKind::Miner => Self::Miner(document.part()?),
            SearchResultKind::Device => Self::Device(document.part()?),
            SearchResultKind::Receipt => Self::Receipt(document.part()?),
            SearchResultKind::Round => Self::Round(document.part()?),
        })
    }
}
