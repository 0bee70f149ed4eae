//! What all sides of a simulated fleet share: the draws of its seed, the network, the trace, and the ledger that the
//! invariants are checked against.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use assay_judge::entropy::{Entropy, SeededEntropy};
use assay_keeper::driver::OutgoingMessage;
use assay_program::clock;
use assay_protocol::message::{Offer, ValidatorMessage};
use assay_protocol::verdict::{Outcome, Verdict};
use assay_work::{ChallengeId, Nonce};
use tokio::sync::{mpsc, watch};

use super::plan::{MINERS, Plan, VALIDATORS};
use super::planted::Planted;
use super::transitions::Transitions;
use crate::standing::kind_of_validator;

/// The most lines of a trace.
const MAX_TRACE_LINES: usize = 20_000;

/// A validator and a miner, by number.
pub type Pair = (usize, usize);

/// The state of a simulation outside validators and miners.
pub struct World {
    pub plan: Plan,
    began: Instant,
    draws: Mutex<SeededEntropy>,
    trace: Mutex<Vec<String>>,
    ledger: Mutex<Ledger>,
    transitions: Mutex<Transitions>,
    /// Until when nothing passes between a pair.
    blocked: Mutex<BTreeMap<Pair, Instant>>,
    /// Messages that validators sent to a miner that babbles, the last of each kind, by pair.
    pub heard: Mutex<BTreeMap<(Pair, &'static str), ValidatorMessage>>,
    /// Counts of cuts of a pair's connections.
    cuts: BTreeMap<Pair, watch::Sender<u64>>,
}

/// Challenges that validators sent, in order, and broken invariants.
#[derive(Default)]
pub struct Ledger {
    pub offers: Vec<SentOffer>,
    nonces: HashSet<Nonce>,
    /// When a miner lost a device.
    pub lost_device: Option<Instant>,
    /// Invariants that were broken.
    pub broken: BTreeSet<String>,
    /// Events reached, and how often.
    pub reached: BTreeMap<String, u64>,
}

/// A challenge that a validator sent.
#[derive(Debug, Clone)]
pub struct SentOffer {
    pub id: ChallengeId,
    pub pair: Pair,
    pub at: Instant,
    /// Outcomes of the verdicts that the validator sent on it.
    pub told: Vec<Outcome>,
    /// Whether a verdict was a pass, whatever is planted.
    pub has_passed: bool,
    /// Whether the validator was lost before its verdict: another one concludes it.
    pub is_orphan: bool,
    /// Whether its verdict was sent, or its connection ended.
    pub is_over: bool,
    /// The validator's end of the connection, while its session lasts: a partition hides the end from the connection.
    session: mpsc::WeakSender<OutgoingMessage>,
}

impl World {
    pub fn new(plan: Plan) -> Self {
        let pairs = (0..VALIDATORS).flat_map(|v| (0..MINERS).map(move |m| (v, m)));
        Self {
            began: clock::now(),
            draws: Mutex::new(SeededEntropy::new(plan.seed.wrapping_mul(2).wrapping_add(1))),
            trace: Mutex::default(),
            ledger: Mutex::default(),
            transitions: Mutex::default(),
            blocked: Mutex::default(),
            heard: Mutex::default(),
            cuts: pairs.map(|pair| (pair, watch::Sender::new(0))).collect(),
            plan,
        }
    }

    /// A number below `bound`.
    pub fn draw(&self, bound: u64) -> u64 {
        lock(&self.draws).below(bound).expect("a seed does not end")
    }

    pub fn draw_ms(&self, most: u64) -> Duration {
        Duration::from_millis(self.draw(most + 1))
    }

    pub fn nonce(&self) -> Nonce {
        Nonce(lock(&self.draws).bytes().expect("a seed does not end"))
    }

    /// Time since the start.
    pub fn passed(&self) -> Duration {
        clock::since(self.began)
    }

    /// Adds a line to the trace.
    pub fn say(&self, line: impl std::fmt::Display) {
        let mut trace = lock(&self.trace);
        if trace.len() < MAX_TRACE_LINES {
            trace.push(format!("{:>9.3} s  {line}", self.passed().as_secs_f64()));
        }
    }

    pub fn trace(&self) -> Vec<String> {
        lock(&self.trace).clone()
    }

    pub fn ledger(&self) -> MutexGuard<'_, Ledger> {
        lock(&self.ledger)
    }

