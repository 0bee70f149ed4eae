//! Carries out what a session wants done.

use std::collections::VecDeque;

use tokio::sync::mpsc;

use super::standing::{REVOKED_LIMIT, revocation};
use super::{Driver, Ongoing};
use crate::action::Action;
use crate::bounds::SEND_LIMIT;
use crate::events;
use crate::registry::Update;

impl Driver {
    /// Carries out actions; returns the reason once the session is over.
    pub(super) async fn act(&mut self, actions: Vec<Action>) -> Option<String> {
        let mut queue = VecDeque::from(actions);
        let mut closed = None;
        // Neither a miner that does not read nor a check that waits for a core holds a revocation up.
        let mut lists = self.validator.admission.allowed.changes();
        let standing = self.standing.clone().filter(|_| self.revoked_at.is_none());
        while let Some(action) = queue.pop_front() {
            if let Some(recording) = &mut self.recording
                && !action.keeps_alive()
            {
                recording.then.push_back(action);
                continue;
            }
            match action {
                Action::Send(message, sent) => {
                    let limit = if self.revoked_at.is_some() { REVOKED_LIMIT / 2 } else { SEND_LIMIT };
                    let taken = tokio::select! {
                        biased;
                        taken = self.outgoing.send_timeout(Box::new((message, sent)), limit) => taken.is_ok(),
                        why = revocation(&mut lists, standing.as_ref()) => {
                            self.interrupted = Some(why);
                            true
                        }
                    };
                    if !taken && closed.is_none() {
                        queue.extend(self.disconnected("the miner does not read what is sent"));
                    }
                }
                Action::Established(hello) => {
                    // Once in a session: its future has no room in the session's own.
                    if let Err(error) = Box::pin(self.established(*hello)).await {
                        queue = self.session.not_entered(error).into();
                    }
                }
                Action::InventoryChanged(inventory) => {
                    Box::pin(self.note_devices(&inventory)).await;
                    if let Some(seat) = self.seat() {
                        self.validator.registry.update(self.number, seat, |m| m.inventory = inventory);
                    }
                }
                Action::RoundTrip(time) => {
                    self.heard();
                    if let Some(seat) = self.seat() {
                        self.validator.registry.update(self.number, seat, |m| m.round_trip = Some(time));
                    }
                }
                Action::Check(job) => {
                    let checked = tokio::select! {
                        biased;
                        checked = self.check(*job) => Ok(checked),
                        why = revocation(&mut lists, standing.as_ref()) => Err(why),
                    };
                    match checked {
                        Ok(actions) => queue.extend(actions),
                        Err(why) => self.interrupted = Some(why),
                    }
                }
                Action::Replay(id, binding, extent) => queue.extend(self.start_replay(id, *binding, extent)),
                Action::Started(facts) => {
                    if let (Some(who), Some(Ongoing { order, .. })) = (&self.who, &self.challenge) {
                        events::started(who, &facts, order);
                        self.validator.metrics.challenges.started(order);
                    }
                }
                Action::Phase(phase) => self.phase(phase),
                Action::Progress(done, all) => self.notify(&Update::Progress(done, all)),
                Action::Record(entries) => self.capture(entries).await,
                Action::Verdict(verdict) => self.conclude(verdict),
                Action::Close(why) => closed = Some(why),
            }
        }
        closed
    }

    /// Sends an update to every watcher; one whose queue is full misses it.
    fn notify(&mut self, update: &Update) {
        if let Some(running) = &mut self.running {
            running.advance(update);
            self.publish();
        }
        self.watchers
            .retain(|watcher| !matches!(watcher.try_send(update.clone()), Err(mpsc::error::TrySendError::Closed(_))));
    }

    /// Shows operators how far the challenge is.
    pub(super) fn publish(&self) {
        if let Some(seat) = self.seat() {
            let running = self.running.clone();
            self.validator.registry.update(self.number, seat, |miner| miner.running = running);
        }
    }

    /// A phase of the challenge begins.
    fn phase(&mut self, phase: &'static str) {
        if let Some(ongoing) = &mut self.challenge {
            ongoing.stages.enter(phase, &self.validator);
        }
        // The first one begins with the challenge.
        if let (Some(who), Some(Ongoing { facts: Some(facts), began, .. })) = (&self.who, &self.challenge)
            && phase != "work"
        {
            events::phase(who, facts.id, phase, *began);
        }
        self.notify(&Update::Phase(phase));
    }
}
