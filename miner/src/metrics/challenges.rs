//! What is counted of challenges and verdicts.

use std::time::Duration;

use assay_observe::metrics::{MetricsError, SECONDS, add};
use assay_observe::prometheus::{HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGaugeVec, Opts, Registry};
use assay_protocol::message::{Stop, StopCode};
use assay_protocol::verdict::{Outcome, ReasonCode, Verdict};

use super::named;
use crate::driver::Part;
use crate::turns::Busy;

/// What a verdict is, as a label.
const OUTCOMES: [&str; 3] = ["pass", "fail", "inconclusive"];
/// How a part of a challenge ended, as a label.
pub const ENDS: [&str; 2] = ["done", "failed"];
/// Every code by which a challenge is stopped.
const STOPS: [StopCode; 10] = [
    StopCode::Busy,
    StopCode::Draining,
    StopCode::NotEnoughMemory,
    StopCode::DeviceLost,
    StopCode::Invalid,
    StopCode::StaleInventory,
    StopCode::Unsupported,
    StopCode::Deadline,
    StopCode::Internal,
    StopCode::Declined,
];

/// What is counted of challenges and verdicts.
pub struct ChallengeMetrics {
    started: IntCounter,
    stopped: IntCounterVec,
    turns: IntCounterVec,
    parts: HistogramVec,
    verdicts: IntCounterVec,
    reasons: IntCounterVec,
    last: IntGaugeVec,
}

impl ChallengeMetrics {
    /// Every series is there from the start: a rate has a first value then.
    pub(super) fn new(registry: &Registry) -> Result<Self, MetricsError> {
        let counters = |name: &str, help: &str, labels: &[&str]| {
            add(registry, IntCounterVec::new(Opts::new(named(name), help), labels))
        };
        let parts = HistogramOpts::new(named("challenge_phase_seconds"), "Time of a challenge in each of its phases.");
        let last = "When the last verdict of each outcome came; none came where it is 0.";
        let metrics = Self {
            started: add(
                registry,
                IntCounter::new(named("challenges_started_total"), "Challenges that were taken up."),
            )?,
            stopped: counters("challenges_stopped_total", "Challenges declined or broken off, by why.", &["cause"])?,
            turns: counters("turns_waited_total", "Challenges declined for another validator's turn.", &["cause"])?,
            parts: add(registry, HistogramVec::new(parts.buckets(SECONDS.to_vec()), &["phase", "end"]))?,
            verdicts: counters("verdicts_total", "Verdicts of validators.", &["outcome"])?,
            reasons: counters(
                "verdict_reasons_total",
                "Reasons of verdicts; a verdict may have several.",
                &["code", "class"],
            )?,
            last: add(
                registry,
                IntGaugeVec::new(Opts::new(named("last_verdict_timestamp_seconds"), last), &["outcome"]),
            )?,
        };
        metrics.show_all();
        Ok(metrics)
    }

    fn show_all(&self) {
        for code in STOPS {
            self.stopped.with_label_values(&[stop_name(code)]);
        }
        for cause in ["runs", "kept"] {
            self.turns.with_label_values(&[cause]);
        }
        for outcome in OUTCOMES {
            self.verdicts.with_label_values(&[outcome]);
            self.last.with_label_values(&[outcome]);
        }
        for code in ReasonCode::ALL {
            self.reasons.with_label_values(&[code.name(), code.class().name()]);
        }
        for (part, end) in Part::ALL.into_iter().flat_map(|part| ENDS.map(|end| (part, end))) {
            self.parts.with_label_values(&[part.name(), end]);
        }
    }

    /// A challenge was taken up.
    pub fn started(&self) {
        self.started.inc();
    }

    /// A challenge was declined or broken off.
    pub fn stopped(&self, stop: &Stop) {
        self.stopped.with_label_values(&[stop_name(stop.code)]).inc();
    }

    /// A challenge had no turn.
    pub fn waited(&self, busy: Busy) {
        let cause = match busy {
            Busy::Runs => "runs",
            Busy::Kept(_) => "kept",
        };
        self.turns.with_label_values(&[cause]).inc();
    }

    /// A part of a challenge ended.
    pub fn part(&self, part: Part, took: Duration, has_failed: bool) {
        self.parts.with_label_values(&[part.name(), ENDS[usize::from(has_failed)]]).observe(took.as_secs_f64());
    }

    /// A verdict came, at this moment in seconds since 1970.
    pub fn verdict(&self, verdict: &Verdict, unix_seconds: u64) {
        let outcome = outcome_name(verdict.outcome);
        self.verdicts.with_label_values(&[outcome]).inc();
        for reason in &verdict.reasons {
            self.reasons.with_label_values(&[reason.code.name(), reason.code.class().name()]).inc();
        }
        self.recall(outcome, unix_seconds);
    }

    /// A verdict that came before this start.
    pub fn recall(&self, outcome: &str, unix_seconds: u64) {
        if OUTCOMES.contains(&outcome) {
            self.last.with_label_values(&[outcome]).set(i64::try_from(unix_seconds).unwrap_or(i64::MAX));
        }
    }
}

const fn outcome_name(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Pass => OUTCOMES[0],
        Outcome::Fail => OUTCOMES[1],
        Outcome::Inconclusive => OUTCOMES[2],
    }
}

const fn stop_name(code: StopCode) -> &'static str {
    match code {
        StopCode::Busy => "busy",
        StopCode::Draining => "draining",
        StopCode::NotEnoughMemory => "not_enough_memory",
        StopCode::DeviceLost => "device_lost",
        StopCode::Invalid => "invalid",
        StopCode::StaleInventory => "stale_inventory",
        StopCode::Unsupported => "unsupported",
        StopCode::Deadline => "deadline",
        StopCode::Internal => "internal",
        StopCode::Declined => "declined",
    }
}
