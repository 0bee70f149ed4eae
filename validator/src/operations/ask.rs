//! What is asked of the records.

use assay_records::{
    DeviceFilter, FindingFilter, Found, Labels, MinerFilter, MinerRecord, Records, Status, VerdictFilter,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Document, OperationError, bounded, document, find, labels};
use crate::validator::Validator;

/// Changes of a device, and sessions of a miner, in the document that shows it.
const MAX_SHOWN: u32 = 20;

/// A question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Query {
    /// Which miners are known.
    Miners(MinersQuery),
    /// Which devices they listed.
    Devices(DevicesQuery),
    /// Which verdicts there are.
    Verdicts(VerdictsQuery),
    /// What an id stands for.
    Show(ShowQuery),
    /// What happened to a miner.
    History(HistoryQuery),
    /// Which join tokens were given out.
    Tokens(TokensQuery),
}

/// Miners, in order of their ids; what is empty leaves none out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MinersQuery {
    /// The status.
    pub status: Option<Status>,
    /// The attestation state.
    pub state: Option<String>,
    /// Labels that it has, all of them.
    pub labels: Labels,
    /// Connected to a validator now, or not.
    pub connected: Option<bool>,
    /// At most so many; 0 for the usual number.
    pub limit: u32,
}

/// Devices, in order of miner and id.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DevicesQuery {
    /// The miner: the first digits of one of its keys.
    pub miner: Option<String>,
    /// The device's id, or its first digits.
    pub device_id: Option<String>,
    /// The product name.
    pub model: Option<String>,
    /// Also those that are gone.
    pub gone: bool,
    /// At most so many; 0 for the usual number.
    pub limit: u32,
}

/// Verdicts, newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct VerdictsQuery {
    /// The miner: the first digits of one of its keys.
    pub miner: Option<String>,
    /// The outcome.
    pub outcome: Option<String>,
    /// The code of one of its reasons.
    pub code: Option<String>,
    /// Not before this time.
    pub since_ms: Option<i64>,
    /// Before this time.
    pub until_ms: Option<i64>,
    /// At most so many; 0 for the usual number.
    pub limit: u32,
}

/// The thing with an id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShowQuery {
    /// The id, or its first digits.
    pub id: String,
}

/// What happened to a miner, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryQuery {
    /// The miner: the first digits of one of its keys.
    pub miner: String,
    /// At most so many; 0 for the usual number.
    #[serde(default)]
    pub limit: u32,
}

/// Join tokens, newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TokensQuery {
    /// At most so many; 0 for the usual number.
    pub limit: u32,
}

impl Query {
    /// Answers, with a document for each thing found.
    ///
    /// # Errors
    /// [`OperationError`].
    pub async fn answer(self, validator: &Validator) -> Result<Vec<Document>, OperationError> {
        let records = &validator.records;
        match self {
            Self::Miners(query) => miners(validator, query).await,
            Self::Devices(query) => devices(records, query).await,
            Self::Verdicts(query) => verdicts(records, query).await,
            Self::Show(ShowQuery { id }) => {
                let found = find::any(records, &id).await?;
                Ok(vec![show(validator, &found).await?])
            }
            Self::History(HistoryQuery { miner, limit }) => {
                let miner = find::miner(records, &miner).await?;
                each(&records.history(&miner, bounded(limit)?).await?)
            }
            Self::Tokens(TokensQuery { limit }) => each(&records.tokens(None, bounded(limit)?).await?),
        }
    }
}

fn each(values: &[impl Serialize]) -> Result<Vec<Document>, OperationError> {
    values.iter().map(document).collect()
}

async fn miners(validator: &Validator, query: MinersQuery) -> Result<Vec<Document>, OperationError> {
    let MinersQuery { status, state, labels, connected, limit } = query;
    let (labels, limit) = (labels::check(labels)?, Some(bounded(limit)?));
    let filter = MinerFilter { status, state, labels, connected, limit, ..MinerFilter::default() };
    let found = validator.records.miners(&filter).await?;
    found.iter().map(|miner| miner_document(validator, miner)).collect()
}

