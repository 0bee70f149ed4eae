//! The end of a run: findings become the verdict, and the shown devices and rates are kept.

use std::time::Duration;

use assay_policy::{DeviceRate, End};
use assay_protocol::verdict::{Mode, Reason, ReasonCode, Verdict};

use assay_work::challenge::MIN_COUNT;
use assay_work::{MemoryProbe, ProbeStage};

use super::{AnsweredProbe, AnsweredRun, ChallengeRun, RunContext, RunStage, RunSummary};
use crate::action::Action;
use crate::case::entry::MinerKnowledge;
use crate::history::devices::Attendance;
use crate::issue::{SAMPLES_BEFORE_REPLAY, iteration_draw};
use crate::verify::hiding::{device_time, rate_per_s};
use crate::verify::judge::{Findings, Gaps};

impl ChallengeRun {
    /// Builds the verdict from the findings.
    pub(super) fn finish(&mut self, mut reasons: Vec<Reason>) -> Vec<Action> {
        if self.ended().is_some() {
            return Vec::new();
        }
        let end = self.end_of(&reasons);
        let MinerKnowledge { past, expectation } = self.known();
        let chunks_due = if let RunStage::Opening { collector, .. } = &self.stage { collector.chunks_due() } else { 0 };
        let (commitment, probe, answered) = match &self.stage {
            RunStage::Working => (None, None, false),
            RunStage::Held { commitment, .. } => (Some(commitment), None, false),
            RunStage::Probing { commitment, answered, probe, .. } => {
                let own = answered.first().map_or((*probe, None), AnsweredProbe::timed);
                (Some(commitment), Some(own), false)
            }
            RunStage::Digests { commitment, answered, .. } => {
                (Some(commitment), answered.first().map(AnsweredProbe::timed), false)
            }
            RunStage::Opening { answered, .. } | RunStage::Judging(answered) => {
                let own = answered.probes.first().map(|&(probe, took)| (probe, Some(took)));
                (Some(&answered.commitment), own, true)
            }
            RunStage::Over(_) => return Vec::new(),
        };
        let probe = probe.as_ref().and_then(|(probe, took)| Some((probe.walks()?, *took)));
        let checked_probes = if let RunStage::Judging(answered) = &self.stage { &answered.probes[..] } else { &[] };
        let of_stage = |stage| checked_probes.iter().find(|(probe, _)| probe.stage() == stage);
        let linked = of_stage(ProbeStage::Linked).and_then(|(probe, took)| Some((probe.walks()?, *took)));
        let sweep = of_stage(ProbeStage::Sweep).and_then(|(probe, took)| Some((probe.sweep()?, *took)));
        let RunContext { policy, mode, inventory, round_trip, unix_seconds, .. } = &self.context;
        let recent = past.recent(end, policy.abandoned);
        if matches!(end, Some(End::Abandoned | End::NotReading)) && recent.abandoned >= policy.abandoned.limit {
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
        let bytes_of = |slots: u32| u64::from(slots) * self.challenge.slot_bytes();
        let shares = self.challenge.shares().iter().map(|share| (share.device_id, bytes_of(share.count)));
        let shares = &shares.collect::<Vec<_>>()[..];
        let (policy_bytes, least_bytes) = (bytes_of(policy.min_slots.max(MIN_COUNT)), bytes_of(self.min_slots));
        let (precision, kinds) = (self.challenge.precision(), &policy.kinds[..]);
        let attendance = Attendance { inventory, shares, policy_bytes, least_bytes, precision, kinds };
        let findings = Findings {
            challenge: &self.challenge,
            inventory,
            mode: answered.then_some(*mode),
            iterations_checked: checked(iterations_checked),
            work_time: commitment.map(|commitment| commitment.took),
            finished: &self.finished,
            probed: &self.probed,
            probe,
            linked,
            linked_policy: policy.linked,
            sweep,
            wants_sweep: policy.sweep,
            samples: checked(samples),
            segments: checked(policy.segments),
            claimed: std::mem::take(&mut self.claimed),
            claimed_whole: commitment.map(|commitment| commitment.signed.claimed),
            round_trip: *round_trip,
            gaps: Gaps { handover: self.handover(), ..self.gaps },
            hiding: policy.hiding,
            not_challenged: self.not_challenged.clone(),
            difference: past.difference(attendance),
            rates: past.rates,
            device_missing: policy.device_missing,
            expectation: expectation.as_ref(),
            recent,
            reasons,
            unix_seconds: *unix_seconds,
        };
        let verdict = Box::new(findings.verdict());
        let shown = if passed { self.shown(&verdict, least_bytes) } else { Vec::new() };
        let is_committed = !matches!(self.stage, RunStage::Working);
        self.stage = RunStage::Over(RunSummary { id: self.id(), is_committed, chunks_due });
        vec![Action::Shown(shown), Action::Judged(verdict)]
    }

    /// The rates of the devices: where the work held, the devices are known by it.
    fn shown(&self, verdict: &Verdict, least_bytes: u64) -> Vec<DeviceRate> {
        let RunStage::Judging(AnsweredRun { commitment, probes, .. }) = &self.stage else {
            return Vec::new();
        };
        let read_per_s = |stage| {
            let of_stage = probes.iter().find(|(probe, _)| probe.stage() == stage);
            let read = of_stage.and_then(|(probe, took)| Some((probe.walks()?.read_bytes() as f64, took)));
            read.map_or(0.0, |(bytes, took)| bytes / took.as_secs_f64().max(1e-9))
        };
        let shares = self.challenge.shares();
        let remembered = self.context.history.remembers(shares.iter().map(|share| share.device_id));
        let mut shown = Vec::new();
        for share in shares.iter().filter(|share| remembered.contains(&share.device_id)) {
            let Some(device) = verdict.device(share.device_id) else { continue };
            let bytes = device.work.matrices.saturating_mul(self.challenge.slot_bytes()).max(least_bytes);
            let integer = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
            shown.push(DeviceRate {
                device_id: share.device_id.to_string(),
                precision: self.challenge.precision(),
                name: device.name.clone(),
                bytes: if verdict.work_held() { integer(bytes) } else { 0 },
                macs_per_s: rate_per_s(&self.challenge, share, device_time(&self.finished, share, commitment.took)),
                tops: device.work.tops,
                probe_bytes_per_s: read_per_s(ProbeStage::Own),
                linked_bytes_per_s: read_per_s(ProbeStage::Linked),
                at_ms: integer(verdict.unix_seconds.saturating_mul(1000)),
            });
        }
        shown
    }

    /// The end that these reasons give a challenge; `None` where it does not count among the last ones. Agrees with
    /// [`End::of`] its verdict.
    fn end_of(&self, reasons: &[Reason]) -> Option<End> {
        let is_named = matches!(self.stage, RunStage::Opening { .. } | RunStage::Judging(_));
        match reasons.first().map(|reason| reason.code) {
            Some(ReasonCode::Abandoned) => Some(End::Abandoned),
            Some(ReasonCode::NotReading) => Some(End::NotReading),
            _ => is_named.then_some(End::Other),
        }
    }
}

impl AnsweredProbe {
    const fn timed(&self) -> (MemoryProbe, Option<Duration>) {
        (self.probe, Some(self.answer.took))
    }
}

/// An end by the miner's doing, after it knew how it fares; a deadline that the miner gives up on counts as missed.
pub(super) fn abandoned(known: &str, reason: Reason) -> Reason {
    if reason.code.class().fails() {
        return reason;
    }
    let detail = format!("after {known}: {}: {}", reason.code, reason.detail);
    Reason::new(ReasonCode::Abandoned, detail)
}
