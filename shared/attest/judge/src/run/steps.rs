//! The effect of each message of the miner on a run, in the order of the stages.

use std::sync::Arc;
use std::time::Instant;

use assay_protocol::message::{DeviceDigests, DeviceRoots, OpeningsChunk, SignedChecksum, ValidatorMessage};
use assay_protocol::verdict::{Mode, Reason, ReasonCode};
use assay_work::DeviceId;
use assay_work::commitment::CommitmentError;
use assay_work::probe::{AnswerError, Link, MemoryProbe, ProbeStage, probe_checksum};

use super::pace::OpeningsPace;
use super::signed::{answer_reason, check_answer, check_commitment, commitment_reason};
use super::{
    AnswerDigests, AnsweredProbe, AnsweredRun, ChallengeRun, CommitmentRoots, HELD, LINKED_PROBE, Replay, RunStage,
    SWEEP, Step, TimedChecksum,
};
use crate::action::Action;
use crate::entropy::Entropy;
use crate::replay::Extent;
use crate::verify::check::{Collector, TrustedValues};
use crate::verify::judge::DeviceClaims;
use crate::verify::size;

impl ChallengeRun {
    pub(super) fn commitment(&mut self, signed: SignedChecksum, received: Instant, entropy: &mut dyn Entropy) -> Step {
        let RunStage::Working = &self.stage else {
            return Err(Reason::new(ReasonCode::CommitmentTwice, "the first one stands"));
        };
        if signed.challenge_id != self.id() {
            let detail = format!("it is for challenge {}", signed.challenge_id);
            return Err(Reason::new(ReasonCode::CommitmentChallenge, detail));
        }
        let limit = self.context.policy.commit_deadline;
        let took = self.took(received);
        if took > limit {
            let detail = format!("it took {took:.1?}, {limit:?} were allowed");
            return Err(Reason::new(ReasonCode::CommitmentLate, detail));
        }
        let (commitment, roots) =
            (TimedChecksum { signed, took }, CommitmentRoots::Due { since: received, devices: Vec::new() });
        match self.context.hold {
            Some(limit) => {
                self.enter(RunStage::Held { commitment, roots, limit }, received);
                Ok(vec![Action::Phase(HELD)])
            }
            None => self.send_probe(commitment, roots, Vec::new(), (ProbeStage::Own, received), entropy),
        }
    }

    /// The head of the commitment binds the roots, that of an answer its digests: nothing is gained by waiting for
    /// them, only time to move slots. An invalid signature is reported once they have come, since they may name the
    /// fault better. `answered` are the probes before this one.
    pub(super) fn send_probe(
        &mut self,
        commitment: TimedChecksum,
        roots: CommitmentRoots,
        answered: Vec<AnsweredProbe>,
        (stage, now): (ProbeStage, Instant),
        entropy: &mut dyn Entropy,
    ) -> Step {
        let read_per_s = answered.first().map_or(0.0, AnsweredProbe::read_per_s);
        let probe = self.draw_probe(stage, (commitment.took, read_per_s), entropy)?;
        let behind = answered.last().map_or(self.challenge.iterations(), |before| before.probe.rounds());
        let deadline = self.probe_sizing(commitment.took).deadline(&probe, read_per_s) + self.probe_allowance(behind);
        let message = ValidatorMessage::asking(self.id(), probe, deadline);
        self.enter(RunStage::Probing { commitment, roots, answered, probe, deadline }, now);
        let phase = match stage {
            ProbeStage::Own => "probe",
            ProbeStage::Linked => LINKED_PROBE,
            ProbeStage::Sweep => SWEEP,
        };
        Ok(vec![Action::Phase(phase), self.hand_over(message, now)])
    }

    /// The probe after one of this stage: linked by policy, with two or more devices, and a sweep by policy, each with a
    /// miner that supports it.
    fn stage_after(&self, stage: ProbeStage) -> Option<ProbeStage> {
        let (policy, inventory) = (&self.context.policy, &self.context.inventory);
        let can_link = inventory.max_link == Link::All && self.challenge.shares().len() > 1;
        let links = can_link && policy.linked.is_some() && stage < ProbeStage::Linked;
        let sweeps = inventory.sweeps && policy.sweep && stage < ProbeStage::Sweep;
        links.then_some(ProbeStage::Linked).or_else(|| sweeps.then_some(ProbeStage::Sweep))
    }

