//! The validator's side of one miner's session, without a socket: events in, actions out.
//!
//! Clock and randomness are arguments, so that a simulation can drive it.

mod end;
mod handshake;
mod pings;
mod start;

use std::collections::VecDeque;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, Instant};

use assay_protocol::channel::Channel;
use assay_protocol::identity::{Identity, SessionTranscript};
use assay_protocol::message::{Hello, Inventory, MinerMessage, OpeningsChunk, RefusedCode, ValidatorMessage};
use assay_protocol::successor::Lineage;
use assay_protocol::verdict::{Reason, ReasonCode, Verdict};
use assay_work::{Challenge, ChallengeId, Nonce, PublicKey};

use self::pings::{FOLLOW_UP_PINGS, Pings};
use crate::action::Action;
use crate::bounds::{HANDSHAKE_LIMIT, MAX_MESSAGES_PER_PING, MISSED_PINGS};
use crate::entropy::Entropy;
use crate::history::History;
use crate::issue::IssueError;
use crate::replay::Replays;
use crate::run::{ChallengeRun, HANDOVER_LIMIT, RunSummary};

/// Interval at which a session whose ping waits for the transport checks whether it went out.
const UNREAD_PAUSE: Duration = Duration::from_millis(100);
/// The least time of our own that is excused.
const LEAST_EXCUSED: Duration = Duration::from_millis(1);

/// Services of the validator that a session uses.
pub struct SessionContext<'a> {
    pub now: Instant,
    /// Seconds since 1970.
    pub unix_seconds: u64,
    pub entropy: &'a mut dyn Entropy,
    pub replays: &'a dyn Replays,
}

pub trait Access: Debug + Send + Sync {
    /// Checks whether a miner that proved its key may be entered, with a join token or without one.
    ///
    /// # Errors
    /// The refusal for the miner, with its sentence.
    fn check(&self, miner: &Lineage, has_token: bool, now_unix_seconds: u64) -> Result<(), (RefusedCode, String)>;
}

#[derive(Debug, Clone)]
pub struct Admission {
    pub identity: Identity,
    pub access: Arc<dyn Access>,
    pub ping_interval: Duration,
    /// This process's own work for miners.
    pub history: Arc<History>,
}

/// Reasons why a challenge cannot start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    #[error("the miner is not connected yet")]
    NotConnected,
    /// Another challenge runs.
    #[error("the miner works on another challenge")]
    Busy,
    /// The limit `max_challenges` is reached.
    #[error("as many challenges run as max_challenges allows: try again in some seconds")]
    TooMany,
    /// The records cannot be written, and the verdict could be lost.
    #[error("nothing can be written to the records ({0}), and no challenge starts until it can")]
    Records(String),
    #[error(transparent)]
    Issue(#[from] IssueError),
}

#[derive(Debug)]
enum SessionState {
    AwaitHello,
    AwaitProof { hello: Box<Hello>, transcript: SessionTranscript },
    Connected { miner_key: PublicKey, inventory: Inventory },
    Closed,
}

#[derive(Debug)]
struct SessionEnd {
    /// Last message to the miner.
    goodbye: Option<ValidatorMessage>,
    why: String,
}

#[derive(Debug)]
pub struct ValidatorSession {
    admission: Arc<Admission>,
    channel: Channel,
    state: SessionState,
    /// `Some` after a hello.
    nonce: Option<Nonce>,
    run: Option<ChallengeRun>,
    recent: VecDeque<RunSummary>,
    /// A verdict is reached and not recorded yet.
    is_concluding: bool,
    /// Ending of the session, once its last verdict is recorded.
    ending: Option<SessionEnd>,
    pings: Pings,
    messages: u32,
    began: Instant,
    heard: Instant,
}

impl ValidatorSession {
    /// Creates the session of a connection that was just accepted.
    pub fn new(admission: Arc<Admission>, channel: Channel, now: Instant) -> Self {
        Self {
            admission,
            channel,
            state: SessionState::AwaitHello,
            nonce: None,
            run: None,
            recent: VecDeque::new(),
            is_concluding: false,
            ending: None,
            pings: Pings::default(),
            messages: 0,
            began: now,
            heard: now,
        }
    }

