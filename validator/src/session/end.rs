//! How a session ends, and what runs in it.

use assay_protocol::message::{RefusedCode, StopCode, ValidatorMessage};
use assay_protocol::verdict::{Reason, ReasonCode};
use assay_work::text::quoted;

use super::{Session, SessionState};
use crate::action::Action;
use crate::allow::NotAllowed;
use crate::bounds::MAX_ENDED;
use crate::refusal::refusal;
use crate::run::ChallengeRun;

impl Session {
    /// The stream broke, or the miner closed its side of it.
    pub fn disconnected(&mut self, detail: &str) -> Vec<Action> {
        self.leave(Reason::new(ReasonCode::Disconnected, detail))
    }

    /// The miner is gone, or is as good as gone: what runs ends for this reason, unless it can be judged without the
    /// miner; then the session ends with the verdict.
    pub(super) fn leave(&mut self, reason: Reason) -> Vec<Action> {
        if self.is_over() {
            return Vec::new();
        }
        let why = reason.detail.clone();
        let actions = self.run.as_mut().map(|run| run.leave(reason)).unwrap_or_default();
        let mut actions = self.retire(actions);
        if self.run.is_some() {
            self.leaving = Some(why);
        } else {
            actions.extend(self.close(why));
        }
        actions
    }

    /// The validator wants to end: what runs is not judged any more.
    pub fn drain(&mut self) -> Vec<Action> {
        let mut actions = self.stop_run(Reason::new(ReasonCode::ValidatorDraining, "the validator was asked to stop"));
        let goodbye = ValidatorMessage::Goodbye(StopCode::Draining, "this validator is shutting down".into());
        actions.push(Action::send(goodbye));
        actions.extend(self.close("draining".into()));
        actions
    }

    /// Another session of the same key took this one's place. A challenge that runs, where the same miner lost this
    /// session's connection, ends as the connection does.
    pub fn replaced(&mut self, why: &str) -> Vec<Action> {
        let goodbye = Action::send(ValidatorMessage::Goodbye(StopCode::Busy, why.into()));
        let mut actions = self.leave(Reason::new(ReasonCode::Disconnected, why));
        // Before the stream is closed, after a verdict.
        let end = actions.iter().position(|action| matches!(action, Action::Close(_))).unwrap_or(actions.len());
        actions.insert(end, goodbye);
        actions
    }

    /// The miner may not stay, and no challenge runs. A miner that comes back is refused.
    pub fn expel(&mut self, why: NotAllowed) -> Vec<Action> {
        let why = match why {
            NotAllowed::Unlisted => "this key is no longer on the validator's list of miners".to_owned(),
            why => why.to_string(),
        };
        let mut actions = vec![Action::send(ValidatorMessage::Goodbye(StopCode::Invalid, why.clone()))];
        actions.extend(self.close(why));
        actions
    }

    /// The miner may not stay, and what runs ends with it: its key was revoked or suspended.
    pub fn revoke(&mut self, why: NotAllowed) -> Vec<Action> {
        if matches!(self.state, SessionState::Closed) {
            return Vec::new();
        }
        let detail =
            format!("the miner's key was {}", if why == NotAllowed::Suspended { "suspended" } else { "revoked" });
        let mut actions = self.stop_run(Reason::new(ReasonCode::Cancelled, detail));
        actions.extend(self.expel(why));
        actions
    }

    /// Ends what runs for a reason of the validator's.
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
        actions.push(Action::send(ValidatorMessage::Goodbye(StopCode::Invalid, what.into())));
        actions.extend(self.close(what.into()));
        actions
    }

    pub(super) fn refuse(&mut self, code: RefusedCode, detail: &str) -> Vec<Action> {
        self.end_with(refusal(code, detail.into()), detail)
    }

    pub(super) fn end_with(&mut self, refusal: ValidatorMessage, detail: &str) -> Vec<Action> {
        let mut actions = vec![Action::send(refusal)];
        actions.extend(self.close(format!("refused: {detail}")));
        actions
    }

    pub(super) fn close(&mut self, why: String) -> Vec<Action> {
        self.state = SessionState::Closed;
        vec![Action::Close(why)]
    }

    /// Drops a run that is over and remembers what may still come of it; ends a session that only waited for it.
    pub(super) fn retire(&mut self, mut actions: Vec<Action>) -> Vec<Action> {
        let Some(ended) = self.run.as_ref().and_then(ChallengeRun::ended) else { return actions };
        self.run = None;
        self.recent.push_front(ended);
        self.recent.truncate(MAX_ENDED);
        if let Some(why) = self.leaving.clone() {
            actions.extend(self.close(why));
        }
        actions
    }
}
