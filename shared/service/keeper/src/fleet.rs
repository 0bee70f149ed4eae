//! The fleet of this validator: rules in force, miners' records, and the consequences of verdicts. It knows neither
//! sessions nor sockets.

pub mod conclude;
pub mod notice;
pub mod presence;
pub mod rules;
pub mod schedule;
pub mod speeds;

use std::collections::BTreeMap;
use std::sync::Arc;

use assay_judge::entropy::EntropySource;
use assay_policy::{Change, FleetRules, Group, Labels, Standing};
use assay_program::clock::unix_ms;
use assay_receipts::Signer;
use assay_records::{DeviceQuery, DeviceRecord, MinerRecord, Records, RecordsError, StandingChange, Transition};
use assay_work::ChallengeId;
use parking_lot::Mutex;
use tokio::sync::watch;

use self::presence::Presences;
use self::schedule::GroupPlaces;
use self::speeds::Speeds;

/// Bytes of a verdict in one line of the log, which escapes some: a line has 16 KiB at most.
const LOGGED_BYTES: usize = 6000;

pub struct Fleet {
    /// Permanent records.
    pub records: Records,
    /// Current sessions, with their addresses.
    pub presences: Presences,
    /// The source of draws.
    pub entropy: EntropySource,
    rules: watch::Sender<Arc<FleetRules>>,
    /// The key that signs receipts.
    pub signer: Signer,
    group_places: GroupPlaces,
    /// Speeds of the models in the records.
    pub speeds: Speeds,
    /// Verdicts on their way to the disk, as JSON.
    pending: Mutex<BTreeMap<ChallengeId, String>>,
    /// The challenges that kept miners from their last round, by the miners' ids.
    busy: Mutex<BTreeMap<String, ChallengeId>>,
    /// Held while a verdict that settles a dispute is written.
    settling: tokio::sync::Mutex<()>,
}

impl Fleet {
    /// Creates the fleet over these records and rules, with the key that signs receipts.
    pub fn new(records: Records, rules: FleetRules, signer: Signer) -> Self {
        Self {
            records,
            presences: Presences::default(),
            entropy: EntropySource::default(),
            rules: watch::Sender::new(Arc::new(rules)),
            signer,
            group_places: GroupPlaces::default(),
            speeds: Speeds::default(),
            pending: Mutex::default(),
            busy: Mutex::default(),
            settling: tokio::sync::Mutex::default(),
        }
    }

    /// Notes the challenge that keeps a miner from a round, if one does; whether another one kept it from the last round.
    pub fn was_busy_before(&self, id: &str, running: Option<ChallengeId>) -> bool {
        let mut busy = self.busy.lock();
        let before = busy.remove(id);
        let Some(running) = running else { return false };
        busy.insert(id.to_owned(), running);
        before.is_some_and(|before| before != running)
    }

    pub fn rules(&self) -> Arc<FleetRules> {
        self.rules.borrow().clone()
    }

    /// Subscribes to changes of the rules.
    pub fn rules_changes(&self) -> watch::Receiver<Arc<FleetRules>> {
        self.rules.subscribe()
    }

    /// Puts rules into force; returns whether they differ from the previous ones.
    pub fn set_rules(&self, rules: FleetRules) -> bool {
        self.rules.send_if_modified(|current| {
            let differs = **current != rules;
            if differs {
                *current = Arc::new(rules);
            }
            differs
        })
    }

    /// The group of a miner, connected or not: where groups select by model, by the models of its recorded devices. A
    /// miner without a record has neither labels nor devices.
    ///
    /// # Errors
    /// The records cannot be read.
    pub async fn group_of(&self, record: impl Into<Option<&MinerRecord>>) -> Result<Group, RecordsError> {
        let (rules, mut models) = (self.rules(), Vec::new());
        let Some(record) = record.into() else { return Ok(rules.policy.group_of(&Labels::new(), &models).clone()) };
        if rules.policy.groups.iter().any(|group| group.select.model.is_some()) {
            let filter = DeviceQuery { miner: Some(record.id.clone()), ..DeviceQuery::default() };
            let claimed = |device: DeviceRecord| Some(device.model).filter(|it| !it.is_empty()).unwrap_or(device.name);
            models = self.records.devices(&filter).await?.into_iter().map(claimed).collect();
        }
        Ok(rules.policy.group_of(&record.labels, &models).clone())
    }

    /// Logs the unrecorded verdicts as JSON when the validator ends, in parts that no log cuts; returns their number.
    pub fn finish(&self) -> usize {
        let pending = self.pending.lock();
        for (challenge, verdict) in pending.iter() {
            let parts = parts(verdict);
            for (part, verdict) in (1..).zip(&parts) {
                let of = parts.len();
                tracing::error!(
                    %challenge, part, of, verdict, "a verdict is not in the records, and was given to nobody"
                );
            }
        }
        pending.len()
    }
}

/// A text in parts of at most [`LOGGED_BYTES`].
fn parts(mut text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    while !text.is_empty() {
        let (part, rest) = text.split_at(text.floor_char_boundary(LOGGED_BYTES));
        parts.push(part);
        text = rest;
    }
    parts
}

/// The recorded standing as stored; empty without one.
fn stored(record: &MinerRecord) -> String {
    record.standing.as_ref().map_or_else(String::new, |standing| standing.get().to_owned())
}

/// The record of a changed standing; `before` is the stored text.
fn standing_change(miner: &str, before: String, after: &Standing, change: Option<&Change>) -> Option<StandingChange> {
    let transition = change.map(|change| Transition {
        miner: miner.to_owned(),
        at_ms: unix_ms(),
        from: change.from.name().to_owned(),
        to: change.to.name().to_owned(),
        why: change.why.name().to_owned(),
        detail: change.detail.clone(),
    });
    // Texts and numbers always become JSON.
    let after = serde_json::to_string(after).ok()?;
    Some(StandingChange { before: Some(before), after, transition })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression test: of a verdict that could not be recorded the log had the first bytes, or none.
    #[test]
    fn a_verdict_is_logged_in_parts_that_fit_a_line() {
        let verdict = "ä\"".repeat(LOGGED_BYTES);
        let parts = parts(&verdict);
        assert_eq!(parts.concat(), verdict);
        assert!(parts.len() > 1 && parts.iter().all(|part| (1..=LOGGED_BYTES).contains(&part.len())));
    }
}
