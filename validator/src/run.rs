//! One challenge from its offer to its verdict, without a socket: events in, actions out.
//!
//! The order is WORK.md's: commitment, probe, probe answer, openings. No position is named before the
//! probe is answered.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use assay_protocol::identity::verify;
use assay_protocol::message::{
    DeviceDigests, DeviceRoots, Inventory, MinerMessage, OpenItem, OpenWhat, OpeningsChunk, SignedChecksum, Stop,
    StopCode, ValidatorMessage,
};
use assay_protocol::verdict::{Mode, Reason, ReasonCode, Verdict};
use assay_work::ChallengeId;
use assay_work::commitment::{CommitmentError, DeviceEvidence, Evidence, commitment_message};
use assay_work::probe::{Answer, AnswerError, DeviceAnswer, Probe, probe_message};

use crate::entropy::{Entropy, EntropyError};
use crate::issue::{Issued, issue_probe};
use crate::policy::Policy;
use crate::verify::check::{Bound, CheckJob, Collector};
use crate::verify::draw;
use crate::verify::judge::{DeviceClaims, Findings};
use crate::verify::replay::Extent;

/// How long a message may wait for the transport to take it: longer means that the miner does not read.
pub const HANDOVER_LIMIT: Duration = Duration::from_secs(30);

/// When a message's last byte went out: set by whoever writes it.
#[derive(Debug, Clone, Default)]
pub struct SentAt(Arc<OnceLock<Instant>>);

impl SentAt {
    /// Notes the moment; only the first one counts.
    pub fn set(&self, now: Instant) {
        // A second write of the same message does not happen; were it to, the first stays.
        let _ = self.0.set(now);
    }

    /// The moment, once it is there.
    #[must_use]
    pub fn get(&self) -> Option<Instant> {
        self.0.get().copied()
    }
}

/// What a running challenge wants done.
#[derive(Debug)]
pub enum RunAction {
    /// Send this, and note when it went out.
    Send(ValidatorMessage, SentAt),
    /// Check this item, then call [`Run::checked`].
    Check(Box<CheckJob>),
    /// Replay this, then call [`Run::replayed`].
    Replay(Box<Bound>, Extent),
    /// For who watches: what happens now.
    Phase(&'static str),
    /// For who watches: slots filled, of so many.
    Progress(u64, u64),
    /// It is over.
    Finished(Box<Verdict>),
}

#[derive(Debug)]
enum Stage {
    /// The offer is out.
    Working,
    /// The commitment came, its roots come.
    Roots(Vec<DeviceEvidence>),
    /// The probe is out.
    Probing,
    /// The probe answer came, its digests come.
    Digests(Vec<DeviceAnswer>),
    /// The openings come; the replay may run.
    Opening(Box<Collector>),
    /// Everything came that the miner has to send.
    Judging,
    /// The verdict is out.
    Over,
}

/// One challenge of one miner.
#[derive(Debug)]
pub struct Run {
    policy: Arc<Policy>,
    mode: Mode,
    issued: Issued,
    inventory: Inventory,
    stage: Stage,
    stage_began: Instant,
    sent: SentAt,
    work_time: Option<Duration>,
    commitment: Option<SignedChecksum>,
    evidence: Option<Arc<Evidence>>,
    probe: Option<Probe>,
    probe_time: Option<Duration>,
    answer_head: Option<SignedChecksum>,
    answer: Option<Arc<Answer>>,
    claimed: Vec<DeviceClaims>,
    drawn_iterations: Vec<Vec<u32>>,
    items_unchecked: usize,
    replaying: bool,
    /// Set by the session as pings come back.
    pub round_trip: Option<Duration>,
    unix_seconds: u64,
}

type Step = Result<Vec<RunAction>, Reason>;

impl Run {
    /// Sends the offer.
    #[must_use]
    pub fn start(
        policy: Arc<Policy>,
        mode: Mode,
        issued: Issued,
        inventory: Inventory,
        unix_seconds: u64,
        now: Instant,
    ) -> (Self, Vec<RunAction>) {
        let sent = SentAt::default();
        let send = RunAction::Send(ValidatorMessage::Challenge(issued.offer.clone()), sent.clone());
        let run = Self {
            policy,
            mode,
            issued,
            inventory,
            stage: Stage::Working,
            stage_began: now,
            sent,
            work_time: None,
            commitment: None,
            evidence: None,
            probe: None,
            probe_time: None,
            answer_head: None,
            answer: None,
            claimed: Vec::new(),
            drawn_iterations: Vec::new(),
            items_unchecked: 0,
            replaying: false,
            round_trip: None,
            unix_seconds,
        };
        (run, vec![RunAction::Phase("work"), send])
    }

