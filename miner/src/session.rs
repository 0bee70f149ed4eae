//! The miner's side of a session, without a socket: events in, actions out.
//!
//! Clock and nonce are handed in, so that a simulation can drive it. At most one challenge runs at a
//! time; a second one is declined, never queued.

use std::sync::Arc;
use std::time::{Duration, Instant};

use assay_device::DeviceError;
use assay_program::utc;
use assay_protocol::channel::{Channel, ChannelMismatch};
use assay_protocol::identity::{Identity, SessionTranscript};
use assay_protocol::message::{
    Hello, Inventory, MinerMessage, Offer, OpenItem, PROTOCOL_VERSIONS, PlanError, RefusedCode, Stop, StopCode,
    ValidatorMessage, Welcome,
};
use assay_protocol::successor::Lineage;
use assay_protocol::verdict::Verdict;
use assay_work::probe::Probe;
use assay_work::text::quoted;
use assay_work::{Challenge, ChallengeError, ChallengeId, Nonce, PublicKey};

/// How long the handshake may take: three small messages.
pub const HANDSHAKE_LIMIT: Duration = Duration::from_secs(20);
/// How long slots are held for a validator that has gone quiet about its challenge. Openings of an early
/// iteration and a replay lie between two messages, so this is generous.
pub const HOLD_LIMIT: Duration = Duration::from_secs(1800);
/// A validator that has not pinged for this many intervals is gone.
pub const MISSED_PINGS: u32 = 4;

/// What happens to a session.
#[derive(Debug)]
pub enum Event {
    /// The validator said something.
    Message(ValidatorMessage),
    /// The work ended with these messages: the commitment, then the roots of each device.
    Worked(ChallengeId, Result<Vec<MinerMessage>, DeviceError>),
    /// The probe ended with these messages: the answer, then the digests of each device.
    Probed(ChallengeId, Result<Vec<MinerMessage>, DeviceError>),
    /// Every chunk of the openings was sent, or could not be.
    Opened(ChallengeId, Result<(), DeviceError>),
    /// How many slots are filled so far.
    Progress(ChallengeId, u64),
    /// The inventory, read again.
    Inventory(Inventory),
    /// The daemon wants to end.
    Drain,
    /// Time passes.
    Tick,
}

/// What the session wants done.
#[derive(Debug)]
pub enum Action {
    /// Send this.
    Send(MinerMessage),
    /// Compute every share of this challenge, then give [`Event::Worked`].
    StartWork(Arc<Challenge>),
    /// Walk this probe, then give [`Event::Probed`].
    StartProbe(ChallengeId, Probe),
    /// Send these openings, then give [`Event::Opened`].
    StartOpening(ChallengeId, Vec<OpenItem>),
    /// Cancel pending work, release the memory, and read the inventory again ([`Event::Inventory`]).
    Release,
    /// The session stands: the validator has this key.
    Established(PublicKey),
    /// Its key is not the configured one, but a successor of it.
    Followed {
        /// The configured one.
        pinned: PublicKey,
        /// Until when it is followed, in seconds since 1970.
        until_unix_seconds: u64,
    },
    /// Show this to the operator.
    Verdict(Box<Verdict>),
    /// End the stream.
    Close(Closed),
}

/// Why a session ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Closed {
    /// The miner drained.
    #[error("drained")]
    Drained,
    /// The validator has another key than the one configured.
    #[error(
        "the validator's key is {found}, {expected} was expected{}: check the address, and the key with the validator's \
         operator (`assay-validator address` prints both)",
        ended_text(*ended)
    )]
    WrongValidator {
        /// As configured.
        expected: PublicKey,
        /// As presented.
        found: PublicKey,
        /// When the one presented ceased to stand for the one configured, in seconds since 1970, where it did once.
        ended: Option<u64>,
    },
    /// The validator did not prove its key for this connection.
    #[error("no session with this validator: {0}")]
    BadWelcome(ChannelMismatch),
    /// The validator refused this miner.
    #[error("the validator refused this miner ({code:?}): {}", quoted(detail))]
    Refused {
        /// Why.
        code: RefusedCode,
        /// In its words.
        detail: String,
        /// When it may be dialled again, as it says.
        retry_after: Option<Duration>,
    },
    /// The validator said goodbye.
    #[error("the validator ended the session ({code:?}): {}", quoted(detail))]
    Goodbye {
        /// Why.
        code: StopCode,
        /// In its words.
        detail: String,
    },
    /// Nothing came for too long.
    #[error("nothing came from the validator for {0:?}")]
    Silent(Duration),
    /// A message came that makes no sense there.
    #[error("the validator sent {0}, which makes no sense here")]
    OutOfPlace(&'static str),
}

