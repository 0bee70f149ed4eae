//! The validator's side of one miner's session, without a socket: events in, actions out.
//!
//! Clock and randomness are handed in, so that a simulation can drive it.

mod end;
mod handshake;
mod pings;
mod start;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use assay_protocol::channel::Channel;
use assay_protocol::identity::{Identity, SessionTranscript};
use assay_protocol::message::{Hello, Inventory, MinerMessage, OpeningsChunk, RefusedCode, ValidatorMessage};
use assay_protocol::verdict::{Reason, ReasonCode};
use assay_work::{Challenge, ChallengeId, Nonce, PublicKey};

use self::pings::{FOLLOW_UP_PINGS, Pings};
use crate::action::Action;
use crate::allow::AllowList;
use crate::bounds::{HANDSHAKE_LIMIT, MAX_MESSAGES_PER_PING, MISSED_PINGS};
use crate::entropy::Entropy;
use crate::history::History;
use crate::issue::IssueError;
use crate::run::{ChallengeRun, Ended, HANDOVER_LIMIT};
use crate::verdict_log::NotRecording;
use crate::verify::replay::pool::ReplayPool;

/// How often a session whose ping waits for the transport looks whether it went out.
const UNREAD_PAUSE: Duration = Duration::from_millis(100);

/// What a session needs of the validator that it is part of.
pub struct SessionContext<'a> {
    /// The clock.
    pub now: Instant,
    /// Seconds since 1970.
    pub unix_seconds: u64,
    /// Where draws come from.
    pub entropy: &'a mut dyn Entropy,
    /// What replays.
    pub replays: &'a ReplayPool,
}

/// Who this validator is, and which miners it admits.
#[derive(Debug, Clone)]
pub struct Admission {
    /// The validator's key.
    pub identity: Identity,
    /// The miners admitted.
    pub allowed: AllowList,
    /// How often miners are pinged.
    pub ping_interval: Duration,
    /// How the miners' challenges ended, and what their devices showed.
    pub history: Arc<History>,
}

