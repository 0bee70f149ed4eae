//! Metrics of challenges and verdicts.

use std::time::Duration;

use assay_observe::metrics::show;
use assay_protocol::message::{Stop, StopCode};
use assay_protocol::verdict::{Outcome, ReasonCode, Verdict};

use super::Families;
use crate::driver::ChallengePart;

/// A challenge was taken up, as a label.
const STARTED: &str = "started";
/// How a part of a challenge ended, as a label.
const ENDS: [&str; 2] = ["done", "failed"];

impl Families {
    pub(super) fn show_challenges(&self) {
        show(
            &self.challenges_total,
            StopCode::ALL.map(StopCode::name).into_iter().chain([STARTED]).map(|event| [event]),
        );
        show(&self.verdicts_total, Outcome::ALL.map(|outcome| [outcome.name()]));
        show(&self.last_verdict_timestamp_seconds, Outcome::ALL.map(|outcome| [outcome.name()]));
        show(&self.verdict_reasons_total, ReasonCode::ALL.iter().map(|code| [code.name(), code.class().name()]));
        for end in ENDS {
            show(&self.challenge_phase_seconds, ChallengePart::ALL.map(|part| [part.name(), end]));
        }
    }

    /// A challenge was taken up.
    pub fn started(&self) {
        self.challenges_total.with_label_values(&[STARTED]).inc();
    }

    /// A challenge was declined or broken off.
    pub fn stopped(&self, stop: &Stop) {
        self.challenges_total.with_label_values(&[stop.code.name()]).inc();
    }

    /// A part of a challenge ended.
    pub fn part(&self, part: ChallengePart, took: Duration, has_failed: bool) {
        let labels = [part.name(), ENDS[usize::from(has_failed)]];
        self.challenge_phase_seconds.with_label_values(&labels).observe(took.as_secs_f64());
    }

    /// A verdict came, at this moment in seconds since 1970.
    pub fn verdict(&self, verdict: &Verdict, unix_seconds: u64) {
        self.verdicts_total.with_label_values(&[verdict.outcome.name()]).inc();
        for reason in &verdict.reasons {
            self.verdict_reasons_total.with_label_values(&[reason.code.name(), reason.code.class().name()]).inc();
        }
        self.recall(verdict.outcome.name(), unix_seconds);
    }

    /// A verdict that came before this start, with an outcome out of a file.
    pub fn recall(&self, outcome: &str, unix_seconds: u64) {
        if let Some(outcome) = Outcome::named(outcome) {
            let gauge = self.last_verdict_timestamp_seconds.with_label_values(&[outcome.name()]);
            gauge.set(i64::try_from(unix_seconds).unwrap_or(i64::MAX));
        }
    }
}
