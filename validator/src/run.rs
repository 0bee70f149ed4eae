//! One challenge from its offer to its verdict, without a socket: events in, actions out.
//!
//! The order is WORK.md's: commitment, probe, probe answer, openings. No position is named before the
//! probe is answered.

use std::sync::Arc;
use std::time::{Duration, Instant};

use assay_protocol::identity::verify;
use assay_protocol::message::{
    DeviceDigests, DeviceRoots, Inventory, MinerMessage, OpenItem, OpenWhat, OpeningsChunk, SignedChecksum, Stop,
    StopCode, ValidatorMessage,
};
use assay_protocol::verdict::{Mode, Reason, ReasonCode};
use assay_work::commitment::{CommitmentError, DeviceEvidence, Evidence, commitment_message};
use assay_work::probe::{Answer, AnswerError, DeviceAnswer, Probe, probe_message};
use assay_work::{Challenge, ChallengeId, Checksum};

use crate::action::{Action, SentAt};
use crate::entropy::{Entropy, EntropyError};
use crate::issue::{Issued, issue_probe};
use crate::policy::Policy;
use crate::verify::check::{Collector, TrustedValues};
use crate::verify::draw;
use crate::verify::judge::{DeviceClaims, Findings};
use crate::verify::replay::Extent;

/// How long a message may wait for the transport to take it: longer means that the miner does not read.
pub const HANDOVER_LIMIT: Duration = Duration::from_secs(30);

/// What the miner signed at the end of a stage, and the stage's time by the validator's clock.
#[derive(Debug, Clone)]
struct Timed {
    signed: SignedChecksum,
    took: Duration,
}

/// How far the challenge is, with what is known there.
#[derive(Debug)]
enum RunStage {
    /// The offer is out.
    Working { sent: SentAt },
    /// The commitment came, its roots come.
    Roots { commitment: Timed, devices: Vec<DeviceEvidence> },
    /// The probe is out.
    Probing { commitment: Timed, evidence: Arc<Evidence>, probe: Probe, sent: SentAt },
    /// The probe answer came, its digests come.
    Digests { commitment: Timed, evidence: Arc<Evidence>, probe: Probe, answer: Timed, devices: Vec<DeviceAnswer> },
    /// The openings come; the replay may run.
    Opening { answered: Answered, collector: Box<Collector> },
    /// All openings came; checks and the replay may run.
    Judging(Answered),
    /// The verdict is out.
    Over { committed: bool },
}

/// What is known once the probe is answered, and what is still pending.
#[derive(Debug, Clone)]
struct Answered {
    commitment: Timed,
    probe: Probe,
    answer: Timed,
    items_unchecked: usize,
    replaying: bool,
}

/// One challenge of one miner.
#[derive(Debug)]
pub struct ChallengeRun {
    policy: Arc<Policy>,
    mode: Mode,
    challenge: Arc<Challenge>,
    inventory: Inventory,
    stage: RunStage,
    stage_began: Instant,
    claimed: Vec<DeviceClaims>,
    /// The least measured so far; `None` before the first pong.
    pub round_trip: Option<Duration>,
    unix_seconds: u64,
}

type Step = Result<Vec<Action>, Reason>;

impl ChallengeRun {
    /// Sends the offer.
    #[must_use]
    pub fn start(
        policy: Arc<Policy>,
        mode: Mode,
        issued: Issued,
        inventory: Inventory,
        unix_seconds: u64,
        now: Instant,
    ) -> (Self, Vec<Action>) {
        let Issued { offer, challenge } = issued;
        let sent = SentAt::default();
        let send = Action::Send(ValidatorMessage::Challenge(offer), sent.clone());
        let run = Self {
            policy,
            mode,
            challenge,
            inventory,
            stage: RunStage::Working { sent },
            stage_began: now,
            claimed: Vec::new(),
            round_trip: None,
            unix_seconds,
        };
        (run, vec![Action::Phase("work"), send])
    }

    /// The challenge.
    #[must_use]
    pub fn id(&self) -> ChallengeId {
        self.challenge.id()
    }