fn ended_text(ended: Option<u64>) -> String {
    ended.map_or_else(String::new, |until| format!(", which vouched for the new key until {}", utc::text(until)))
}

impl Closed {
    /// Whether another session of this miner's key took over.
    #[must_use]
    pub const fn is_takeover(&self) -> bool {
        matches!(self, Self::Goodbye { code: StopCode::Busy, .. })
    }

    /// Whether the validator may still hold the connection: it did not end it itself.
    #[must_use]
    pub const fn may_be_held(&self) -> bool {
        !matches!(self, Self::Goodbye { .. } | Self::Refused { .. })
    }

    /// How long to wait before the validator is dialled again, where it says so.
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Whether dialling again is pointless until an operator changes something.
    #[must_use]
    pub const fn needs_operator(&self) -> bool {
        matches!(
            self,
            Self::WrongValidator { .. }
                | Self::Refused { code: RefusedCode::Version | RefusedCode::NotAllowed | RefusedCode::Signature, .. }
        )
    }
}

/// How far the handshake is; nothing that comes after the end of the session has an effect.
#[derive(Debug)]
enum Handshake {
    AwaitWelcome { miner_nonce: Nonce },
    AwaitAccepted { validator_key: PublicKey, followed: Option<(PublicKey, u64)> },
    Done { validator_key: PublicKey, ping_interval: Duration },
    Closed,
}

/// The challenge that runs.
#[derive(Debug)]
struct RunningChallenge {
    challenge: Arc<Challenge>,
    stage: WorkStage,
    /// When the stage is given up.
    until: Instant,
    /// When the challenge is stopped for the operator's limit, and that limit.
    stop: Option<(Instant, Duration)>,
}

/// What the operator allows a session.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionLimits {
    /// Why challenges are declined now; `None` while they are taken.
    pub declines: Option<String>,
    /// Why the devices are not free for this validator now.
    pub busy: Option<String>,
    /// How long a challenge may take.
    pub max_challenge: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WorkStage {
    Working,
    Committed,
    Probing,
    Answered,
    Opening,
    Opened,
}

/// What a session starts from.
#[derive(Debug)]
pub struct SessionStart {
    /// The miner's key.
    pub identity: Identity,
    /// The only validator to accept, where one is configured.
    pub pinned: Option<PublicKey>,
    /// What the session's bytes pass through.
    pub channel: Channel,
    /// The devices.
    pub inventory: Inventory,
    /// Random, for the validator to sign.
    pub miner_nonce: Nonce,
    /// The nonce of the session that this one goes on from.
    pub resumes: Option<Nonce>,
    /// The date, for what is only valid until then.
    pub unix_seconds: u64,
}

/// The miner's side of one session.
#[derive(Debug)]
pub struct Session {
    identity: Identity,
    pinned: Option<PublicKey>,
    /// The date, for what is only valid until then.
    unix_seconds: u64,
    channel: Channel,
    handshake: Handshake,
    /// The validator's nonce, once it is welcome.
    nonce: Option<Nonce>,
    inventory: Inventory,
    running: Option<RunningChallenge>,
    draining: bool,
    limits: SessionLimits,
    started: Instant,
    heard: Instant,
}

impl Session {
    /// A session that begins now on a connection, and its hello.
    #[must_use]
    pub fn start(start: SessionStart, now: Instant) -> (Self, Vec<Action>) {
        let SessionStart { identity, pinned, channel, inventory, miner_nonce, resumes, unix_seconds } = start;
        let hello = Hello {
            versions: PROTOCOL_VERSIONS.to_vec(),
            miner_key: identity.public_key(),
            miner_nonce,
            agent: concat!("assay-miner/", env!("CARGO_PKG_VERSION")).into(),
            inventory: inventory.clone(),
            successors: identity.successors().to_vec(),
            resumes,
        };
        let session = Self {
            identity,
            pinned,
            unix_seconds,
            channel,
            handshake: Handshake::AwaitWelcome { miner_nonce },
            nonce: None,
            inventory,
            running: None,
            draining: false,
            limits: SessionLimits::default(),
            started: now,
            heard: now,
        };
        (session, vec![Action::Send(MinerMessage::Hello(hello))])
    }

    /// Keeps to these limits from the next offer on.
    pub fn set_limits(&mut self, limits: SessionLimits) {
        self.limits = limits;
    }

