//! One challenge from its offer to its verdict, without a socket: events in, actions out.
//!
//! The order is WORK.md's: commitment, probe, probe answer, openings. No position is named before the
//! last probe is answered.

mod ending;
mod journal;
mod limits;
mod pace;
mod positions;
mod signed;
mod steps;

pub use limits::{FOLLOW_UP_LIMIT, HANDOVER_LIMIT, HANDOVER_SLACK, LINK_ALLOWANCE_LIMIT, LINK_ROUND_TRIPS};
pub use signed::commitment_reason;

use std::sync::Arc;
use std::time::{Duration, Instant};

use assay_policy::Policy;
use assay_policy::rules::Cause;
use assay_protocol::message::{Inventory, MinerMessage, SignedChecksum, Stop, StopCode, ValidatorMessage};
use assay_protocol::verdict::{Mode, Reason, ReasonCode, UnchallengedDevice};
use assay_work::commitment::{DeviceEvidence, Evidence};
use assay_work::probe::{Answer, DeviceAnswer, MemoryProbe, ProbeStage};
use assay_work::text::quoted;
use assay_work::{Challenge, ChallengeId, Checksum, DeviceId};

use self::ending::abandoned;
use self::journal::DeadlineMessage;
pub use self::journal::{EVIDENCE_ENDS, JournalInputs};
use self::pace::OpeningsPace;
use crate::action::{Action, ChallengeFacts};
use crate::case::entry::{CaseEntry, RunEvent, nanoseconds};
use crate::entropy::Entropy;
use crate::history::MinerHistory;
use crate::issue::IssuedChallenge;
use crate::replay::Extent;
use crate::verify::check::{Collector, TrustedValues};
use crate::verify::hiding::FinishedDevices;
use crate::verify::judge::{DeviceClaims, Gaps};

/// The phase of a challenge whose miner has committed and whose probe waits for the round.
pub const HELD: &str = "held";
/// The phase in which the devices walk over the memory of one another.
pub const LINKED_PROBE: &str = "linked_probe";
/// The phase in which the devices sum over all of their memory.
pub const SWEEP: &str = "sweep";

/// A value that the miner signed at the end of a stage, and the stage's time by the validator's clock.
#[derive(Debug, Clone)]
struct TimedChecksum {
    signed: SignedChecksum,
    took: Duration,
}

/// The roots behind the commitment.
#[derive(Debug, Clone)]
enum CommitmentRoots {
    /// The roots arrive, since `since`.
    Due { since: Instant, devices: Vec<DeviceEvidence> },
    /// All came, and match the commitment.
    Complete(Arc<Evidence>),
}

#[derive(Debug, Clone)]
struct AnsweredProbe {
    probe: MemoryProbe,
    answer: TimedChecksum,
    digests: AnswerDigests,
}

/// The digests behind a probe answer.
#[derive(Debug, Clone)]
enum AnswerDigests {
    /// The digests arrive, since `since`.
    Due { since: Instant, devices: Vec<DeviceAnswer> },
    /// All came, and match the answer.
    Complete(Arc<Answer>),
}

/// Stage of the challenge, with its data.
#[derive(Debug)]
enum RunStage {
    /// The offer was sent.
    Working,
    /// The commitment came and its roots arrive; the probe waits for the other members of the round.
    Held { commitment: TimedChecksum, roots: CommitmentRoots, limit: Duration },
    /// The commitment came and a probe was sent; the roots arrive, or the digests of the probe before it.
    Probing {
        commitment: TimedChecksum,
        roots: CommitmentRoots,
        answered: Vec<AnsweredProbe>,
        probe: MemoryProbe,
        deadline: Duration,
    },
    /// The last probe answer came; its digests arrive.
    Digests { commitment: TimedChecksum, evidence: Arc<Evidence>, answered: Vec<AnsweredProbe> },
    /// The openings arrive.
    Opening { answered: AnsweredRun, collector: Box<Collector>, pace: OpeningsPace },
    /// All openings came; checks and the replay may run.
    Judging(AnsweredRun),
    /// Judged; the verdict was handed out.
    Over(RunSummary),
}

/// Data of a run whose probes are answered, with the pending checks.
#[derive(Debug, Clone)]
struct AnsweredRun {
    commitment: TimedChecksum,
    /// Each with its time.
    probes: Vec<(MemoryProbe, Duration)>,
    checks_pending: usize,
    replay: Replay,
}