    pub(super) fn device_roots(&mut self, device: DeviceRoots, received: Instant) -> Step {
        let limit = self.roots_limit();
        let shares = self.challenge.shares();
        let (RunStage::Held { commitment, roots, .. } | RunStage::Probing { commitment, roots, .. }) = &mut self.stage
        else {
            return Err(Reason::new(ReasonCode::Protocol, "roots came out of turn"));
        };
        let CommitmentRoots::Due { since, devices } = roots else {
            return Err(Reason::new(ReasonCode::Protocol, "roots came after those of the last device"));
        };
        let took = received.saturating_duration_since(*since);
        if took > limit {
            return Err(Reason::new(ReasonCode::RootsLate, format!("they took {took:.1?}, {limit:?} were allowed")));
        }
        // At least one share is still due.
        let expected = &shares[devices.len()];
        let share = device.evidence.share();
        if share != *expected {
            let detail = format!(
                "{} slots from {} on device {} were committed to, split() gives {} from {} on {}",
                share.count, share.offset, share.device_id, expected.count, expected.offset, expected.device_id
            );
            return Err(Reason::new(ReasonCode::CommitmentSplit, detail));
        }
        // Roots are kept until the last device's are there: no more than were asked for.
        let (expected, found) = (self.challenge.iterations(), device.evidence.roots.len());
        if found != expected as usize {
            let device_id = share.device_id;
            return Err(commitment_reason(&CommitmentError::RootCount { device_id, expected, found }));
        }
        let device_id = share.device_id;
        if self.finished.get(&device_id).is_some_and(|(checksum, _)| *checksum != device.evidence.checksum) {
            return Err(other_word(ReasonCode::CommitmentChecksum, device_id));
        }
        self.claimed.push(DeviceClaims {
            device_id: share.device_id,
            elapsed: device.claimed,
            telemetry: device.claimed_telemetry,
        });
        devices.push(device.evidence);
        if devices.len() == shares.len() {
            let evidence = check_commitment(&self.challenge, &commitment.signed, std::mem::take(devices))?;
            *roots = CommitmentRoots::Complete(Arc::new(evidence));
            self.gaps.roots = Some(took);
        }
        Ok(Vec::new())
    }

    pub(super) fn probe_answer(
        &mut self,
        signed: SignedChecksum,
        received: Instant,
        entropy: &mut dyn Entropy,
    ) -> Step {
        if matches!(self.stage, RunStage::Digests { .. } | RunStage::Opening { .. } | RunStage::Judging(_)) {
            return Err(Reason::new(ReasonCode::ProbeTwice, "the first one stands"));
        }
        if signed.challenge_id != self.id() {
            let detail = format!("it is for challenge {}", signed.challenge_id);
            return Err(Reason::new(ReasonCode::ProbeChallenge, detail));
        }
        let RunStage::Probing { commitment, roots, answered, probe, deadline } = &self.stage else {
            return Err(Reason::new(ReasonCode::Protocol, "a probe answer came before the probe"));
        };
        let CommitmentRoots::Complete(evidence) = roots else {
            return Err(Reason::new(ReasonCode::Protocol, "a probe answer came before the last of the roots"));
        };
        if answered.last().is_some_and(|before| matches!(before.digests, AnswerDigests::Due { .. })) {
            return Err(Reason::new(ReasonCode::Protocol, "a probe answer came before the last of the digests"));
        }
        let limit = *deadline;
        let alone = received.saturating_duration_since(self.taken().unwrap_or(self.stage_began));
        let took = self.took(received);
        if took > limit {
            let code = if alone > limit { ReasonCode::ProbeLate } else { ReasonCode::NotReading };
            let waited = took.saturating_sub(alone);
            let waited = (!waited.is_zero()).then(|| format!(", {waited:.1?} of it before it was read"));
            let (name, waited) = (probe.stage().name(), waited.unwrap_or_default());
            return Err(Reason::new(code, format!("the {name} took {took:.1?}{waited}, {limit:?} were allowed")));
        }
        let (commitment, evidence, mut answered, probe) =
            (commitment.clone(), evidence.clone(), answered.clone(), *probe);
        let digests = AnswerDigests::Due { since: received, devices: Vec::new() };
        answered.push(AnsweredProbe { probe, answer: TimedChecksum { signed, took }, digests });
        if let Some(stage) = self.stage_after(probe.stage()) {
            let roots = CommitmentRoots::Complete(evidence);
            return self.send_probe(commitment, roots, answered, (stage, received), entropy);
        }
        self.enter(RunStage::Digests { commitment, evidence, answered }, received);
        Ok(Vec::new())
    }

    pub(super) fn device_digests(
        &mut self,
        digests: DeviceDigests,
        received: Instant,
        entropy: &mut dyn Entropy,
    ) -> Step {
        let out_of_turn = || Reason::new(ReasonCode::Protocol, "digests came out of turn");
        let limit = match &self.stage {
            RunStage::Probing { answered, .. } | RunStage::Digests { answered, .. } => answered.last(),
            _ => None,
        };
        let limit = self.digests_limit(&limit.ok_or_else(out_of_turn)?.probe);
        let (RunStage::Probing { roots: CommitmentRoots::Complete(evidence), answered, .. }
        | RunStage::Digests { evidence, answered, .. }) = &mut self.stage
        else {
            return Err(out_of_turn());
        };
        let of = answered.last_mut().ok_or_else(out_of_turn)?;
        let AnswerDigests::Due { since, devices } = &mut of.digests else {
            return Err(Reason::new(ReasonCode::Protocol, "digests came after those of the last device"));
        };
        let took = received.saturating_duration_since(*since);
        if took > limit {
            let name = of.probe.stage().name();
            let detail = format!("those of the {name} took {took:.1?}, {limit:?} were allowed");
            return Err(Reason::new(ReasonCode::DigestsLate, detail));
        }
        // Kept until the last device's are there, too.
        let (device_id, expected, found) = (digests.answer.device_id, of.probe.rounds(), digests.answer.digests.len());
        if found != expected as usize {
            return Err(answer_reason(&AnswerError::DigestCount { device_id, expected, found }));
        }
        let word = self.probed.get(&device_id).filter(|_| of.probe.stage() == ProbeStage::Own);
        let alone = || probe_checksum(&self.challenge, of.probe, std::slice::from_ref(&digests.answer));
        if word.is_some_and(|(checksum, _)| *checksum != alone()) {
            return Err(other_word(ReasonCode::ProbeChecksum, device_id));
        }
        devices.push(digests.answer);
        if devices.len() < self.challenge.shares().len() {
            return Ok(Vec::new());
        }
        let devices = std::mem::take(devices);
        let checked = check_answer(&self.challenge, &evidence.checksum, &of.probe, &of.answer.signed, devices)?;
        of.digests = AnswerDigests::Complete(Arc::new(checked));
        self.gaps.digests = self.gaps.digests.max(Some(took));
        self.all_answered(received, entropy)
    }

