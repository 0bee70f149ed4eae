//! Schedule of a miner's challenges, and their start.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use assay_policy::Group;
use assay_protocol::message::Inventory;
use assay_records::{ChallengeStart, MinerRecord};
use assay_work::DeviceId;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::stages::ChallengePhases;
use super::{Driver, OngoingChallenge, context};
use crate::course::Course;
use crate::fleet::schedule::{ChallengePlaces, DueChallenge, RECORDS_PAUSE, ScheduleDecision, next_wait};
use crate::order::Order;
use assay_judge::action::Action;
use assay_judge::history::MinerHistory;
use assay_judge::session::StartError;
use assay_judge::verify::excuse::ValidatorDelays;
use assay_program::clock::{self, unix_ms};

/// Interval of the checks whether another validator still schedules the miner's challenges.
const LEASE_PAUSE: Duration = Duration::from_secs(2);

/// The task that decides on a due challenge, once one of the concurrent places is free; it waits no longer than its
/// session. Empty without a due challenge.
pub(super) type ScheduleTask = JoinSet<ScheduleDecision>;

impl Driver {
    /// Sets the time of the next challenge; `None`: on demand only.
    pub(super) fn schedule_in(&mut self, wait: Option<Duration>) {
        self.due.next_challenge = wait.and_then(|wait| clock::now().checked_add(wait));
    }

    /// Handles other labels of the miner: where they change its group, the policy is another one.
    pub(super) fn labelled(&mut self, record: MinerRecord) -> Vec<Action> {
        let before = self.group();
        self.host.record = Some(record);
        self.due.is_outdated |= self.group().name != before.name;
        Vec::new()
    }

    fn group(&self) -> Group {
        let models: Vec<_> = self.models().into_values().collect();
        let labels = self.host.record.as_ref().map(|record| record.labels.clone()).unwrap_or_default();
        self.validator.fleet.rules().policy.group_of(&labels, &models).clone()
    }

    /// Handles a new policy.
    pub(super) fn policy_changed(&mut self) -> Vec<Action> {
        self.due.is_outdated = true;
        Vec::new()
    }

    /// Follows another policy, after a challenge: the next one is due no later than it allows.
    pub(super) fn follow_policy(&mut self) {
        let is_idle = !self.session.is_running() && self.running.recording.is_none() && self.due.turn.is_empty();
        if self.host.who.is_some() && is_idle {
            self.due.is_outdated = false;
            let next = next_wait(&self.group(), &self.validator.policy(), &mut self.entropy);
            let next = next.map(|wait| clock::now() + wait);
            self.due.is_moved |= next.is_some_and(|next| self.due.next_challenge.is_none_or(|before| next < before));
            self.due.next_challenge = [self.due.next_challenge, next].into_iter().flatten().min();
        }
    }

    /// Queues a due challenge for a place, if the policy still allows it.
    pub(super) fn queue_due(&mut self, now: Instant) {
        let (Some(who), true) = (&self.host.who, self.due.next_challenge.is_some_and(|at| now >= at)) else { return };
        self.due.next_challenge = None;
        let validator = self.validator.clone();
        let due = DueChallenge {
            miner: who.miner,
            models: self.models().into_values().collect(),
            claimed_bytes: self.claimed_bytes(),
            is_first: std::mem::take(&mut self.due.is_first),
            is_moved: std::mem::take(&mut self.due.is_moved),
            challenges: validator.capacity.challenges.clone(),
            max_challenges: validator.registry.bounds.max_challenges,
        };
        let lease = self.host.lease.clone();
        self.due.turn.spawn(async move {
            match lease {
                // Another validator schedules the miner's challenges while it lives.
                Some(lease) if !lease.hold().await => ScheduleDecision::Later(LEASE_PAUSE),
                _ => validator.fleet.prepare(&validator.policy(), due).await,
            }
        });
    }

    /// Starts the due challenge, now that a place is free.
    pub(super) async fn start_due(&mut self, prepared: ScheduleDecision) -> Vec<Action> {
        let (order, places) = match prepared {
            ScheduleDecision::Ready(order, places) => (order, places),
            ScheduleDecision::Later(wait) => {
                self.schedule_in(Some(wait));
                return Vec::new();
            }
            ScheduleDecision::Never => return Vec::new(),
        };
        // A miner that claims more by now waits for a place like those that do from the start.
        if self.claimed_bytes() > places.most_bytes {
            self.due.is_moved = true;
            self.schedule_in(Some(Duration::ZERO));
            return Vec::new();
        }
        // The wait for a place may have outlasted the lease.
        if self.host.lease.as_ref().is_some_and(|lease| !lease.is_held()) {
            self.schedule_in(Some(LEASE_PAUSE));
            return Vec::new();
        }
        match self.start(*order, places).await {
            Ok(actions) => return actions,
            // A requested challenge runs: the next is due after its verdict.
            Err(StartError::Busy) => {}
            // The outage of the records is logged once, elsewhere.
            Err(StartError::Records(_)) => self.schedule_in(Some(RECORDS_PAUSE)),
            Err(error) => {
                tracing::warn!(session = self.number, %error, "no challenge was made");
                self.schedule_in(self.validator.policy().challenge_interval.or(Some(RECORDS_PAUSE)));
            }
        }
        Vec::new()
    }

