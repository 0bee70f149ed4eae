//! One challenge from its offer to its verdict, without a socket: events in, actions out.
//!
//! The order is WORK.md's: commitment, probe, probe answer, openings. No position is named before the
//! probe is answered.

mod ending;
mod journal;
mod limits;
mod pace;
mod positions;
mod signed;
mod steps;

pub use limits::{FOLLOW_UP_LIMIT, HANDOVER_LIMIT, LINK_ALLOWANCE_LIMIT, LINK_ROUND_TRIPS};
pub use signed::commitment_reason;

use std::sync::Arc;
use std::time::{Duration, Instant};

use assay_protocol::message::{Inventory, MinerMessage, SignedChecksum, Stop, StopCode, ValidatorMessage};
use assay_protocol::verdict::{Mode, NotChallenged, Reason, ReasonCode};
use assay_work::commitment::{DeviceEvidence, Evidence};
use assay_work::probe::{Answer, DeviceAnswer, Probe};
use assay_work::text::quoted;
use assay_work::{Challenge, ChallengeId};

use self::ending::abandoned;
use self::journal::HandedOver;
pub use self::journal::{EVIDENCE_ENDS, Given};
use self::pace::OpeningsPace;
use crate::action::{Action, ChallengeFacts};
use crate::case::entry::{Entry, Event, nanoseconds};
use crate::entropy::Entropy;
use crate::history::History;
use crate::issue::Issued;
use crate::policy::Policy;
use crate::verify::check::{Collector, TrustedValues};
use crate::verify::judge::{DeviceClaims, Gaps};
use crate::verify::replay::Extent;

/// The phase of a challenge whose miner has committed and whose probe waits for the round.
pub const HELD: &str = "held";
/// The phase in which the devices walk over the memory of one another.
pub const LINKED_PROBE: &str = "linked_probe";

/// What the miner signed at the end of a stage, and the stage's time by the validator's clock.
#[derive(Debug, Clone)]
struct Timed {
    signed: SignedChecksum,
    took: Duration,
}

/// The roots behind the commitment.
#[derive(Debug, Clone)]
enum Roots {
    /// Since when they come.
    Due { since: Instant, devices: Vec<DeviceEvidence> },
    /// All came, and match the commitment.
    Complete(Arc<Evidence>),
}

/// A probe that was answered.
#[derive(Debug, Clone)]
struct AnsweredProbe {
    probe: Probe,
    answer: Timed,
    digests: Digests,
}

/// The digests behind a probe answer.
#[derive(Debug, Clone)]
enum Digests {
    /// Since when they come.
    Due { since: Instant, devices: Vec<DeviceAnswer> },
    /// All came, and match the answer.
    Complete(Arc<Answer>),
}

/// How far the challenge is, with what is known there.
#[derive(Debug)]
enum RunStage {
    /// The offer is out.
    Working,
    /// The commitment came and the roots come; the probe waits for the other members of the round.
    Held { commitment: Timed, roots: Roots, limit: Duration },
    /// The commitment came and the probe is out; the roots come. With a linked probe, the digests of the one before it
    /// come.
    Probing { commitment: Timed, roots: Roots, before: Option<AnsweredProbe>, probe: Probe, deadline: Duration },
    /// The last probe answer came, its digests come.
    Digests { commitment: Timed, evidence: Arc<Evidence>, before: Option<AnsweredProbe>, last: AnsweredProbe },
    /// The openings come.
    Opening { answered: Answered, collector: Box<Collector>, pace: OpeningsPace },
    /// All openings came; checks and the replay may run.
    Judging(Answered),
    /// The verdict is out.
    Over(Ended),
}

/// What is known once the probe is answered, and what is still pending.
#[derive(Debug, Clone)]
struct Answered {
    commitment: Timed,
    probe: Probe,
    answer: Timed,
    /// The linked probe, and the answer to it.
    linked: Option<(Probe, Timed)>,
    checks_pending: usize,
    replay: Replay,
}

/// Whether passes are computed again.
#[derive(Debug, Clone)]
enum Replay {
    /// It is not asked for, or ended.
    None,
    /// It starts once every opening has held.
    Waiting(Box<TrustedValues>, Extent),
    Running,
}

