//! What operators and other sessions ask of a session, and the validator's own end.

use std::time::Instant;

use assay_protocol::verdict::{Reason, ReasonCode};
use tokio::sync::oneshot;

use super::Driver;
use crate::action::Action;
use crate::fleet::schedule::Places;
use crate::registry::{RunningChallenge, SessionCommand, VERDICT};
use crate::session::StartError;
use crate::takeover::{resumed, taken_over};

impl Driver {
    pub(super) fn command(&mut self, command: SessionCommand) -> Vec<Action> {
        match command {
            SessionCommand::Replaced { by } => self.session.replaced(&taken_over(by)),
            SessionCommand::Resumed { by } => self.session.replaced(&resumed(by)),
            SessionCommand::Run { order, place, started, updates } => {
                let free = || self.validator.challenges.clone().try_acquire_owned().map_err(|_| StartError::TooMany);
                let place = place.map_or_else(free, Ok);
                let result = place.and_then(|place| self.start(*order, Places::of(place)));
                if result.is_ok() {
                    self.watchers.push(updates);
                }
                let running = self.running.clone();
                reply_to_start(started, running, result)
            }
            SessionCommand::Release { id } => self.session.release(id, Instant::now(), &mut self.entropy),
            SessionCommand::Cancel { id, cancelled } => {
                let running = self.running.as_ref().filter(|_| self.session.is_running());
                let running = running.filter(|running| id == running.id);
                let (id, detail) = running.map(|running| (running.id, cancelled_detail(running))).unzip();
                // Whoever asked may have gone; the challenge ends all the same.
                let _ = cancelled.send(id);
                let cancel = |detail: String| self.session.stop_run(Reason::new(ReasonCode::Cancelled, detail));
                detail.map(cancel).unwrap_or_default()
            }
        }
    }

    /// Ends the session now, and with it a challenge that is under way.
    pub(super) fn cut_short(&mut self) -> Vec<Action> {
        self.was_stopped = true;
        if let Some(challenge) = self.session.challenge() {
            self.validator.drain.cut(challenge.id());
        }
        self.session.drain()
    }
}

fn cancelled_detail(running: &RunningChallenge) -> String {
    format!("in phase {}, {:.1} s after its start", running.phase, running.since.elapsed().as_secs_f64())
}

/// What began: a challenge, or one that had its verdict at once.
fn begun(running: Option<RunningChallenge>, actions: &[Action]) -> Option<RunningChallenge> {
    let judged = || {
        actions.iter().find_map(|action| match action {
            Action::Verdict(verdict) => Some(RunningChallenge {
                id: verdict.challenge_id,
                since: Instant::now(),
                phase: VERDICT,
                done_slots: 0,
                all_slots: 0,
            }),
            _ => None,
        })
    };
    running.or_else(judged)
}

fn reply_to_start(
    started: oneshot::Sender<Result<RunningChallenge, StartError>>,
    running: Option<RunningChallenge>,
    result: Result<Vec<Action>, StartError>,
) -> Vec<Action> {
    let (answer, actions) = match result {
        Ok(actions) => (begun(running, &actions).ok_or(StartError::NotConnected), actions),
        Err(error) => (Err(error), Vec::new()),
    };
    // The caller may have gone; the challenge runs all the same.
    let _ = started.send(answer);
    actions
}