    /// Nonce that its miner signs, by which a later session names it.
    pub const fn nonce(&self) -> Option<Nonce> {
        self.nonce
    }

    pub const fn is_running(&self) -> bool {
        self.run.is_some()
    }

    pub fn challenge(&self) -> Option<&Challenge> {
        self.run.as_ref().map(ChallengeRun::challenge)
    }

    /// The devices, by the miner's claims, after it proved its key.
    pub const fn inventory(&self) -> Option<&Inventory> {
        match &self.state {
            SessionState::Connected { inventory, .. } => Some(inventory),
            _ => None,
        }
    }

    /// Whether further messages of the miner have no effect: the session is closed, or ends with the verdict.
    pub const fn is_over(&self) -> bool {
        self.ending.is_some() || matches!(self.state, SessionState::Closed)
    }

    /// Takes a message received at `received`.
    pub fn message(
        &mut self,
        message: MinerMessage,
        received: Instant,
        context: &mut SessionContext<'_>,
    ) -> Vec<Action> {
        if self.is_over() {
            return Vec::new();
        }
        self.heard = received;
        if !self.was_asked_for(&message) {
            self.messages += 1;
        }
        if self.messages > MAX_MESSAGES_PER_PING {
            return self.protocol_violation("too many messages");
        }
        match (&self.state, message) {
            (SessionState::Closed, _) => Vec::new(),
            (SessionState::AwaitHello, MinerMessage::Hello(hello)) => self.hello(hello, context),
            (SessionState::AwaitHello, _) => self.refuse(RefusedCode::Malformed, "the first message must be a hello"),
            (SessionState::AwaitProof { .. }, MinerMessage::Proof(signature, token)) => {
                self.proof(&signature, token, context.unix_seconds)
            }
            (SessionState::AwaitProof { .. }, _) => self.refuse(RefusedCode::Malformed, "a proof was due"),
            (SessionState::Connected { .. }, message) => self.connected(message, received, context),
        }
    }

    /// Handles a message that could not be decoded.
    pub fn malformed(&mut self, problem: &str) -> Vec<Action> {
        match self.state {
            _ if self.is_over() => Vec::new(),
            SessionState::Connected { .. } => self.protocol_violation(problem),
            _ => self.refuse(RefusedCode::Malformed, problem),
        }
    }

    fn connected(&mut self, message: MinerMessage, received: Instant, context: &mut SessionContext<'_>) -> Vec<Action> {
        match message {
            MinerMessage::Pong(sequence) => self.pong(sequence, received),
            MinerMessage::Inventory(inventory) => self.inventory_changed(inventory),
            MinerMessage::Goodbye(code, detail) => self.goodbye(code, &detail),
            MinerMessage::Hello(_) | MinerMessage::Proof(..) => self.protocol_violation("a second handshake came"),
            about => self.about_challenge(about, received, context),
        }
    }

    /// Handles a message that names a challenge: for the current one, or for one that just ended.
    fn about_challenge(
        &mut self,
        message: MinerMessage,
        received: Instant,
        context: &mut SessionContext<'_>,
    ) -> Vec<Action> {
        let id = challenge_of(&message);
        let recent = self.recent.iter().find(|recent| Some(recent.id) == id).map(|recent| recent.is_committed);
        // Messages that crossed the end of their challenge are no fault, but a commitment given before is a replayed
        // one.
        let replayed = recent == Some(true) && matches!(message, MinerMessage::Commitment(_));
        if recent.is_some() && !replayed {
            return Vec::new();
        }
        let Some(run) = &mut self.run else {
            return self.protocol_violation("a message came about a challenge that does not run");
        };
        let names_another = id != Some(run.id());
        let judged_there = matches!(message, MinerMessage::Commitment(_) | MinerMessage::ProbeAnswer(_));
        let actions = if names_another && !judged_there {
            run.stop(Reason::new(ReasonCode::Protocol, "a message came about another challenge"))
        } else {
            let actions = run.message(message, received, context.entropy);
            // The message waited for us: a probe that answers it goes out so much later.
            let waited = context.now.saturating_duration_since(received);
            if waited >= LEAST_EXCUSED && actions.iter().any(Action::is_probe) {
                run.excuse(waited);
            }
            actions
        };
        let actions = self.retire(actions);
        self.ping_after(&actions, context.now);
        actions
    }

