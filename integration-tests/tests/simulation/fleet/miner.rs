//! A simulated miner: its sessions are real, one for each validator, over devices that may lie. Work is done at once, and
//! its result comes after the time that it is to take.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use assay_cpu::CpuConfig;
use assay_device::host::Host;
use assay_device::{Device, Handle};
use assay_integration_tests::dishonest::{Disguise, Liar, SLOT_BYTES, WorkLie};
use assay_miner::engine::Engine;
use assay_miner::session::{CloseReason, MinerSession, SessionAction, SessionEvent, SessionLimits, SessionStart};
use assay_miner::turns::{Turn, Turns};
use assay_program::clock;
use assay_protocol::channel::Channel;
use assay_protocol::identity::Identity;
use assay_protocol::message::{Inventory, MinerMessage, OpeningsChunk, OpeningsPart, Stop, StopCode, ValidatorMessage};
use assay_work::probe::MemoryProbe;
use assay_work::{ChallengeId, Nonce};
use tokio::sync::{mpsc, watch};
use tokio::time::sleep_until;

use super::link::Line;
use super::plan::Conduct;
use super::planted::Planted;
use super::validator::ValidatorHost;
use super::world::{World, lock};
use crate::standing::{MinerStanding, UNKNOWN, Words, kind_of_miner, name_challenge};

/// How late a late miner commits: after the deadline of the commitment.
const LATE: Duration = Duration::from_secs(31);

/// Rate of a probe: in no time each probe would be larger than the one before, since the validator goes by the rate.
pub const PROBE_BYTES_PER_S: f64 = 1e6;

/// The memory of each device, in slots of n = 256: some of them are challenged.
const SLOTS: u64 = 128;

/// A miner's host. What it remembers goes with a crash.
pub struct MinerHost {
    world: Arc<World>,
    number: usize,
    conduct: Conduct,
    identity: Identity,
    engine: Arc<Engine>,
    /// The parts of a miner that lies.
    liar: Option<Liar>,
    turns: Turns,
    /// Whether another program has half of the memory.
    pub is_shared: watch::Sender<bool>,
    /// What a miner that babbles said, a message of each kind.
    said: Mutex<BTreeMap<&'static str, MinerMessage>>,
    /// The nonce of the last session with each validator.
    resumes: Vec<Mutex<Option<Nonce>>>,
}

/// Work that is done, until its result comes.
struct Pending {
    at: Instant,
    sends: Vec<MinerMessage>,
    event: SessionEvent,
}

/// A session with a validator.
struct Session<'a> {
    host: &'a MinerHost,
    validator: usize,
    session: MinerSession,
    outbound: mpsc::Sender<MinerMessage>,
    pending: Option<Pending>,
    turn: Option<Turn>,
    handle: Handle,
    standing: MinerStanding,
}

impl MinerHost {
    /// A host that has just started; `lost_device`: it has one device less.
    pub fn new(world: &Arc<World>, number: usize, validators: usize, lost_device: bool) -> Arc<Self> {
        let conduct = world.plan.conduct[number];
        let devices = if number == 1 || (conduct == Conduct::LosesDevice && !lost_device) { 2 } else { 1 };
        let is_liar = conduct == Conduct::Forges || (number == 0 && world.is_planted(Planted::FailedHonest));
        let identity = Identity::from_seed(&[1 + number as u8; 32]);
        let liar = is_liar.then(|| {
            let disguise = Disguise { seed: 1 + number as u8, ..Disguise::new(&[SLOTS]) };
            let liar = Liar::new(&disguise);
            liar.lies.in_work(WorkLie::ZeroLeaves);
            liar
        });
        let engine = liar.as_ref().map_or_else(|| honest(&identity, devices), |liar| liar.engine.clone());
        let resumes = (0..validators).map(|_| Mutex::new(None)).collect();
        Arc::new(Self {
            world: world.clone(),
            number,
            conduct,
            identity,
            engine,
            liar,
            turns: Turns::default(),
            is_shared: watch::Sender::new(false),
            said: Mutex::default(),
            resumes,
        })
    }

