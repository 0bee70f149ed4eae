//! Drives a session: moves messages between its state machine, the connection and the devices.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use assay_device::{DeviceError, Handle};
use assay_program::shutdown::Shutdown;
use assay_protocol::message::{MinerMessage, OpenItem, Stop, ValidatorMessage};
use assay_protocol::verdict::Verdict;
use assay_work::probe::{MemoryProbe, ProbeStage};
use assay_work::{Challenge, ChallengeId, Checksum, DeviceId, Nonce, PublicKey};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;
use tokio_stream::{Stream, StreamExt};

use crate::engine::Engine;
use crate::joining::PendingJoinToken;
use crate::limits::SharedLimits;
use crate::outbox::Outbox;
use crate::reach::PendingKey;
use crate::session::{CloseReason, MinerSession, SessionAction, SessionEvent, SessionLimits, SessionStart};
use crate::turns::{Turn, Turns};

/// How often progress is read while the devices work.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// How often progress is sent at most.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);
/// After how long the inventory of idle devices is read again, when the next ping comes.
const INVENTORY_INTERVAL: Duration = Duration::from_secs(30);
/// Between two attempts to read an inventory that has changed.
const INVENTORY_PAUSE: Duration = Duration::from_millis(200);
/// How long one message other than an opening may wait for the connection: longer means that the validator does not
/// read.
const SEND_LIMIT: Duration = Duration::from_secs(30);

/// How long the last messages may take to go out.
const FLUSH_LIMIT: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub struct Start {
    /// The session's own part.
    pub session: SessionStart,
    /// The validator's key, to keep once it is proved.
    pub to_keep: Option<PendingKey>,
    /// The session before this one, which may have lost its connection.
    pub resumption: Resumption,
    /// The join token, to be forgotten once the session stands.
    pub joining: PendingJoinToken,
    /// For how long the devices keep a challenge's memory for the next one.
    pub idle_release: Duration,
    pub limits: SharedLimits,
    /// The validator's turns at the devices.
    pub turns: Turns,
}

/// The nonce of the last established session, by which the next session with a validator resumes it. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Resumption(Arc<Mutex<Option<Nonce>>>);

impl Resumption {
    /// The nonce; `None` before the first session.
    pub fn get(&self) -> Option<Nonce> {
        *self.0.lock()
    }

    fn stands(&self, nonce: Option<Nonce>) {
        *self.0.lock() = nonce;
    }
}

/// Shows the operator what happens in a session.
pub trait Observer: Send {
    fn established(&mut self, validator_key: PublicKey);
    /// The validator's key is not the configured one, but follows it until then, in seconds since 1970.
    fn followed(&mut self, _pinned: PublicKey, _until_unix_seconds: u64) {}
    fn challenged(&mut self, challenge: &Challenge);
    /// Reports the count of filled slots.
    fn progress(&mut self, done_slots: u64);
    fn verdict(&mut self, verdict: &Verdict);
    /// The challenge goes on to a part after its work.
    fn part_began(&mut self, _part: ChallengePart) {}
    /// The miner declined a challenge, or broke one off.
    fn stopped(&mut self, _stop: &Stop) {}
    /// No challenge runs any more.
    fn released(&mut self) {}
    /// A part of a challenge ended on the devices.
    fn part_ended(&mut self, _ended: &CompletedPart<'_>) {}
    /// The session ended or did not come about, and the next attempt comes in a while.
    fn disconnected(&mut self, _why: &str, _again_in: Duration) {}
}

/// A part of a challenge that the devices do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChallengePart {
    /// Memory is filled, and committed to.
    Fill,
    /// A probe is answered.
    Probe(ProbeStage),
    /// Openings are read and sent.
    Open,
}

impl ChallengePart {
    /// All of them, in the order of a challenge.
    pub const ALL: [Self; 5] = [
        Self::Fill,
        Self::Probe(ProbeStage::Own),
        Self::Probe(ProbeStage::Linked),
        Self::Probe(ProbeStage::Sweep),
        Self::Open,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Fill => "fill",
            Self::Probe(ProbeStage::Own) => "probe",
            Self::Probe(ProbeStage::Linked) => "linked_probe",
            Self::Probe(ProbeStage::Sweep) => "sweep",
            Self::Open => "open",
        }
    }

    /// The name of the part for status, and its description, for operators.
    pub const fn about(self) -> (&'static str, &'static str) {
        match self {
            Self::Fill => ("work", "working"),
            Self::Probe(ProbeStage::Own) => ("probe", "committed: walking the probe"),
            Self::Probe(ProbeStage::Linked) => ("linked probe", "committed: walking the linked probe"),
            Self::Probe(ProbeStage::Sweep) => ("sweep", "committed: sweeping the memory"),
            Self::Open => ("openings", "answered the probe: opening"),
        }
    }
}

