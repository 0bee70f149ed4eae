//! A validator's session that is given recorded steps.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use assay_judge::action::Action;
use assay_judge::entropy::SeededEntropy;
use assay_judge::replay::ReplayCapacity;
use assay_judge::session::{Admission, SessionContext, StartError, ValidatorSession};
use assay_keeper::allow::AllowList;
use assay_policy::Policy;
use assay_protocol::channel::Channel;
use assay_protocol::message::{MinerMessage, ValidatorMessage};
use assay_protocol::verdict::Verdict;
use assay_work::ChallengeId;

use super::recording::{Recording, SEED, Step};
use super::sessions::validator_identity;
use super::standing::{UNKNOWN, ValidatorStanding};
use super::table::Named;

/// Short, so that a ping is due before any deadline of a challenge.
pub const PING_INTERVAL: Duration = Duration::from_millis(10);

/// A validator's session, and the other side's knowledge of it from its messages.
pub struct Validator {
    pub now: Instant,
    entropy: SeededEntropy,
    pub session: ValidatorSession,
    pub standing: ValidatorStanding,
    /// Sequences of pings not answered.
    pings: VecDeque<u64>,
    pub verdicts: Vec<Verdict>,
}

impl Validator {
    pub fn new(recording: &Recording) -> Self {
        let now = Instant::now();
        let identity = validator_identity();
        let admission = Admission {
            identity,
            access: Arc::new(AllowList::default()),
            ping_interval: PING_INTERVAL,
            history: Arc::default(),
        };
        Self {
            now,
            entropy: SeededEntropy::new(SEED),
            session: ValidatorSession::new(Arc::new(admission), Channel::Plaintext, now),
            standing: ValidatorStanding::new(recording.inventory.clone()),
            pings: VecDeque::new(),
            verdicts: Vec::new(),
        }
    }

    /// A session that was given these steps.
    pub fn after(recording: &Recording, steps: &[Step]) -> Self {
        let mut validator = Self::new(recording);
        for step in steps {
            validator.take(step);
        }
        validator
    }

    pub fn take(&mut self, step: &Step) {
        let actions = match step {
            Step::Start(policy) => self.start(policy).unwrap(),
            Step::Stop(reason) => self.session.stop_run(reason.clone()),
            Step::Message(message) => {
                let actions = self.give(message);
                self.note_message(message);
                actions
            }
        };
        let actions = self.concluded(actions);
        self.carry_out(actions);
        if matches!(step, Step::Message(_)) {
            self.tick();
        }
    }

    pub fn start(&mut self, policy: &Arc<Policy>) -> Result<Vec<Action>, StartError> {
        let Self { session, entropy, now, .. } = self;
        let mut context = SessionContext { now: *now, unix_seconds: 0, entropy, replays: &ReplayCapacity::default() };
        session.start(policy, None, Arc::default(), &mut context)
    }

    pub fn give(&mut self, message: &MinerMessage) -> Vec<Action> {
        let Self { session, entropy, now, .. } = self;
        let mut context = SessionContext { now: *now, unix_seconds: 0, entropy, replays: &ReplayCapacity::default() };
        session.message(message.clone(), *now, &mut context)
    }

    pub fn tick(&mut self) {
        let actions = self.session.tick(self.now, &mut self.entropy);
        let actions = self.concluded(actions);
        self.carry_out(actions);
    }

    /// The session's actions, and behind each verdict its actions once that is recorded.
    pub fn concluded(&mut self, actions: Vec<Action>) -> Vec<Action> {
        let mut all = Vec::new();
        for action in actions {
            let verdict = if let Action::Judged(verdict) = &action { Some(verdict.clone()) } else { None };
            all.push(action);
            all.extend(verdict.map(|verdict| self.session.concluded(Some(verdict))).into_iter().flatten());
        }
        all
    }

    pub fn carry_out(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Send(message, sent) => {
                    sent.set(self.now);
                    self.note_sent(&message);
                }
                Action::Check(job) => {
                    let result = job.run();
                    let actions = self.session.checked(result);
                    let actions = self.concluded(actions);
                    self.carry_out(actions);
                }
                Action::Judged(verdict) => self.verdicts.push(*verdict),
                Action::Close(_) => self.standing.state = "closed",
                // A replay is never answered.
                _ => {}
            }
        }
    }

    /// Follows the state over a message of the miner that the session does not answer.
    pub fn note_message(&mut self, message: &MinerMessage) {
        if let MinerMessage::Pong(sequence) = message {
            let place = self.pings.iter().position(|ping| ping == sequence).expect("an honest miner answers pings");
            self.pings.drain(..=place);
        }
        self.standing.given(message);
    }

    fn note_sent(&mut self, message: &ValidatorMessage) {
        if let ValidatorMessage::Ping(sequence) = message {
            self.pings.push_back(*sequence);
        }
        self.standing.sent(message);
    }

    /// A challenge of this kind, where there is one.
    pub fn id(&self, named: Named) -> Option<ChallengeId> {
        let ended =
            |committed| self.standing.ended.iter().rev().find(|ended| ended.1 == committed).map(|ended| ended.0);
        match named {
            Named::None => None,
            Named::This => self.standing.this,
            Named::Committed => ended(true),
            Named::Ended => ended(false),
            Named::Other => Some(UNKNOWN),
        }
    }

    /// A sequence that a pong may have.
    pub fn ping(&mut self) -> u64 {
        if self.pings.is_empty() && !matches!(self.standing.state, "hello" | "proof" | "closed") {
            self.now += PING_INTERVAL;
            self.tick();
        }
        self.pings.front().copied().unwrap_or(7)
    }

    /// The session without the counters that every message moves.
    pub fn shown(&self) -> String {
        let text = format!("{:?}", self.session);
        let mut shown = String::with_capacity(text.len());
        for (at, part) in text.split(", ").enumerate() {
            let is_counter = ["messages: ", "heard: ", "tv_nsec: ", "chunks_due: "].iter().any(|c| part.starts_with(c));
            if at > 0 && !is_counter {
                shown.push_str(", ");
                shown.push_str(part);
            }
        }
        shown
    }
}