    /// The challenge.
    #[must_use]
    pub fn id(&self) -> ChallengeId {
        self.issued.challenge.id()
    }

    /// Whether the miner has committed.
    #[must_use]
    pub const fn is_committed(&self) -> bool {
        self.commitment.is_some()
    }

    /// Takes a message of the miner that is about this challenge, received at `received`.
    pub fn message(&mut self, message: MinerMessage, received: Instant, entropy: &mut dyn Entropy) -> Vec<RunAction> {
        let step = match message {
            MinerMessage::Commitment(commitment) => self.commitment(commitment, received),
            MinerMessage::DeviceRoots(roots) => self.device_roots(roots, received, entropy),
            MinerMessage::ProbeAnswer(answer) => self.probe_answer(answer, received),
            MinerMessage::DeviceDigests(digests) => self.device_digests(digests, received, entropy),
            MinerMessage::OpeningsChunk(chunk) => self.openings(chunk),
            MinerMessage::Progress { done_slots, all_slots, .. } => Ok(self.progress(done_slots, all_slots)),
            MinerMessage::Declined(stop) | MinerMessage::Abort(stop) => Err(self.stopped_by_miner(&stop)),
            _ => Err(Reason::new(ReasonCode::Protocol, "a message came that has no place in a challenge")),
        };
        self.settle(step)
    }

    /// An item was checked.
    pub fn checked(&mut self, result: Result<(), Reason>) -> Vec<RunAction> {
        self.items_unchecked = self.items_unchecked.saturating_sub(1);
        let step = result.map(|()| Vec::new());
        self.settle(step)
    }

    /// The replay ended.
    pub fn replayed(&mut self, result: Result<(), Reason>) -> Vec<RunAction> {
        self.replaying = false;
        let step = result.map(|()| Vec::new());
        self.settle(step)
    }

    /// Ends the challenge for a reason from outside it.
    pub fn stop(&mut self, reason: Reason) -> Vec<RunAction> {
        self.settle(Err(reason))
    }

    /// Leaves time out that the validator itself took: while it checked, nothing was read.
    pub fn excuse(&mut self, ours: Duration) {
        self.stage_began += ours;
    }

    /// Lets time pass.
    pub fn tick(&mut self, now: Instant) -> Vec<RunAction> {
        match self.overdue(now) {
            Some(reason) => self.settle(Err(reason)),
            None => Vec::new(),
        }
    }

    fn overdue(&self, now: Instant) -> Option<Reason> {
        let policy = &self.policy;
        let (since, limit, code) = match self.stage {
            Stage::Working => (self.sent.get(), policy.commit_deadline, ReasonCode::CommitmentLate),
            Stage::Probing => (self.sent.get(), policy.probe.deadline, ReasonCode::ProbeLate),
            Stage::Roots(_) | Stage::Digests(_) | Stage::Opening(_) => {
                (Some(self.stage_began), policy.openings_deadline, ReasonCode::OpeningsLate)
            }
            Stage::Judging | Stage::Over => return None,
        };
        match since {
            Some(since) if now.saturating_duration_since(since) > limit => {
                Some(Reason::new(code, format!("nothing complete came within {limit:?}")))
            }
            None if now.saturating_duration_since(self.stage_began) > HANDOVER_LIMIT => {
                let detail = format!("the connection took no message for {HANDOVER_LIMIT:?}");
                Some(Reason::new(ReasonCode::Disconnected, detail))
            }
            _ => None,
        }
    }

    fn enter(&mut self, stage: Stage, now: Instant) {
        self.stage = stage;
        self.stage_began = now;
    }