/// A part of a challenge that ended on the devices.
#[derive(Debug)]
pub struct CompletedPart<'a> {
    pub challenge: ChallengeId,
    pub part: ChallengePart,
    pub began: Instant,
    /// How long each device took, in the order of the challenge; empty where that is not measured.
    pub devices: Vec<Duration>,
    pub error: Option<&'a DeviceError>,
}

impl<'a> CompletedPart<'a> {
    /// Reads the end of a part out of an event of the engine; `None` for any other event.
    fn of(event: &'a SessionEvent, (part, began): (ChallengePart, Instant)) -> Option<Self> {
        let (challenge, error, messages) = match event {
            SessionEvent::Worked(id, ended) | SessionEvent::Probed(id, ended) => {
                (*id, ended.as_ref().err(), ended.as_deref().ok())
            }
            SessionEvent::Opened(id, ended) => (*id, ended.as_ref().err(), None),
            _ => return None,
        };
        let claimed = |message: &MinerMessage| match message {
            MinerMessage::DeviceRoots(roots) => Some(roots.claimed),
            MinerMessage::DeviceDigests(digests) => Some(digests.claimed),
            _ => None,
        };
        let devices = messages.unwrap_or_default().iter().filter_map(claimed).collect();
        Some(Self { challenge, part, began, devices, error })
    }
}

/// Runs a session to its end. `inbound` gives an error's text when the stream breaks.
///
/// # Errors
/// Why the stream broke, when it was not a side's wish to end.
pub async fn drive(
    start: Start,
    engine: Arc<Engine>,
    mut inbound: impl Stream<Item = Result<ValidatorMessage, String>> + Unpin,
    outbox: Outbox,
    mut shutdown: Shutdown,
    observer: &mut dyn Observer,
) -> Result<CloseReason, String> {
    let now = Instant::now();
    let (session, actions) = MinerSession::start(start.session, now);
    let (events, mut reports) = mpsc::channel(64);
    let (handle, changes_seen) = (Handle::default(), Arc::new(AtomicU64::new(engine.changes())));
    let idle = Idle { keeps: start.idle_release, release_at: None };
    let mut driver = SessionDriver {
        session,
        engine,
        outbox,
        events,
        observer,
        handle,
        queue: None,
        part: (ChallengePart::Fill, now),
        changes_seen,
        inventory_read: Instant::now(),
        idle,
        limits: start.limits,
        turns: start.turns,
        turn: None,
        to_keep: start.to_keep,
        resumption: start.resumption,
        joining: start.joining,
    };
    let ended = driver.run(actions, &mut inbound, &mut reports, &mut shutdown).await;
    // The results of pending work are not needed any more.
    driver.handle.cancel();
    driver.turns.leave();
    driver.release_all();
    let SessionDriver { outbox, queue, .. } = driver;
    // Without a sender the stream ends once the queue has been sent; the validator then ends its half.
    drop(outbox);
    let _ = tokio::time::timeout(FLUSH_LIMIT, async { while inbound.next().await.is_some() {} }).await;
    // Pending work may wait for room among them.
    drop(reports);
    if let Some(last) = queue {
        // A driver may not answer for minutes.
        tokio::select! {
            () = shutdown.stopped() => {}
            _ = last => {}
        }
    }
    ended
}

struct SessionDriver<'a> {
    session: MinerSession,
    engine: Arc<Engine>,
    outbox: Outbox,
    events: mpsc::Sender<SessionEvent>,
    observer: &'a mut dyn Observer,
    /// Of the work that runs.
    handle: Handle,
    /// The last thing asked of the engine: each waits for the one before.
    queue: Option<JoinHandle<()>>,
    /// The part of a challenge that runs, or ran last, and when it began.
    part: (ChallengePart, Instant),
    /// The engine's changes that the last inventory shows.
    changes_seen: Arc<AtomicU64>,
    inventory_read: Instant,
    idle: Idle,
    limits: SharedLimits,
    turns: Turns,
    /// While a challenge has the devices.
    turn: Option<Turn>,
    to_keep: Option<PendingKey>,
    resumption: Resumption,
    joining: PendingJoinToken,
}

