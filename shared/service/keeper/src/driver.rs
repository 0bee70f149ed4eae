//! Drives one session: moves messages between its state machine, the connection, and the checks.

mod act;
mod checks;
mod commands;
mod records;
mod schedule;
mod stages;
mod standing;
#[cfg(test)]
mod tests;
mod verdict;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use assay_device::Handle;
use assay_evidence::Capture;
use assay_policy::DeviceRate;
use assay_protocol::channel::Channel;
use assay_protocol::message::{MinerMessage, ValidatorMessage};
use assay_protocol::verdict::Reason;
use assay_records::{CommitmentRecord, ListedDevice, MinerRecord};
use assay_work::{ChallengeId, DeviceId};
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tokio::task::JoinHandle;

use self::schedule::{ScheduleTask, turn};
use self::stages::ChallengePhases;
use self::standing::{MinerKeys, REVOKED_LIMIT};
use self::verdict::concluded;
use crate::allow::AdmissionError;
use crate::course::Course;
use crate::drain::SessionGuard;
use crate::events::EventSession;
use crate::fleet::conclude::ConcludedChallenge;
use crate::fleet::schedule::ChallengePlaces;
use crate::freed_memory::return_freed_soon;
use crate::order::Order;
use crate::registry::SessionCommand;
use crate::sharing::leases::MinerLease;
use crate::unrecorded::SessionEnd;
use crate::validator::Validator;
use assay_judge::action::{Action, ChallengeFacts, SentAt};
use assay_judge::entropy::EntropySource;
use assay_judge::session::{SessionContext, ValidatorSession};
use assay_judge::verify::excuse::ValidatorDelays;
use assay_listen::bounds::DEVICE_CHANGES;
use assay_listen::peer::Peer;
use assay_listen::rates::Bucket;
use assay_program::clock::{self, unix_seconds};

/// A received message, and the time of its reading.
pub struct IncomingMessage {
    /// The message, or the reason why reading failed.
    pub message: Result<MinerMessage, ReadFailure>,
    /// Time of the reading.
    pub at: Instant,
}

/// Reason why no further message can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadFailure {
    /// The miner sent a malformed message.
    Malformed(String),
    /// The stream ended or broke.
    Disconnected(String),
}

/// A message to send, with the slot for its sending time. Boxed, like all items of a session's queues: each queue
/// allocates room for 32 at the start.
pub type OutgoingMessage = Box<(ValidatorMessage, SentAt)>;

