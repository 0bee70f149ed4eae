//! The miner's side of a session, without a socket: events in, actions out.
//!
//! Clock and nonce are handed in, so that a simulation can drive it. At most one challenge runs at a
//! time; a second one is declined, never queued.

mod challenge;
mod closed;
mod handshake;

use std::sync::Arc;
use std::time::{Duration, Instant};

use assay_device::DeviceError;
use assay_protocol::channel::Channel;
use assay_protocol::identity::Identity;
use assay_protocol::join_token::JoinToken;
use assay_protocol::message::{Inventory, MinerMessage, OpenItem, StopCode, ValidatorMessage};
use assay_protocol::verdict::Verdict;
use assay_work::probe::MemoryProbe;
use assay_work::{Challenge, ChallengeId, Checksum, DeviceId, Nonce, PublicKey};

use self::challenge::{RunningChallenge, WorkStage};
pub use self::closed::CloseReason;
use self::handshake::Handshake;

/// How long the handshake may take: three small messages.
pub const HANDSHAKE_LIMIT: Duration = Duration::from_secs(20);
/// How long slots are held for a validator that has gone quiet about its challenge. Openings of an early
/// iteration and a replay lie between two messages, so this is generous.
pub const HOLD_LIMIT: Duration = Duration::from_secs(1800);
/// A validator that has not pinged for this many intervals is gone.
pub const MISSED_PINGS: u32 = 4;

#[derive(Debug)]
pub enum SessionEvent {
    Message(ValidatorMessage),
    /// The work ended with these messages: the commitment, then the roots of each device.
    Worked(ChallengeId, Result<Vec<MinerMessage>, DeviceError>),
    /// The probe ended with these messages: the answer, then the digests of each device.
    Probed(ChallengeId, Result<Vec<MinerMessage>, DeviceError>),
    /// Every chunk of the openings was sent, or could not be.
    Opened(ChallengeId, Result<(), DeviceError>),
    /// How many slots are filled so far, and the device that has just done its share, with its checksum.
    Progress(ChallengeId, u64, Option<(DeviceId, Checksum)>),
    Inventory(Inventory),
    /// The daemon wants to end.
    Drain,
    Tick,
}

/// A request of the session to its driver.
#[derive(Debug)]
pub enum SessionAction {
    Send(MinerMessage),
    /// Compute every share of this challenge, then give [`SessionEvent::Worked`].
    StartWork(Arc<Challenge>),
    /// Walk this probe, then give [`SessionEvent::Probed`].
    StartProbe(ChallengeId, MemoryProbe),
    /// Send these openings, then give [`SessionEvent::Opened`].
    StartOpening(ChallengeId, Vec<OpenItem>),
    /// Cancel pending work, release the memory, and read the inventory again ([`SessionEvent::Inventory`]).
    Release,
    /// The session stands: the validator has this key.
    Established(PublicKey),
    /// Its key is not the configured one, but a successor of it.
    Followed {
        pinned: PublicKey,
        /// Until when it is followed, in seconds since 1970.
        until_unix_seconds: u64,
    },
    /// Show this to the operator.
    Verdict(Box<Verdict>),
    Close(CloseReason),
}

/// The operator's limits of a session.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionLimits {
    /// Why the devices are not free for this validator now.
    pub busy: Option<String>,
    /// Whether the devices, or how much of them is offered, changed since the last inventory.
    pub is_stale: bool,
    /// How long a challenge may take.
    pub max_challenge: Option<Duration>,
}

#[derive(Debug)]
pub struct SessionStart {
    pub identity: Identity,
    /// The only validator to accept, where one is configured.
    pub pinned: Option<PublicKey>,
    /// The channel that carries the session's bytes.
    pub channel: Channel,
    pub inventory: Inventory,
    /// Random, for the validator to sign.
    pub miner_nonce: Nonce,
    /// The nonce of the session that this one goes on from.
    pub resumes: Option<Nonce>,
    /// The token by which a validator admits a miner that it does not know.
    pub join_token: Option<JoinToken>,
    /// The time, in seconds since 1970, against which expiry is checked.
    pub unix_seconds: u64,
}

/// The miner's side of one session.
#[derive(Debug)]
pub struct MinerSession {
    identity: Identity,
    pinned: Option<PublicKey>,
    /// The time, in seconds since 1970, against which expiry is checked.
    unix_seconds: u64,
    channel: Channel,
    /// The token by which the validator may admit this miner, until it is sent.
    join_token: Option<JoinToken>,
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

impl MinerSession {
    /// Keeps to these limits from the next offer on.
    pub fn set_limits(&mut self, limits: SessionLimits) {
        self.limits = limits;
    }

    /// The nonce by which a later session resumes this one, once it was welcome.
    pub const fn nonce(&self) -> Option<Nonce> {
        self.nonce
    }

    pub const fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Whether the validator accepted the session, and no challenge runs.
    pub const fn is_idle(&self) -> bool {
        self.running.is_none() && matches!(self.handshake, Handshake::Done { .. })
    }

    /// The challenge whose work runs.
    pub fn working_on(&self) -> Option<ChallengeId> {
        self.running.as_ref().filter(|r| r.stage == WorkStage::Working).map(|r| r.challenge.id())
    }

