//! The end of a session, and of the challenge in it.

use assay_protocol::message::{RefusedCode, StopCode, ValidatorMessage};
use assay_protocol::verdict::{Reason, ReasonCode};
use assay_work::text::quoted;

use super::{SessionEnd, SessionState, ValidatorSession};
use crate::action::Action;
use crate::bounds::MAX_ENDED;
use crate::refusal::refusal;
use crate::run::ChallengeRun;

impl ValidatorSession {
    /// Handles a broken stream, or one that the miner closed.
    pub fn disconnected(&mut self, detail: &str) -> Vec<Action> {
        self.leave(Reason::new(ReasonCode::Disconnected, detail))
    }

    /// Handles a miner that is gone: the challenge ends for this reason, unless it can be judged without the miner;
    /// then the session ends with the verdict.
    pub(super) fn leave(&mut self, reason: Reason) -> Vec<Action> {
        if self.is_over() {
            return Vec::new();
        }
        let why = reason.detail.clone();
        let actions = self.run.as_mut().map(|run| run.leave(reason)).unwrap_or_default();
        let mut actions = self.retire(actions);
        actions.extend(self.end(None, why));
        actions
    }

    /// Ends the session because the validator stops: the challenge is not judged any more.
    pub fn drain(&mut self) -> Vec<Action> {
        let mut actions = self.stop_run(Reason::new(ReasonCode::ValidatorDraining, "the validator was asked to stop"));
        let goodbye = ValidatorMessage::Goodbye(StopCode::Draining, "this validator is shutting down".into());
        actions.extend(self.end(Some(goodbye), "draining".into()));
        actions
    }

    /// Ends a session whose place another session of the same key took. A challenge that runs, where the same miner
    /// lost this session's connection, ends as the connection does.
    pub fn replaced(&mut self, why: &str) -> Vec<Action> {
        let goodbye = ValidatorMessage::Goodbye(StopCode::Busy, why.into());
        let mut actions = Vec::new();
        if !self.is_over() {
            let reason = Reason::new(ReasonCode::Disconnected, why);
            let left = self.run.as_mut().map(|run| run.leave(reason)).unwrap_or_default();
            actions = self.retire(left);
            if self.run.is_none() {
                actions.extend(self.end(Some(goodbye), why.into()));
                return actions;
            }
            actions.extend(self.end(None, why.into()));
        }
        // The current challenge may be judged for long without the miner.
        actions.push(Action::send(goodbye));
        actions
    }

    /// Ends the session of a miner that may not stay, with no challenge running. A miner that comes back is refused.
    pub fn expel(&mut self, why: String) -> Vec<Action> {
        self.end(Some(ValidatorMessage::Goodbye(StopCode::Invalid, why.clone())), why)
    }

    /// Ends the session and its challenge for this reason: the miner's key was revoked or suspended.
    pub fn revoke(&mut self, reason: Reason, why: String) -> Vec<Action> {
        if matches!(self.state, SessionState::Closed) {
            return Vec::new();
        }
        let mut actions = self.stop_run(reason);
        actions.extend(self.expel(why));
        actions
    }

    /// Ends the current challenge for a reason of the validator's.
    pub fn stop_run(&mut self, reason: Reason) -> Vec<Action> {
        let actions = self.run.as_mut().map(|run| run.stop(reason)).unwrap_or_default();
        self.retire(actions)
    }

    pub(super) fn goodbye(&mut self, code: StopCode, detail: &str) -> Vec<Action> {
        self.leave(Reason::new(code.reason(), format!("the miner said goodbye: {}", quoted(detail))))
    }

    /// Handles a message that no honest miner sends: the challenge fails, the session ends.
    pub(super) fn protocol_violation(&mut self, what: &str) -> Vec<Action> {
        let mut actions = self.stop_run(Reason::new(ReasonCode::Protocol, what));
        actions.extend(self.end(Some(ValidatorMessage::Goodbye(StopCode::Invalid, what.into())), what.into()));
        actions
    }

    pub(super) fn refuse(&mut self, code: RefusedCode, detail: &str) -> Vec<Action> {
        self.end_with(refusal(code, detail.into()), detail)
    }

    pub(super) fn end_with(&mut self, refusal: ValidatorMessage, detail: &str) -> Vec<Action> {
        self.end(Some(refusal), format!("refused: {detail}"))
    }

    /// Ends the session, once a challenge that is not concluded yet is.
    pub(super) fn end(&mut self, goodbye: Option<ValidatorMessage>, why: String) -> Vec<Action> {
        if self.run.is_some() || self.is_concluding {
            self.ending.get_or_insert(SessionEnd { goodbye, why });
            return Vec::new();
        }
        self.state = SessionState::Closed;
        goodbye.map(Action::send).into_iter().chain([Action::Close(why)]).collect()
    }

    /// Drops a finished run and remembers the messages that may still arrive for it.
    pub(super) fn retire(&mut self, actions: Vec<Action>) -> Vec<Action> {
        if let Some(ended) = self.run.as_ref().and_then(ChallengeRun::ended) {
            self.run = None;
            self.is_concluding = true;
            self.recent.push_front(ended);
            self.recent.truncate(MAX_ENDED);
        }
        actions
    }
}