/// State of the replay.
#[derive(Debug, Clone)]
enum Replay {
    /// Not requested, or ended.
    None,
    /// It starts once every opening has held.
    Waiting(Box<TrustedValues>, Extent),
    Running,
}

/// Summary of an ended challenge, for messages that crossed its end on the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunSummary {
    pub id: ChallengeId,
    /// Whether the miner had committed.
    pub is_committed: bool,
    /// Chunks of openings that were requested and had not come.
    pub chunks_due: u64,
}

/// Inputs of a run beside its challenge.
#[derive(Debug, Clone)]
pub struct RunContext {
    pub policy: Arc<Policy>,
    /// Mode of checking the work.
    pub mode: Mode,
    /// The devices, by the miner's claims.
    pub inventory: Inventory,
    /// Ends of the miner's challenges, and the rates that its devices showed.
    pub history: Arc<MinerHistory>,
    /// The least round trip measured so far; `None` before the first pong.
    pub round_trip: Option<Duration>,
    /// Sending time of the challenge in seconds since 1970.
    pub unix_seconds: u64,
    /// Longest wait of the probe after the commitment for [`ChallengeRun::release`]; `None`: no wait.
    pub hold: Option<Duration>,
}

#[derive(Debug)]
pub struct ChallengeRun {
    context: RunContext,
    /// Draws and history of the original run, where this one judges it again.
    given: Option<Box<JournalInputs>>,
    began: Instant,
    /// Entries not handed out yet.
    journal: Vec<CaseEntry>,
    challenge: Arc<Challenge>,
    /// The least slots of a device that takes part.
    min_slots: u32,
    not_challenged: Vec<UnchallengedDevice>,
    stage: RunStage,
    stage_began: Instant,
    claimed: Vec<DeviceClaims>,
    finished: FinishedDevices,
    probed: FinishedDevices,
    gaps: Gaps,
    /// Messages with a deadline; the stage waits for the answer to the last one.
    handed_over: Vec<DeadlineMessage>,
}

type Step = Result<Vec<Action>, Reason>;

impl ChallengeRun {
    /// Starts a run by sending the offer.
    pub fn start(context: RunContext, issued: IssuedChallenge, now: Instant) -> (Self, Vec<Action>) {
        Self::begin(context, issued, None, now)
    }

    /// Starts a run that judges an earlier one again, with that one's draws and history.
    pub fn again(
        context: RunContext,
        issued: IssuedChallenge,
        given: JournalInputs,
        now: Instant,
    ) -> (Self, Vec<Action>) {
        Self::begin(context, issued, Some(Box::new(given)), now)
    }