    /// By what a later session names this one, once it was welcome.
    #[must_use]
    pub const fn nonce(&self) -> Option<Nonce> {
        self.nonce
    }

    /// Whether a challenge runs.
    #[must_use]
    pub const fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// The challenge whose work runs.
    #[must_use]
    pub fn working_on(&self) -> Option<ChallengeId> {
        self.running.as_ref().filter(|r| r.stage == WorkStage::Working).map(|r| r.challenge.id())
    }

    /// Takes an event and says what to do.
    pub fn handle(&mut self, event: Event, now: Instant) -> Vec<Action> {
        match event {
            _ if matches!(self.handshake, Handshake::Closed) => Vec::new(),
            Event::Message(message) => {
                self.heard = now;
                self.message(message, now)
            }
            Event::Worked(id, result) => self.stage_ended(id, WorkStage::Working, WorkStage::Committed, result, now),
            Event::Probed(id, result) => self.stage_ended(id, WorkStage::Probing, WorkStage::Answered, result, now),
            Event::Opened(id, result) => {
                self.stage_ended(id, WorkStage::Opening, WorkStage::Opened, result.map(|()| Vec::new()), now)
            }
            Event::Progress(id, done_slots) => self.progress(id, done_slots),
            Event::Inventory(inventory) => self.take_inventory(inventory),
            Event::Drain => self.drain(),
            Event::Tick => self.tick(now),
        }
    }

    fn message(&mut self, message: ValidatorMessage, now: Instant) -> Vec<Action> {
        match message {
            ValidatorMessage::Welcome(welcome) => self.welcome(&welcome),
            ValidatorMessage::Accepted(ping_interval) => self.accepted(ping_interval),
            ValidatorMessage::Refused { code, detail, retry_after } => {
                self.close(Closed::Refused { code, detail, retry_after })
            }
            ValidatorMessage::Goodbye(code, detail) => self.close(Closed::Goodbye { code, detail }),
            _ if !matches!(self.handshake, Handshake::Done { .. }) => {
                self.close(Closed::OutOfPlace("a message before it accepted the session"))
            }
            ValidatorMessage::Ping(sequence) => vec![Action::Send(MinerMessage::Pong(sequence))],
            ValidatorMessage::Challenge(offer) => self.challenge(&offer, now),
            ValidatorMessage::Probe { challenge_id, probe, deadline } => {
                self.advance(challenge_id, WorkStage::Committed, WorkStage::Probing, now + deadline, "a probe", || {
                    Action::StartProbe(challenge_id, probe)
                })
            }
            ValidatorMessage::Open { challenge_id, items, deadline } => {
                self.advance(challenge_id, WorkStage::Answered, WorkStage::Opening, now + deadline, "an open", || {
                    Action::StartOpening(challenge_id, items)
                })
            }
            ValidatorMessage::Verdict(verdict) => self.verdict(verdict),
        }
    }

    fn welcome(&mut self, welcome: &Welcome) -> Vec<Action> {
        let Handshake::AwaitWelcome { miner_nonce } = self.handshake else {
            return self.close(Closed::OutOfPlace("a second welcome"));
        };
        if !PROTOCOL_VERSIONS.contains(&welcome.version) {
            return self.close(Closed::OutOfPlace("a version that this miner did not offer"));
        }
        let transcript = SessionTranscript {
            version: welcome.version,
            validator_key: welcome.validator_key,
            miner_key: self.identity.public_key(),
            nonce: welcome.nonce,
            miner_nonce,
            channel: self.channel,
        };
        if let Err(mismatch) = transcript.check_welcome(&welcome.signature) {
            return self.close(Closed::BadWelcome(mismatch));
        }
        // After the signature: where something in between passes a session on, it is named, not the key.
        let followed = match self.expected(welcome) {
            Ok(followed) => followed,
            Err(closed) => return self.close(closed),
        };
        self.handshake = Handshake::AwaitAccepted { validator_key: welcome.validator_key, followed };
        self.nonce = Some(welcome.nonce);
        vec![Action::Send(MinerMessage::Proof(self.identity.sign(&transcript.proof_message())))]
    }

    /// Whether the validator is the one to serve: the old key that it follows, and until when, where it has a new one.
    fn expected(&self, welcome: &Welcome) -> Result<Option<(PublicKey, u64)>, Closed> {
        let found = welcome.validator_key;
        let Some(expected) = self.pinned.filter(|key| *key != found) else { return Ok(None) };
        let lineage = Lineage::verify(found, &welcome.successors);
        if let Some(until) = lineage.until(&expected, |statement| statement.is_current(self.unix_seconds)) {
            return Ok(Some((expected, until)));
        }
        let ended = lineage.until(&expected, |_| true).filter(|until| *until <= self.unix_seconds);
        Err(Closed::WrongValidator { expected, found, ended })
    }