    /// Whether the miner has committed.
    #[must_use]
    pub const fn is_committed(&self) -> bool {
        match self.stage {
            RunStage::Working { .. } => false,
            RunStage::Over { committed } => committed,
            _ => true,
        }
    }

    /// Whether the verdict is out.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        matches!(self.stage, RunStage::Over { .. })
    }

    /// Takes a message of the miner that is about this challenge, received at `received`.
    pub fn message(&mut self, message: MinerMessage, received: Instant, entropy: &mut dyn Entropy) -> Vec<Action> {
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
        self.conclude(step)
    }

    /// An item was checked.
    pub fn checked(&mut self, result: Result<(), Reason>) -> Vec<Action> {
        if let RunStage::Opening { answered, .. } | RunStage::Judging(answered) = &mut self.stage {
            answered.items_unchecked = answered.items_unchecked.saturating_sub(1);
        }
        self.conclude(result.map(|()| Vec::new()))
    }

    /// The replay ended.
    pub fn replayed(&mut self, result: Result<(), Reason>) -> Vec<Action> {
        if let RunStage::Opening { answered, .. } | RunStage::Judging(answered) = &mut self.stage {
            answered.replaying = false;
        }
        self.conclude(result.map(|()| Vec::new()))
    }

    /// Ends the challenge for a reason from outside it.
    pub fn stop(&mut self, reason: Reason) -> Vec<Action> {
        self.conclude(Err(reason))
    }

    /// Excludes the time of a check from the miner's deadline: nothing was read meanwhile.
    pub fn excuse(&mut self, ours: Duration) {
        self.stage_began += ours;
    }

    /// Ends the challenge when its stage is overdue.
    pub fn tick(&mut self, now: Instant) -> Vec<Action> {
        match self.overdue(now) {
            Some(reason) => self.conclude(Err(reason)),
            None => Vec::new(),
        }
    }

    /// What the stage waits for: since when, unless its message still waits for the transport, how long, and for what
    /// it fails.
    fn limit(&self) -> Option<(Option<Instant>, Duration, ReasonCode)> {
        let policy = &self.policy;
        match &self.stage {
            RunStage::Working { sent } => Some((sent.get(), policy.commit_deadline, ReasonCode::CommitmentLate)),
            RunStage::Probing { sent, .. } => Some((sent.get(), policy.probe.deadline, ReasonCode::ProbeLate)),
            RunStage::Roots { .. } | RunStage::Digests { .. } | RunStage::Opening { .. } => {
                Some((Some(self.stage_began), policy.openings_deadline, ReasonCode::OpeningsLate))
            }
            RunStage::Judging(_) | RunStage::Over { .. } => None,
        }
    }

    /// When to call [`ChallengeRun::tick`] next: never later than the moment at which it ends the challenge. `None` when the
    /// miner has nothing left to send.
    #[must_use]
    pub fn poll_timeout(&self, now: Instant) -> Option<Instant> {
        let (since, limit, _) = self.limit()?;
        let at = match since {
            Some(since) => since + limit,
            // The transport may take the message at any moment from now on.
            None => (self.stage_began + HANDOVER_LIMIT).min(now + limit),
        };
        Some(at)
    }

    fn overdue(&self, now: Instant) -> Option<Reason> {
        let (since, limit, code) = self.limit()?;
        match since {
            Some(since) if now >= since + limit => {
                Some(Reason::new(code, format!("nothing complete came within {limit:?}")))
            }
            None if now >= self.stage_began + HANDOVER_LIMIT => {
                let detail = format!("the connection took no message for {HANDOVER_LIMIT:?}");
                Some(Reason::new(ReasonCode::Disconnected, detail))
            }
            _ => None,
        }
    }

    fn enter(&mut self, stage: RunStage, now: Instant) {
        self.stage = stage;
        self.stage_began = now;
    }

    fn commitment(&mut self, signed: SignedChecksum, received: Instant) -> Step {
        let RunStage::Working { sent } = &self.stage else {
            return Err(Reason::new(ReasonCode::CommitmentTwice, "the first one stands"));
        };
        if signed.challenge_id != self.id() {
            let detail = format!("it is for challenge {}", signed.challenge_id);
            return Err(Reason::new(ReasonCode::CommitmentChallenge, detail));
        }
        let took = received.saturating_duration_since(sent.get().unwrap_or(self.stage_began));
        if took > self.policy.commit_deadline {
            let detail = format!("it took {took:.1?}, {:?} were allowed", self.policy.commit_deadline);
            return Err(Reason::new(ReasonCode::CommitmentLate, detail));
        }
        self.enter(RunStage::Roots { commitment: Timed { signed, took }, devices: Vec::new() }, received);
        Ok(Vec::new())
    }

    fn device_roots(&mut self, roots: DeviceRoots, received: Instant, entropy: &mut dyn Entropy) -> Step {
        let shares = self.challenge.shares();
        let RunStage::Roots { commitment, devices } = &mut self.stage else {
            return Err(Reason::new(ReasonCode::Protocol, "roots came out of turn"));
        };
        // At least one share is still due in this stage.
        let expected = &shares[devices.len()];
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
        devices.push(roots.evidence);
        if devices.len() < shares.len() {
            return Ok(Vec::new());
        }
        let (commitment, devices) = (commitment.clone(), std::mem::take(devices));
        let evidence = check_commitment(&self.challenge, &commitment.signed, devices)?;
        self.send_probe(commitment, Arc::new(evidence), received, entropy)
    }

    fn send_probe(
        &mut self,
        commitment: Timed,
        evidence: Arc<Evidence>,
        now: Instant,
        entropy: &mut dyn Entropy,
    ) -> Step {
        let probe = issue_probe(&self.policy, &self.challenge, entropy)
            .map_err(|error| Reason::new(ReasonCode::ValidatorInternal, error.to_string()))?;
        let sent = SentAt::default();
        let message = ValidatorMessage::Probe { challenge_id: self.id(), probe, deadline: self.policy.probe.deadline };
        let send = Action::Send(message, sent.clone());
        self.enter(RunStage::Probing { commitment, evidence, probe, sent }, now);
        Ok(vec![Action::Phase("probe"), send])
    }

    fn probe_answer(&mut self, signed: SignedChecksum, received: Instant) -> Step {
        if matches!(self.stage, RunStage::Digests { .. } | RunStage::Opening { .. } | RunStage::Judging(_)) {
            return Err(Reason::new(ReasonCode::ProbeTwice, "the first one stands"));
        }
        if signed.challenge_id != self.id() {
            let detail = format!("it is for challenge {}", signed.challenge_id);
            return Err(Reason::new(ReasonCode::ProbeChallenge, detail));
        }
        let RunStage::Probing { commitment, evidence, probe, sent } = &self.stage else {
            return Err(Reason::new(ReasonCode::Protocol, "a probe answer came before the probe"));
        };
        let took = received.saturating_duration_since(sent.get().unwrap_or(self.stage_began));
        if took > self.policy.probe.deadline {
            let detail = format!("it took {took:.1?}, {:?} were allowed", self.policy.probe.deadline);
            return Err(Reason::new(ReasonCode::ProbeLate, detail));
        }
        let (commitment, evidence, probe) = (commitment.clone(), evidence.clone(), *probe);
        let answer = Timed { signed, took };
        self.enter(RunStage::Digests { commitment, evidence, probe, answer, devices: Vec::new() }, received);
        Ok(Vec::new())
    }

    fn device_digests(&mut self, digests: DeviceDigests, received: Instant, entropy: &mut dyn Entropy) -> Step {
        let RunStage::Digests { commitment, evidence, probe, answer, devices } = &mut self.stage else {
            return Err(Reason::new(ReasonCode::Protocol, "digests came out of turn"));
        };
        devices.push(digests.answer);
        if devices.len() < self.challenge.shares().len() {
            return Ok(Vec::new());
        }
        let devices = std::mem::take(devices);
        let checked = check_answer(&self.challenge, &evidence.checksum, probe, &answer.signed, devices)?;
        let binding = TrustedValues {
            challenge: self.challenge.clone(),
            evidence: evidence.clone(),
            probe: *probe,
            answer: Arc::new(checked),
        };
        let (commitment, answer) = (commitment.clone(), answer.clone());
        self.send_open(commitment, answer, binding, received, entropy)
    }

    /// Names the positions, now that nothing can change any more, and starts the replay where one is due.
    fn send_open(
        &mut self,
        commitment: Timed,
        answer: Timed,
        binding: TrustedValues,
        now: Instant,
        entropy: &mut dyn Entropy,
    ) -> Step {
        let (items, iterations) = self
            .draw(&binding.probe, entropy)
            .map_err(|error| Reason::new(ReasonCode::ValidatorInternal, error.to_string()))?;
        let deadline = self.policy.openings_deadline;
        let message = ValidatorMessage::Open { challenge_id: self.id(), items: items.clone(), deadline };
        let mut actions = vec![Action::Phase("openings"), Action::send(message)];
        let extent = match self.mode {
            Mode::Replay => Some(Extent::Everything),
            Mode::ReplaySample => Some(Extent::Sampled(iterations)),
            Mode::Audit => None,
        };
        let answered = Answered {
            commitment,
            probe: binding.probe,
            answer,
            items_unchecked: items.len(),
            replaying: extent.is_some(),
        };
        if let Some(extent) = extent {
            actions.push(Action::Replay(self.id(), Box::new(binding.clone()), extent));
        }
        self.enter(RunStage::Opening { answered, collector: Box::new(Collector::new(binding, items)) }, now);
        Ok(actions)
    }

    /// What is opened, and the iterations drawn of each share. Segments of every device come first, while the last
    /// pass is resident, then samples of the latest iterations, then of earlier ones.
    fn draw(&self, probe: &Probe, entropy: &mut dyn Entropy) -> Result<(Vec<OpenItem>, Vec<Vec<u32>>), EntropyError> {
        let challenge = &self.challenge;
        let mut items = Vec::new();
        for share in challenge.shares() {
            let segments = draw::segments(probe, self.policy.segments, entropy)?;
            items.push(OpenItem { device_id: share.device_id, what: OpenWhat::Segments(segments) });
        }
        let mut audits = Vec::new();
        let mut iterations = Vec::with_capacity(challenge.shares().len());
        for share in challenge.shares() {
            let drawn = draw::iterations(challenge.iterations(), self.policy.sampled_iterations, entropy)?;
            for iteration in drawn.iter().copied().filter(|_| self.mode == Mode::Audit) {
                let samples = draw::samples(challenge.n(), share.count, self.policy.samples, entropy)?;
                let what = OpenWhat::Samples { iteration, samples };
                audits.push((iteration, OpenItem { device_id: share.device_id, what }));
            }
            iterations.push(drawn);
        }
        audits.sort_by_key(|(iteration, _)| std::cmp::Reverse(*iteration));
        items.extend(audits.into_iter().map(|(_, item)| item));
        Ok((items, iterations))
    }

    fn openings(&mut self, chunk: OpeningsChunk) -> Step {
        let (answered, collector) = match &mut self.stage {
            RunStage::Opening { answered, collector } => (answered, collector),
            RunStage::Judging(_) => {
                return Err(Reason::new(ReasonCode::AuditRows, "openings came after the last item"));
            }
            _ => return Err(Reason::new(ReasonCode::Protocol, "openings came before they were asked")),
        };
        let job = collector.take(chunk)?;
        if collector.is_complete() {
            self.stage = RunStage::Judging(answered.clone());
        }
        Ok(job.map(|job| Action::Check(Box::new(job))).into_iter().collect())
    }

    fn progress(&self, done_slots: u64, all_slots: u64) -> Vec<Action> {
        match self.stage {
            RunStage::Working { .. } => vec![Action::Progress(done_slots, all_slots)],
            _ => Vec::new(),
        }
    }

    /// A deadline that the miner itself gives up on is one that it missed; all else is no fault of honesty.
    fn stopped_by_miner(&self, stop: &Stop) -> Reason {
        let code = match (stop.code, &self.stage) {
            (StopCode::Deadline, RunStage::Working { .. }) => ReasonCode::CommitmentLate,
            (StopCode::Deadline, RunStage::Probing { .. }) => ReasonCode::ProbeLate,
            (StopCode::Deadline, RunStage::Opening { .. }) => ReasonCode::OpeningsLate,
            (code, _) => code.reason(),
        };
        Reason::new(code, format!("the miner says: {}", stop.detail))
    }

    /// Ends on a reason, or once nothing is left to wait for.
    fn conclude(&mut self, step: Step) -> Vec<Action> {
        let mut actions = match step {
            Ok(actions) => actions,
            Err(reason) => return self.finish(vec![reason]),
        };
        if let RunStage::Judging(Answered { items_unchecked: 0, replaying, .. }) = self.stage {
            if replaying {
                actions.push(Action::Phase("replay"));
            } else {
                actions.extend(self.finish(Vec::new()));
            }
        }
        actions
    }

    /// The miner learns the verdict, which also ends what it still does for the challenge.
    fn finish(&mut self, reasons: Vec<Reason>) -> Vec<Action> {
        let (commitment, probe, answered) = match &self.stage {
            RunStage::Working { .. } => (None, None, false),
            RunStage::Roots { commitment, .. } => (Some(commitment), None, false),
            RunStage::Probing { commitment, probe, .. } => (Some(commitment), Some((probe, None)), false),
            RunStage::Digests { commitment, probe, answer, .. } => {
                (Some(commitment), Some((probe, Some(answer.took))), false)
            }
            RunStage::Opening { answered, .. } | RunStage::Judging(answered) => {
                let Answered { commitment, probe, answer, .. } = answered;
                (Some(commitment), Some((probe, Some(answer.took))), true)
            }
            RunStage::Over { .. } => return Vec::new(),
        };
        let passed = reasons.is_empty();
        let checked = |n: u32| if passed { n } else { 0 };
        let iterations_checked = match self.mode {
            Mode::Replay => self.challenge.iterations(),
            Mode::ReplaySample | Mode::Audit => self.policy.sampled_iterations.min(self.challenge.iterations()),
        };
        let audited = self.mode == Mode::Audit;
        let findings = Findings {
            challenge: &self.challenge,
            inventory: &self.inventory,
            mode: answered.then_some(self.mode),
            iterations_checked: checked(iterations_checked),
            work_time: commitment.map(|commitment| commitment.took),
            probe,
            samples: if audited { checked(self.policy.samples) } else { 0 },
            segments: checked(self.policy.segments),
            claimed: std::mem::take(&mut self.claimed),
            claimed_whole: commitment.map(|commitment| commitment.signed.claimed),
            round_trip: self.round_trip,
            reasons,
            unix_seconds: self.unix_seconds,
        };
        let verdict = Box::new(findings.verdict());
        self.stage = RunStage::Over { committed: commitment.is_some() };
        vec![Action::send(ValidatorMessage::Verdict(verdict.clone())), Action::Verdict(verdict)]
    }
}