    /// Whether a message is an opening that was requested, which has a bound of its own: of the current challenge, or
    /// of one that ended while the miner was sending.
    fn was_asked_for(&mut self, message: &MinerMessage) -> bool {
        let MinerMessage::OpeningsChunk(chunk) = message else { return false };
        if self.run.as_ref().is_some_and(|run| run.id() == chunk.challenge_id && run.is_opening()) {
            return true;
        }
        let ended = self.recent.iter_mut().find(|ended| ended.id == chunk.challenge_id && ended.chunks_due > 0);
        ended.map(|ended| ended.chunks_due -= 1).is_some()
    }

    /// Takes the result of a check of openings.
    pub fn checked(&mut self, result: Result<(), Reason>) -> Vec<Action> {
        let actions = self.run.as_mut().map(|run| run.checked(result)).unwrap_or_default();
        self.retire(actions)
    }

    /// Takes the recorded verdict, in the form sent to the miner; `None`: it was lost.
    pub fn concluded(&mut self, verdict: Option<Box<Verdict>>) -> Vec<Action> {
        self.is_concluding = false;
        let tell = verdict.map(|verdict| Action::send(ValidatorMessage::Verdict(verdict)));
        let ending = self.ending.take().map(|SessionEnd { goodbye, why }| self.end(goodbye, why));
        tell.into_iter().chain(ending.unwrap_or_default()).collect()
    }

    /// Takes the result of a replay.
    pub fn replayed(&mut self, id: ChallengeId, result: Result<(), Reason>) -> Vec<Action> {
        // The challenge may have ended for another reason meanwhile.
        let Some(run) = self.run.as_mut().filter(|run| run.id() == id) else { return Vec::new() };
        let actions = run.replayed(result);
        self.retire(actions)
    }

    /// Sends the held probe: the round's other members have committed.
    pub fn release(&mut self, id: ChallengeId, now: Instant, entropy: &mut dyn Entropy) -> Vec<Action> {
        let Some(run) = self.run.as_mut().filter(|run| run.id() == id) else { return Vec::new() };
        let actions = run.release(now, entropy);
        let actions = self.retire(actions);
        self.ping_after(&actions, now);
        actions
    }

    /// Excludes the time of a check from the miner's deadlines and its silence: no message was read meanwhile.
    pub fn excuse(&mut self, ours: Duration) {
        self.heard += ours;
        if let Some(run) = &mut self.run {
            run.excuse(ours);
        }
    }

    /// Time of the next call of [`ValidatorSession::tick`]: never later than its next deadline. `None` once the session
    /// is closed.
    pub fn poll_timeout(&self, now: Instant) -> Option<Instant> {
        match self.state {
            SessionState::Closed => None,
            SessionState::AwaitHello | SessionState::AwaitProof { .. } => Some(self.began + HANDSHAKE_LIMIT),
            // The miner is not waited for any more.
            SessionState::Connected { .. } if self.ending.is_some() => None,
            SessionState::Connected { .. } => {
                let ping = self.pings.due(self.admission.ping_interval).unwrap_or(now);
                let unread = self.unread_at();
                let run = self.run.as_ref().and_then(|run| run.poll_timeout(now));
                // While a ping waits, the run's deadlines do too.
                let run = if unread.is_some() { run.map(|at| at.max(now + UNREAD_PAUSE)) } else { run };
                [Some(self.silent_at()), Some(ping), self.pings.follow_ups.front().copied(), unread, run]
                    .into_iter()
                    .flatten()
                    .min()
            }
        }
    }

    /// Time at which a ping that the transport has not taken shows that the miner does not read.
    fn unread_at(&self) -> Option<Instant> {
        self.pings.unread_since().map(|since| since + self.handover_limit())
    }

    fn handover_limit(&self) -> Duration {
        self.run.as_ref().map_or(HANDOVER_LIMIT, ChallengeRun::handover_limit)
    }

    /// Time at which a silent miner counts as gone: its next message may take its transfer time.
    fn silent_at(&self) -> Instant {
        let arrival = self.run.as_ref().map_or(Duration::ZERO, ChallengeRun::arrival_time);
        self.heard + self.admission.ping_interval * MISSED_PINGS + arrival
    }