    fn claimed_bytes(&self) -> u64 {
        self.session.inventory().map_or(0, Inventory::free_bytes)
    }

    pub(super) fn models(&self) -> BTreeMap<DeviceId, String> {
        let inventory = self.session.inventory().map(|inventory| inventory.devices.as_slice()).unwrap_or_default();
        inventory.iter().map(|device| (device.id, device.claimed_model().to_owned())).collect()
    }

    pub(super) async fn start(&mut self, order: Order, places: ChallengePlaces) -> Result<Vec<Action>, StartError> {
        let seat = self.seat().ok_or(StartError::NotConnected)?;
        // Checked first: a challenge whose verdict waits for the disk is busy for that long.
        self.validator.check_recording()?;
        if self.session.is_running() || self.running.recording.is_some() {
            return Err(StartError::Busy);
        }
        // Read late, to include challenges that another validator concluded meanwhile.
        let history = Arc::new(MinerHistory { seat: Some(seat), ..self.history().await.map_err(StartError::Records)? });
        self.note_missing(&history);
        // First: from here on no other session of the key takes over.
        if !self.validator.registry.begin(self.number, seat) {
            return Err(StartError::NotConnected);
        }
        let (models, rules) = (self.models(), self.validator.fleet.rules());
        let profiles: Vec<_> = models.values().map(|model| rules.profiles.find(model)).collect();
        let policy = Arc::new(order.policy.with_figures_of(&profiles));
        let Self { session, validator, entropy, .. } = self;
        let started = session.start(&policy, order.hold(), history.clone(), &mut context(validator, entropy));
        match &started {
            Ok(actions) => {
                let facts = actions.iter().find_map(|action| match action {
                    Action::Started(facts) => Some(*facts),
                    _ => None,
                });
                let (began, stages) = (clock::now(), ChallengePhases::begin(facts.map(|facts| facts.id)));
                self.running.challenge = Some(OngoingChallenge {
                    facts,
                    began,
                    probe_began: None,
                    delays: ValidatorDelays::default(),
                    has_given_up: false,
                    stages,
                    began_ms: unix_ms(),
                    order,
                    models,
                    is_known: history.is_known(),
                    signed: None,
                    shown: Vec::new(),
                });
                (self.running.places, self.due.turn) = (Some(places), ScheduleTask::new());
            }
            Err(_) => self.update(|miner| miner.challenged = false),
        }
        let judged = |action: &Action| match action {
            Action::Judged(verdict) => Some(Course::judged(verdict)),
            _ => None,
        };
        let course = self.session.challenge().map(Course::of);
        let course = course.or_else(|| started.as_ref().ok()?.iter().find_map(judged));
        self.running.course = course.map(|course| watch::channel(course).0);
        self.publish();
        self.note_begun();
        started
    }

    /// Records the current challenge, so that another validator can conclude it if this one is lost.
    fn note_begun(&self) {
        let Some(OngoingChallenge { facts: Some(facts), began_ms, order, .. }) = &self.running.challenge else {
            return;
        };
        let Some(who) = &self.host.who else { return };
        let begun = ChallengeStart {
            challenge: facts.id.to_string(),
            miner: who.miner.to_string(),
            validator: self.validator.access.admission.identity.public_key().to_string(),
            instance: self.validator.instance.clone(),
            session: self.session_id(),
            // An order of an operator names none.
            group: Some(order.group.clone()).filter(|name| !name.is_empty()).unwrap_or_else(|| self.group().name),
            kind: order.kind.clone(),
            asked: order.asked.name().to_owned(),
            round: order.round.as_ref().map(|round| round.id.clone()),
            begun_ms: *began_ms,
            device_ms: 0,
        };
        let (records, course) = (self.validator.records.clone(), self.running.course.clone());
        // The challenge does not wait: without this record it cannot be lost, and its verdict records it.
        tokio::spawn(async move {
            if let Err(error) = records.begin_challenge(&begun).await {
                tracing::debug!(challenge = begun.challenge, %error, "a challenge's begin is not in the records");
            }
            if let Some(course) = course {
                course.send_modify(|course| course.is_noted = true);
            }
        });
    }
}

/// Waits for the decision on the due challenge; for ever without one.
pub(super) async fn turn(turn: &mut ScheduleTask) -> ScheduleDecision {
    match turn.join_next().await {
        // After a panic the decision is made again.
        Some(decided) => decided.unwrap_or(ScheduleDecision::Later(RECORDS_PAUSE)),
        None => std::future::pending().await,
    }
}