    fn commitment(&mut self, commitment: SignedChecksum, received: Instant) -> Step {
        if self.commitment.is_some() {
            return Err(Reason::new(ReasonCode::CommitmentTwice, "the first one stands"));
        }
        if commitment.challenge_id != self.id() {
            let detail = format!("it is for challenge {}", commitment.challenge_id);
            return Err(Reason::new(ReasonCode::CommitmentChallenge, detail));
        }
        let took = received.saturating_duration_since(self.sent.get().unwrap_or(self.stage_began));
        if took > self.policy.commit_deadline {
            let detail = format!("it took {took:.1?}, {:?} were allowed", self.policy.commit_deadline);
            return Err(Reason::new(ReasonCode::CommitmentLate, detail));
        }
        self.work_time = Some(took);
        self.commitment = Some(commitment);
        self.enter(Stage::Roots(Vec::new()), received);
        Ok(Vec::new())
    }

    fn device_roots(&mut self, roots: DeviceRoots, received: Instant, entropy: &mut dyn Entropy) -> Step {
        let shares = self.issued.challenge.shares();
        let Stage::Roots(collected) = &mut self.stage else {
            return Err(Reason::new(ReasonCode::Protocol, "roots came out of turn"));
        };
        // At least one share is still due in this stage.
        let expected = &shares[collected.len()];
        let share = roots.evidence.share();
        if share != *expected {
            let detail = format!(
                "{} slots from {} on device {} were committed to, split() gives {} from {} on {}",
                share.count, share.offset, share.device_id, expected.count, expected.offset, expected.device_id
            );
            return Err(Reason::new(ReasonCode::CommitmentSplit, detail));
        }
        self.claimed.push(DeviceClaims {
            device_id: share.device_id,
            elapsed: roots.claimed,
            telemetry: roots.claimed_telemetry,
        });
        collected.push(roots.evidence);
        if collected.len() < shares.len() {
            return Ok(Vec::new());
        }
        let collected = std::mem::take(collected);
        self.check_commitment(collected)?;
        self.send_probe(received, entropy)
    }

    /// The whole commitment is here: every checksum again, then the signature.
    fn check_commitment(&mut self, devices: Vec<DeviceEvidence>) -> Result<(), Reason> {
        let Some(head) = &self.commitment else {
            return Err(Reason::new(ReasonCode::ValidatorInternal, "roots were collected without a commitment"));
        };
        let evidence = Evidence {
            challenge_id: head.challenge_id,
            devices,
            checksum: head.checksum,
            signature: Some(head.signature),
        };
        evidence.check(&self.issued.challenge).map_err(|error| commitment_reason(&error))?;
        let message = commitment_message(self.issued.challenge.work_key(), &evidence.checksum);
        if !verify(&self.issued.challenge.fields().miner_key, &message, &head.signature) {
            return Err(Reason::new(ReasonCode::CommitmentSignature, "it does not hold for the key of this session"));
        }
        self.evidence = Some(Arc::new(evidence));
        Ok(())
    }

    fn send_probe(&mut self, now: Instant, entropy: &mut dyn Entropy) -> Step {
        let probe = issue_probe(&self.policy, &self.issued.challenge, entropy)
            .map_err(|error| Reason::new(ReasonCode::ValidatorInternal, error.to_string()))?;
        self.sent = SentAt::default();
        let message = ValidatorMessage::Probe { challenge_id: self.id(), probe, deadline: self.policy.probe.deadline };
        self.probe = Some(probe);
        self.enter(Stage::Probing, now);
        Ok(vec![RunAction::Phase("probe"), RunAction::Send(message, self.sent.clone())])
    }

    fn probe_answer(&mut self, answer: SignedChecksum, received: Instant) -> Step {
        if self.answer_head.is_some() {
            return Err(Reason::new(ReasonCode::ProbeTwice, "the first one stands"));
        }
        if answer.challenge_id != self.id() {
            let detail = format!("it is for challenge {}", answer.challenge_id);
            return Err(Reason::new(ReasonCode::ProbeChallenge, detail));
        }
        if !matches!(self.stage, Stage::Probing) {
            return Err(Reason::new(ReasonCode::Protocol, "a probe answer came before the probe"));
        }
        let took = received.saturating_duration_since(self.sent.get().unwrap_or(self.stage_began));
        if took > self.policy.probe.deadline {
            let detail = format!("it took {took:.1?}, {:?} were allowed", self.policy.probe.deadline);
            return Err(Reason::new(ReasonCode::ProbeLate, detail));
        }
        self.probe_time = Some(took);
        self.answer_head = Some(answer);
        self.enter(Stage::Digests(Vec::new()), received);
        Ok(Vec::new())
    }