/// A miner as the records have it, and by what its newest key is let in here.
pub(super) fn miner_document(validator: &Validator, miner: &MinerRecord) -> Result<Document, OperationError> {
    let mut shown = document(miner)?;
    let admitted = miner.key.parse().map(|key| validator.admission.allowed.admitted(&key));
    if let (Some(fields), Ok(admitted)) = (shown.as_object_mut(), admitted) {
        fields.insert("admitted".to_owned(), admitted.name().into());
    }
    Ok(shown)
}

async fn devices(records: &Records, query: DevicesQuery) -> Result<Vec<Document>, OperationError> {
    let DevicesQuery { miner, device_id, model, gone, limit } = query;
    let miner = match miner {
        Some(text) => Some(find::miner(records, &text).await?),
        None => None,
    };
    let device_id = device_id.map(|text| find::digits(&text)).transpose()?;
    let filter = DeviceFilter { miner, device_id, model, gone, after: None, limit: Some(bounded(limit)?) };
    each(&records.devices(&filter).await?)
}

async fn verdicts(records: &Records, query: VerdictsQuery) -> Result<Vec<Document>, OperationError> {
    let VerdictsQuery { miner, outcome, code, since_ms, until_ms, limit } = query;
    if let Some(other) = outcome.as_ref().filter(|name| !["pass", "fail", "inconclusive"].contains(&name.as_str())) {
        return Err(OperationError::Invalid(format!("outcome: {other:?} is not pass, fail or inconclusive")));
    }
    let miner = match miner {
        Some(text) => Some(find::miner(records, &text).await?),
        None => None,
    };
    let limit = Some(bounded(limit)?);
    let filter = VerdictFilter { miner, outcome, code, since_ms, until_ms, limit, ..VerdictFilter::default() };
    each(&records.verdicts(&filter).await?)
}

/// A thing with all that lies behind it; `kind` says what it is.
async fn show(validator: &Validator, found: &Found) -> Result<Document, OperationError> {
    let records = &validator.records;
    let gone = || OperationError::NotFound(format!("{} {} is gone", find::kind(found), find::id(found)));
    let mut shown = match found {
        Found::Challenge(id) => match records.verdict(id).await? {
            Some(verdict) => document(&verdict)?,
            None => document(&records.challenge(id).await?.ok_or_else(gone)?)?,
        },
        Found::Miner(id) => {
            let miner = records.miner(id).await?.ok_or_else(gone)?;
            let filter = DeviceFilter { miner: Some(id.clone()), gone: true, ..DeviceFilter::default() };
            let mut shown = miner_document(validator, &miner)?;
            shown["devices"] = document(&records.devices(&filter).await?)?;
            shown["sessions"] = document(&records.sessions(id, MAX_SHOWN).await?)?;
            let filter = FindingFilter { miner: Some(id.clone()), limit: Some(MAX_SHOWN), ..FindingFilter::default() };
            shown["findings"] = document(&records.findings(&filter).await?)?;
            shown["actions"] = document(&records.actions(Some(id), 0, MAX_SHOWN).await?)?;
            shown
        }
        Found::Device(id) => {
            let filter = DeviceFilter { device_id: Some(id.clone()), gone: true, ..DeviceFilter::default() };
            let (at, events) =
                (records.devices(&filter).await?, records.device_events(None, Some(id), MAX_SHOWN).await?);
            json!({ "device_id": id, "at": document(&at)?, "events": document(&events)? })
        }
        Found::Receipt(id) => {
            let (challenge, receipt) = records.receipt(id).await?.ok_or_else(gone)?;
            let mut shown = document(&receipt)?;
            shown["challenge"] = challenge.into();
            shown
        }
        Found::Round(id) => {
            let (round, members) = records.round(id).await?.ok_or_else(gone)?;
            let mut shown = document(&round)?;
            shown["members"] = document(&members)?;
            shown
        }
    };
    shown["found"] = find::kind(found).into();
    Ok(shown)
}
