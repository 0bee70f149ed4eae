//! Drives one session: moves messages between its state machine, the connection, and the checks.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use assay_device::Handle;
use assay_program::utc;
use assay_protocol::channel::Channel;
use assay_protocol::message::{MinerMessage, ValidatorMessage};
use assay_protocol::successor::{Lineage, Successor};
use assay_protocol::verdict::{Class, Outcome, Reason, ReasonCode, Verdict};
use assay_work::{Challenge, ChallengeId, PublicKey};
use tokio::sync::{AcquireError, OwnedSemaphorePermit, mpsc, oneshot, watch};

use crate::action::{Action, ChallengeFacts, SentAt};
use crate::allow::{Followed, Lists, NotAllowed};
use crate::bounds::{CHECK_WAIT_LIMIT, HELD_UP_LIMIT, SEND_LIMIT};
use crate::clock::unix_seconds;
use crate::entropy::{Entropy, OsEntropy};
use crate::events::{self, Asked};
use crate::history::devices::follow_note;
use crate::hook::Who;
use crate::memory::return_freed_soon;
use crate::peer::Peer;
use crate::policy::Policy;
use crate::registry::{Miner, RunningChallenge, SessionCommand, Update};
use crate::session::{Session, SessionContext, StartError};
use crate::takeover::{EnterError, Resumption, resumed, taken_over};
use crate::validator::{Validator, line};
use crate::verify::check::{CheckJob, TrustedValues};
use crate::verify::replay::{Extent, Replayed};

/// How soon after its proof a miner is challenged: one ping must have come back.
const CONNECT_DELAY: Duration = Duration::from_millis(500);
/// After an abandoned challenge, how long a miner is not challenged on connecting where the policy has no interval.
const ABANDONED_PAUSE: Duration = Duration::from_secs(600);
/// While verdicts cannot be written, how long until a challenge that was due is tried again.
const RECORDING_PAUSE: Duration = Duration::from_secs(10);
/// How long a watcher may take to pick up the verdict.
const WATCHER_LIMIT: Duration = Duration::from_secs(1);
/// How long the session of a revoked key may take to end: its last words, and a verdict on its way to the disk.
const REVOKED_LIMIT: Duration = Duration::from_millis(500);

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

/// What goes out, with where to note the moment.
pub type Outgoing = (ValidatorMessage, SentAt);

/// Runs a session to its end.
pub async fn drive(
    validator: Arc<Validator>,
    peer: Option<Peer>,
    mut incoming: mpsc::Receiver<Incoming>,
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
        interrupted: None,
        revoked_at: None,
        watchers: Vec::new(),
        challenge: None,
        place: None,
        turn: None,
        recording: None,
        next_challenge: None,
        busy: 0,
        running: None,
        has_ended: false,
        was_stopped: false,
        entropy: OsEntropy,
    };
    let (mut shutdown, mut stopping) = (validator.shutdown.clone(), validator.shutdown.clone());
    let (mut policies, mut admitted) = (validator.policy_changes(), validator.admission.allowed.changes());
    loop {
        // A challenge that runs is brought to its end, and its verdict to the disk, before the session drains.
        let idle = !driver.session.is_running() && driver.recording.is_none();
        let (reads, was_stopped, timeout) = (driver.reads(), driver.was_stopped, driver.poll_timeout());
        let refused = driver.interrupted.or_else(|| driver.not_allowed());
        let (is_revoked, is_expelled) = (refused.is_some_and(NotAllowed::is_revocation), refused.is_some());
        let actions = tokio::select! {
            biased;
            () = std::future::ready(()), if is_revoked && driver.revoked_at.is_none() => driver.revoke(),
            () = wake(driver.revoked_at.map(|at| at + REVOKED_LIMIT)) => {
                driver.ended(address, "its key was revoked");
                break;
            }
            () = stopping.stopped(), if !was_stopped => driver.cut_short(),
            () = shutdown.draining(), if idle => driver.session.drain(),
            () = written(&mut driver.recording) => driver.recorded().await,
            () = std::future::ready(()), if idle && is_expelled => driver.expel(),
            // Who is expelled is asked above.
            Ok(()) = admitted.changed() => Vec::new(),
            Ok(()) = policies.changed() => driver.policy_changed(),
            incoming = incoming.recv(), if reads => driver.incoming(incoming),
            Some(command) = asked.recv() => driver.command(command),
            Some((id, result)) = replays.recv() => driver.session.replayed(id, result),
            place = turn(&mut driver.turn), if idle => driver.start_due(place),
            () = wake(timeout) => driver.tick(),
        };
        if let Some(why) = driver.act(actions).await {
            driver.ended(address, &why);
            break;
        }
    }
    driver.leave();
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
    replayed: mpsc::Sender<(ChallengeId, Result<(), Reason>)>,
    /// Of the replay that runs.
    replay: Handle,
    /// Once it proved its key.
    who: Option<Who>,
    /// By which keys it is known, once it proved its own.
    standing: Option<Standing>,
    /// A revocation came while something else was waited for, which was given up.
    interrupted: Option<NotAllowed>,
    /// When it was told that its key is revoked.
    revoked_at: Option<Instant>,
    watchers: Vec<mpsc::Sender<Update>>,
    /// What runs, since when, and who asked for it.
    challenge: Option<(ChallengeFacts, Instant, Asked)>,
    /// Its place among those that run at once.
    place: Option<OwnedSemaphorePermit>,
    /// Waits for such a place: a challenge is due.
    turn: Option<Turn>,
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