/// What is kept of a challenge that is over, for messages that crossed its end on the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// The challenge.
    pub id: ChallengeId,
    /// Whether the miner had committed.
    pub is_committed: bool,
    /// Chunks of openings that were asked for and had not come.
    pub chunks_due: u64,
}

/// What a run is made of beside its challenge.
#[derive(Debug, Clone)]
pub struct RunContext {
    /// What is asked.
    pub policy: Arc<Policy>,
    /// How the work is checked.
    pub mode: Mode,
    /// The devices, by the miner's claims.
    pub inventory: Inventory,
    /// How the miner's challenges ended, and what its devices showed.
    pub history: Arc<History>,
    /// The least round trip measured so far; `None` before the first pong.
    pub round_trip: Option<Duration>,
    /// When the challenge is sent: seconds since 1970.
    pub unix_seconds: u64,
    /// How long the probe waits after the commitment for [`ChallengeRun::release`]; `None`: it does not.
    pub hold: Option<Duration>,
}

/// One challenge of one miner.
#[derive(Debug)]
pub struct ChallengeRun {
    context: RunContext,
    /// Where it is judged again: what was drawn and known then.
    given: Option<Box<Given>>,
    began: Instant,
    /// What happened and is not handed out yet to be kept.
    journal: Vec<Entry>,
    challenge: Arc<Challenge>,
    /// The fewest slots of a device that takes part.
    min_slots: u32,
    not_challenged: Vec<NotChallenged>,
    stage: RunStage,
    stage_began: Instant,
    claimed: Vec<DeviceClaims>,
    gaps: Gaps,
    /// Messages with a deadline; the stage waits for the last one's answer.
    handed_over: Vec<HandedOver>,
}

type Step = Result<Vec<Action>, Reason>;

impl ChallengeRun {
    /// Sends the offer.
    #[must_use]
    pub fn start(context: RunContext, issued: Issued, now: Instant) -> (Self, Vec<Action>) {
        Self::begin(context, issued, None, now)
    }

    /// A run that is given once more what another one took, with what was drawn and known then.
    #[must_use]
    pub fn again(context: RunContext, issued: Issued, given: Given, now: Instant) -> (Self, Vec<Action>) {
        Self::begin(context, issued, Some(Box::new(given)), now)
    }

    fn begin(context: RunContext, issued: Issued, given: Option<Box<Given>>, now: Instant) -> (Self, Vec<Action>) {
        let journal = journal::beginning(&context, &issued);
        let Issued { offer, challenge, not_challenged } = issued;
        let mut run = Self {
            context,
            given,
            began: now,
            journal,
            challenge,
            min_slots: offer.min_slots,
            not_challenged,
            stage: RunStage::Working,
            stage_began: now,
            claimed: Vec::new(),
            gaps: Gaps::default(),
            handed_over: Vec::new(),
        };
        let started = Action::Started(run.facts());
        let send = run.hand_over(ValidatorMessage::Challenge(offer), now);
        let actions = run.journaled(None, vec![started, Action::Phase("work"), send]);
        (run, actions)
    }

    /// The challenge.
    #[must_use]
    pub fn id(&self) -> ChallengeId {
        self.challenge.id()
    }

    /// The challenge, with its shares.
    #[must_use]
    pub fn challenge(&self) -> &Challenge {
        &self.challenge
    }

    /// What it asks, for an operator.
    fn facts(&self) -> ChallengeFacts {
        ChallengeFacts {
            id: self.id(),
            nonce: self.challenge.fields().nonce,
            mode: self.context.mode,
            precision: self.challenge.precision(),
            n: self.challenge.n(),
            iterations: self.challenge.iterations(),
            devices: self.challenge.shares().len(),
            slots: self.challenge.shares().iter().map(|share| u64::from(share.count)).sum(),
        }
    }

    /// What is kept of it, once the verdict is out.
    #[must_use]
    pub const fn ended(&self) -> Option<Ended> {
        match self.stage {
            RunStage::Over(ended) => Some(ended),
            _ => None,
        }
    }

