//! Changes by operators: decisions about miners, labels, and join tokens. Each is recorded with its author.

use std::collections::BTreeMap;
use std::time::Duration;

use assay_api::{ChangeLabels, CreateJoinToken, CreatedJoinToken, Decision, Miner, MinerChanged, parse_name};
use assay_policy::Event;
use assay_policy::state::Word;
use assay_records::{Actor, Approval, MinerChange, MinerRecord, RecordsError, Role};

use super::labels;
use super::read::miner_of;
use super::{MAX_TOKEN_S, OperationError, Result, find};
use crate::allow::{AdmissionReason, Enrolment};
use crate::fleet::notice::{MAX_TRIES, log};
use crate::registry::SessionCommand;
use crate::validator::Validator;

/// The new status of the miner, and the input to its attestation state.
const fn effect(decision: Decision) -> (Option<Approval>, Word) {
    match decision {
        Decision::Approve | Decision::Resume => (Some(Approval::Approved), Word::Resume),
        Decision::Suspend => (Some(Approval::Suspended), Word::Suspend),
        Decision::Revoke => (Some(Approval::Revoked), Word::Revoke),
        Decision::Quarantine => (None, Word::Quarantine),
        Decision::Release => (None, Word::Release),
    }
}

/// The reason why it cannot be applied to a miner with this record.
fn refused(decision: Decision, record: Option<&MinerRecord>) -> Option<String> {
    let status = record.map(|record| record.status);
    let is = status.map_or("unknown to the records", Approval::name);
    match decision {
        Decision::Resume if status != Some(Approval::Suspended) => {
            Some(format!("this miner is {is}: only a suspended miner is resumed; `approve` lets any in"))
        }
        Decision::Suspend if status == Some(Approval::Revoked) => {
            Some("this miner is revoked, which counts more: `approve` would let it in".to_owned())
        }
        Decision::Release if record.is_none_or(|record| record.standing().quarantine.is_none()) => {
            Some("this miner is not in quarantine".to_owned())
        }
        _ => None,
    }
}

/// Creates a join token, which lets in one miner.
pub async fn enroll(validator: &Validator, asked: CreateJoinToken, actor: &Actor) -> Result<CreatedJoinToken> {
    let (labels, expires_s) = (labels::check(asked.labels)?, asked.expires_s);
    if !(1..=MAX_TOKEN_S).contains(&expires_s) {
        let days = MAX_TOKEN_S / 86_400;
        return Err(OperationError::Invalid(format!("expires: must be from 1s to {days}d")));
    }
    let (token, record) = validator.records.create_token(&labels, Duration::from_secs(expires_s), actor).await?;
    // The records name it by its hash; only this answer has the token itself.
    tracing::info!(token = &record.hash[..16], ?labels, by = actor.name, "a join token was made");
    Ok(CreatedJoinToken { record, token })
}

/// Decides about a miner, named by the first digits of one of its keys, or by its whole key where the records do not
/// know it.
pub async fn decide(validator: &Validator, miner: &str, decision: Decision, actor: &Actor) -> Result<MinerChanged> {
    let miner = find::miner_or_key(&validator.records, miner).await?;
    let before = change(validator, &miner, decision, actor).await?;
    // The change is done here: a failed update of the memory does not undo it.
    if let Err(error) = validator.follow_decisions().await {
        tracing::warn!("what an operator decided is in the records, and takes effect once they can be read: {error}");
    }
    let decision = decision.name();
    tracing::info!(miner, decision, %before, by = actor.name, uid = actor.uid, "an operator decided about a miner");
    let miner = miner_of(validator, &miner, Role::Operate).await?;
    let note = note(validator, &miner.record.key, miner.record.status).map(str::to_owned);
    Ok(MinerChanged { miner, before, note })
}

/// Applies a decision and its consequences in one transaction; returns the status before.
async fn change(validator: &Validator, miner: &str, decision: Decision, actor: &Actor) -> Result<Approval> {
    let (status, word) = effect(decision);
    for _ in 0..MAX_TRIES {
        let record = validator.records.miner(miner).await?;
        if let Some(why) = refused(decision, record.as_ref()) {
            return Err(OperationError::NotPossible(why));
        }
        let standing = validator.fleet.follows(miner, record.as_ref(), &Event::Operator(word)).await?;
        let change = MinerChange { action: decision.name(), status, standing };
        match validator.records.change_miner(miner, &change, actor).await {
            Err(RecordsError::StandingChanged(_)) => {}
            done => {
                let before = done?;
                change.standing.iter().for_each(log);
                return Ok(before);
            }
        }
    }
    Err(RecordsError::StandingChanged(miner.to_owned()).into())
}

/// A note where settings and records differ, with the one in force.
fn note(validator: &Validator, key: &str, status: Approval) -> Option<&'static str> {
    let allowed = &validator.access.allowed;
    let admitted = key.parse().map(|key| allowed.admitted(&key)).ok()?;
    match (status, admitted) {
        (Approval::Approved, AdmissionReason::Revoked) => {
            Some("revoked_miners has this key, and counts more: it is not let in")
        }
        (Approval::Approved, AdmissionReason::Pending) if allowed.lists().enrolment == Enrolment::Open => {
            Some("enrolment is open and allowed_miners is set, which decides alone: it is not let in")
        }
        _ => None,
    }
}

/// Sets and removes labels of a miner, named by the first digits of one of its keys.
pub async fn label(validator: &Validator, miner: &str, asked: ChangeLabels, actor: &Actor) -> Result<Miner> {
    let records = &validator.records;
    let miner = find::miner(records, miner).await?;
    let set = labels::check(asked.set)?;
    let names: Result<Vec<_>, _> = asked.remove.iter().map(|name| parse_name(name)).collect();
    let names = names.map_err(|error| OperationError::Invalid(error.to_string()))?;
    if set.is_empty() && names.is_empty() {
        return Err(OperationError::Invalid("no label is given: NAME=VALUE sets one, -NAME takes it away".into()));
    }
    if let Some(name) = names.iter().find(|name| set.contains_key(*name)) {
        return Err(OperationError::Invalid(format!("label {name} is both set and taken away")));
    }
    let changes: BTreeMap<_, _> = set.into_iter().map(|(name, value)| (name, Some(value))).collect();
    let changes = names.into_iter().map(|name| (name, None)).chain(changes).collect();
    records.set_labels(&miner, &changes, actor).await.map_err(|error| match error {
        RecordsError::TooMany { max, .. } => OperationError::Invalid(format!("a miner has at most {max} labels")),
        other => other.into(),
    })?;
    let miner = miner_of(validator, &miner, Role::Operate).await?;
    for session in miner.record.keys.iter().filter_map(|key| validator.registry.commands(key.parse().ok()?)) {
        // In tasks: a session may be busy, and one that has ended needs none.
        let record = Box::new(miner.record.clone());
        tokio::spawn(async move { session.send(SessionCommand::Labelled(record)).await });
    }
    Ok(miner)
}
