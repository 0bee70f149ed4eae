//! When a miner is challenged, and the start of its challenge.

use std::pin::Pin;
use std::time::{Duration, Instant};

use assay_protocol::verdict::{ReasonCode, Verdict};
use assay_work::{Challenge, PublicKey};
use tokio::sync::{AcquireError, OwnedSemaphorePermit};

use super::{Driver, Ongoing, context};
use crate::action::Action;
use crate::clock::unix_ms;
use crate::entropy::Entropy;
use crate::events::Asked;
use crate::order::Order;
use crate::registry::RunningChallenge;
use crate::session::StartError;

/// How soon after its proof a miner is challenged: one ping must have come back.
const CONNECT_DELAY: Duration = Duration::from_millis(500);

/// After an abandoned challenge, how long a miner is not challenged on connecting where the policy has no interval.
const ABANDONED_PAUSE: Duration = Duration::from_secs(600);

/// While verdicts cannot be written, how long until a challenge that was due is tried again.
const RECORDING_PAUSE: Duration = Duration::from_secs(10);

/// Gives a place for a challenge, in the order in which they were asked for.
pub(super) type Turn = Pin<Box<dyn Future<Output = Result<OwnedSemaphorePermit, AcquireError>> + Send + Sync>>;

impl Driver {
    /// A miner is challenged when it connects, unless it abandoned a challenge within the interval: connecting again
    /// must not be a way to the next draw.
    pub(super) fn schedule_first(&mut self, key: PublicKey) {
        let policy = self.validator.policy();
        let interval = policy.challenge_interval.unwrap_or(ABANDONED_PAUSE);
        let abandoned = self.validator.admission.history.abandoned_at(key);
        if !policy.challenge_on_connect {
            self.schedule();
        } else if let Some(at) = abandoned.filter(|at| at.elapsed() < interval) {
            self.next_challenge = Some(at + interval);
        } else {
            self.next_challenge = Some(Instant::now() + CONNECT_DELAY);
        }
    }

    /// When the next challenge is due, after this verdict on one: soon where one was due and the miner was busy.
    pub(super) fn schedule_after(&mut self, verdict: &Verdict, asked: Option<Asked>) {
        let was_busy = verdict.reasons.iter().any(|reason| reason.code == ReasonCode::MinerBusy);
        if !(was_busy && asked == Some(Asked::Schedule)) {
            self.busy = 0;
            return self.schedule();
        }
        self.busy += 1;
        match self.validator.policy().busy_pause(self.busy) {
            Some(pause) => self.schedule_in(pause),
            None => self.schedule(),
        }
    }

    /// The policy was replaced: the next challenge is due no later than its interval says.
    pub(super) fn policy_changed(&mut self) -> Vec<Action> {
        if self.who.is_some() && !self.session.is_running() {
            let before = self.next_challenge.take();
            self.schedule();
            self.next_challenge = self.next_challenge.map(|next| before.map_or(next, |before| before.min(next)));
        }
        Vec::new()
    }

    /// Has a challenge that is due wait for a place.
    pub(super) fn queue_due(&mut self, now: Instant) {
        if self.next_challenge.is_some_and(|at| now >= at) {
            self.next_challenge = None;
            self.turn = Some(Box::pin(self.validator.challenges.clone().acquire_owned()));
        }
    }

    /// Starts the challenge that is due, now that there is a place for it.
    pub(super) fn start_due(&mut self, place: Result<OwnedSemaphorePermit, AcquireError>) -> Vec<Action> {
        self.turn = None;
        // The places are never closed.
        let Ok(place) = place else { return Vec::new() };
        let order = Order { asked: Asked::Schedule, ..Order::manual(self.validator.policy()) };
        match self.start(order, place) {
            Ok(actions) => return actions,
            // One that was asked for runs: the next is due after its verdict.
            Err(StartError::Busy) => {}
            // The log says so once for all.
            Err(StartError::NotRecording(_) | StartError::Records(_)) => {
                self.next_challenge = Some(Instant::now() + RECORDING_PAUSE)
            }
            Err(error) => {
                tracing::warn!(session = self.number, %error, "no challenge was made");
                self.schedule();
            }
        }
        Vec::new()
    }

    pub(super) fn start(&mut self, order: Order, place: OwnedSemaphorePermit) -> Result<Vec<Action>, StartError> {
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
                self.challenge = Some(Ongoing { facts, began: Instant::now(), began_ms: unix_ms(), order });
                (self.place, self.turn) = (Some(place), None);
            }
            Err(_) => self.unchallenged(),
        }
        self.running = self.session.challenge().map(running);
        self.publish();
        started
    }

    /// No challenge runs any more.
    pub(super) fn unchallenged(&self) {
        if let Some(seat) = self.seat() {
            self.validator.registry.update(self.number, seat, |m| m.challenged = false);
        }
    }

    fn schedule(&mut self) {
        if let Some(interval) = self.validator.policy().challenge_interval {
            self.schedule_in(interval);
        }
    }

    fn schedule_in(&mut self, interval: Duration) {
        // Between four and six fifths, so that no host knows the moment and a fleet does not move in step.
        let spread = self.entropy.below(1000).unwrap_or(500) as f64 / 1000.0;
        self.next_challenge = Some(Instant::now() + interval.mul_f64(0.8 + 0.4 * spread));
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

/// Waits for a place for a challenge; for ever where none is due.
pub(super) async fn turn(turn: &mut Option<Turn>) -> Result<OwnedSemaphorePermit, AcquireError> {
    match turn {
        Some(turn) => turn.as_mut().await,
        None => std::future::pending().await,
    }
}
