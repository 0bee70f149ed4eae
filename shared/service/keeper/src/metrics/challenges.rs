//! Metrics of challenges, from their start to their verdict.

use std::time::Duration;

use assay_observe::metrics::show;
use assay_policy::{Change, FindingCode, State};
use assay_protocol::verdict::{Mode, Outcome, ReasonCode, Verdict};

use super::Families;
use crate::order::{Order, OrderOrigin};
use assay_judge::facts::FleetFinding;
use assay_judge::run::{HELD, LINKED_PROBE, SWEEP};

/// Names of a challenge's phases in the metrics.
pub const PHASES: [&str; 8] = ["work", HELD, "probe", LINKED_PROBE, SWEEP, "openings", "replay", RECORD];
/// The phase in which a verdict is checked against the fleet and written.
pub const RECORD: &str = "record";

/// The mode label of a verdict on a host without a device to challenge.
const NO_MODE: &str = "none";

/// A check of a part of the openings, as a kind of job, and beside the phases.
pub const CHECK: &str = "check";
/// Modes of verdicts.
const MODES: [Option<Mode>; 4] = [Some(Mode::Replay), Some(Mode::ReplaySample), Some(Mode::Audit), None];
/// The time from a commitment to its verdict on disk, beside the phases.
const SINCE_COMMITMENT: &str = "commitment_to_verdict";

impl Families {
    pub(super) fn show_challenges(&self) {
        show(&self.challenges_started_total, OrderOrigin::ALL.map(|asked| [asked.name()]));
        for outcome in Outcome::ALL {
            show(&self.verdicts_total, MODES.map(|mode| [outcome.name(), mode_name(mode)]));
        }
        show(&self.verdict_reasons_total, ReasonCode::ALL.iter().map(|code| [code.name(), code.class().name()]));
        show(&self.findings_total, FindingCode::ALL.map(|code| [code.name()]));
        show(&self.attestation_changes_total, State::ALL.map(|state| [state.name()]));
        show(&self.challenge_phase_seconds, PHASES.into_iter().chain([CHECK, SINCE_COMMITMENT]).map(|phase| [phase]));
        show(&self.jobs_running, [[CHECK]]);
        show(&self.jobs_waiting, [[CHECK]]);
    }

    pub fn started(&self, order: &Order) {
        self.challenges_started_total.with_label_values(&[order.asked.name()]).inc();
    }

    /// Records the end of a phase.
    pub fn phase(&self, phase: &'static str, took: Duration) {
        if PHASES.contains(&phase) {
            self.challenge_phase_seconds.with_label_values(&[phase]).observe(took.as_secs_f64());
        }
    }

    /// Verdicts of an outcome since the start.
    pub fn verdicts(&self, outcome: Outcome) -> u64 {
        let count = |mode| self.verdicts_total.with_label_values(&[outcome.name(), mode_name(mode)]).get();
        MODES.map(count).iter().sum()
    }

    /// Counts a recorded verdict, with its time since the commitment.
    pub fn verdict(&self, verdict: &Verdict, since_commitment: Option<Duration>) {
        self.verdicts_total.with_label_values(&[verdict.outcome.name(), mode_name(verdict.mode)]).inc();
        for reason in &verdict.reasons {
            self.verdict_reasons_total.with_label_values(&[reason.code.name(), reason.code.class().name()]).inc();
        }
        if let Some(took) = since_commitment {
            self.challenge_phase_seconds.with_label_values(&[SINCE_COMMITMENT]).observe(took.as_secs_f64());
        }
    }

    /// Counts the consequences of a verdict.
    pub fn judged(&self, found: &[FleetFinding], change: Option<&Change>) {
        for found in found {
            self.findings_total.with_label_values(&[found.code.name()]).inc();
        }
        if let Some(change) = change {
            self.attestation_changes_total.with_label_values(&[change.to.name()]).inc();
        }
    }
}

fn mode_name(mode: Option<Mode>) -> &'static str {
    mode.map_or(NO_MODE, Mode::name)
}