    fn accepted(&mut self, ping_interval: Duration) -> Vec<Action> {
        let Handshake::AwaitAccepted { validator_key, followed } = self.handshake else {
            return self.close(Closed::OutOfPlace("an acceptance out of turn"));
        };
        self.handshake = Handshake::Done { validator_key, ping_interval };
        let followed = followed.map(|(pinned, until_unix_seconds)| Action::Followed { pinned, until_unix_seconds });
        [Action::Established(validator_key)].into_iter().chain(followed).collect()
    }

    fn challenge(&mut self, offer: &Offer, now: Instant) -> Vec<Action> {
        let Handshake::Done { validator_key, .. } = self.handshake else {
            return self.close(Closed::OutOfPlace("a challenge before it accepted the session"));
        };
        match self.plan(offer, validator_key) {
            Ok(challenge) => {
                let challenge = Arc::new(challenge);
                let until = now + offer.deadline;
                let stop = self.limits.max_challenge.map(|limit| (now + limit, limit));
                self.running =
                    Some(RunningChallenge { challenge: challenge.clone(), stage: WorkStage::Working, until, stop });
                vec![Action::StartWork(challenge)]
            }
            Err((code, detail)) => {
                vec![Action::Send(MinerMessage::Declined(Stop { challenge_id: offer.challenge_id, code, detail }))]
            }
        }
    }

    /// The challenge that an offer is for this host, or why it is declined.
    fn plan(&self, offer: &Offer, validator_key: PublicKey) -> Result<Challenge, (StopCode, String)> {
        if self.draining {
            return Err((StopCode::Draining, "this miner is shutting down".into()));
        }
        if let Some(why) = &self.limits.declines {
            return Err((StopCode::Declined, why.clone()));
        }
        if self.running.is_some() {
            return Err((StopCode::Busy, "another challenge runs".into()));
        }
        if let Some(why) = &self.limits.busy {
            return Err((StopCode::Busy, why.clone()));
        }
        if offer.inventory_sequence != self.inventory.sequence {
            let detail = format!("inventory {} is current, not {}", self.inventory.sequence, offer.inventory_sequence);
            return Err((StopCode::StaleInventory, detail));
        }
        let challenge = offer
            .plan(&self.inventory, validator_key, self.identity.public_key())
            .map_err(|error| (stop_code(&error), error.to_string()))?;
        let weights = self.inventory.weights(offer.n, offer.min_slots);
        for (share, weight) in challenge.shares().iter().zip(&weights) {
            if u64::from(share.count) > weight.weight {
                let detail = format!(
                    "device {} holds {} slots of n = {}, {} are asked for",
                    share.device_id, weight.weight, offer.n, share.count
                );
                return Err((StopCode::NotEnoughMemory, detail));
            }
        }
        Ok(challenge)
    }

    /// Goes from one stage to the next on the validator's word.
    fn advance(
        &mut self,
        id: ChallengeId,
        from: WorkStage,
        to: WorkStage,
        until: Instant,
        what: &'static str,
        action: impl FnOnce() -> Action,
    ) -> Vec<Action> {
        match &mut self.running {
            Some(running) if running.challenge.id() == id && running.stage == from => {
                running.stage = to;
                running.until = until;
                vec![action()]
            }
            Some(running) if running.challenge.id() == id => self.close(Closed::OutOfPlace(what)),
            // It crossed our abort on the way.
            _ => Vec::new(),
        }
    }

    /// Sends what a stage gave and goes on to the next; a stage that is no longer the current one gives nothing.
    fn stage_ended(
        &mut self,
        id: ChallengeId,
        from: WorkStage,
        to: WorkStage,
        result: Result<Vec<MinerMessage>, DeviceError>,
        now: Instant,
    ) -> Vec<Action> {
        let Some(running) = self.running.as_mut().filter(|r| r.challenge.id() == id && r.stage == from) else {
            return Vec::new();
        };
        running.stage = to;
        running.until = now + HOLD_LIMIT;
        match result {
            Ok(messages) => messages.into_iter().map(Action::Send).collect(),
            Err(error) => self.abort(&error),
        }
    }

