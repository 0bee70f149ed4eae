//! Drives one session: moves messages between its state machine, the connection, and the checks.

mod act;
mod checks;
mod commands;
mod records;
mod schedule;
mod stages;
mod standing;
mod verdict;

use std::sync::Arc;
use std::time::Instant;

use assay_device::Handle;
use assay_protocol::channel::Channel;
use assay_protocol::message::{MinerMessage, ValidatorMessage};
use assay_protocol::verdict::Reason;
use assay_records::{CommitmentRecord, DeviceSeen, MinerRecord};
use assay_work::ChallengeId;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use self::schedule::{Turn, turn};
use self::stages::Stages;
use self::standing::{REVOKED_LIMIT, Standing};
use self::verdict::{Recording, concluded};
use crate::action::{Action, ChallengeFacts, SentAt};
use crate::allow::NotAllowed;
use crate::case::capture::Capture;
use crate::clock::unix_seconds;
use crate::entropy::OsEntropy;
use crate::events::Who;
use crate::fleet::schedule::Places;
use crate::memory::return_freed_soon;
use crate::order::Order;
use crate::peer::Peer;
use crate::registry::{RunningChallenge, SessionCommand, Update};
use crate::session::{Session, SessionContext};
use crate::sharing::leases::MinerLease;
use crate::validator::Validator;

/// What came in, and when it was read.
pub struct Incoming {
    /// The message, or why it is malformed, or why the stream broke.
    pub message: Result<MinerMessage, Broken>,
    /// The moment it was read.
    pub at: Instant,
}

/// Why no further message can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Broken {
    /// The miner sent a malformed message.
    Malformed(String),
    /// The stream ended or broke.
    Disconnected(String),
}

/// What goes out, with where to note the moment. Boxed, as all that goes through a session's queues: each of them has room
/// for 32 from the start, however few may wait.
pub type Outgoing = Box<(ValidatorMessage, SentAt)>;

/// Runs a session to its end.
pub async fn drive(
    validator: Arc<Validator>,
    peer: Option<Peer>,
    mut incoming: mpsc::Receiver<Box<Incoming>>,
    outgoing: mpsc::Sender<Outgoing>,
    permit: OwnedSemaphorePermit,
) {
    let address = peer.as_ref().map(|peer| peer.address);
    let (commands, mut asked) = mpsc::channel(4);
    let (replayed, mut replays) = mpsc::channel(4);
    // Without a listener there is no TLS: a miner that is on TLS then signs another channel, and is refused.
    let channel = peer.as_ref().map_or(Channel::Plaintext, Peer::channel);
    let number = validator.session_number();
    let mut driver = Driver {
        session: Session::new(validator.admission.clone(), channel, Instant::now()),
        validator: validator.clone(),
        number,
        peer,
        outgoing,
        commands,
        replayed,
        replay: Handle::default(),
        who: None,
        standing: None,
        record: None,
        noted_devices: Vec::new(),
        interrupted: None,
        revoked_at: None,
        watchers: Vec::new(),
        challenge: None,
        places: None,
        turn: None,
        capture: None,
        recording: None,
        next_challenge: None,
        lease: None,
        is_first: false,
        is_moved: false,
        busy: 0,
        running: None,
        has_ended: false,
        was_stopped: false,
        entropy: OsEntropy,
    };
    let (mut shutdown, mut stopping) = (validator.shutdown.clone(), validator.shutdown.clone());
    let mut rules = validator.fleet.rules_changes();
    let (mut policies, mut admitted) = (validator.policy_changes(), validator.admission.allowed.changes());
    let why = loop {
        // A challenge that runs is brought to its end, and its verdict to the disk, before the session drains.
        let idle = !driver.session.is_running() && driver.recording.is_none();
        let (reads, was_stopped, timeout) = (driver.reads(), driver.was_stopped, driver.poll_timeout());
        let refused = driver.interrupted.or_else(|| driver.not_allowed());
        let (is_revoked, is_expelled) = (refused.is_some_and(NotAllowed::is_revocation), refused.is_some());
        let actions = tokio::select! {
            biased;
            () = std::future::ready(()), if is_revoked && driver.revoked_at.is_none() => driver.revoke(),
            () = wake(driver.revoked_at.map(|at| at + REVOKED_LIMIT)) => {
                break "an operator keeps its key out".to_owned();
            }
            () = stopping.stopped(), if !was_stopped => driver.cut_short(),
            () = shutdown.draining(), if idle => driver.session.drain(),
            concluded = concluded(&mut driver.recording) => Box::pin(driver.recorded(concluded)).await,
            () = std::future::ready(()), if idle && is_expelled => driver.expel(),
            // Who is expelled is asked above.
            Ok(()) = admitted.changed() => Vec::new(),
            Ok(()) = policies.changed() => driver.policy_changed(),
            Ok(()) = rules.changed() => driver.policy_changed(),
            incoming = incoming.recv(), if reads => driver.incoming(incoming),
            Some(command) = asked.recv() => driver.command(command),
            Some(replayed) = replays.recv() => driver.session.replayed(replayed.0, replayed.1),
            prepared = turn(&mut driver.turn), if idle => driver.start_due(prepared),
            () = wake(timeout) => driver.tick(),
        };
        // What is done now and then has no room in the future of a session that waits.
        if !actions.is_empty()
            && let Some(why) = Box::pin(driver.act(actions)).await
        {
            break why;
        }
    };
    driver.ended(address, &why);
    driver.leave();
    Box::pin(driver.note_left(&why)).await;
    drop(permit);
}