    fn begin(
        context: RunContext,
        issued: IssuedChallenge,
        given: Option<Box<JournalInputs>>,
        now: Instant,
    ) -> (Self, Vec<Action>) {
        let journal = journal::beginning(&context, &issued);
        let IssuedChallenge { offer, challenge, not_challenged } = issued;
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
            finished: FinishedDevices::new(),
            probed: FinishedDevices::new(),
            gaps: Gaps::default(),
            handed_over: Vec::new(),
        };
        let started = Action::Started(run.facts());
        let send = run.hand_over(ValidatorMessage::Challenge(offer), now);
        let actions = run.journaled(None, vec![started, Action::Phase("work"), send]);
        (run, actions)
    }

    pub fn id(&self) -> ChallengeId {
        self.challenge.id()
    }

    pub fn challenge(&self) -> &Challenge {
        &self.challenge
    }

    /// Its parameters, for an operator.
    fn facts(&self) -> ChallengeFacts {
        ChallengeFacts {
            id: self.id(),
            nonce: self.challenge.fields().nonce,
            mode: self.context.mode,
            precision: self.challenge.precision(),
            n: self.challenge.n(),
            iterations: self.challenge.iterations(),
            devices: self.challenge.shares().len(),
            slots: self.challenge.slots(),
        }
    }

    /// Its summary, once the verdict is out.
    pub const fn ended(&self) -> Option<RunSummary> {
        match self.stage {
            RunStage::Over(ended) => Some(ended),
            _ => None,
        }
    }

    /// Whether the run waits for openings, each of which has a bound of its own.
    pub const fn is_opening(&self) -> bool {
        matches!(self.stage, RunStage::Opening { .. })
    }

    /// Takes a message of the miner that is about this challenge, received at `received`.
    pub fn message(&mut self, message: MinerMessage, received: Instant, entropy: &mut dyn Entropy) -> Vec<Action> {
        // Progress has no effect on the verdict and is not recorded, but where a device is done.
        if let MinerMessage::Progress { finished, .. } = &message
            && finished.and_then(|(device_id, _)| self.before_word_of(device_id)).is_none()
        {
            return self.take(message, received, entropy);
        }
        self.note_taken();
        let at = self.nanoseconds_to(received);
        let (entry, actions) = match message {
            MinerMessage::OpeningsChunk(chunk) => {
                let chunk = Arc::new(chunk);
                let step = self.openings(chunk.clone(), received);
                (CaseEntry::Openings(at, chunk), self.conclude(step))
            }
            message => (CaseEntry::Message(at, message.clone()), self.take(message, received, entropy)),
        };
        self.journaled(Some(entry), actions)
    }

    fn take(&mut self, message: MinerMessage, received: Instant, entropy: &mut dyn Entropy) -> Vec<Action> {
        let step = match message {
            MinerMessage::Commitment(commitment) => self.commitment(commitment, received, entropy),
            MinerMessage::DeviceRoots(roots) => self.device_roots(roots, received),
            MinerMessage::ProbeAnswer(answer) => self.probe_answer(answer, received, entropy),
            MinerMessage::DeviceDigests(digests) => self.device_digests(digests, received, entropy),
            MinerMessage::Progress { done_slots, all_slots, finished, .. } => {
                self.finished(finished, received);
                Ok(self.progress(done_slots, all_slots))
            }
            MinerMessage::Declined(stop) => self.declined(&stop),
            MinerMessage::Abort(stop) => return self.left(self.stopped_by_miner(&stop)),
            _ => Err(Reason::new(ReasonCode::Protocol, "a message came that has no place in a challenge")),
        };
        self.conclude(step)
    }

    /// Takes the result of a check of openings.
    pub fn checked(&mut self, result: Result<(), Reason>) -> Vec<Action> {
        self.note_taken();
        if let RunStage::Opening { answered, .. } | RunStage::Judging(answered) = &mut self.stage {
            answered.checks_pending = answered.checks_pending.saturating_sub(1);
        }
        let actions = self.conclude(result.map(|()| Vec::new()));
        self.journaled(Some(CaseEntry::Event(RunEvent::Checked)), actions)
    }

    /// Takes the result of the replay.
    pub fn replayed(&mut self, result: Result<(), Reason>) -> Vec<Action> {
        self.note_taken();
        let event = RunEvent::Replayed(result.as_ref().err().cloned().map(Into::into));
        if let RunStage::Opening { answered, .. } | RunStage::Judging(answered) = &mut self.stage {
            answered.replay = Replay::None;
        }
        let actions = self.conclude(result.map(|()| Vec::new()));
        self.journaled(Some(CaseEntry::Event(event)), actions)
    }

    /// Ends the challenge for a reason of the validator's, or one that fails the miner.
    pub fn stop(&mut self, reason: Reason) -> Vec<Action> {
        self.note_taken();
        let event = RunEvent::Stop(reason.clone().into());
        let actions = self.conclude(Err(reason));
        self.journaled(Some(CaseEntry::Event(event)), actions)
    }

    /// The miner breaks the challenge off, or its connection does. Once every opening has come it is not needed any
    /// more; once positions were named, an end looks like a choice, and does not hide what was found before.
    pub fn leave(&mut self, reason: Reason) -> Vec<Action> {
        self.note_taken();
        let event = RunEvent::Leave(reason.clone().into());
        let actions = self.left(reason);
        self.journaled(Some(CaseEntry::Event(event)), actions)
    }

    pub fn tick(&mut self, now: Instant, entropy: &mut dyn Entropy) -> Vec<Action> {
        self.note_taken();
        let actions = match self.overdue(now) {
            _ if self.released_at().is_some_and(|at| now >= at) => self.let_go(now, entropy),
            Some(reason) if reason.code == ReasonCode::NotReading => self.left(reason),
            Some(reason) => self.conclude(Err(reason)),
            // Changes of the transport are recorded with the next event.
            None => return Vec::new(),
        };
        self.journaled(Some(CaseEntry::Event(RunEvent::Tick(self.nanoseconds_to(now)))), actions)
    }

    /// Sets the least round trip.
    pub fn round_trip(&mut self, least: Option<Duration>) {
        if self.context.round_trip != least {
            self.context.round_trip = least;
            // Only the latest one before the next event counts.
            self.journal.retain(|entry| !matches!(entry, CaseEntry::Event(RunEvent::RoundTrip(_))));
            let event = least.map(|least| CaseEntry::Event(RunEvent::RoundTrip(nanoseconds(least))));
            self.journal.extend(event);
        }
    }

    /// Excludes the time of a check from the miner's deadline: no message was read meanwhile.
    pub fn excuse(&mut self, ours: Duration) {
        self.journal.push(CaseEntry::Event(RunEvent::Excuse(nanoseconds(ours))));
        self.stage_began += ours;
        if let RunStage::Opening { pace, .. } = &mut self.stage {
            pace.excuse(ours);
        }
    }

    fn left(&mut self, reason: Reason) -> Vec<Action> {
        let reason = match &self.stage {
            RunStage::Judging(_) => return Vec::new(),
            RunStage::Opening { collector, .. } => {
                collector.found().unwrap_or_else(|| abandoned("positions were named", reason))
            }
            // By its own times it knows how it fares: it is not busy from then on.
            RunStage::Held { .. } | RunStage::Probing { .. } | RunStage::Digests { .. }
                if Cause::of(reason.code) == Some(Cause::Busy) =>
            {
                abandoned("its commitment", reason)
            }
            _ => reason,
        };
        self.conclude(Err(reason))
    }

    fn enter(&mut self, stage: RunStage, now: Instant) {
        self.stage = stage;
        self.stage_began = now;
    }

    /// Sends the probe: the members of the round have committed, or are no longer waited for. Memory that was filled in
    /// the same time by another member's work cannot be filled with this one's.
    pub fn release(&mut self, now: Instant, entropy: &mut dyn Entropy) -> Vec<Action> {
        self.note_taken();
        let actions = self.let_go(now, entropy);
        self.journaled(Some(CaseEntry::Event(RunEvent::Release(self.nanoseconds_to(now)))), actions)
    }

    fn let_go(&mut self, now: Instant, entropy: &mut dyn Entropy) -> Vec<Action> {
        self.context.hold = None;
        let RunStage::Held { commitment, roots, .. } = &self.stage else { return Vec::new() };
        let (commitment, roots) = (commitment.clone(), roots.clone());
        let step = self.send_probe(commitment, roots, Vec::new(), (ProbeStage::Own, now), entropy);
        self.conclude(step)
    }

    /// The devices that are done in a stage of which each of several gives a word, where this one has given none.
    fn before_word_of(&mut self, device_id: DeviceId) -> Option<&mut FinishedDevices> {
        let shares = self.challenge.shares();
        let takes_part = shares.len() > 1 && shares.iter().any(|share| share.device_id == device_id);
        let finished = match &self.stage {
            RunStage::Working => &mut self.finished,
            RunStage::Probing { probe, .. } if probe.stage() == ProbeStage::Own => &mut self.probed,
            _ => return None,
        };
        (takes_part && !finished.contains_key(&device_id)).then_some(finished)
    }

    /// Takes the first word of a device that has done its share, or walked its probe: its roots or digests follow.
    fn finished(&mut self, device: Option<(DeviceId, Checksum)>, received: Instant) {
        let Some((device_id, checksum)) = device else { return };
        let took = self.took(received);
        if let Some(finished) = self.before_word_of(device_id) {
            finished.insert(device_id, (checksum, took));
        }
    }

    /// Time from the transport's taking the challenge or the probe. Memory can be filled again while a shut window keeps
    /// a probe back.
    fn took(&self, received: Instant) -> Duration {
        let taken = self.taken().unwrap_or(self.stage_began);
        let is_work = matches!(self.stage, RunStage::Working);
        received.saturating_duration_since(if is_work { taken } else { taken.min(self.stage_began + HANDOVER_SLACK) })
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

    /// The reason for a stop by the miner: a deadline that it gives up on counts as missed; any other stop is no fault
    /// of honesty.
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

    /// Ends on a reason, or once nothing is pending.
    fn conclude(&mut self, step: Step) -> Vec<Action> {
        let mut actions = match step {
            Ok(actions) => actions,
            Err(reason) => return self.finish(vec![reason]),
        };
        let id = self.challenge.id();
        if let RunStage::Judging(AnsweredRun { checks_pending: 0, replay, .. }) = &mut self.stage {
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
