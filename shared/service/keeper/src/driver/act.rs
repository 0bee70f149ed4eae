//! Carries out the actions of a session.

use std::collections::VecDeque;

use tokio::sync::watch;

use super::standing::{REVOKED_LIMIT, revocation};
use super::{Driver, OngoingChallenge};
use crate::course::Course;
use crate::events;
use assay_judge::action::Action;
use assay_listen::bounds::SEND_LIMIT;
use assay_program::clock;

impl Driver {
    /// Carries out actions; returns the reason once the session has ended.
    pub(super) async fn act(&mut self, actions: Vec<Action>) -> Option<String> {
        let mut queue = VecDeque::from(actions);
        let mut closed = None;
        // Neither an unread message nor a check that waits for a core delays a revocation.
        let mut lists = self.validator.access.allowed.changes();
        let standing = self.host.standing.clone().filter(|_| self.end.revoked_at.is_none());
        while let Some(action) = queue.pop_front() {
            match action {
                Action::Send(message, sent) => {
                    let limit = if self.end.revoked_at.is_some() { REVOKED_LIMIT / 2 } else { SEND_LIMIT };
                    let taken = tokio::select! {
                        biased;
                        taken = self.outgoing.send_timeout(Box::new((message, sent)), limit) => taken.is_ok(),
                        why = revocation(&mut lists, standing.as_ref()) => {
                            self.end.interrupted = Some(why);
                            true
                        }
                    };
                    if !taken && closed.is_none() {
                        queue.extend(self.disconnected("the miner does not read what is sent"));
                    }
                }
                Action::Established(hello, token) => {
                    // Boxed, once in a session: its future would enlarge the session's own.
                    if let Err(error) = Box::pin(self.established(*hello, token)).await {
                        queue = self.session.not_entered(error.refusal(), &error.to_string()).into();
                    }
                }
                Action::InventoryChanged(inventory) => {
                    // The records are slow, and a probe waits behind this task: devices are noted after the challenge.
                    self.host.has_unnoted_devices = true;
                    if !self.session.is_running() {
                        Box::pin(self.note_devices(&inventory)).await;
                    }
                    self.update(|miner| miner.inventory = inventory);
                }
                Action::RoundTrip(time) => {
                    self.heard();
                    let is_due = self.host.has_unnoted_devices && !self.session.is_running();
                    if let Some(inventory) = self.session.inventory().filter(|_| is_due).cloned() {
                        Box::pin(self.note_devices(&inventory)).await;
                    }
                    self.update(|miner| miner.round_trip = Some(time));
                }
                Action::Check(job) => {
                    let checked = tokio::select! {
                        biased;
                        checked = self.check(*job) => Ok(checked),
                        why = revocation(&mut lists, standing.as_ref()) => Err(why),
                    };
                    match checked {
                        Ok(actions) => queue.extend(actions),
                        Err(why) => self.end.interrupted = Some(why),
                    }
                }
                Action::Replay(id, binding, extent) => queue.extend(self.start_replay(id, *binding, extent)),
                Action::Started(facts) => {
                    if let (Some(who), Some(OngoingChallenge { order, .. })) = (&self.host.who, &self.running.challenge)
                    {
                        events::started(who, &facts, order);
                        self.validator.reports.metrics.families.started(order);
                    }
                }
                Action::Phase(phase) => self.phase(phase),
                Action::Progress(done, _) => self.advance(|course| course.advance(done)),
                Action::Record(entries) => self.capture(entries).await,
                Action::Shown(shown) => {
                    if let Some(ongoing) = &mut self.running.challenge {
                        ongoing.shown = shown;
                    }
                }
                Action::Judged(verdict) => self.conclude(verdict),
                Action::Close(why) => closed = Some(why),
            }
        }
        closed
    }

    /// Updates the course of the challenge.
    pub(super) fn advance(&self, change: impl FnOnce(&mut Course)) {
        if let Some(course) = &self.running.course {
            course.send_modify(change);
        }
    }

    /// Publishes the current challenge to operators.
    pub(super) fn publish(&self) {
        self.update(|miner| miner.running = self.running.course.as_ref().map(watch::Sender::subscribe));
    }

    fn phase(&mut self, phase: &'static str) {
        if let Some(ongoing) = &mut self.running.challenge {
            ongoing.stages.enter(phase, &self.validator);
            ongoing.probe_began = ongoing.probe_began.or_else(|| (phase == "probe").then(clock::now));
        }
        // The first phase begins with the challenge.
        if let (Some(who), Some(OngoingChallenge { facts: Some(facts), began, .. })) =
            (&self.host.who, &self.running.challenge)
            && phase != "work"
        {
            events::phase(who, facts.id, phase, *began);
        }
        self.advance(|course| course.enter(phase));
    }
}
