//! Time spent in the phases of a challenge, for metrics and traces.

use std::time::{Duration, Instant};

use assay_observe::{ChallengeSpan, SpanPhase, places};
use assay_program::clock;
use assay_protocol::verdict::{Mode, Outcome, Verdict};
use assay_work::ChallengeId;

use super::OngoingChallenge;
use crate::metrics::RECORD;
use crate::validator::Validator;

const WORK: &str = "work";

/// The phases of a challenge so far.
pub(super) struct ChallengePhases {
    /// `None` where the host had no device to challenge.
    challenge: Option<ChallengeId>,
    phase: &'static str,
    since: Instant,
    /// Time of the commitment.
    committed: Option<Instant>,
    checks: Option<Checks>,
}

/// Times of the checks of openings.
struct Checks {
    began: Instant,
    ended: Instant,
    count: u32,
}

impl ChallengePhases {
    /// Starts the first phase of a challenge.
    pub(super) fn begin(challenge: Option<ChallengeId>) -> Self {
        Self { challenge, phase: WORK, since: clock::now(), committed: None, checks: None }
    }

    /// Ends the current phase and begins another.
    pub(super) fn enter(&mut self, phase: &'static str, validator: &Validator) {
        if phase == self.phase {
            return;
        }
        let now = clock::now();
        self.end_phase(now, validator);
        if self.phase == WORK && phase != RECORD {
            self.committed = Some(now);
        }
        (self.phase, self.since) = (phase, now);
    }

    /// Records a check of openings that began at `began`.
    pub(super) fn checked(&mut self, began: Instant) {
        let checks = self.checks.get_or_insert(Checks { began, ended: began, count: 0 });
        checks.ended = clock::now();
        checks.count += 1;
    }

    /// Time since the commitment, if there was one.
    pub(super) fn since_commitment(&self) -> Option<Duration> {
        self.committed.map(clock::since)
    }

    fn end_phase(&self, now: Instant, validator: &Validator) {
        let Some(challenge) = self.challenge else { return };
        validator.reports.metrics.families.phase(self.phase, now.saturating_duration_since(self.since));
        if let Some(place) = place(self.phase) {
            validator.reports.traces.add(|| ChallengeSpan::new(challenge, place, self.since, now));
        }
    }
}

impl OngoingChallenge {
    /// Ends the phases once the verdict is on disk.
    pub(super) fn end(&mut self, verdict: &Verdict, validator: &Validator) {
        let Some(facts) = self.facts else { return };
        let now = clock::now();
        self.stages.end_phase(now, validator);
        if let Some(Checks { began, ended, count }) = self.stages.checks {
            let span =
                || ChallengeSpan::new(facts.id, &places::CHECK, began, ended).with("assay.checks", i64::from(count));
            validator.reports.traces.add(span);
        }
        validator.reports.traces.add(|| self.root(verdict, now));
    }

    fn root(&self, verdict: &Verdict, now: Instant) -> ChallengeSpan {
        let Verdict { challenge_id, miner_key, outcome, reasons, mode, n, iterations, devices, whole, .. } = verdict;
        let codes = reasons.iter().map(|reason| reason.code.name()).collect::<Vec<_>>().join(", ");
        let span = ChallengeSpan::new(*challenge_id, &places::CHALLENGE, self.began, now)
            .with("assay.miner", miner_key.to_string())
            .with("assay.outcome", outcome.to_string())
            .with("assay.reasons", codes.clone())
            .with("assay.mode", mode.map_or("none", Mode::name))
            .with("assay.asked", self.order.asked.name())
            .with("assay.kind", self.order.kind.clone())
            .with("assay.n", i64::from(*n))
            .with("assay.iterations", i64::from(*iterations))
            .with("assay.devices", i64::try_from(devices.len()).unwrap_or(i64::MAX))
            .with("assay.slots", i64::try_from(whole.matrices).unwrap_or(i64::MAX));
        match outcome {
            Outcome::Pass => span.ok(),
            Outcome::Fail => span.failed(&codes),
            // Inconclusive is not an error.
            Outcome::Inconclusive => span,
        }
    }
}

fn place(phase: &str) -> Option<&'static SpanPhase> {
    Some(match phase {
        WORK => &places::WORK,
        assay_judge::run::HELD => &places::HELD,
        "probe" => &places::PROBE,
        assay_judge::run::LINKED_PROBE => &places::LINKED_PROBE,
        assay_judge::run::SWEEP => &places::SWEEP,
        "openings" => &places::OPENINGS,
        "replay" => &places::REPLAY,
        RECORD => &places::RECORD,
        _ => return None,
    })
}