struct Driver {
    session: Session,
    validator: Arc<Validator>,
    number: u64,
    /// Absent when the stream did not come through our listener.
    peer: Option<Peer>,
    outgoing: mpsc::Sender<Outgoing>,
    commands: mpsc::Sender<SessionCommand>,
    replayed: mpsc::Sender<Box<(ChallengeId, Result<(), Reason>)>>,
    /// Of the replay that runs.
    replay: Handle,
    /// Once it proved its key.
    who: Option<Who>,
    /// By which keys it is known, once it proved its own.
    standing: Option<Standing>,
    /// What the records have of it, as it was when it connected.
    record: Option<MinerRecord>,
    /// Its devices, as the records have them.
    noted_devices: Vec<DeviceSeen>,
    /// A revocation came while something else was waited for, which was given up.
    interrupted: Option<NotAllowed>,
    /// When it was told that its key is revoked.
    revoked_at: Option<Instant>,
    watchers: Vec<mpsc::Sender<Update>>,
    /// What runs, or has a verdict on its way to the disk.
    challenge: Option<Ongoing>,
    /// Its place among those that run at once.
    places: Option<Places>,
    /// A challenge is due: it waits for such a place, if the policy still wants it.
    turn: Option<Turn>,
    /// Its part in the leases of several validators, once it is entered.
    lease: Option<Arc<MinerLease>>,
    /// Nothing was due yet since the miner connected.
    is_first: bool,
    /// What is due was moved by another policy.
    is_moved: bool,
    /// What is kept of the challenge that runs.
    capture: Option<Capture>,
    /// A verdict that is on its way to the disk.
    recording: Option<Recording>,
    next_challenge: Option<Instant>,
    /// How often in a row the miner was busy when a challenge was due.
    busy: u32,
    /// The challenge that runs, as operators see it.
    running: Option<RunningChallenge>,
    /// Nothing more comes in.
    has_ended: bool,
    /// What ran was cut short, and the session ends.
    was_stopped: bool,
    entropy: OsEntropy,
}

/// A challenge from its start until its verdict is on disk.
struct Ongoing {
    /// Absent where the host had nothing to challenge.
    facts: Option<ChallengeFacts>,
    began: Instant,
    /// How its time is spent.
    stages: Stages,
    /// Milliseconds since 1970.
    began_ms: i64,
    order: Order,
    /// What the miner signed, as it came.
    signed: Option<CommitmentRecord>,
}

impl Driver {
    /// Whether the miner has anything more to say: not once its stream ended, or its session waits for its verdict only.
    const fn reads(&self) -> bool {
        !self.has_ended && !self.session.is_over()
    }

    fn incoming(&mut self, incoming: Option<Box<Incoming>>) -> Vec<Action> {
        match incoming.map(|incoming| *incoming) {
            Some(Incoming { message: Ok(message), at }) => {
                self.note_signed(&message);
                let Self { session, validator, entropy, .. } = self;
                session.message(message, at, &mut context(validator, entropy))
            }
            Some(Incoming { message: Err(Broken::Malformed(problem)), .. }) => self.session.malformed(&problem),
            Some(Incoming { message: Err(Broken::Disconnected(detail)), .. }) => self.disconnected(&detail),
            None => self.disconnected("the miner ended the stream"),
        }
    }

    /// Nothing more comes from the miner; its own half of the stream may still stand.
    fn disconnected(&mut self, detail: &str) -> Vec<Action> {
        self.has_ended = true;
        let actions = self.session.disconnected(detail);
        // A verdict may still come; the miner's place is free.
        if let Some(seat) = self.seat() {
            self.validator.registry.leave(self.number, seat);
        }
        actions
    }

    /// When [`Driver::tick`] is due next.
    fn poll_timeout(&self) -> Option<Instant> {
        [self.session.poll_timeout(Instant::now()), self.next_challenge].into_iter().flatten().min()
    }

    fn tick(&mut self) -> Vec<Action> {
        let now = Instant::now();
        self.queue_due(now);
        self.session.tick(now, &mut self.entropy)
    }

    fn leave(&self) {
        self.replay.cancel();
        if let Some(seat) = self.seat() {
            self.validator.registry.leave(self.number, seat);
        }
        if let Some(peer) = &self.peer {
            peer.set_greeted(false);
        }
        return_freed_soon();
    }
}

/// Waits until then; for ever without a moment.
async fn wake(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

/// What a session needs of its validator, for one event.
fn context<'a>(validator: &'a Validator, entropy: &'a mut OsEntropy) -> SessionContext<'a> {
    SessionContext { now: Instant::now(), unix_seconds: unix_seconds(), entropy, replays: &validator.replays }
}
