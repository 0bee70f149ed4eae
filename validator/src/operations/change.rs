//! What operators change: who takes part, under which labels, and who may join. Each is noted with who did it.

use std::collections::BTreeMap;
use std::time::Duration;

use assay_api::{JoinToken, Miner, MinerChanged};
use assay_records::{Actor, Labels, Status};

use super::labels::{self, MAX_LABELS, parse_name};
use super::read::miner_of;
use super::{MAX_TOKEN_S, OperationError, find};
use crate::allow::{Admitted, Enrolment};
use crate::validator::Validator;

/// Makes a join token, which lets in one miner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Enroll {
    /// What the miner is labelled with.
    pub labels: Labels,
    /// For how long it can be used, in seconds.
    pub expires_s: u64,
}

/// Decides whether a miner takes part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetStatus {
    /// The first digits of one of its keys; a whole one where the records do not know it.
    pub miner: String,
    /// What becomes of it.
    pub action: StatusAction,
}

/// What becomes of a miner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusAction {
    /// It is let in.
    Approve,
    /// It is kept out until it is resumed; its session ends at once.
    Suspend,
    /// It is let in again.
    Resume,
    /// It is kept out for good; its session ends at once.
    Revoke,
}

/// Sets labels of a miner, or takes them away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    /// The first digits of one of its keys.
    pub miner: String,
    /// To be set.
    pub set: Labels,
    /// Names of those to be taken away.
    pub remove: Vec<String>,
}

impl Enroll {
    /// Makes the token.
    ///
    /// # Errors
    /// [`OperationError`].
    pub async fn create(self, validator: &Validator, actor: &Actor) -> Result<JoinToken, OperationError> {
        let labels = labels::check(self.labels)?;
        if !(1..=MAX_TOKEN_S).contains(&self.expires_s) {
            let days = MAX_TOKEN_S / 86_400;
            return Err(OperationError::Invalid(format!("expires: must be from 1s to {days}d")));
        }
        let lifetime = Duration::from_secs(self.expires_s);
        let (token, record) = validator.records.create_token(&labels, lifetime, actor).await?;
        // The hash names it in the records; the token itself is nowhere but in this answer.
        tracing::info!(token = &record.hash[..16], ?labels, by = actor.name, "a join token was made");
        Ok(JoinToken { record, token })
    }
}

impl SetStatus {
    /// Decides.
    ///
    /// # Errors
    /// [`OperationError`].
    pub async fn decide(self, validator: &Validator, actor: &Actor) -> Result<MinerChanged, OperationError> {
        let records = &validator.records;
        let miner = find::miner_or_key(records, &self.miner).await?;
        let before = records.miner(&miner).await?.map(|record| record.status);
        let status = match self.action {
            StatusAction::Approve => Status::Approved,
            StatusAction::Suspend => Status::Suspended,
            StatusAction::Revoke => Status::Revoked,
            StatusAction::Resume if before == Some(Status::Suspended) => Status::Approved,
            StatusAction::Resume => {
                let is = before.map_or("unknown to the records", Status::name);
                let remedy = "only a suspended miner is resumed; `approve` lets any in";
                return Err(OperationError::NotPossible(format!("this miner is {is}: {remedy}")));
            }
        };
        let before = records.set_status(&miner, status, actor).await?;
        // From here on it is done: that memory follows later is no failure of the change.
        if let Err(error) = validator.follow_decisions().await {
            tracing::warn!(
                "what an operator decided is in the records, and takes effect once they can be read: {error}"
            );
        }
        tracing::info!(miner, %before, %status, by = actor.name, uid = actor.uid, "an operator decided about a miner");
        let miner = miner_of(validator, &miner).await?;
        let note = note(validator, &miner.record.key, status).map(str::to_owned);
        Ok(MinerChanged { miner, before, note })
    }
}

/// Where the settings say otherwise than the records, which of them counts.
fn note(validator: &Validator, key: &str, status: Status) -> Option<&'static str> {
    let allowed = &validator.admission.allowed;
    let admitted = key.parse().map(|key| allowed.admitted(&key)).ok()?;
    match (status, admitted) {
        (Status::Approved, Admitted::Revoked) => Some("revoked_miners has this key, and counts more: it is not let in"),
        (Status::Approved, Admitted::Pending) if allowed.enrolment() == Enrolment::Open => {
            Some("enrolment is open and allowed_miners is set, which decides alone: it is not let in")
        }
        _ => None,
    }
}

impl Label {
    /// Changes the labels.
    ///
    /// # Errors
    /// [`OperationError`].
    pub async fn change(self, validator: &Validator, actor: &Actor) -> Result<Miner, OperationError> {
        let records = &validator.records;
        let miner = find::miner(records, &self.miner).await?;
        let set = labels::check(self.set)?;
        let names: Result<Vec<_>, _> = self.remove.iter().map(|name| parse_name(name)).collect();
        let names = names.map_err(|error| OperationError::Invalid(error.to_string()))?;
        if set.is_empty() && names.is_empty() {
            return Err(OperationError::Invalid("no label is given: NAME=VALUE sets one, -NAME takes it away".into()));
        }
        if let Some(name) = names.iter().find(|name| set.contains_key(*name)) {
            return Err(OperationError::Invalid(format!("label {name} is both set and taken away")));
        }
        let mut labels = records.miner(&miner).await?.map(|record| record.labels).unwrap_or_default();
        labels.extend(set.clone());
        names.iter().for_each(|name| drop(labels.remove(name)));
        if labels.len() > MAX_LABELS {
            return Err(OperationError::Invalid(format!("a miner has at most {MAX_LABELS} labels")));
        }
        let changes: BTreeMap<_, _> = set.into_iter().map(|(name, value)| (name, Some(value))).collect();
        let changes = names.into_iter().map(|name| (name, None)).chain(changes).collect();
        records.set_labels(&miner, &changes, actor).await?;
        miner_of(validator, &miner).await
    }
}