    fn device_digests(&mut self, digests: DeviceDigests, received: Instant, entropy: &mut dyn Entropy) -> Step {
        let Stage::Digests(collected) = &mut self.stage else {
            return Err(Reason::new(ReasonCode::Protocol, "digests came out of turn"));
        };
        collected.push(digests.answer);
        if collected.len() < self.issued.challenge.shares().len() {
            return Ok(Vec::new());
        }
        let collected = std::mem::take(collected);
        self.check_answer(collected)?;
        self.send_open(received, entropy)
    }

    /// The whole answer is here: the digests, the checksum again, then the signature.
    fn check_answer(&mut self, devices: Vec<DeviceAnswer>) -> Result<(), Reason> {
        let (Some(head), Some(probe), Some(evidence)) = (&self.answer_head, &self.probe, &self.evidence) else {
            return Err(Reason::new(ReasonCode::ValidatorInternal, "digests were collected without a probe"));
        };
        let answer = Answer { devices, checksum: head.checksum, signature: Some(head.signature) };
        answer.check(&self.issued.challenge, probe).map_err(|error| answer_reason(&error))?;
        let message = probe_message(self.issued.challenge.work_key(), &evidence.checksum, probe, &answer.checksum);
        if !verify(&self.issued.challenge.fields().miner_key, &message, &head.signature) {
            return Err(Reason::new(ReasonCode::ProbeSignature, "it does not hold for the key of this session"));
        }
        self.answer = Some(Arc::new(answer));
        Ok(())
    }

    /// Names the positions, now that nothing can change any more, and starts the replay where one is due.
    fn send_open(&mut self, now: Instant, entropy: &mut dyn Entropy) -> Step {
        let items =
            self.draw(entropy).map_err(|error| Reason::new(ReasonCode::ValidatorInternal, error.to_string()))?;
        let message = ValidatorMessage::Open {
            challenge_id: self.id(),
            items: items.clone(),
            deadline: self.policy.openings_deadline,
        };
        self.sent = SentAt::default();
        self.items_unchecked = items.len();
        self.enter(Stage::Opening(Box::new(Collector::new(items))), now);
        let mut actions = vec![RunAction::Phase("openings"), RunAction::Send(message, self.sent.clone())];
        let extent = match self.mode {
            Mode::Replay => Some(Extent::Everything),
            Mode::ReplaySample => Some(Extent::Sampled(self.drawn_iterations.clone())),
            Mode::Audit => None,
        };
        if let Some(extent) = extent {
            self.replaying = true;
            actions.push(RunAction::Replay(Box::new(self.bound()?), extent));
        }
        Ok(actions)
    }

    /// What is opened: segments of every device first, while the last pass is resident, then samples of
    /// the latest iterations, then of earlier ones.
    fn draw(&mut self, entropy: &mut dyn Entropy) -> Result<Vec<OpenItem>, EntropyError> {
        let challenge = self.issued.challenge.clone();
        let mut items = Vec::new();
        if let Some(probe) = &self.probe {
            for share in challenge.shares() {
                let segments = draw::segments(probe, self.policy.segments, entropy)?;
                items.push(OpenItem { device_id: share.device_id, what: OpenWhat::Segments(segments) });
            }
        }
        let mut audits = Vec::new();
        for share in challenge.shares() {
            let drawn = draw::iterations(challenge.iterations(), self.policy.sampled_iterations, entropy)?;
            for iteration in drawn.iter().copied().filter(|_| self.mode == Mode::Audit) {
                let samples = draw::samples(challenge.n(), share.count, self.policy.samples, entropy)?;
                let what = OpenWhat::Samples { iteration, samples };
                audits.push((iteration, OpenItem { device_id: share.device_id, what }));
            }
            self.drawn_iterations.push(drawn);
        }
        audits.sort_by_key(|(iteration, _)| std::cmp::Reverse(*iteration));
        items.extend(audits.into_iter().map(|(_, item)| item));
        Ok(items)
    }

    fn bound(&self) -> Result<Bound, Reason> {
        let (Some(evidence), Some(probe), Some(answer)) = (&self.evidence, &self.probe, &self.answer) else {
            return Err(Reason::new(ReasonCode::ValidatorInternal, "something was opened before it was committed to"));
        };
        let challenge = self.issued.challenge.clone();
        Ok(Bound { challenge, evidence: evidence.clone(), probe: *probe, answer: answer.clone() })
    }

