//! When a miner is challenged, and the start of its challenge.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use assay_records::Begun;
use assay_work::{Challenge, DeviceId};
use tokio::task::JoinHandle;

use super::stages::Stages;
use super::{Driver, Ongoing, context};
use crate::action::Action;
use crate::clock::unix_ms;
use crate::fleet::schedule::{DueChallenge, Places, Prepared, next_wait};
use crate::order::Order;
use crate::registry::RunningChallenge;
use crate::session::StartError;

/// How soon after its proof a miner is challenged: one ping must have come back.
const CONNECT_DELAY: Duration = Duration::from_millis(500);

/// How soon it is asked again whether another validator still makes a miner's challenges.
const LEASE_PAUSE: Duration = Duration::from_secs(2);
/// While verdicts cannot be written, how long until a challenge that was due is tried again.
const RECORDING_PAUSE: Duration = Duration::from_secs(10);

/// Says what comes of a challenge that is due, once it has a place among those that run at once.
pub(super) type Turn = JoinHandle<Prepared>;

impl Driver {
    /// Looks at a miner that has just connected.
    pub(super) fn schedule_first(&mut self) {
        self.is_first = true;
        self.next_challenge = Some(Instant::now() + CONNECT_DELAY);
    }

    /// The next challenge is due then, or on demand only.
    pub(super) fn schedule_in(&mut self, wait: Option<Duration>) {
        self.next_challenge = wait.and_then(|wait| Instant::now().checked_add(wait));
    }

    /// The policy was replaced: the next challenge is due no later than it says.
    pub(super) fn policy_changed(&mut self) -> Vec<Action> {
        if self.who.is_some() && !self.session.is_running() && self.turn.is_none() {
            let rules = self.validator.fleet.rules();
            let models = self.models();
            let names: Vec<&str> = models.values().map(String::as_str).collect();
            let labels = self.record.as_ref().map(|record| record.labels.clone()).unwrap_or_default();
            let group = rules.policy.group_of(&labels, &names);
            let next = next_wait(group, &self.validator.policy(), &mut self.entropy).map(|wait| Instant::now() + wait);
            self.is_moved |= next.is_some_and(|next| self.next_challenge.is_none_or(|before| next < before));
            self.next_challenge = [self.next_challenge, next].into_iter().flatten().min();
        }
        Vec::new()
    }

    /// Has a challenge that is due wait for its place, if the policy still wants it.
    pub(super) fn queue_due(&mut self, now: Instant) {
        let (Some(who), true) = (&self.who, self.next_challenge.is_some_and(|at| now >= at)) else { return };
        self.next_challenge = None;
        let validator = self.validator.clone();
        let due = DueChallenge {
            miner: who.miner,
            models: self.models().into_values().collect(),
            is_first: std::mem::take(&mut self.is_first),
            is_moved: std::mem::take(&mut self.is_moved),
            abandoned: validator.admission.history.abandoned_at(who.miner).map(|at| at.elapsed()),
            challenges: validator.challenges.clone(),
        };
        let lease = self.lease.clone();
        self.turn = Some(tokio::spawn(async move {
            match lease {
                // Another validator makes the miner's challenges, for as long as it lives.
                Some(lease) if !lease.hold().await => Prepared::Later(LEASE_PAUSE),
                _ => validator.fleet.prepare(&validator.policy(), due).await,
            }
        }));
    }

    /// Starts the challenge that is due, now that there is a place for it.
    pub(super) fn start_due(&mut self, prepared: Prepared) -> Vec<Action> {
        self.turn = None;
        let (order, places) = match prepared {
            Prepared::Ready(order, places) => (order, places),
            Prepared::Later(wait) => {
                self.schedule_in(Some(wait));
                return Vec::new();
            }
            Prepared::Never => return Vec::new(),
        };
        // It may have waited for its place for longer than a lease stands.
        if self.lease.as_ref().is_some_and(|lease| !lease.is_held()) {
            self.schedule_in(Some(LEASE_PAUSE));
            return Vec::new();
        }
        match self.start(*order, places) {
            Ok(actions) => return actions,
            // One that was asked for runs: the next is due after its verdict.
            Err(StartError::Busy) => {}
            // The log says so once for all.
            Err(StartError::NotRecording(_) | StartError::Records(_)) => self.schedule_in(Some(RECORDING_PAUSE)),
            Err(error) => {
                tracing::warn!(session = self.number, %error, "no challenge was made");
                self.schedule_in(self.validator.policy().challenge_interval.or(Some(RECORDING_PAUSE)));
            }
        }
        Vec::new()
    }

