//! The end of a run: what was found becomes the verdict, and what the devices showed is kept.

use std::time::Duration;

use assay_protocol::message::ValidatorMessage;
use assay_protocol::verdict::{Mode, Reason, ReasonCode, Verdict};

use assay_work::probe::Probe;

use super::{Answered, ChallengeRun, Ended, RunContext, RunStage};
use crate::action::Action;
use crate::case::entry::Known;
use crate::history::devices::Attendance;
use crate::history::{End, ProbeRates, ShownRate};
use crate::issue::{SAMPLES_BEFORE_REPLAY, iteration_draw};
use crate::verify::judge::{Findings, Gaps, rate_per_s};

impl ChallengeRun {
    /// The miner learns the verdict, which also ends what it still does for the challenge.
    pub(super) fn finish(&mut self, mut reasons: Vec<Reason>) -> Vec<Action> {
        if self.ended().is_some() {
            return Vec::new();
        }
        let end = end_of(&reasons);
        let Known { past, expectation } = self.known(end);
        let chunks_due = if let RunStage::Opening { collector, .. } = &self.stage { collector.chunks_due() } else { 0 };
        let (commitment, probe, answered) = match &self.stage {
            RunStage::Working => (None, None, false),
            RunStage::Held { commitment, .. } => (Some(commitment), None, false),
            RunStage::Probing { commitment, before: None, probe, .. } => (Some(commitment), Some((probe, None)), false),
            RunStage::Probing { commitment, before: Some(own), .. }
            | RunStage::Digests { commitment, before: Some(own), .. }
            | RunStage::Digests { commitment, last: own, .. } => {
                (Some(commitment), Some((&own.probe, Some(own.answer.took))), false)
            }
            RunStage::Opening { answered, .. } | RunStage::Judging(answered) => {
                let Answered { commitment, probe, answer, .. } = answered;
                (Some(commitment), Some((probe, Some(answer.took))), true)
            }
            RunStage::Over(_) => return Vec::new(),
        };
        let linked = match &self.stage {
            RunStage::Judging(Answered { linked, .. }) => linked.as_ref().map(|(probe, answer)| (probe, answer.took)),
            _ => None,
        };
        let RunContext { policy, mode, inventory, round_trip, unix_seconds, .. } = &self.context;
        let recent = past.recent(end, policy.abandoned);
        if end != End::Other && recent.abandoned >= policy.abandoned.limit {
            let detail = format!(
                "{} of the last {} challenges were abandoned, {} are the limit; this one: {}",
                recent.abandoned, recent.of, policy.abandoned.limit, reasons[0].detail
            );
            reasons = vec![Reason::new(ReasonCode::AbandonedRepeatedly, detail)];
        }
        let passed = reasons.is_empty();
        let checked = |n: u32| if passed { n } else { 0 };
        let (iterations_checked, samples) = match mode {
            Mode::Replay => (self.challenge.iterations(), SAMPLES_BEFORE_REPLAY),
            Mode::ReplaySample => (iteration_draw(policy, &self.challenge).examined(), SAMPLES_BEFORE_REPLAY),
            Mode::Audit => (iteration_draw(policy, &self.challenge).examined(), policy.samples),
        };
        let shares = self.challenge.shares();
        let took_part = |id| shares.iter().any(|share| share.device_id == id);
        let least_bytes = u64::from(self.min_slots) * self.challenge.slot_bytes();
        let attendance = Attendance { inventory, least_bytes };
        let findings = Findings {
            challenge: &self.challenge,
            inventory,
            mode: answered.then_some(*mode),
            iterations_checked: checked(iterations_checked),
            work_time: commitment.map(|commitment| commitment.took),
            probe,
            linked,
            linked_policy: policy.linked,
            samples: checked(samples),
            segments: checked(policy.segments),
            claimed: std::mem::take(&mut self.claimed),
            claimed_whole: commitment.map(|commitment| commitment.signed.claimed),
            round_trip: *round_trip,
            gaps: Gaps { handover: self.handover(), ..self.gaps },
            hiding: policy.hiding,
            not_challenged: self.not_challenged.clone(),
            difference: past.difference(took_part, attendance),
            rates: past.rates,
            device_missing: policy.device_missing,
            expectation: expectation.as_ref(),
            recent,
            reasons,
            unix_seconds: *unix_seconds,
        };
        let verdict = Box::new(findings.verdict());
        if passed {
            self.remember(&verdict);
        }
        self.context.history.devices.learn(&verdict, least_bytes);
        let is_committed = !matches!(self.stage, RunStage::Working);
        self.stage = RunStage::Over(Ended { id: self.id(), is_committed, chunks_due });
        vec![Action::Verdict(verdict.clone()), Action::send(ValidatorMessage::Verdict(verdict))]
    }

    /// Keeps what the devices showed, for the next challenge's size.
    fn remember(&self, verdict: &Verdict) {
        let RunStage::Judging(Answered { commitment, probe, answer, linked, .. }) = &self.stage else { return };
        let read_per_s = |probe: &Probe, took: Duration| probe.read_bytes() as f64 / took.as_secs_f64().max(1e-9);
        let linked = linked.as_ref().map(|(probe, answer)| read_per_s(probe, answer.took));
        let probes = ProbeRates { own: read_per_s(probe, answer.took), linked };
        let miner_key = self.challenge.fields().miner_key;
        for share in self.challenge.shares() {
            let rate = ShownRate {
                per_s: rate_per_s(&self.challenge, share, commitment.took),
                tops: verdict.device(share.device_id).map_or(0.0, |device| device.work.tops),
                unix_seconds: verdict.unix_seconds,
            };
            let kind = self.challenge.precision();
            self.context.history.showed(miner_key, share.device_id, kind, rate, probes);
        }
    }
}

/// An end by the miner's doing after positions were named; a deadline that it gives up on is one that it missed.
pub(super) fn abandoned(reason: Reason) -> Reason {
    if reason.code.class().fails() {
        return reason;
    }
    let detail = format!("after positions were named: {}: {}", reason.code, reason.detail);
    Reason::new(ReasonCode::Abandoned, detail)
}

/// How a challenge ended that has these reasons.
fn end_of(reasons: &[Reason]) -> End {
    match reasons.first().map(|reason| reason.code) {
        Some(ReasonCode::Abandoned) => End::Abandoned,
        Some(ReasonCode::NotReading) => End::NotReading,
        _ => End::Other,
    }
}