    /// Enforces deadlines and sends the ping that is due.
    pub fn tick(&mut self, now: Instant, entropy: &mut dyn Entropy) -> Vec<Action> {
        if self.ending.is_some() {
            return Vec::new();
        }
        if !matches!(self.state, SessionState::Connected { .. }) {
            let late = !matches!(self.state, SessionState::Closed) && now >= self.began + HANDSHAKE_LIMIT;
            return if late { self.refuse(RefusedCode::Malformed, "the handshake took too long") } else { Vec::new() };
        }
        if self.unread_at().is_some_and(|at| now >= at) {
            let detail = format!("a message waited {:?} for the connection", self.handover_limit());
            return self.leave(Reason::new(ReasonCode::NotReading, detail));
        }
        // An unread message may have taken the transport's only place before one with a deadline.
        let mut actions = if self.unread_at().is_some() {
            Vec::new()
        } else {
            let actions = self.run.as_mut().map(|run| run.tick(now, entropy)).unwrap_or_default();
            self.ping_after(&actions, now);
            self.retire(actions)
        };
        if now >= self.silent_at() {
            let silence = now.saturating_duration_since(self.heard);
            let detail = format!("nothing came for {silence:.1?}");
            actions.extend(self.leave(Reason::new(ReasonCode::PeerSilent, detail)));
            return actions;
        }
        if self.pings.due(self.admission.ping_interval).is_none_or(|due| now >= due) {
            self.messages = 0;
            self.pings.last = Some(now);
            actions.extend(self.pings.send(now, entropy));
        } else if self.pings.follow_ups.front().is_some_and(|due| now >= *due) {
            self.pings.follow_ups.pop_front();
            actions.extend(self.pings.send(now, entropy));
        }
        actions
    }

    fn pong(&mut self, sequence: u64, received: Instant) -> Vec<Action> {
        let opens = self.run.as_ref().is_some_and(ChallengeRun::is_opening);
        let Some(round_trip) = self.pings.answered(sequence, received, !opens) else {
            return self.protocol_violation("a pong came that answers no ping");
        };
        if let Some(run) = &mut self.run {
            run.round_trip(self.pings.least());
        }
        vec![Action::RoundTrip(round_trip)]
    }

    fn inventory_changed(&mut self, new: Inventory) -> Vec<Action> {
        let SessionState::Connected { inventory, .. } = &mut self.state else { return Vec::new() };
        if new.sequence != inventory.sequence.wrapping_add(1) {
            return self.protocol_violation("an inventory came out of sequence");
        }
        *inventory = new.clone();
        vec![Action::InventoryChanged(new)]
    }

    /// Sends a ping after a message with a deadline: while it waits for the transport, the miner does not read.
    fn ping_after(&mut self, actions: &[Action], now: Instant) {
        use ValidatorMessage::{Challenge, Open, Probe, Sweep};
        let timed = |a: &Action| matches!(a, Action::Send(Challenge(_) | Probe { .. } | Sweep { .. } | Open { .. }, _));
        if actions.iter().any(timed) {
            self.pings.follow_ups = FOLLOW_UP_PINGS.map(|after| now + after).into();
        }
    }
}

const fn challenge_of(message: &MinerMessage) -> Option<ChallengeId> {
    match message {
        MinerMessage::Declined(stop) | MinerMessage::Abort(stop) => Some(stop.challenge_id),
        MinerMessage::Progress { challenge_id, .. } => Some(*challenge_id),
        MinerMessage::Commitment(c) | MinerMessage::ProbeAnswer(c) => Some(c.challenge_id),
        MinerMessage::DeviceRoots(r) => Some(r.challenge_id),
        MinerMessage::DeviceDigests(d) => Some(d.challenge_id),
        MinerMessage::OpeningsChunk(OpeningsChunk { challenge_id, .. }) => Some(*challenge_id),
        MinerMessage::Hello(_)
        | MinerMessage::Proof(..)
        | MinerMessage::Inventory(_)
        | MinerMessage::Pong(_)
        | MinerMessage::Goodbye(..) => None,
    }
}