    fn progress(&self, id: ChallengeId, done_slots: u64) -> Vec<Action> {
        match &self.running {
            Some(running) if running.challenge.id() == id && running.stage == WorkStage::Working => {
                let slots: u64 = running.challenge.shares().iter().map(|s| u64::from(s.count)).sum();
                let all_slots = slots * u64::from(running.challenge.iterations());
                vec![Action::Send(MinerMessage::Progress { challenge_id: id, done_slots, all_slots })]
            }
            _ => Vec::new(),
        }
    }

    fn take_inventory(&mut self, inventory: Inventory) -> Vec<Action> {
        let devices_differ = inventory.devices != self.inventory.devices;
        if self.running.is_some() || !devices_differ || !matches!(self.handshake, Handshake::Done { .. }) {
            return Vec::new();
        }
        self.inventory = Inventory { sequence: self.inventory.sequence.wrapping_add(1), devices: inventory.devices };
        vec![Action::Send(MinerMessage::Inventory(self.inventory.clone()))]
    }

    fn verdict(&mut self, verdict: Box<Verdict>) -> Vec<Action> {
        let ends = self.running.as_ref().is_some_and(|r| r.challenge.id() == verdict.challenge_id);
        let mut actions = vec![Action::Verdict(verdict)];
        if ends {
            actions.extend(self.release());
        }
        actions
    }

    /// The running challenge is over: memory goes back, and a drain goes on.
    fn release(&mut self) -> Vec<Action> {
        self.running = None;
        let mut actions = vec![Action::Release];
        if self.draining {
            actions.extend(self.close(Closed::Drained));
        }
        actions
    }

    /// Tells the validator that the challenge ends here, and why.
    fn abort(&mut self, error: &DeviceError) -> Vec<Action> {
        let code = match error {
            DeviceError::Busy { .. } => StopCode::NotEnoughMemory,
            DeviceError::Sick(_) => StopCode::DeviceLost,
            DeviceError::Lost(_) => StopCode::Internal,
            DeviceError::Cancelled => StopCode::Deadline,
            DeviceError::Unsupported(_) => StopCode::Unsupported,
        };
        self.abort_with(code, error.to_string())
    }

    fn abort_with(&mut self, code: StopCode, detail: String) -> Vec<Action> {
        let Some(running) = &self.running else { return Vec::new() };
        let stop = Stop { challenge_id: running.challenge.id(), code, detail };
        let mut actions = vec![Action::Send(MinerMessage::Abort(stop))];
        actions.extend(self.release());
        actions
    }

    /// A running challenge is brought to its end; the next is declined.
    fn drain(&mut self) -> Vec<Action> {
        self.draining = true;
        if self.running.is_some() { Vec::new() } else { self.close(Closed::Drained) }
    }

    /// When to give [`Event::Tick`] next: never later than the moment at which it does something.
    #[must_use]
    pub fn poll_timeout(&self) -> Instant {
        let silent_at = self.silent_at();
        let Some(running) = &self.running else { return silent_at };
        let stop = running.stop.map_or(running.until, |(stop, _)| stop.min(running.until));
        stop.min(silent_at)
    }

    /// When a validator that says nothing more counts as gone.
    fn silent_at(&self) -> Instant {
        match self.handshake {
            Handshake::Done { ping_interval, .. } => self.heard + ping_interval * MISSED_PINGS,
            _ => self.started + HANDSHAKE_LIMIT,
        }
    }

    fn tick(&mut self, now: Instant) -> Vec<Action> {
        if now >= self.silent_at() {
            return self.close(Closed::Silent(now.duration_since(self.heard)));
        }
        let Some(running) = &self.running else { return Vec::new() };
        if let Some((_, limit)) = running.stop.filter(|(stop, _)| now >= *stop) {
            let limit = limit.as_secs();
            let detail = format!("this miner works on a challenge for at most {limit} s (its setting max_challenge_s)");
            return self.abort_with(StopCode::Declined, detail);
        }
        if now >= running.until {
            return self.abort_with(StopCode::Deadline, "the deadline passed".into());
        }
        Vec::new()
    }

    fn close(&mut self, why: Closed) -> Vec<Action> {
        self.handshake = Handshake::Closed;
        let mut actions = Vec::new();
        if self.running.take().is_some() {
            actions.push(Action::Release);
        }
        if why == Closed::Drained {
            actions.push(Action::Send(MinerMessage::Goodbye(StopCode::Draining, "this miner is shutting down".into())));
        }
        actions.push(Action::Close(why));
        actions
    }
}

/// With which code an offer is declined that makes no challenge.
const fn stop_code(error: &PlanError) -> StopCode {
    match error {
        PlanError::Challenge(ChallengeError::Unsupported(_)) => StopCode::Unsupported,
        _ => StopCode::Invalid,
    }
}