    /// Takes an event and gives the actions that follow.
    pub fn handle(&mut self, event: SessionEvent, now: Instant) -> Vec<SessionAction> {
        match event {
            _ if matches!(self.handshake, Handshake::Closed) => Vec::new(),
            SessionEvent::Message(message) => {
                self.heard = now;
                self.message(message, now)
            }
            SessionEvent::Worked(id, result) => {
                self.stage_ended(id, WorkStage::Working, WorkStage::Committed, result, now)
            }
            SessionEvent::Probed(id, result) => {
                self.stage_ended(id, WorkStage::Probing, WorkStage::Answered, result, now)
            }
            SessionEvent::Opened(id, result) => {
                self.stage_ended(id, WorkStage::Opening, WorkStage::Opened, result.map(|()| Vec::new()), now)
            }
            SessionEvent::Progress(id, done_slots, finished) => self.progress(id, done_slots, finished),
            SessionEvent::Inventory(inventory) => self.take_inventory(inventory),
            SessionEvent::Drain => self.drain(),
            SessionEvent::Tick => self.tick(now),
        }
    }

    fn message(&mut self, message: ValidatorMessage, now: Instant) -> Vec<SessionAction> {
        match message {
            ValidatorMessage::Welcome(welcome) => self.welcome(&welcome),
            ValidatorMessage::Accepted(ping_interval) => self.accepted(ping_interval),
            ValidatorMessage::Refused { code, .. }
                if code.answers_proof() && matches!(self.handshake, Handshake::AwaitWelcome { .. }) =>
            {
                self.close(CloseReason::OutOfPlace("a refusal of a proof before its welcome"))
            }
            ValidatorMessage::Refused { code, detail, retry_after } => {
                self.close(CloseReason::Refused { code, detail, retry_after })
            }
            ValidatorMessage::Goodbye(code, detail) => self.close(CloseReason::Goodbye { code, detail }),
            _ if !matches!(self.handshake, Handshake::Done { .. }) => {
                self.close(CloseReason::OutOfPlace("a message before it accepted the session"))
            }
            ValidatorMessage::Ping(sequence) => vec![SessionAction::Send(MinerMessage::Pong(sequence))],
            ValidatorMessage::Challenge(offer) => self.challenge(&offer, now),
            ValidatorMessage::Probe { challenge_id, probe, deadline } => {
                self.probe(challenge_id, probe.into(), now + deadline)
            }
            ValidatorMessage::Sweep { challenge_id, sweep, deadline } => {
                self.probe(challenge_id, sweep.into(), now + deadline)
            }
            ValidatorMessage::Open { challenge_id, items, deadline } => {
                self.advance(challenge_id, WorkStage::Answered, WorkStage::Opening, now + deadline, "an open", || {
                    SessionAction::StartOpening(challenge_id, items)
                })
            }
            ValidatorMessage::Verdict(verdict) => self.verdict(verdict),
        }
    }

    fn take_inventory(&mut self, inventory: Inventory) -> Vec<SessionAction> {
        let is_same = Inventory { sequence: self.inventory.sequence, ..inventory.clone() } == self.inventory;
        if self.running.is_some() || is_same || !matches!(self.handshake, Handshake::Done { .. }) {
            return Vec::new();
        }
        self.inventory = Inventory { sequence: self.inventory.sequence.wrapping_add(1), ..inventory };
        vec![SessionAction::Send(MinerMessage::Inventory(self.inventory.clone()))]
    }

    /// A running challenge is brought to its end; the next is declined.
    fn drain(&mut self) -> Vec<SessionAction> {
        self.draining = true;
        if self.running.is_some() { Vec::new() } else { self.close(CloseReason::Drained) }
    }

    /// When to give [`SessionEvent::Tick`] next: never later than the moment at which it does something.
    pub fn poll_timeout(&self) -> Instant {
        let silent_at = self.silent_at();
        let Some(running) = &self.running else { return silent_at };
        let stop = running.stop.map_or(running.until, |(stop, _)| stop.min(running.until));
        stop.min(silent_at)
    }

    /// When a silent validator counts as gone.
    fn silent_at(&self) -> Instant {
        match self.handshake {
            Handshake::Done { ping_interval, .. } => self.heard + ping_interval * MISSED_PINGS,
            _ => self.started + HANDSHAKE_LIMIT,
        }
    }

    fn tick(&mut self, now: Instant) -> Vec<SessionAction> {
        if now >= self.silent_at() {
            return self.close(CloseReason::Silent(now.duration_since(self.heard)));
        }
        let Some(running) = &self.running else { return Vec::new() };
        if let Some((_, limit)) = running.stop.filter(|(stop, _)| now >= *stop) {
            let limit = limit.as_secs();
            let detail = format!("this miner works on a challenge for at most {limit} s (its setting max_challenge_s)");
            return self.abort_with(StopCode::Declined, detail);
        }
        if now >= running.until {
            return self.abort_with(StopCode::Deadline, running.missed().into());
        }
        Vec::new()
    }

    /// Ends the session without waiting for the challenge that runs.
    pub fn stop(&mut self) -> Vec<SessionAction> {
        self.close(CloseReason::Drained)
    }

    fn close(&mut self, why: CloseReason) -> Vec<SessionAction> {
        self.handshake = Handshake::Closed;
        let mut actions = Vec::new();
        if self.running.take().is_some() {
            actions.push(SessionAction::Release);
        }
        if why == CloseReason::Drained {
            actions.push(SessionAction::Send(MinerMessage::Goodbye(
                StopCode::Draining,
                "this miner is shutting down".into(),
            )));
        }
        actions.push(SessionAction::Close(why));
        actions
    }
}
