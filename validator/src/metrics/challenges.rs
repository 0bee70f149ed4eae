//! What is counted of challenges, from their start to their verdict.

use std::time::Duration;

use assay_fleet::Change;
use assay_fleet::State;
use assay_observe::metrics::{MetricsError, SECONDS, add};
use assay_observe::prometheus::{Histogram, HistogramOpts, HistogramVec, IntCounterVec, IntGauge, Opts, Registry};
use assay_protocol::verdict::{Mode, Outcome, ReasonCode, Verdict};

use super::named;
use crate::fleet::facts::Found;
use crate::order::{Asked, Order};
use crate::run::{HELD, LINKED_PROBE};

/// The phases of a challenge, as the metrics have them.
pub const PHASES: [&str; 7] = ["work", HELD, "probe", LINKED_PROBE, "openings", "replay", RECORD];
/// The phase in which a verdict is held against the fleet, and written.
pub const RECORD: &str = "record";

/// The mode of a verdict on a host that had nothing to challenge.
const NO_MODE: &str = "none";

/// What is counted of challenges.
pub struct ChallengeMetrics {
    started: IntCounterVec,
    verdicts: IntCounterVec,
    reasons: IntCounterVec,
    findings: IntCounterVec,
    states: IntCounterVec,
    phases: HistogramVec,
    latency: Histogram,
    /// Each check of a part of the openings, on its core.
    pub check_seconds: Histogram,
    /// Checks that wait for a core.
    pub checks_waiting: IntGauge,
    /// Checks on a core.
    pub checks_running: IntGauge,
}

impl ChallengeMetrics {
    /// Every series is there from the start: a rate has a first value then.
    pub(super) fn new(registry: &Registry) -> Result<Self, MetricsError> {
        let counters = |name: &str, help: &str, labels: &[&str]| {
            add(registry, IntCounterVec::new(Opts::new(named(name), help), labels))
        };
        let gauge = |name: &str, help: &str| add(registry, IntGauge::new(named(name), help));
        let seconds = |name: &str, help: &str| HistogramOpts::new(named(name), help).buckets(SECONDS.to_vec());
        let histogram = |name: &str, help: &str| add(registry, Histogram::with_opts(seconds(name, help)));
        let phases = seconds("challenge_phase_seconds", "Time of a challenge in each of its phases.");
        let metrics = Self {
            started: counters("challenges_started_total", "Challenges that began, by who asked for them.", &["asked"])?,
            verdicts: counters("verdicts_total", "Verdicts that are on disk.", &["outcome", "mode"])?,
            reasons: counters(
                "verdict_reasons_total",
                "Reasons of verdicts; a verdict may have several.",
                &["code", "class"],
            )?,
            findings: counters("findings_total", "What was found of miners beside their work.", &["code"])?,
            states: counters("attestation_changes_total", "Miners that came into an attestation state.", &["to"])?,
            phases: add(registry, HistogramVec::new(phases, &["phase"]))?,
            latency: histogram("verdict_seconds", "Time from a miner's commitment to its verdict being on disk.")?,
            check_seconds: histogram("check_seconds", "Time of each check of a part of the openings, on its core.")?,
            checks_waiting: gauge("checks_waiting", "Checks of openings that wait for a core.")?,
            checks_running: gauge("checks_running", "Checks of openings that run.")?,
        };
        metrics.show_all();
        Ok(metrics)
    }

    fn show_all(&self) {
        for asked in [Asked::Schedule, Asked::Operator] {
            self.started.with_label_values(&[asked.name()]);
        }
        for outcome in [Outcome::Pass, Outcome::Fail, Outcome::Inconclusive] {
            for mode in [Some(Mode::Replay), Some(Mode::ReplaySample), Some(Mode::Audit), None] {
                self.verdicts.with_label_values(&[&outcome.to_string(), mode_name(mode)]);
            }
        }
        for code in ReasonCode::ALL {
            self.reasons.with_label_values(&[code.name(), code.class().name()]);
        }
        for code in assay_fleet::FindingCode::ALL {
            self.findings.with_label_values(&[code.name()]);
        }
        for state in State::ALL {
            self.states.with_label_values(&[state.name()]);
        }
        for phase in PHASES {
            self.phases.with_label_values(&[phase]);
        }
    }

    /// A challenge began.
    pub fn started(&self, order: &Order) {
        self.started.with_label_values(&[order.asked.name()]).inc();
    }

    /// A phase is over.
    pub fn phase(&self, phase: &'static str, took: Duration) {
        if PHASES.contains(&phase) {
            self.phases.with_label_values(&[phase]).observe(took.as_secs_f64());
        }
    }

    /// A verdict is on disk, so long after the commitment that it rests on.
    pub fn verdict(&self, verdict: &Verdict, since_commitment: Option<Duration>) {
        self.verdicts.with_label_values(&[&verdict.outcome.to_string(), mode_name(verdict.mode)]).inc();
        for reason in &verdict.reasons {
            self.reasons.with_label_values(&[reason.code.name(), reason.code.class().name()]).inc();
        }
        if let Some(took) = since_commitment {
            self.latency.observe(took.as_secs_f64());
        }
    }

    /// What followed from a verdict.
    pub fn judged(&self, found: &[Found], change: Option<&Change>) {
        for found in found {
            self.findings.with_label_values(&[found.code.name()]).inc();
        }
        if let Some(change) = change {
            self.states.with_label_values(&[change.to.name()]).inc();
        }
    }
}

fn mode_name(mode: Option<Mode>) -> &'static str {
    mode.map_or(NO_MODE, Mode::name)
}