/// Runs a session to its end, which returns its places.
pub async fn drive(
    validator: Arc<Validator>,
    peer: Option<Peer>,
    mut incoming: mpsc::Receiver<Box<IncomingMessage>>,
    outgoing: mpsc::Sender<OutgoingMessage>,
    _places: (OwnedSemaphorePermit, SessionGuard),
) {
    let (commands, mut asked) = mpsc::channel(4);
    let (replayed, mut replays) = mpsc::channel(4);
    // Without a listener there is no TLS: a miner on TLS then signs another channel, and is refused.
    let channel = peer.as_ref().map_or(Channel::Plaintext, Peer::channel);
    let mut driver = Driver {
        session: ValidatorSession::new(validator.access.admission.clone(), channel, clock::now()),
        validator: validator.clone(),
        number: validator.registry.session_number(),
        peer,
        outgoing,
        commands,
        replayed,
        entropy: validator.fleet.entropy.clone(),
        device_changes: Bucket::full(DEVICE_CHANGES, clock::now()),
        host: HostState::default(),
        due: ChallengeTimer::default(),
        running: ChallengeState::default(),
        end: EndState::default(),
    };
    let (mut shutdown, mut stopping) = (validator.shutdown.clone(), validator.shutdown.clone());
    let mut rules = validator.fleet.rules_changes();
    let (mut policies, mut admitted) = (validator.policies.subscribe(), validator.access.allowed.changes());
    let why = loop {
        if driver.due.is_outdated {
            driver.follow_policy();
        }
        // A running challenge is finished, and its verdict recorded, before the session drains.
        let idle = !driver.session.is_running() && driver.running.recording.is_none();
        // Not after the end of the stream, nor when the session only waits for its verdict.
        let reads = !driver.end.has_ended && !driver.session.is_over();
        let (was_stopped, timeout) = (driver.end.was_stopped, driver.poll_timeout());
        let refused = driver.end.interrupted.or_else(|| driver.not_allowed());
        let (is_revoked, is_expelled) = (refused.is_some_and(AdmissionError::is_revocation), refused.is_some());
        let actions = tokio::select! {
            biased;
            () = std::future::ready(()), if is_revoked && driver.end.revoked_at.is_none() => driver.revoke(),
            () = wake(driver.end.revoked_at.map(|at| at + REVOKED_LIMIT)) => {
                break "an operator keeps its key out".to_owned();
            }
            () = stopping.stopped(), if !was_stopped => driver.cut_short(),
            () = shutdown.draining(), if idle => driver.session.drain(),
            concluded = concluded(&mut driver.running.recording) => Box::pin(driver.recorded(concluded)).await,
            () = std::future::ready(()), if idle && is_expelled => driver.expel(),
            // The branch above handles expelled miners.
            Ok(()) = admitted.changed() => Vec::new(),
            Ok(()) = policies.changed() => driver.policy_changed(),
            Ok(()) = rules.changed() => driver.policy_changed(),
            incoming = incoming.recv(), if reads => driver.incoming(incoming),
            Some(command) = asked.recv() => Box::pin(driver.command(command)).await,
            Some(replayed) = replays.recv() => driver.session.replayed(replayed.0, replayed.1),
            prepared = turn(&mut driver.due.turn), if idle => Box::pin(driver.start_due(prepared)).await,
            () = wake(timeout) => driver.tick(),
        };
        // Boxed: rare work must not enlarge the future of a waiting session.
        if !actions.is_empty()
            && let Some(why) = Box::pin(driver.act(actions)).await
        {
            break why;
        }
    };
    driver.leave(&why);
    Box::pin(driver.note_left(&why)).await;
}

struct Driver {
    session: ValidatorSession,
    validator: Arc<Validator>,
    number: u64,
    /// `None` when the stream did not come through our listener.
    peer: Option<Peer>,
    outgoing: mpsc::Sender<OutgoingMessage>,
    commands: mpsc::Sender<SessionCommand>,
    replayed: mpsc::Sender<Box<(ChallengeId, Result<(), Reason>)>>,
    entropy: EntropySource,
    /// Rate limit on recorded changes of devices.
    device_changes: Bucket,
    host: HostState,
    due: ChallengeTimer,
    running: ChallengeState,
    end: EndState,
}

/// Data about the miner beside its session.
#[derive(Default)]
struct HostState {
    /// `Some` after it proved its key.
    who: Option<EventSession>,
    /// Its keys, after it proved its own.
    standing: Option<MinerKeys>,
    /// Its record as of its connection, or of its last change of labels here.
    record: Option<MinerRecord>,
    /// Its devices as recorded.
    noted_devices: Vec<ListedDevice>,
    /// Whether the rate limit left changes unrecorded, for a later message.
    has_unnoted_devices: bool,
    /// Its share of the leases among several validators, once it is entered.
    lease: Option<Arc<MinerLease>>,
}

/// Schedule of the miner's next challenge.
#[derive(Default)]
struct ChallengeTimer {
    next_challenge: Option<Instant>,
    /// The decision on a due challenge that waits for a place.
    turn: ScheduleTask,
    /// No challenge was due yet since the miner connected.
    is_first: bool,
    /// Whether a new policy moved the due time.
    is_moved: bool,
    /// Whether the policy or the miner's group is another one, by which the due time is not set yet.
    is_outdated: bool,
    /// Consecutive due challenges for which the miner was busy.
    busy: u32,
}