    fn openings(&mut self, chunk: OpeningsChunk) -> Step {
        let bound =
            self.bound().map_err(|_| Reason::new(ReasonCode::Protocol, "openings came before they were asked"))?;
        let Stage::Opening(collector) = &mut self.stage else {
            return Err(Reason::new(ReasonCode::AuditRows, "openings came after the last item"));
        };
        let job = collector.take(chunk, &bound)?;
        if collector.is_complete() {
            self.stage = Stage::Judging;
        }
        Ok(job.map(|job| RunAction::Check(Box::new(job))).into_iter().collect())
    }

    fn progress(&self, done_slots: u64, all_slots: u64) -> Vec<RunAction> {
        if matches!(self.stage, Stage::Working) { vec![RunAction::Progress(done_slots, all_slots)] } else { Vec::new() }
    }

    /// A deadline that the miner itself gives up on is one that it missed; all else is no fault of honesty.
    fn stopped_by_miner(&self, stop: &Stop) -> Reason {
        let code = match (stop.code, &self.stage) {
            (StopCode::Deadline, Stage::Working) => ReasonCode::CommitmentLate,
            (StopCode::Deadline, Stage::Probing) => ReasonCode::ProbeLate,
            (StopCode::Deadline, Stage::Opening(_)) => ReasonCode::OpeningsLate,
            (code, _) => code.reason(),
        };
        Reason::new(code, format!("the miner says: {}", stop.detail))
    }

    /// Ends on a reason, or once nothing is left to wait for.
    fn settle(&mut self, step: Step) -> Vec<RunAction> {
        if matches!(self.stage, Stage::Over) {
            return Vec::new();
        }
        match step {
            Err(reason) => self.finish(vec![reason]),
            Ok(mut actions) => {
                if matches!(self.stage, Stage::Judging) && self.items_unchecked == 0 {
                    if self.replaying {
                        actions.push(RunAction::Phase("replay"));
                    } else {
                        actions.extend(self.finish(Vec::new()));
                    }
                }
                actions
            }
        }
    }

    fn finish(&mut self, reasons: Vec<Reason>) -> Vec<RunAction> {
        let passed = reasons.is_empty();
        let checked = |n: u32| if passed { n } else { 0 };
        let iterations_checked = match self.mode {
            Mode::Replay => self.issued.challenge.iterations(),
            Mode::ReplaySample | Mode::Audit => self.policy.sampled_iterations.min(self.issued.challenge.iterations()),
        };
        let audited = self.mode == Mode::Audit;
        let findings = Findings {
            challenge: &self.issued.challenge,
            inventory: &self.inventory,
            mode: self.answer.is_some().then_some(self.mode),
            iterations_checked: checked(iterations_checked),
            // Only what was checked is work shown; a time without it says nothing.
            work_time: self.work_time,
            probe: self.probe.as_ref().map(|probe| (probe, self.probe_time)),
            samples: if audited { checked(self.policy.samples) } else { 0 },
            segments: checked(self.policy.segments),
            claimed: self.claimed.clone(),
            claimed_whole: self.commitment.as_ref().map(|c| c.claimed),
            round_trip: self.round_trip,
            reasons,
            unix_seconds: self.unix_seconds,
        };
        let verdict = findings.verdict();
        self.stage = Stage::Over;
        vec![RunAction::Finished(Box::new(verdict))]
    }
}

/// The reason for evidence that is no commitment to its challenge.
#[must_use]
pub fn commitment_reason(error: &CommitmentError) -> Reason {
    let code = match error {
        CommitmentError::OtherChallenge(_) => ReasonCode::CommitmentChallenge,
        CommitmentError::OtherSplit { .. } => ReasonCode::CommitmentSplit,
        CommitmentError::RootCount { .. } => ReasonCode::CommitmentRoots,
        CommitmentError::DeviceChecksum(_) | CommitmentError::Checksum => ReasonCode::CommitmentChecksum,
    };
    Reason::new(code, error.to_string())
}

fn answer_reason(error: &AnswerError) -> Reason {
    let code = match error {
        AnswerError::Checksum => ReasonCode::ProbeChecksum,
        _ => ReasonCode::ProbeDigests,
    };
    Reason::new(code, error.to_string())
}