/// Why a challenge cannot be started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// The miner has not proved its key yet.
    #[error("the miner is not connected yet")]
    NotConnected,
    /// One runs.
    #[error("the miner works on another challenge")]
    Busy,
    /// As many run as may.
    #[error("as many challenges run as max_challenges allows: try again in some seconds")]
    TooMany,
    /// Its verdict could be lost.
    #[error(transparent)]
    NotRecording(#[from] NotRecording),
    /// The same, of the records.
    #[error("nothing can be written to the records ({0}), and no challenge starts until it can")]
    Records(String),
    /// None could be made.
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

/// The validator's side of one session.
#[derive(Debug)]
pub struct Session {
    admission: Arc<Admission>,
    channel: Channel,
    state: SessionState,
    /// Once a hello came.
    nonce: Option<Nonce>,
    run: Option<ChallengeRun>,
    recent: VecDeque<Ended>,
    /// Why the session ends once the run has its verdict: the miner has gone.
    leaving: Option<String>,
    pings: Pings,
    messages: u32,
    began: Instant,
    heard: Instant,
}

impl Session {
    /// A session of a connection that was just accepted.
    #[must_use]
    pub fn new(admission: Arc<Admission>, channel: Channel, now: Instant) -> Self {
        Self {
            admission,
            channel,
            state: SessionState::AwaitHello,
            nonce: None,
            run: None,
            recent: VecDeque::new(),
            leaving: None,
            pings: Pings::default(),
            messages: 0,
            began: now,
            heard: now,
        }
    }

    /// The nonce that its miner signs, by which a later session names it.
    #[must_use]
    pub const fn nonce(&self) -> Option<Nonce> {
        self.nonce
    }

    /// Whether a challenge runs.
    #[must_use]
    pub const fn is_running(&self) -> bool {
        self.run.is_some()
    }

    /// The challenge that runs.
    #[must_use]
    pub fn challenge(&self) -> Option<&Challenge> {
        self.run.as_ref().map(ChallengeRun::challenge)
    }

    /// The devices, by the miner's claims, once it proved its key.
    #[must_use]
    pub const fn inventory(&self) -> Option<&Inventory> {
        match &self.state {
            SessionState::Connected { inventory, .. } => Some(inventory),
            _ => None,
        }
    }

    /// Whether nothing that the miner still says has an effect: the session is closed, or ends with the verdict.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.leaving.is_some() || matches!(self.state, SessionState::Closed)
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
            (SessionState::AwaitProof { .. }, MinerMessage::Proof(signature)) => self.proof(&signature),
            (SessionState::AwaitProof { .. }, _) => self.refuse(RefusedCode::Malformed, "a proof was due"),
            (SessionState::Connected { .. }, message) => self.connected(message, received, context),
        }
    }

    /// A message arrived that could not be read.
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
            MinerMessage::Hello(_) | MinerMessage::Proof(_) => self.protocol_violation("a second handshake came"),
            about => self.about_challenge(about, received, context),
        }
    }

    /// A message that names a challenge: for the one that runs, or for one that just ended.
    fn about_challenge(
        &mut self,
        message: MinerMessage,
        received: Instant,
        context: &mut SessionContext<'_>,
    ) -> Vec<Action> {
        let id = challenge_of(&message);
        let recent = self.recent.iter().find(|recent| Some(recent.id) == id).map(|recent| recent.is_committed);
        // What crossed the end of its challenge on the way is no fault, but a commitment given before is a replayed one.
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
            run.message(message, received, context.entropy)
        };
        let actions = self.retire(actions);
        self.ping_after(&actions, context.now);
        actions
    }

    /// Whether a message is an opening that was asked for, which has a bound of its own: of the challenge that runs, or
    /// of one that ended while the miner was sending.
    fn was_asked_for(&mut self, message: &MinerMessage) -> bool {
        let MinerMessage::OpeningsChunk(chunk) = message else { return false };
        if self.run.as_ref().is_some_and(|run| run.id() == chunk.challenge_id && run.is_opening()) {
            return true;
        }
        let ended = self.recent.iter_mut().find(|ended| ended.id == chunk.challenge_id && ended.chunks_due > 0);
        ended.map(|ended| ended.chunks_due -= 1).is_some()
    }

    /// A part of the openings was checked.
    pub fn checked(&mut self, result: Result<(), Reason>) -> Vec<Action> {
        let actions = self.run.as_mut().map(|run| run.checked(result)).unwrap_or_default();
        self.retire(actions)
    }

    /// The replay of a challenge ended.
    pub fn replayed(&mut self, id: ChallengeId, result: Result<(), Reason>) -> Vec<Action> {
        // The challenge may have ended for another reason meanwhile.
        let Some(run) = self.run.as_mut().filter(|run| run.id() == id) else { return Vec::new() };
        let actions = run.replayed(result);
        self.retire(actions)
    }

    /// The round's other members have committed: the probe that was held back goes out.
    pub fn release(&mut self, id: ChallengeId, now: Instant, entropy: &mut dyn Entropy) -> Vec<Action> {
        let Some(run) = self.run.as_mut().filter(|run| run.id() == id) else { return Vec::new() };
        let actions = run.release(now, entropy);
        let actions = self.retire(actions);
        self.ping_after(&actions, now);
        actions
    }

    /// Excludes the time of a check from the miner's deadlines and its silence: nothing was read meanwhile.
    pub fn excuse(&mut self, ours: Duration) {
        self.heard += ours;
        if let Some(run) = &mut self.run {
            run.excuse(ours);
        }
    }

    /// When to call [`Session::tick`] next: never later than the moment at which it has something to do. `None` once
    /// the session is closed.
    #[must_use]
    pub fn poll_timeout(&self, now: Instant) -> Option<Instant> {
        match self.state {
            SessionState::Closed => None,
            SessionState::AwaitHello | SessionState::AwaitProof { .. } => Some(self.began + HANDSHAKE_LIMIT),
            // The miner is not waited for any more.
            SessionState::Connected { .. } if self.leaving.is_some() => None,
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

    /// When a ping that the transport has not taken shows that the miner does not read.
    fn unread_at(&self) -> Option<Instant> {
        self.pings.unread_since().map(|since| since + self.handover_limit())
    }

    fn handover_limit(&self) -> Duration {
        self.run.as_ref().map_or(HANDOVER_LIMIT, ChallengeRun::handover_limit)
    }

    /// When a miner that says nothing more counts as gone: what it sends by now may take its time.
    fn silent_at(&self) -> Instant {
        let arrival = self.run.as_ref().map_or(Duration::ZERO, ChallengeRun::arrival_time);
        self.heard + self.admission.ping_interval * MISSED_PINGS + arrival
    }

    /// Enforces deadlines and sends the ping that is due.
    pub fn tick(&mut self, now: Instant, entropy: &mut dyn Entropy) -> Vec<Action> {
        if self.leaving.is_some() {
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
        // A message that the miner has not read may have taken the transport's only place before one with a deadline.
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

    /// Has a ping follow a message with a deadline: while it waits for the transport, the miner does not read.
    fn ping_after(&mut self, actions: &[Action], now: Instant) {
        use ValidatorMessage::{Challenge, Open, Probe};
        let timed = |a: &Action| matches!(a, Action::Send(Challenge(_) | Probe { .. } | Open { .. }, _));
        if actions.iter().any(timed) {
            self.pings.follow_ups = FOLLOW_UP_PINGS.map(|after| now + after).into();
        }
    }
}

/// The challenge that a message is about.
const fn challenge_of(message: &MinerMessage) -> Option<ChallengeId> {
    match message {
        MinerMessage::Declined(stop) | MinerMessage::Abort(stop) => Some(stop.challenge_id),
        MinerMessage::Progress { challenge_id, .. } => Some(*challenge_id),
        MinerMessage::Commitment(c) | MinerMessage::ProbeAnswer(c) => Some(c.challenge_id),
        MinerMessage::DeviceRoots(r) => Some(r.challenge_id),
        MinerMessage::DeviceDigests(d) => Some(d.challenge_id),
        MinerMessage::OpeningsChunk(OpeningsChunk { challenge_id, .. }) => Some(*challenge_id),
        MinerMessage::Hello(_)
        | MinerMessage::Proof(_)
        | MinerMessage::Inventory(_)
        | MinerMessage::Pong(_)
        | MinerMessage::Goodbye(..) => None,
    }
}