    /// Whether the miner is asked for openings, each of which has a bound of its own.
    #[must_use]
    pub const fn is_opening(&self) -> bool {
        matches!(self.stage, RunStage::Opening { .. })
    }

    /// Takes a message of the miner that is about this challenge, received at `received`.
    pub fn message(&mut self, message: MinerMessage, received: Instant, entropy: &mut dyn Entropy) -> Vec<Action> {
        // Nothing follows from progress: it is not written down.
        if matches!(message, MinerMessage::Progress { .. }) {
            return self.take(message, received, entropy);
        }
        self.note_taken();
        let entry = Entry::Message(self.nanoseconds_to(received), message.clone());
        let actions = self.take(message, received, entropy);
        self.journaled(Some(entry), actions)
    }

    fn take(&mut self, message: MinerMessage, received: Instant, entropy: &mut dyn Entropy) -> Vec<Action> {
        let step = match message {
            MinerMessage::Commitment(commitment) => self.commitment(commitment, received, entropy),
            MinerMessage::DeviceRoots(roots) => self.device_roots(roots, received),
            MinerMessage::ProbeAnswer(answer) => self.probe_answer(answer, received, entropy),
            MinerMessage::DeviceDigests(digests) => self.device_digests(digests, received, entropy),
            MinerMessage::OpeningsChunk(chunk) => self.openings(chunk, received),
            MinerMessage::Progress { done_slots, all_slots, .. } => Ok(self.progress(done_slots, all_slots)),
            MinerMessage::Declined(stop) => self.declined(&stop),
            MinerMessage::Abort(stop) => return self.left(self.stopped_by_miner(&stop)),
            _ => Err(Reason::new(ReasonCode::Protocol, "a message came that has no place in a challenge")),
        };
        self.conclude(step)
    }

    /// A part of the openings was checked.
    pub fn checked(&mut self, result: Result<(), Reason>) -> Vec<Action> {
        self.note_taken();
        if let RunStage::Opening { answered, .. } | RunStage::Judging(answered) = &mut self.stage {
            answered.checks_pending = answered.checks_pending.saturating_sub(1);
        }
        let actions = self.conclude(result.map(|()| Vec::new()));
        self.journaled(Some(Entry::Event(Event::Checked)), actions)
    }

    /// The replay ended.
    pub fn replayed(&mut self, result: Result<(), Reason>) -> Vec<Action> {
        self.note_taken();
        let event = Event::Replayed(result.as_ref().err().cloned().map(Into::into));
        if let RunStage::Opening { answered, .. } | RunStage::Judging(answered) = &mut self.stage {
            answered.replay = Replay::None;
        }
        let actions = self.conclude(result.map(|()| Vec::new()));
        self.journaled(Some(Entry::Event(event)), actions)
    }

    /// Ends the challenge for a reason of the validator's, or one that fails the miner.
    pub fn stop(&mut self, reason: Reason) -> Vec<Action> {
        self.note_taken();
        let event = Event::Stop(reason.clone().into());
        let actions = self.conclude(Err(reason));
        self.journaled(Some(Entry::Event(event)), actions)
    }

    /// The miner breaks the challenge off, or its connection does. Once every opening has come it is not needed any
    /// more; once positions were named, an end looks like a choice, and does not hide what was found before.
    pub fn leave(&mut self, reason: Reason) -> Vec<Action> {
        self.note_taken();
        let event = Event::Leave(reason.clone().into());
        let actions = self.left(reason);
        self.journaled(Some(Entry::Event(event)), actions)
    }

    /// Ends the challenge when its stage is overdue.
    pub fn tick(&mut self, now: Instant, entropy: &mut dyn Entropy) -> Vec<Action> {
        self.note_taken();
        let actions = match self.overdue(now) {
            _ if self.released_at().is_some_and(|at| now >= at) => self.let_go(now, entropy),
            Some(reason) if reason.code == ReasonCode::NotReading => self.left(reason),
            Some(reason) => self.conclude(Err(reason)),
            // What was found of the transport is handed out with the next event.
            None => return Vec::new(),
        };
        self.journaled(Some(Entry::Event(Event::Tick(self.nanoseconds_to(now)))), actions)
    }