/// State of the current challenge.
#[derive(Default)]
struct ChallengeState {
    /// The challenge, until its verdict is on disk.
    challenge: Option<OngoingChallenge>,
    /// Its place among the concurrent challenges.
    places: Option<ChallengePlaces>,
    /// Its course, for operators.
    course: Option<watch::Sender<Course>>,
    /// Its evidence.
    capture: Option<Capture>,
    /// Its verdict, on the way to the disk.
    recording: Option<JoinHandle<ConcludedChallenge>>,
    replay: Handle,
}

/// Conditions that end the session.
#[derive(Default)]
struct EndState {
    /// A revocation that interrupted another wait.
    interrupted: Option<AdmissionError>,
    /// Time at which the miner was notified of the revocation.
    revoked_at: Option<Instant>,
    /// The stream has no further messages.
    has_ended: bool,
    /// The challenge was cut short.
    was_stopped: bool,
    /// Another session of its key took its place.
    is_replaced: bool,
}

/// A challenge, from its start until its verdict is on disk.
struct OngoingChallenge {
    /// `None` where the host had no device to challenge.
    facts: Option<ChallengeFacts>,
    began: Instant,
    /// Start of its first probe.
    probe_began: Option<Instant>,
    /// Delays of the validator until the commitment, and in the probes.
    delays: ValidatorDelays,
    /// The miner ended it.
    has_given_up: bool,
    /// Time spent in its phases.
    stages: ChallengePhases,
    /// Start, in milliseconds since 1970.
    began_ms: i64,
    order: Order,
    /// The models that its devices claimed at the start: a later inventory changes nothing of it.
    models: BTreeMap<DeviceId, String>,
    /// Whether the miner had shown work that held.
    is_known: bool,
    /// The commitment signed by the miner, as received.
    signed: Option<CommitmentRecord>,
    /// Results of its devices.
    shown: Vec<DeviceRate>,
}

impl Driver {
    fn incoming(&mut self, incoming: Option<Box<IncomingMessage>>) -> Vec<Action> {
        let Some(incoming) = incoming else { return self.disconnected("the miner ended the stream") };
        match incoming.message {
            Ok(message) => {
                self.note_signed(&message);
                let Self { session, validator, entropy, .. } = self;
                session.message(message, incoming.at, &mut context(validator, entropy))
            }
            Err(ReadFailure::Malformed(problem)) => self.session.malformed(&problem),
            Err(ReadFailure::Disconnected(detail)) => self.disconnected(&detail),
        }
    }

    /// Handles the end of the miner's messages; its half of the stream may still be open.
    fn disconnected(&mut self, detail: &str) -> Vec<Action> {
        self.end.has_ended = true;
        // A verdict may still come; the miner's place is free.
        self.leave_seat();
        self.session.disconnected(detail)
    }

    /// Time of the next [`Driver::tick`].
    fn poll_timeout(&self) -> Option<Instant> {
        [self.session.poll_timeout(clock::now()), self.due.next_challenge].into_iter().flatten().min()
    }

    fn tick(&mut self) -> Vec<Action> {
        let now = clock::now();
        self.queue_due(now);
        self.session.tick(now, &mut self.entropy)
    }

    fn leave(&self, why: &str) {
        self.log_end(why);
        self.running.replay.cancel();
        self.validator.fleet.presences.left(&self.session_id(), self.end.is_replaced);
        self.leave_seat();
        if let Some(peer) = &self.peer {
            peer.set_greeted(false);
        }
        return_freed_soon();
    }
}

impl Drop for Driver {
    /// Ends a session whose task panicked: its miner can come back at once, and the next sweep records the end. Its
    /// challenge is then concluded as that of a lost validator.
    fn drop(&mut self) {
        if std::thread::panicking() {
            let why = "an internal error of the validator";
            self.leave(why);
            self.validator
                .registry
                .unrecorded
                .keep(SessionEnd { has_panicked: self.running.recording.is_none(), ..self.session_end(why) });
        }
    }
}

/// Waits until `at`; for ever without a time.
async fn wake(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

/// The validator's services for a session, for one event.
fn context<'a>(validator: &'a Validator, entropy: &'a mut EntropySource) -> SessionContext<'a> {
    SessionContext { now: clock::now(), unix_seconds: unix_seconds(), entropy, replays: &validator.capacity.replays }
}