    pub fn key(&self) -> String {
        self.identity.public_key().to_string()
    }

    /// The inventory that it offers, while another program has half of the memory or none does.
    fn inventory(&self, is_shared: bool) -> Option<Inventory> {
        let mut inventory = self.engine.last_inventory().or_else(|| self.engine.inventory(0).ok())?;
        for device in inventory.devices.iter_mut().filter(|_| is_shared) {
            device.free_bytes /= 2;
            device.slots = device.slots.map(|slots| slots / 2);
        }
        Some(inventory)
    }

    /// Keeps a session with a validator, for ever.
    pub async fn keep(self: Arc<Self>, validator: Arc<ValidatorHost>) {
        loop {
            tokio::time::sleep(Duration::from_millis(50) + self.world.draw_ms(450)).await;
            let why = self.session(&validator).await;
            self.world.say(format!("m{} leaves v{}: {why}", self.number, validator.number));
            tokio::time::sleep(Duration::from_millis(300) + self.world.draw_ms(700)).await;
        }
    }

    /// One session, to its end.
    pub async fn session(&self, validator: &ValidatorHost) -> String {
        let pair = (validator.number, self.number);
        self.world.travel(pair).await;
        let Some(line) = validator.dial(self.number) else { return "it does not listen".to_owned() };
        let mut is_shared = self.is_shared.subscribe();
        let Some(inventory) = self.inventory(*is_shared.borrow_and_update()) else {
            return "no inventory".to_owned();
        };
        let start = SessionStart {
            identity: self.identity.clone(),
            pinned: None,
            channel: Channel::Plaintext,
            inventory,
            miner_nonce: self.world.nonce(),
            resumes: *lock(&self.resumes[validator.number]),
            join_token: None,
            unix_seconds: clock::unix_seconds(),
        };
        let (session, first) = MinerSession::start(start, clock::now());
        let Line { inbound, outbound } = line;
        let (validator, standing) = (validator.number, MinerStanding::new());
        let (turn, pending, handle) = (None, None, Handle::default());
        let mut session = Session { host: self, validator, session, outbound, pending, turn, handle, standing };
        let why = session.run(first, inbound, is_shared).await;
        self.turns.of(validator).leave();
        why
    }
}

/// An engine over honest devices, which are named by the miner's key.
fn honest(identity: &Identity, devices: usize) -> Arc<Engine> {
    let seed = identity.public_key().0.to_vec();
    let (memory_bytes, threads) = (vec![SLOTS * SLOT_BYTES], vec![1]);
    let config = CpuConfig { devices, memory_bytes, threads, seed, ..CpuConfig::default() };
    let devices = assay_cpu::devices(&config).expect("devices of one thread");
    let devices = devices.into_iter().map(|device| Box::new(device) as Box<dyn Device>).collect();
    Arc::new(Engine::new(Host::new(devices), identity.clone()))
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        if self.turn.is_some() {
            self.host.engine.release();
        }
    }
}