    pub fn transitions(&self) -> MutexGuard<'_, Transitions> {
        lock(&self.transitions)
    }

    /// Counts an event that was reached.
    pub fn reach(&self, event: impl Into<String>) {
        *self.ledger().reached.entry(event.into()).or_default() += 1;
    }

    /// Notes a broken invariant.
    pub fn broken(&self, what: String) {
        self.say(format!("BROKEN: {what}"));
        self.ledger().broken.insert(what);
    }

    /// Blocks a pair from now on for a time: messages wait.
    pub fn block(&self, pair: Pair, time: Duration) {
        lock(&self.blocked).insert(pair, clock::now() + time);
    }

    /// Ends all partitions.
    pub fn heal(&self) {
        lock(&self.blocked).clear();
    }

    /// Breaks the connections of a pair.
    pub fn cut(&self, pair: Pair) {
        self.cuts[&pair].send_modify(|cuts| *cuts += 1);
    }

    pub fn cuts(&self, pair: Pair) -> watch::Receiver<u64> {
        self.cuts[&pair].subscribe()
    }

    /// Lets the time of a message's way pass.
    pub async fn travel(&self, pair: Pair) {
        let is_slow = self.draw(50) == 0;
        tokio::time::sleep(self.draw_ms(if is_slow { 900 } else { 30 })).await;
        while let Some(until) = self.blocked_until(pair) {
            // A healed partition ends early.
            tokio::time::sleep((until - clock::now()).min(Duration::from_millis(250))).await;
        }
    }

    fn blocked_until(&self, pair: Pair) -> Option<Instant> {
        lock(&self.blocked).get(&pair).copied().filter(|until| *until > clock::now())
    }

    /// Notes a message that a validator sends.
    pub fn sent(&self, pair: Pair, message: &ValidatorMessage, session: &mpsc::WeakSender<OutgoingMessage>) {
        self.reach(format!("validator sends {}", kind_of_validator(message)));
        match message {
            ValidatorMessage::Challenge(offer) => self.offered(pair, offer, session.clone()),
            ValidatorMessage::Verdict(verdict) => self.told(pair, verdict),
            _ => {}
        }
    }

    fn offered(&self, pair: Pair, offer: &Offer, session: mpsc::WeakSender<OutgoingMessage>) {
        self.say(format!("v{} challenges m{}: {}", pair.0, pair.1, short(offer.challenge_id)));
        let mut ledger = self.ledger();
        let runs = |other: &&SentOffer| !other.is_over && other.session.strong_count() > 0;
        let mut others = ledger.offers.iter().filter(|other| other.pair.1 == pair.1);
        // A challenge whose session has ended meanwhile on its way to a miner that does not read is over itself.
        let other = others.find(runs).filter(|_| session.strong_count() > 0).map(|other| other.pair.0);
        let is_new = ledger.nonces.insert(offer.nonce);
        let (id, at, told) = (offer.challenge_id, clock::now(), Vec::new());
        let (has_passed, is_orphan, is_over) = (false, false, false);
        ledger.offers.push(SentOffer { id, pair, at, told, has_passed, is_orphan, is_over, session });
        drop(ledger);
        if let Some(other) = other {
            self.broken(format!("budget: v{} challenges m{} while v{other} does", pair.0, pair.1));
        }
        if !is_new {
            self.broken("nonce: one was drawn twice".to_owned());
        }
    }

    fn told(&self, pair: Pair, verdict: &Verdict) {
        let (id, outcome) = (verdict.challenge_id, verdict.outcome);
        let codes: Vec<_> = verdict.reasons.iter().map(|reason| reason.code.name()).collect();
        self.say(format!("v{} tells m{} {}: {outcome:?} {}", pair.0, pair.1, short(id), codes.join(" ")));
        self.reach(format!("verdict {outcome:?} {}", codes.join(" ")));
        let mut ledger = self.ledger();
        let Some(offer) = ledger.offers.iter_mut().find(|offer| offer.id == id) else { return };
        offer.is_over = true;
        offer.has_passed |= outcome == Outcome::Pass;
        let is_changed = self.plan.planted == Some(Planted::OtherVerdict) && outcome == Outcome::Pass;
        offer.told.push(if is_changed { Outcome::Inconclusive } else { outcome });
        let is_twice = offer.told.len() > 1;
        drop(ledger);
        if is_twice {
            self.broken(format!("twice: two verdicts on one challenge of m{}", pair.1));
        }
    }

    /// Notes the end of a connection.
    pub fn parted(&self, pair: Pair, offers: &[ChallengeId]) {
        self.say(format!("v{} and m{} are disconnected", pair.0, pair.1));
        let mut ledger = self.ledger();
        ledger.offers.iter_mut().filter(|offer| offers.contains(&offer.id)).for_each(|offer| offer.is_over = true);
    }

    /// Notes that a validator is lost, with its challenges.
    pub fn lost(&self, validator: usize) {
        self.say(format!("v{validator} is lost"));
        let mut ledger = self.ledger();
        for offer in ledger.offers.iter_mut().filter(|offer| offer.pair.0 == validator) {
            offer.is_orphan |= !offer.is_over;
            offer.is_over = true;
        }
    }

    pub fn is_planted(&self, planted: Planted) -> bool {
        self.plan.planted == Some(planted)
    }
}

/// The first digits of an id.
pub fn short(id: ChallengeId) -> String {
    id.to_string()[..8].to_owned()
}

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