/// When idle memory is released.
struct Idle {
    /// For how long it is kept.
    keeps: Duration,
    /// Until when, and the challenges that had begun by then: a later one uses it. `None` while a challenge of this
    /// session does, and when nothing is kept.
    release_at: Option<(Instant, u64)>,
}

impl SessionDriver<'_> {
    async fn run(
        &mut self,
        first: Vec<SessionAction>,
        inbound: &mut (impl Stream<Item = Result<ValidatorMessage, String>> + Unpin),
        reports: &mut mpsc::Receiver<SessionEvent>,
        shutdown: &mut Shutdown,
    ) -> Result<CloseReason, String> {
        let mut progress = tokio::time::interval(POLL_INTERVAL);
        progress.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut changes = tokio::time::interval(INVENTORY_PAUSE);
        changes.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut stopping = shutdown.clone();
        let mut drained = false;
        let mut shown = ShownProgress::default();
        if let Some(closed) = self.act(first).await? {
            return Ok(closed);
        }
        loop {
            let event = tokio::select! {
                biased;
                () = stopping.stopped() => {
                    let actions = self.session.stop();
                    return Ok(self.act(actions).await?.unwrap_or(CloseReason::Drained));
                }
                // Before the messages, of which a hostile validator always has another one.
                Some(event) = reports.recv() => {
                    if let Some(ended) = CompletedPart::of(&event, self.part) {
                        self.observer.part_ended(&ended);
                    }
                    event
                }
                () = shutdown.draining(), if !drained => {
                    drained = true;
                    SessionEvent::Drain
                }
                message = inbound.next() => match message {
                    Some(Ok(message)) => SessionEvent::Message(message),
                    Some(Err(problem)) => return Err(problem),
                    None => return Err("the validator closed the stream".into()),
                },
                _ = progress.tick(), if self.session.working_on().is_some() => {
                    self.show_progress(&mut shown).await?;
                    continue;
                }
                // A challenge on an inventory that has changed since is declined: the next one follows at once.
                _ = changes.tick(), if self.session.is_idle() => {
                    self.read_inventory_if_due();
                    continue;
                }
                () = tokio::time::sleep_until(self.poll_timeout().into()) => {
                    self.release_if_idle();
                    SessionEvent::Tick
                }
            };
            let is_message = matches!(event, SessionEvent::Message(_));
            let mut closed = self.handle(event).await?;
            if is_message {
                tokio::task::coop::consume_budget().await;
            }
            // Only after the message, which may be the one that a limit waits for.
            if closed.is_none() && is_message && Instant::now() >= self.poll_timeout() {
                self.release_if_idle();
                closed = self.handle(SessionEvent::Tick).await?;
            }
            if let Some(closed) = closed {
                return Ok(closed);
            }
            self.read_inventory_if_due();
        }
    }

    async fn handle(&mut self, event: SessionEvent) -> Result<Option<CloseReason>, String> {
        let turn = match &event {
            SessionEvent::Message(ValidatorMessage::Challenge(_)) => self.prepare_for_challenge(),
            _ => None,
        };
        let actions = self.session.handle(event, Instant::now());
        // A challenge that is declined leaves the devices as they are.
        self.turn = turn.filter(|_| self.session.is_running()).or(self.turn.take());
        self.act(actions).await
    }

    /// Prepares the checks of a challenge: the operator's limits, and the turn at the devices.
    fn prepare_for_challenge(&mut self) -> Option<Turn> {
        let turn = (!self.session.is_running()).then(|| self.turns.take());
        let (turn, busy) = match turn {
            Some(Ok(turn)) => (Some(turn), None),
            Some(Err(busy)) => (None, Some(busy.to_string())),
            None => (None, None),
        };
        let is_stale = self.engine.changes() != self.changes_seen.load(Ordering::Relaxed);
        self.session.set_limits(SessionLimits { busy, is_stale, max_challenge: self.limits.get().max_challenge });
        turn
    }

    /// When the session, the idle memory or the inventory is due next.
    fn poll_timeout(&self) -> Instant {
        let release_at = self.idle.release_at.map(|(release_at, _)| release_at);
        let inventory = self.session.is_idle().then(|| self.inventory_read + INVENTORY_INTERVAL);
        [release_at, inventory].into_iter().flatten().fold(self.session.poll_timeout(), Instant::min)
    }

    async fn show_progress(&mut self, shown: &mut ShownProgress) -> Result<(), String> {
        let (Some(id), done) = (self.session.working_on(), self.handle.done_steps()) else { return Ok(()) };
        if !shown.is_due(id, done, Instant::now()) {
            return Ok(());
        }
        self.observer.progress(done);
        let actions = self.session.handle(SessionEvent::Progress(id, done, None), Instant::now());
        self.act(actions).await.map(|_| ())
    }

    async fn act(&mut self, actions: Vec<SessionAction>) -> Result<Option<CloseReason>, String> {
        for action in actions {
            match action {
                SessionAction::Send(message) => {
                    if let MinerMessage::Declined(stop) | MinerMessage::Abort(stop) = &message {
                        self.observer.stopped(stop);
                    }
                    self.send(message).await?;
                }
                SessionAction::StartWork(challenge) => self.start_work(challenge),
                SessionAction::StartProbe(id, probe) => self.start_probe(id, probe),
                SessionAction::StartOpening(id, items) => self.start_opening(id, items),
                SessionAction::Release => {
                    self.observer.released();
                    self.handle.cancel();
                    self.release();
                    self.read_inventory();
                }
                SessionAction::Established(key) => {
                    if let Some(to_keep) = self.to_keep.take() {
                        to_keep.keep();
                    }
                    self.resumption.stands(self.session.nonce());
                    self.joining.forget();
                    self.observer.established(key);
                    // The inventory may have changed since the hello was written.
                    self.read_inventory();
                }
                SessionAction::Followed { pinned, until_unix_seconds } => {
                    self.observer.followed(pinned, until_unix_seconds)
                }
                SessionAction::Verdict(verdict) => self.observer.verdict(&verdict),
                SessionAction::Close(closed) => return Ok(Some(closed)),
            }
        }
        Ok(None)
    }

    async fn send(&mut self, message: MinerMessage) -> Result<(), String> {
        match self.outbox.messages.send_timeout(message, SEND_LIMIT).await {
            Ok(()) => Ok(()),
            Err(mpsc::error::SendTimeoutError::Timeout(_)) => {
                Err(format!("the connection took no message for {SEND_LIMIT:?}"))
            }
            Err(mpsc::error::SendTimeoutError::Closed(_)) => Err("the connection is gone".into()),
        }
    }

    fn start_work(&mut self, challenge: Arc<Challenge>) {
        self.part = (ChallengePart::Fill, Instant::now());
        if let Some(turn) = &self.turn {
            turn.begin();
        }
        self.observer.challenged(&challenge);
        self.idle.release_at = None;
        self.handle = Handle::default();
        let (handle, id) = (self.handle.clone(), challenge.id());
        let finished = self.finished(id);
        self.report(move |engine| SessionEvent::Worked(id, engine.work(&challenge, &handle, finished)));
    }

    fn begin(&mut self, part: ChallengePart) {
        self.observer.part_began(part);
        self.part = (part, Instant::now());
    }

    fn start_probe(&mut self, id: ChallengeId, probe: MemoryProbe) {
        self.begin(ChallengePart::Probe(probe.stage()));
        let (handle, finished) = (self.handle.clone(), self.finished(id));
        self.report(move |engine| SessionEvent::Probed(id, engine.probe(id, probe, &handle, finished)));
    }

    /// Sends the word of a device that it is done.
    fn finished(&self, id: ChallengeId) -> impl Fn(DeviceId, Checksum) + Clone + Send + 'static {
        let (handle, events) = (self.handle.clone(), self.events.clone());
        move |device_id, checksum| {
            // The receiver is gone once the session is over.
            let _ = events.blocking_send(SessionEvent::Progress(id, handle.done_steps(), Some((device_id, checksum))));
        }
    }

    fn start_opening(&mut self, id: ChallengeId, items: Vec<OpenItem>) {
        self.begin(ChallengePart::Open);
        let (handle, outbox) = (self.handle.clone(), self.outbox.clone());
        self.report(move |engine| {
            let give = |chunk| outbox.give(chunk, &handle);
            SessionEvent::Opened(id, engine.open(id, items, &handle, give))
        });
    }

    /// Releases the memory of a challenge that is over: at once, or when no other one comes in time. Only then the
    /// devices are free for another validator.
    fn release(&mut self) {
        let (turn, is_kept) = (self.turn.take(), !self.idle.keeps.is_zero());
        self.enqueue(move |engine| {
            if is_kept {
                engine.forget()
            } else {
                engine.release()
            }
            drop(turn);
        });
        if is_kept {
            self.idle.release_at = Some((Instant::now() + self.idle.keeps, self.turns.begun()));
        }
    }

    fn release_if_idle(&mut self) {
        if let Some((_, begun)) = self.idle.release_at.filter(|(at, _)| Instant::now() >= *at) {
            self.idle.release_at = None;
            self.enqueue_release(begun);
        }
    }

    /// Releases the idle memory, unless another challenge has begun since.
    fn enqueue_release(&mut self, begun: u64) {
        let turns = self.turns.clone();
        self.enqueue(move |engine| {
            if turns.since(begun, || engine.start_release()).is_some() {
                tracing::debug!("idle: releasing the devices' memory");
            }
        });
    }

    /// Leaves nothing of this session on the devices: neither of a challenge that runs, nor kept for the next.
    fn release_all(&mut self) {
        if let Some(turn) = self.turn.take() {
            self.enqueue(move |engine| {
                engine.release();
                drop(turn);
            });
        } else if let Some((_, begun)) = self.idle.release_at.take() {
            self.enqueue_release(begun);
        }
    }

    /// Reads the inventory of idle devices again when one was lost or came back, or the last reading is old.
    fn read_inventory_if_due(&mut self) {
        // Not in a tight loop while another validator's challenge has the devices, nor behind one that hangs.
        let since = self.inventory_read.elapsed();
        let changed = self.engine.changes() != self.changes_seen.load(Ordering::Relaxed) && since >= INVENTORY_PAUSE;
        let is_free = self.queue.as_ref().is_none_or(JoinHandle::is_finished) && !self.session.is_running();
        if is_free && (changed || since >= INVENTORY_INTERVAL) {
            self.read_inventory();
        }
    }

    /// Reads the inventory. While a challenge has the devices, of whichever validator, it is left for later: they would
    /// seem smaller than they are.
    fn read_inventory(&mut self) {
        self.inventory_read = Instant::now();
        let (turns, seen) = (self.turns.clone(), self.changes_seen.clone());
        self.report(move |engine| match turns.between(|| engine.ask()).map(|asked| engine.described(asked, 0)) {
            None => SessionEvent::Tick,
            Some(Ok((inventory, changes))) => {
                seen.store(changes, Ordering::Relaxed);
                SessionEvent::Inventory(inventory)
            }
            Some(Err(error)) => {
                tracing::warn!(%error, "cannot read the device inventory");
                SessionEvent::Tick
            }
        });
    }

    /// Enqueues a job on the engine and reports its event.
    fn report(&mut self, job: impl FnOnce(&Engine) -> SessionEvent + Send + 'static) {
        let events = self.events.clone();
        self.enqueue(move |engine| {
            // The receiver is gone once the session is over.
            let _ = events.blocking_send(job(engine));
        });
    }

    fn enqueue(&mut self, job: impl FnOnce(&Engine) + Send + 'static) {
        let before = self.queue.take();
        let engine = self.engine.clone();
        self.queue = Some(tokio::spawn(async move {
            if let Some(before) = before {
                let _ = before.await;
            }
            if let Err(error) = tokio::task::spawn_blocking(move || job(&engine)).await {
                tracing::error!(%error, "work on the devices failed");
            }
        }));
    }
}

/// The progress that was last shown.
#[derive(Debug, Default)]
struct ShownProgress {
    of: Option<ChallengeId>,
    done: u64,
    at: Option<Instant>,
}

impl ShownProgress {
    fn is_due(&mut self, of: ChallengeId, done: u64, now: Instant) -> bool {
        let new = self.of != Some(of) || self.done != done;
        if !new || self.at.is_some_and(|at| now.duration_since(at) < PROGRESS_INTERVAL) {
            return false;
        }
        *self = Self { of: Some(of), done, at: Some(now) };
        true
    }
}