/// Gives a place for a challenge, in the order in which they were asked for.
type Turn = Pin<Box<dyn Future<Output = Result<OwnedSemaphorePermit, AcquireError>> + Send + Sync>>;

/// By which keys a miner is known.
#[derive(Debug, Clone)]
struct Standing {
    /// Its key, and those that it follows.
    lineage: Lineage,
    /// The first of them: its place in the registry.
    seat: PublicKey,
}

/// A verdict on its way to the disk, and what waits for it.
struct Recording {
    verdict: Box<Verdict>,
    written: Pin<Box<dyn Future<Output = ()> + Send + Sync>>,
    then: VecDeque<Action>,
}

impl Driver {
    /// Whether the miner has anything more to say: not once its stream ended, or its session waits for its verdict only.
    const fn reads(&self) -> bool {
        !self.has_ended && !self.session.is_over()
    }

    fn incoming(&mut self, incoming: Option<Incoming>) -> Vec<Action> {
        match incoming {
            Some(Incoming { message: Ok(message), at }) => {
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

    fn command(&mut self, command: SessionCommand) -> Vec<Action> {
        match command {
            SessionCommand::Replaced { by } => self.session.replaced(&taken_over(by)),
            SessionCommand::Resumed { by } => self.session.replaced(&resumed(by)),
            SessionCommand::Run { policy, started, updates } => {
                let place = self.validator.challenges.clone().try_acquire_owned();
                let start = |place| self.start(&policy, Asked::Operator, place);
                let result = place.map_err(|_| StartError::TooMany).and_then(start);
                if result.is_ok() {
                    self.watchers.push(updates);
                }
                let running = self.running.clone();
                reply_to_start(started, running, result)
            }
            SessionCommand::Cancel { id, cancelled } => {
                let running = self.running.as_ref().filter(|_| self.session.is_running());
                let running = running.filter(|running| id.is_none_or(|id| id == running.id));
                let (id, detail) = running.map(|running| (running.id, cancelled_detail(running))).unzip();
                // Whoever asked may have gone; the challenge ends all the same.
                let _ = cancelled.send(id);
                let cancel = |detail: String| self.session.stop_run(Reason::new(ReasonCode::Cancelled, detail));
                detail.map(cancel).unwrap_or_default()
            }
        }
    }

    /// Ends the session now, and with it a challenge that is under way.
    fn cut_short(&mut self) -> Vec<Action> {
        self.was_stopped = true;
        if let Some(challenge) = self.session.challenge() {
            self.validator.drain.cut(challenge.id());
        }
        self.session.drain()
    }

    fn start(
        &mut self,
        policy: &Arc<Policy>,
        asked: Asked,
        place: OwnedSemaphorePermit,
    ) -> Result<Vec<Action>, StartError> {
        let seat = self.seat().ok_or(StartError::NotConnected)?;
        // First: a challenge whose verdict waits for the disk is busy for as long as the disk is.
        self.validator.verdicts.check()?;
        if self.session.is_running() || self.recording.is_some() {
            return Err(StartError::Busy);
        }
        // First: from here on no other session of the key takes over.
        if !self.validator.registry.begin(self.number, seat) {
            return Err(StartError::NotConnected);
        }
        let Self { session, validator, entropy, .. } = self;
        let started = session.start(policy, &mut context(validator, entropy));
        match &started {
            Ok(actions) => {
                let facts = actions.iter().find_map(|action| match action {
                    Action::Started(facts) => Some(*facts),
                    _ => None,
                });
                self.challenge = facts.map(|facts| (facts, Instant::now(), asked));
                (self.place, self.turn) = (Some(place), None);
            }
            Err(_) => self.unchallenged(),
        }
        self.running = self.session.challenge().map(running);
        self.publish();
        started
    }

    /// Shows operators how far the challenge is.
    fn publish(&self) {
        if let Some(seat) = self.seat() {
            let running = self.running.clone();
            self.validator.registry.update(self.number, seat, |miner| miner.running = running);
        }
    }

    /// Why the miner may not stay, where that is so.
    fn not_allowed(&self) -> Option<NotAllowed> {
        let standing = self.standing.as_ref()?;
        self.validator.admission.allowed.check(&standing.lineage, unix_seconds()).err()
    }

    fn expel(&mut self) -> Vec<Action> {
        self.not_allowed().map(|why| self.session.expel(why)).unwrap_or_default()
    }

    fn ended(&self, address: Option<SocketAddr>, why: &str) {
        match &self.who {
            Some(who) => events::left(&self.validator.hook, &self.validator.gate, who, why),
            None => events::turned_away(&self.validator.gate, self.number, address, why),
        }
    }

    /// Ends the session now, and with it a challenge that runs.
    fn revoke(&mut self) -> Vec<Action> {
        self.revoked_at = Some(Instant::now());
        let why = self.interrupted.or_else(|| self.not_allowed());
        why.map(|why| self.session.revoke(why)).unwrap_or_default()
    }

    /// The policy was replaced: the next challenge is due no later than its interval says.
    fn policy_changed(&mut self) -> Vec<Action> {
        if self.who.is_some() && !self.session.is_running() {
            let before = self.next_challenge.take();
            self.schedule();
            self.next_challenge = self.next_challenge.map(|next| before.map_or(next, |before| before.min(next)));
        }
        Vec::new()
    }

    /// When [`Driver::tick`] is due next.
    fn poll_timeout(&self) -> Option<Instant> {
        [self.session.poll_timeout(Instant::now()), self.next_challenge].into_iter().flatten().min()
    }

    fn tick(&mut self) -> Vec<Action> {
        let now = Instant::now();
        if self.next_challenge.is_some_and(|at| now >= at) {
            self.next_challenge = None;
            self.turn = Some(Box::pin(self.validator.challenges.clone().acquire_owned()));
        }
        self.session.tick(now, &mut self.entropy)
    }

    /// Starts the challenge that is due, now that there is a place for it.
    fn start_due(&mut self, place: Result<OwnedSemaphorePermit, AcquireError>) -> Vec<Action> {
        self.turn = None;
        // The places are never closed.
        let Ok(place) = place else { return Vec::new() };
        let policy = self.validator.policy();
        match self.start(&policy, Asked::Schedule, place) {
            Ok(actions) => return actions,
            // One that was asked for runs: the next is due after its verdict.
            Err(StartError::Busy) => {}
            // The log says so once for all.
            Err(StartError::NotRecording(_)) => self.next_challenge = Some(Instant::now() + RECORDING_PAUSE),
            Err(error) => {
                tracing::warn!(session = self.number, %error, "no challenge was made");
                self.schedule();
            }
        }
        Vec::new()
    }

    /// A miner is challenged when it connects, unless it abandoned a challenge within the interval: connecting again
    /// must not be a way to the next draw.
    fn schedule_first(&mut self, key: PublicKey) {
        let policy = self.validator.policy();
        let interval = policy.challenge_interval.unwrap_or(ABANDONED_PAUSE);
        let abandoned = self.validator.admission.history.abandoned_at(key);
        if !policy.challenge_on_connect {
            self.schedule();
        } else if let Some(at) = abandoned.filter(|at| at.elapsed() < interval) {
            self.next_challenge = Some(at + interval);
        } else {
            self.next_challenge = Some(Instant::now() + CONNECT_DELAY);
        }
    }

    fn schedule(&mut self) {
        if let Some(interval) = self.validator.policy().challenge_interval {
            self.schedule_in(interval);
        }
    }

    fn schedule_in(&mut self, interval: Duration) {
        // Between four and six fifths, so that no host knows the moment and a fleet does not move in step.
        let spread = self.entropy.below(1000).unwrap_or(500) as f64 / 1000.0;
        self.next_challenge = Some(Instant::now() + interval.mul_f64(0.8 + 0.4 * spread));
    }

    /// When the next challenge is due, after this verdict on one: soon where one was due and the miner was busy.
    fn schedule_after(&mut self, verdict: &Verdict, asked: Option<Asked>) {
        let was_busy = verdict.reasons.iter().any(|reason| reason.code == ReasonCode::MinerBusy);
        if !(was_busy && asked == Some(Asked::Schedule)) {
            self.busy = 0;
            return self.schedule();
        }
        self.busy += 1;
        match self.validator.policy().busy_pause(self.busy) {
            Some(pause) => self.schedule_in(pause),
            None => self.schedule(),
        }
    }

    /// The miner's key, once it is proved.
    fn key(&self) -> Option<PublicKey> {
        self.who.as_ref().map(|who| who.miner)
    }

    /// The miner's place in the registry, once it proved its key.
    fn seat(&self) -> Option<PublicKey> {
        self.standing.as_ref().map(|standing| standing.seat)
    }

    /// No challenge runs any more.
    fn unchallenged(&self) {
        if let Some(seat) = self.seat() {
            self.validator.registry.update(self.number, seat, |m| m.challenged = false);
        }
    }

    /// Carries out actions; returns the reason once the session is over.
    async fn act(&mut self, actions: Vec<Action>) -> Option<String> {
        let mut queue = VecDeque::from(actions);
        let mut closed = None;
        // Neither a miner that does not read nor a check that waits for a core holds a revocation up.
        let mut lists = self.validator.admission.allowed.changes();
        let standing = self.standing.clone().filter(|_| self.revoked_at.is_none());
        while let Some(action) = queue.pop_front() {
            if let Some(recording) = &mut self.recording
                && !action.keeps_alive()
            {
                recording.then.push_back(action);
                continue;
            }
            match action {
                Action::Send(message, sent) => {
                    let limit = if self.revoked_at.is_some() { REVOKED_LIMIT / 2 } else { SEND_LIMIT };
                    let taken = tokio::select! {
                        biased;
                        taken = self.outgoing.send_timeout((message, sent), limit) => taken.is_ok(),
                        why = revocation(&mut lists, standing.as_ref()) => {
                            self.interrupted = Some(why);
                            true
                        }
                    };
                    if !taken && closed.is_none() {
                        queue.extend(self.disconnected("the miner does not read what is sent"));
                    }
                }
                Action::Established(hello) => {
                    if let Err(error) = self.established(*hello) {
                        queue = self.session.not_entered(error).into();
                    }
                }
                Action::InventoryChanged(inventory) => {
                    if let Some(seat) = self.seat() {
                        self.validator.registry.update(self.number, seat, |m| m.inventory = inventory);
                    }
                }
                Action::RoundTrip(time) => {
                    if let Some(seat) = self.seat() {
                        self.validator.registry.update(self.number, seat, |m| m.round_trip = Some(time));
                    }
                }
                Action::Check(job) => {
                    let checked = tokio::select! {
                        biased;
                        checked = self.check(*job) => Ok(checked),
                        why = revocation(&mut lists, standing.as_ref()) => Err(why),
                    };
                    match checked {
                        Ok(actions) => queue.extend(actions),
                        Err(why) => self.interrupted = Some(why),
                    }
                }
                Action::Replay(id, binding, extent) => queue.extend(self.start_replay(id, *binding, extent)),
                Action::Started(facts) => {
                    if let (Some(who), Some((_, _, asked))) = (&self.who, &self.challenge) {
                        events::started(who, &facts, *asked);
                    }
                }
                Action::Phase(phase) => self.phase(phase),
                Action::Progress(done, all) => self.notify(&Update::Progress(done, all)),
                Action::Verdict(verdict) => self.record(verdict),
                Action::Close(why) => closed = Some(why),
            }
        }
        closed
    }

    /// Enters the miner, or says why not.
    fn established(&mut self, hello: assay_protocol::message::Hello) -> Result<(), EnterError> {
        let standing = self.stand(&hello);
        let devices = hello.inventory.devices.len();
        let (session, address, since) = (self.number, self.peer.as_ref().map(|peer| peer.address), Instant::now());
        let who = Who { session, miner: hello.miner_key, address, agent: hello.agent.clone(), since };
        let miner = Miner {
            key: hello.miner_key,
            agent: hello.agent,
            address,
            inventory: hello.inventory,
            challenged: false,
            running: None,
            since,
            round_trip: None,
            resumption: Resumption { nonce: self.session.nonce(), resumes: hello.resumes },
        };
        let (gate, is_open) = (&self.validator.gate, self.validator.admission.allowed.is_open());
        let (registry, seat, peer) = (&self.validator.registry, standing.seat, self.peer.as_ref());
        let enter = |()| registry.enter(session, seat, miner, self.commands.clone(), peer, is_open);
        let entered = gate.begin_session(who.miner, since).map_err(EnterError::TooOften).and_then(enter);
        let before = entered.inspect_err(|error| events::not_entered(gate, &who, *error))?;
        events::connected(&self.validator.hook, gate, &who, devices, before.as_ref());
        self.schedule_first(who.miner);
        self.who = Some(who);
        self.standing = Some(standing);
        Ok(())
    }

    /// By which keys the miner is known that has just proved its own. What is known of those that it follows stands for
    /// it too; a revoked one vouches for nobody.
    fn stand(&self, hello: &assay_protocol::message::Hello) -> Standing {
        let (admission, now) = (&self.validator.admission, unix_seconds());
        let lineage = Lineage::verify(hello.miner_key, &hello.successors);
        let stands = |s: &Successor| s.is_current(now) && !admission.allowed.is_revoked(&s.old_key);
        // The oldest first: a key in the middle of a chain follows before it is followed.
        for Successor { new_key, old_key, .. } in lineage.standing(stands).into_iter().rev() {
            if admission.history.follow(new_key, old_key) {
                tracing::info!(miner = %new_key, follows = %old_key, "what is known of a key stands for its successor");
                let (log, line) = (self.validator.verdicts.clone(), follow_note(new_key, old_key, now));
                // The next start knows it by this line; until then it is known anyway.
                tokio::spawn(async move { log.append(line).await });
            }
        }
        if let Ok(Some(Followed { old_key, until_unix_seconds })) = admission.allowed.check(&lineage, now) {
            tracing::warn!(
                miner = %lineage.key(),
                follows = %old_key,
                until = utc::text(until_unix_seconds),
                "this miner has a new key, for which one in allowed_miners vouches: put the new key in its place by then"
            );
        }
        let seat = admission.history.kin.root(lineage.key());
        Standing { lineage, seat }
    }

    /// Checks a part of the openings on a blocking thread, once a core is free. The connection is not read meanwhile.
    async fn check(&mut self, job: CheckJob) -> Vec<Action> {
        let began = Instant::now();
        let result = self.check_on_a_core(job).await;
        self.session.excuse(began.elapsed());
        match result {
            Ok(result) => self.session.checked(result),
            Err(ours) => self.session.stop_run(ours),
        }
    }

    /// The check's result, or why it could not be made.
    async fn check_on_a_core(&self, job: CheckJob) -> Result<Result<(), Reason>, Reason> {
        let Ok(Ok(_permit)) = tokio::time::timeout(CHECK_WAIT_LIMIT, self.validator.checks.acquire()).await else {
            let detail = format!("a check waited {CHECK_WAIT_LIMIT:?} for a core");
            return Err(Reason::new(ReasonCode::ValidatorOverloaded, detail));
        };
        let internal = |error: tokio::task::JoinError| Reason::new(ReasonCode::ValidatorInternal, error.to_string());
        tokio::task::spawn_blocking(|| job.run()).await.map_err(internal)
    }

    fn start_replay(&mut self, id: ChallengeId, binding: TrustedValues, extent: Extent) -> Vec<Action> {
        let (Some(replayer), Some(key)) = (self.validator.replayer.clone(), self.key()) else {
            let detail = "this validator has no devices of its own";
            return self.session.replayed(id, Err(Reason::new(ReasonCode::ValidatorDevices, detail)));
        };
        self.replay = Handle::default();
        let (handle, done) = (self.replay.clone(), self.replayed.clone());
        let (turns, history) = (self.validator.turns.clone(), self.validator.admission.history.clone());
        tokio::spawn(async move {
            let result = match turns.wait(key, history.replayed_at(key)).await {
                Ok(turn) => {
                    history.replays(key, Instant::now());
                    let second = history.second_computation(key, Instant::now());
                    let job = move || {
                        let _turn = turn;
                        replayer.replay(&binding.challenge, &binding.evidence, &extent, second, &handle)
                    };
                    let internal = |error: tokio::task::JoinError| Replayed {
                        result: Err(Reason::new(ReasonCode::ValidatorInternal, error.to_string())),
                        computed_again: None,
                    };
                    let Replayed { result, computed_again } =
                        tokio::task::spawn_blocking(job).await.unwrap_or_else(internal);
                    if let Some(found) = computed_again {
                        history.computed_again(key, found, Instant::now());
                    }
                    result
                }
                Err(error) => Err(Reason::new(ReasonCode::ValidatorOverloaded, error.to_string())),
            };
            // The session may be over.
            let _ = done.send((id, result)).await;
        });
        Vec::new()
    }

    /// Sends an update to every watcher; one whose queue is full misses it.
    fn notify(&mut self, update: &Update) {
        if let Some(running) = &mut self.running {
            running.advance(update);
            self.publish();
        }
        self.watchers
            .retain(|watcher| !matches!(watcher.try_send(update.clone()), Err(mpsc::error::TrySendError::Closed(_))));
    }

    /// A phase of the challenge begins.
    fn phase(&mut self, phase: &'static str) {
        // The first one begins with the challenge.
        if let (Some(who), Some((facts, began, _))) = (&self.who, &self.challenge)
            && phase != "work"
        {
            events::phase(who, facts.id, phase, *began);
        }
        self.notify(&Update::Phase(phase));
    }

    /// Fails no miner for a time that may be our own. Being late is ours where we were held up when the time ended: a
    /// miner that was late before it has no excuse. A missed expectation, which may be one of a rate, is ours where we
    /// were held up for a tenth of the challenge.
    fn excuse(&self, verdict: &mut Verdict) {
        let Some((_, began, _)) = &self.challenge else { return };
        let (now, lag) = (Instant::now(), &self.validator.lag);
        let at_the_end = lag.since(now.checked_sub(2 * HELD_UP_LIMIT).unwrap_or(*began), now);
        let for_long = lag.since(*began, now).filter(|held_up| *held_up * 10 >= now.duration_since(*began));
        let held_up = |reason: &Reason| match reason.code {
            ReasonCode::ExpectationMissed => for_long,
            code if code.class() == Class::Late => at_the_end,
            _ => None,
        };
        let failing = verdict.reasons.iter().filter(|reason| reason.code.class().fails());
        let excuses: Option<Vec<_>> = failing.map(held_up).collect();
        if let Some(longest) = excuses.and_then(|excuses| excuses.into_iter().max()) {
            let why: Vec<_> =
                verdict.reasons.iter().map(|reason| format!("{}: {}", reason.code, reason.detail)).collect();
            let detail = format!("this validator was held up for {longest:.1?}; otherwise {}", why.join(", "));
            verdict.outcome = Outcome::Inconclusive;
            verdict.reasons = vec![Reason::new(ReasonCode::ValidatorOverloaded, detail)];
        }
    }

    /// Has a verdict written; what follows it waits.
    fn record(&mut self, mut verdict: Box<Verdict>) {
        self.excuse(&mut verdict);
        self.replay.cancel();
        if verdict.reasons.iter().any(|r| matches!(r.code, ReasonCode::Abandoned | ReasonCode::AbandonedRepeatedly)) {
            self.validator.admission.history.abandoned(verdict.miner_key, Instant::now());
        }
        if let Some(running) = &mut self.running {
            running.phase = "verdict";
            self.publish();
        }
        let (log, line) = (self.validator.verdicts.clone(), line(&verdict));
        let written = Box::pin(async move { log.append(line).await });
        self.recording = Some(Recording { verdict, written, then: VecDeque::new() });
    }

    /// Gives a verdict out that is on disk now, to the miner first; returns how the session ends, where it does.
    async fn recorded(&mut self) -> Vec<Action> {
        let Some(Recording { verdict, then, .. }) = self.recording.take() else { return Vec::new() };
        if let Some(who) = &self.who {
            events::verdict(&self.validator.hook, who, &verdict, self.challenge.map(|(_, began, _)| began));
        }
        let asked = self.challenge.take().map(|(_, _, asked)| asked);
        self.place = None;
        self.validator.verdict_counts.add(verdict.outcome);
        self.running = None;
        self.publish();
        self.unchallenged();
        self.schedule_after(&verdict, asked);
        let closed = self.act(then.into()).await;
        for watcher in self.watchers.drain(..) {
            let _ = watcher.send_timeout(Update::Verdict(verdict.clone()), WATCHER_LIMIT).await;
        }
        return_freed_soon();
        closed.map(Action::Close).into_iter().collect()
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

/// A challenge that has just begun.
fn running(challenge: &Challenge) -> RunningChallenge {
    let slots: u64 = challenge.shares().iter().map(|share| u64::from(share.count)).sum();
    RunningChallenge {
        id: challenge.id(),
        since: Instant::now(),
        phase: "work",
        done_slots: 0,
        all_slots: slots * u64::from(challenge.iterations()),
    }
}

fn cancelled_detail(running: &RunningChallenge) -> String {
    format!("in phase {}, {:.1} s after its start", running.phase, running.since.elapsed().as_secs_f64())
}

/// What began: a challenge, or one that had its verdict at once.
fn begun(running: Option<RunningChallenge>, actions: &[Action]) -> Option<RunningChallenge> {
    let judged = || {
        actions.iter().find_map(|action| match action {
            Action::Verdict(verdict) => Some(RunningChallenge {
                id: verdict.challenge_id,
                since: Instant::now(),
                phase: "verdict",
                done_slots: 0,
                all_slots: 0,
            }),
            _ => None,
        })
    };
    running.or_else(judged)
}

fn reply_to_start(
    started: oneshot::Sender<Result<RunningChallenge, StartError>>,
    running: Option<RunningChallenge>,
    result: Result<Vec<Action>, StartError>,
) -> Vec<Action> {
    let (answer, actions) = match result {
        Ok(actions) => (begun(running, &actions).ok_or(StartError::NotConnected), actions),
        Err(error) => (Err(error), Vec::new()),
    };
    // The caller may have gone; the challenge runs all the same.
    let _ = started.send(answer);
    actions
}

/// Waits until a verdict is on disk; for ever where none is on its way.
async fn written(recording: &mut Option<Recording>) {
    match recording {
        Some(recording) => recording.written.as_mut().await,
        None => std::future::pending().await,
    }
}

/// Waits for a place for a challenge; for ever where none is due.
async fn turn(turn: &mut Option<Turn>) -> Result<OwnedSemaphorePermit, AcquireError> {
    match turn {
        Some(turn) => turn.as_mut().await,
        None => std::future::pending().await,
    }
}

/// Waits until the lists revoke a miner, or a key by which it stands; for ever for one that has not proved its key.
async fn revocation(lists: &mut watch::Receiver<Lists>, standing: Option<&Standing>) -> NotAllowed {
    let Some(Standing { lineage, .. }) = standing else { return std::future::pending().await };
    loop {
        let refused = lists.borrow_and_update().check(lineage, unix_seconds()).err();
        if let Some(why) = refused.filter(|why| why.is_revocation()) {
            return why;
        }
        if lists.changed().await.is_err() {
            // The validator ends.
            return std::future::pending().await;
        }
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
    SessionContext {
        now: Instant::now(),
        unix_seconds: unix_seconds(),
        entropy,
        replayer: validator.replayer.as_deref(),
    }
}