    /// Continues with the openings once the digests of the last probe are complete.
    fn all_answered(&mut self, now: Instant, entropy: &mut dyn Entropy) -> Step {
        let RunStage::Digests { commitment, evidence, answered } = &self.stage else { return Ok(Vec::new()) };
        let (mut own, mut linked, mut sweep, mut probes) = (None, None, None, Vec::new());
        for AnsweredProbe { probe, answer, digests } in answered {
            let AnswerDigests::Complete(checked) = digests else { return Ok(Vec::new()) };
            match *probe {
                MemoryProbe::Walks(probe) if probe.link() == Link::Own => own = Some((probe, checked.clone())),
                MemoryProbe::Walks(probe) => linked = Some((probe, checked.clone())),
                MemoryProbe::Sweep(asked) => sweep = Some((asked, checked.clone())),
            }
            probes.push((*probe, answer.took));
        }
        let Some((probe, answer)) = own else { return Ok(Vec::new()) };
        let (challenge, evidence) = (self.challenge.clone(), evidence.clone());
        let binding = TrustedValues { challenge, evidence, probe, answer, linked, sweep };
        let answered = AnsweredRun { commitment: commitment.clone(), probes, checks_pending: 0, replay: Replay::None };
        self.send_open(answered, binding, now, entropy)
    }

    /// Sends the request for openings: from here on nothing in the answer can change.
    fn send_open(
        &mut self,
        answered: AnsweredRun,
        binding: TrustedValues,
        now: Instant,
        entropy: &mut dyn Entropy,
    ) -> Step {
        let (items, iterations) = self.draw_openings(binding.probes(), entropy)?;
        let openings = self.context.policy.openings;
        let deadline = openings.longest(size::most_bytes(&self.challenge, binding.probes(), &items));
        let message = ValidatorMessage::Open { challenge_id: self.id(), items: items.clone(), deadline };
        let replay = match self.context.mode {
            Mode::Replay => Replay::Waiting(Box::new(binding.clone()), Extent::Everything),
            Mode::ReplaySample => Replay::Waiting(Box::new(binding.clone()), Extent::Sampled(iterations)),
            Mode::Audit => Replay::None,
        };
        let answered = AnsweredRun { replay, ..answered };
        let collector = Box::new(Collector::new(binding, items));
        let pace = OpeningsPace::begin(openings, now);
        self.enter(RunStage::Opening { answered, collector, pace }, now);
        Ok(vec![Action::Phase("openings"), self.hand_over(message, now)])
    }

    pub(super) fn openings(&mut self, chunk: Arc<OpeningsChunk>, received: Instant) -> Step {
        let (answered, collector, pace) = match &mut self.stage {
            RunStage::Opening { answered, collector, pace, .. } => (answered, collector, pace),
            RunStage::Judging(_) => {
                return Err(Reason::new(ReasonCode::AuditRows, "openings came after the last item"));
            }
            _ => return Err(Reason::new(ReasonCode::Protocol, "openings came before they were asked")),
        };
        pace.took(size::part_bytes(&chunk.part), received)
            .map_err(|late| Reason::new(ReasonCode::OpeningsLate, pace.detail(late, received)))?;
        let job = collector.take(chunk)?;
        answered.checks_pending += usize::from(job.is_some());
        if collector.is_complete() {
            self.stage = RunStage::Judging(answered.clone());
        }
        Ok(job.map(|job| Action::Check(Box::new(job))).into_iter().collect())
    }
}

impl AnsweredProbe {
    /// Bytes per second that each device read in a probe; 0 for a sweep.
    fn read_per_s(&self) -> f64 {
        match &self.probe {
            MemoryProbe::Walks(probe) => probe.read_bytes() as f64 / self.answer.took.as_secs_f64().max(1e-9),
            MemoryProbe::Sweep(_) => 0.0,
        }
    }
}

fn other_word(code: ReasonCode, device_id: DeviceId) -> Reason {
    Reason::new(code, format!("device {device_id} was done with another checksum"))
}