impl Session<'_> {
    async fn run(
        &mut self,
        first: Vec<SessionAction>,
        mut inbound: mpsc::Receiver<ValidatorMessage>,
        mut is_shared: watch::Receiver<bool>,
    ) -> String {
        if let Some(why) = self.act(first).await {
            return why;
        }
        loop {
            let due = self.pending.as_ref().map(|pending| pending.at);
            let event = tokio::select! {
                biased;
                message = inbound.recv() => match message {
                    Some(message) => SessionEvent::Message(message),
                    None => {
                        self.host.world.transitions().at_miner(&self.standing, None);
                        return "the validator closed the stream".to_owned();
                    }
                },
                () = sleep_until(due.unwrap_or_else(clock::now).into()), if due.is_some() => {
                    let Some(Pending { sends, event, .. }) = self.pending.take() else { continue };
                    for message in sends {
                        self.send(message).await;
                    }
                    event
                }
                Ok(()) = is_shared.changed() => {
                    let Some(inventory) = self.host.inventory(*is_shared.borrow_and_update()) else { continue };
                    SessionEvent::Inventory(inventory)
                }
                () = sleep_until(self.session.poll_timeout().into()) => SessionEvent::Tick,
            };
            let turn = match &event {
                SessionEvent::Message(ValidatorMessage::Challenge(_)) => self.take_turn(),
                _ => None,
            };
            if let SessionEvent::Message(message) = &event {
                self.host.world.transitions().at_miner(&self.standing, Some(message));
            }
            self.standing.given(&event);
            let actions = self.session.handle(event, clock::now());
            self.standing.acted(&actions);
            self.turn = turn.filter(|_| self.session.is_running()).or(self.turn.take());
            if let Some(why) = self.act(actions).await {
                return why;
            }
        }
    }

    fn take_turn(&mut self) -> Option<Turn> {
        let turn = (!self.session.is_running()).then(|| self.host.turns.of(self.validator).take());
        let (turn, busy) = match turn {
            Some(Ok(turn)) => (Some(turn), None),
            Some(Err(busy)) => (None, Some(busy.to_string())),
            None => (None, None),
        };
        if busy.is_some() {
            self.host.world.reach("miner is busy");
        }
        self.session.set_limits(SessionLimits { busy, ..SessionLimits::default() });
        turn
    }

    async fn send(&self, message: MinerMessage) {
        let said = self.host.liar.as_ref().map_or_else(|| vec![message.clone()], |liar| liar.says(message.clone()));
        for message in said {
            self.host.world.reach(format!("miner sends {}", kind_of_miner(&message)));
            let is_inside = |chunk: &OpeningsChunk| chunk.part != OpeningsPart::End;
            let is_one_of_many = matches!(&message, MinerMessage::OpeningsChunk(chunk) if is_inside(chunk));
            let one_of = if is_one_of_many { 60 } else { 12 };
            self.babble(one_of).await;
            if self.host.conduct == Conduct::Babbles && self.host.world.draw(2) == 0 {
                lock(&self.host.said).insert(kind_of_miner(&message), message.clone());
            }
            // A broken connection is seen where messages come in.
            let _ = self.outbound.send(message).await;
        }
    }

    /// Once of so many times, a miner that babbles says what it said before, or what it may say elsewhere, of this
    /// challenge, an earlier one, or none.
    async fn babble(&self, one_of: u64) {
        let world = &self.host.world;
        if self.host.conduct != Conduct::Babbles || world.draw(one_of) != 0 {
            return;
        }
        let stop = || Stop { challenge_id: UNKNOWN, code: StopCode::StaleInventory, detail: String::new() };
        let mut sayings: Vec<_> = lock(&self.host.said).values().cloned().collect();
        sayings.extend([
            MinerMessage::Progress { challenge_id: UNKNOWN, done_slots: 0, all_slots: 1, finished: None },
            MinerMessage::Declined(stop()),
            MinerMessage::Abort(stop()),
            MinerMessage::Goodbye(StopCode::Draining, String::new()),
        ]);
        let mut message = sayings.swap_remove(world.draw(sayings.len() as u64) as usize);
        match (world.draw(4), self.standing.this) {
            (0, _) => name_challenge(&mut message, UNKNOWN),
            (1 | 2, Some(this)) => name_challenge(&mut message, this),
            // As it was.
            _ => {}
        }
        let kind = kind_of_miner(&message);
        world.say(format!("m{} babbles {kind} at v{}", self.host.number, self.validator));
        world.reach(format!("miner babbles {kind}"));
        let _ = self.outbound.send(message).await;
    }

    /// What an honest miner's session sends of these words.
    fn words(&mut self, words: Words, id: ChallengeId) -> Vec<MinerMessage> {
        let events = words.events(id).into_iter().filter(|_| self.host.liar.is_none());
        let actions = events.flat_map(|event| self.session.handle(event, clock::now())).collect::<Vec<_>>();
        let sent = actions.into_iter().filter_map(|action| match action {
            SessionAction::Send(message) => Some(message),
            _ => None,
        });
        sent.collect()
    }

    /// Has a result come after the time that the work takes.
    fn later(&mut self, most_ms: u64, sends: Vec<MinerMessage>, event: SessionEvent) {
        let is_late = self.host.conduct == Conduct::Late && matches!(event, SessionEvent::Worked(..));
        let is_late = is_late && !self.host.world.is_planted(Planted::PassedLate);
        let takes = if is_late { LATE } else { Duration::from_millis(5) + self.host.world.draw_ms(most_ms) };
        self.pending = Some(Pending { at: clock::now() + takes, sends, event });
    }

    async fn act(&mut self, actions: Vec<SessionAction>) -> Option<String> {
        let engine = self.host.engine.clone();
        for action in actions {
            match action {
                SessionAction::Send(message) => self.send(message).await,
                SessionAction::StartWork(challenge) => {
                    if let Some(turn) = &self.turn {
                        turn.begin();
                    }
                    self.host.liar.iter().for_each(|liar| liar.works_on(&challenge));
                    self.babble(4).await;
                    self.handle = Handle::default();
                    let words = Words::default();
                    let worked = engine.work(&challenge, &self.handle, words.heard());
                    let words = self.words(words, challenge.id());
                    self.later(1500, words, SessionEvent::Worked(challenge.id(), worked));
                }
                SessionAction::StartProbe(id, probe) => {
                    let read_bytes = match &probe {
                        MemoryProbe::Walks(probe) => probe.read_bytes(),
                        MemoryProbe::Sweep(_) => 0,
                    };
                    self.babble(12).await;
                    let words = Words::default();
                    let probed = engine.probe(id, probe, &self.handle, words.heard());
                    let words = self.words(words, id);
                    self.later(20, words, SessionEvent::Probed(id, probed));
                    let reads = Duration::from_secs_f64(read_bytes as f64 / PROBE_BYTES_PER_S);
                    self.pending.iter_mut().for_each(|pending| pending.at += reads);
                }
                SessionAction::StartOpening(id, _) if self.host.conduct == Conduct::Abandons => {
                    self.abandon(id).await;
                }
                SessionAction::StartOpening(id, items) => {
                    let mut chunks = Vec::new();
                    let give = |chunk| {
                        chunks.push(MinerMessage::OpeningsChunk(chunk));
                        true
                    };
                    let opened = engine.open(id, items, &self.handle, give);
                    self.later(300, chunks, SessionEvent::Opened(id, opened));
                }
                SessionAction::Release => {
                    self.pending = None;
                    engine.release();
                    self.turn = None;
                }
                SessionAction::Established(_) => {
                    *lock(&self.host.resumes[self.validator]) = self.session.nonce();
                }
                SessionAction::Verdict(verdict) => {
                    self.host.world.reach(format!("miner hears {:?}", verdict.outcome));
                }
                SessionAction::Followed { .. } => {}
                SessionAction::Close(why) => return Some(self.closed(&why)),
            }
        }
        None
    }

    async fn abandon(&self, challenge_id: ChallengeId) {
        let stop = Stop { challenge_id, code: StopCode::StaleInventory, detail: String::new() };
        self.send(MinerMessage::Abort(stop)).await;
    }

    fn closed(&self, why: &CloseReason) -> String {
        let text = why.to_string();
        let kind = format!("{why:?}");
        let kind = kind.split([' ', '(', '{']).next().unwrap_or_default().to_owned();
        self.host.world.reach(format!("miner closes: {kind}"));
        text
    }
}