    /// The models that the miner's devices claim.
    pub(super) fn models(&self) -> BTreeMap<DeviceId, String> {
        let inventory = self.session.inventory().map(|inventory| inventory.devices.as_slice()).unwrap_or_default();
        inventory.iter().map(|device| (device.id, device.claimed_model().to_owned())).collect()
    }

    pub(super) fn start(&mut self, order: Order, places: Places) -> Result<Vec<Action>, StartError> {
        let seat = self.seat().ok_or(StartError::NotConnected)?;
        // First: a challenge whose verdict waits for the disk is busy for as long as the disk is.
        self.validator.check_recording()?;
        if self.session.is_running() || self.recording.is_some() {
            return Err(StartError::Busy);
        }
        // First: from here on no other session of the key takes over.
        if !self.validator.registry.begin(self.number, seat) {
            return Err(StartError::NotConnected);
        }
        let Self { session, validator, entropy, .. } = self;
        let started = session.start(&order.policy, order.hold(), &mut context(validator, entropy));
        match &started {
            Ok(actions) => {
                let facts = actions.iter().find_map(|action| match action {
                    Action::Started(facts) => Some(*facts),
                    _ => None,
                });
                let (began, stages) = (Instant::now(), Stages::begin(facts.map(|facts| facts.id)));
                self.challenge = Some(Ongoing { facts, began, stages, began_ms: unix_ms(), order, signed: None });
                (self.places, self.turn) = (Some(places), None);
            }
            Err(_) => self.unchallenged(),
        }
        self.running = self.session.challenge().map(running);
        self.publish();
        self.note_begun();
        started
    }

    /// Notes the challenge that runs in the records, so that another validator can conclude it where this one is lost.
    fn note_begun(&self) {
        let Some(Ongoing { facts: Some(facts), began_ms, order, .. }) = &self.challenge else { return };
        let Some(who) = &self.who else { return };
        let begun = Begun {
            challenge: facts.id.to_string(),
            miner: who.miner.to_string(),
            validator: self.validator.admission.identity.public_key().to_string(),
            instance: self.validator.instance.clone(),
            session: self.session_id(),
            group: order.group.clone(),
            kind: order.kind.clone(),
            asked: order.asked.name().to_owned(),
            round: order.round.as_ref().map(|round| round.id.clone()),
            begun_ms: *began_ms,
            device_ms: 0,
        };
        let records = self.validator.records.clone();
        // The challenge does not wait: what was never noted was never lost either, and its verdict notes it.
        tokio::spawn(async move {
            if let Err(error) = records.begin_challenge(&begun).await {
                tracing::debug!(challenge = begun.challenge, %error, "a challenge's begin is not in the records");
            }
        });
    }

    /// No challenge runs any more.
    pub(super) fn unchallenged(&self) {
        if let Some(seat) = self.seat() {
            self.validator.registry.update(self.number, seat, |m| m.challenged = false);
        }
    }
}

/// A challenge that has just begun.
fn running(challenge: &Challenge) -> RunningChallenge {
    let slots: u64 = challenge.shares().iter().map(|share| u64::from(share.count)).sum();
    RunningChallenge {
        id: challenge.id(),
        since: Instant::now(),
        phase: "work",
        done_slots: 0,
        all_slots: slots * u64::from(challenge.iterations()),
    }
}

/// Waits until it is known what comes of the challenge that is due; for ever where none is.
pub(super) async fn turn(turn: &mut Option<Turn>) -> Prepared {
    match turn {
        // One that panicked is looked at again.
        Some(turn) => turn.await.unwrap_or(Prepared::Later(RECORDING_PAUSE)),
        None => std::future::pending().await,
    }
}