    /// The least round trip is this now.
    pub fn round_trip(&mut self, least: Option<Duration>) {
        if self.context.round_trip != least {
            self.context.round_trip = least;
            // Before the next event only the latest counts.
            self.journal.retain(|entry| !matches!(entry, Entry::Event(Event::RoundTrip(_))));
            let event = least.map(|least| Entry::Event(Event::RoundTrip(nanoseconds(least))));
            self.journal.extend(event);
        }
    }

    /// Excludes the time of a check from the miner's deadline: nothing was read meanwhile.
    pub fn excuse(&mut self, ours: Duration) {
        self.journal.push(Entry::Event(Event::Excuse(nanoseconds(ours))));
        self.stage_began += ours;
        if let RunStage::Opening { pace, .. } = &mut self.stage {
            pace.excuse(ours);
        }
    }

    fn left(&mut self, reason: Reason) -> Vec<Action> {
        let reason = match &self.stage {
            RunStage::Judging(_) => return Vec::new(),
            RunStage::Opening { collector, .. } => collector.found().unwrap_or_else(|| abandoned(reason)),
            _ => reason,
        };
        self.conclude(Err(reason))
    }

    fn enter(&mut self, stage: RunStage, now: Instant) {
        self.stage = stage;
        self.stage_began = now;
    }

    /// The members of the round have committed, or are not waited for any longer: the probe goes out. Memory that was
    /// filled in the same time by another member's work cannot be filled with this one's.
    pub fn release(&mut self, now: Instant, entropy: &mut dyn Entropy) -> Vec<Action> {
        self.note_taken();
        let actions = self.let_go(now, entropy);
        self.journaled(Some(Entry::Event(Event::Release(self.nanoseconds_to(now)))), actions)
    }

    fn let_go(&mut self, now: Instant, entropy: &mut dyn Entropy) -> Vec<Action> {
        self.context.hold = None;
        let RunStage::Held { commitment, roots, .. } = &self.stage else { return Vec::new() };
        let (commitment, roots) = (commitment.clone(), roots.clone());
        let step = self.send_probe(commitment, roots, None, now, entropy);
        self.conclude(step)
    }

    fn progress(&self, done_slots: u64, all_slots: u64) -> Vec<Action> {
        match self.stage {
            RunStage::Working => vec![Action::Progress(done_slots, all_slots)],
            _ => Vec::new(),
        }
    }

    fn declined(&self, stop: &Stop) -> Step {
        Err(match self.stage {
            RunStage::Working => self.stopped_by_miner(stop),
            _ => Reason::new(ReasonCode::Protocol, "a challenge was declined after it was committed to"),
        })
    }

    /// A deadline that the miner itself gives up on is one that it missed; all else is no fault of honesty.
    fn stopped_by_miner(&self, stop: &Stop) -> Reason {
        let code = match (stop.code, &self.stage) {
            (StopCode::Deadline, RunStage::Working) => ReasonCode::CommitmentLate,
            (StopCode::Deadline, RunStage::Probing { .. }) => ReasonCode::ProbeLate,
            (StopCode::Deadline, RunStage::Digests { .. }) => ReasonCode::DigestsLate,
            (StopCode::Deadline, RunStage::Opening { .. }) => ReasonCode::OpeningsLate,
            (code, _) => code.reason(),
        };
        Reason::new(code, format!("the miner says: {}", quoted(&stop.detail)))
    }

    /// Ends on a reason, or once nothing is left to wait for.
    fn conclude(&mut self, step: Step) -> Vec<Action> {
        let mut actions = match step {
            Ok(actions) => actions,
            Err(reason) => return self.finish(vec![reason]),
        };
        let id = self.challenge.id();
        if let RunStage::Judging(Answered { checks_pending: 0, replay, .. }) = &mut self.stage {
            match std::mem::replace(replay, Replay::Running) {
                Replay::None => actions.extend(self.finish(Vec::new())),
                Replay::Waiting(binding, extent) => {
                    actions.extend([Action::Phase("replay"), Action::Replay(id, binding, extent)]);
                }
                Replay::Running => {}
            }
        }
        actions
    }
}