/// The whole commitment is here: every checksum again, then the signature.
fn check_commitment(
    challenge: &Challenge,
    signed: &SignedChecksum,
    devices: Vec<DeviceEvidence>,
) -> Result<Evidence, Reason> {
    let SignedChecksum { challenge_id, checksum, signature, .. } = *signed;
    let evidence = Evidence { challenge_id, devices, checksum, signature: Some(signature) };
    evidence.check(challenge).map_err(|error| commitment_reason(&error))?;
    let message = commitment_message(challenge.work_key(), &checksum);
    if !verify(&challenge.fields().miner_key, &message, &signature) {
        return Err(Reason::new(ReasonCode::CommitmentSignature, "it does not hold for the key of this session"));
    }
    Ok(evidence)
}

/// The whole answer is here: the digests, the checksum again, then the signature.
fn check_answer(
    challenge: &Challenge,
    committed: &Checksum,
    probe: &Probe,
    signed: &SignedChecksum,
    devices: Vec<DeviceAnswer>,
) -> Result<Answer, Reason> {
    let SignedChecksum { checksum, signature, .. } = *signed;
    let answer = Answer { devices, checksum, signature: Some(signature) };
    answer.check(challenge, probe).map_err(|error| answer_reason(&error))?;
    let message = probe_message(challenge.work_key(), committed, probe, &checksum);
    if !verify(&challenge.fields().miner_key, &message, &signature) {
        return Err(Reason::new(ReasonCode::ProbeSignature, "it does not hold for the key of this session"));
    }
    Ok(answer)
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
