//! Commands of operators and other sessions to a session, and its end with the validator.

use assay_program::clock;
use assay_protocol::verdict::{Reason, ReasonCode};
use tokio::sync::watch;

use super::Driver;
use crate::course::ChallengeSnapshot;
use crate::fleet::schedule::ChallengePlaces;
use crate::registry::SessionCommand;
use crate::takeover::{resumed, taken_over};
use assay_judge::action::Action;
use assay_judge::session::StartError;

impl Driver {
    pub(super) async fn command(&mut self, command: SessionCommand) -> Vec<Action> {
        match command {
            SessionCommand::Replaced(by) => {
                self.end.is_replaced = true;
                self.session.replaced(&taken_over(by))
            }
            SessionCommand::Labelled(record) => self.labelled(*record),
            SessionCommand::Resumed(by) => self.session.replaced(&resumed(by)),
            // Its round went on without it.
            SessionCommand::Run { order, started, .. } if order.round.is_some() && started.is_closed() => Vec::new(),
            SessionCommand::Run { order, place, started } => {
                let free = self.validator.capacity.challenges.clone();
                let place = place.map_or_else(|| free.try_acquire_owned().map_err(|_| StartError::TooMany), Ok);
                let result = match place {
                    Ok(place) => self.start(*order, ChallengePlaces::of(place)).await,
                    Err(error) => Err(error),
                };
                let (answer, actions) = match result {
                    Ok(actions) => (self.running.course.as_ref().ok_or(StartError::NotConnected), actions),
                    Err(error) => (Err(error), Vec::new()),
                };
                // The caller may have gone; the challenge runs anyway.
                let _ = started.send(answer.map(watch::Sender::subscribe));
                actions
            }
            SessionCommand::Release(id) => self.session.release(id, clock::now(), &mut self.entropy),
            SessionCommand::Cancel { id, cancelled } => {
                let course = self.running.course.as_ref().filter(|_| self.session.is_running());
                let running = course.map(|course| course.borrow().now().clone()).filter(|running| id == running.id);
                // The caller may have gone; the challenge ends anyway.
                let _ = cancelled.send(running.as_ref().map(|running| running.id));
                let Some(ChallengeSnapshot { phase, since, .. }) = running else { return Vec::new() };
                let detail = format!("in phase {phase}, {:.1} s after its start", clock::since(since).as_secs_f64());
                self.session.stop_run(Reason::new(ReasonCode::Cancelled, detail))
            }
        }
    }

    /// Ends the session now, with its current challenge.
    pub(super) fn cut_short(&mut self) -> Vec<Action> {
        self.end.was_stopped = true;
        if let Some(challenge) = self.session.challenge() {
            self.validator.drain.cut(challenge.id());
        }
        self.session.drain()
    }
}
