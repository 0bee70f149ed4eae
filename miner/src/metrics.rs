//! What the miner counts, for Prometheus: its devices, its challenges, and who it serves.
//!
//! The only labels that are not fixed are the index and the model of a device of this host: no peer adds a series.

mod challenges;
mod devices;
pub mod endpoint;

use std::sync::{Arc, Mutex, PoisonError};

use assay_observe::metrics::{MetricsError, TraceCounts, add, registry, text, trace_counts};
use assay_observe::prometheus::{IntCounter, IntGauge, IntGaugeVec, Opts, Registry};
use assay_program::logging;

pub use self::challenges::{ChallengeMetrics, ENDS};
use self::devices::DeviceGauges;
use crate::status::{Status, StatusBoard, ValidatorStatus};

/// What the names of all metrics but the process's own begin with.
const PREFIX: &str = "assay_miner";

/// What a miner counts.
pub struct Metrics {
    registry: Registry,
    /// Challenges and verdicts.
    pub challenges: ChallengeMetrics,
    /// Spans.
    pub traces: TraceCounts,
    /// What is read at a scrape; held by the one that is under way.
    gauges: Mutex<Gauges>,
}

/// What is read at a scrape.
struct Gauges {
    devices: DeviceGauges,
    validators: IntGaugeVec,
    sessions: IntCounter,
    running: IntGauge,
    declining: IntGauge,
    log_lines: IntCounter,
}

impl Metrics {
    /// Nothing was counted yet.
    ///
    /// # Errors
    /// [`MetricsError`]: two metrics have one name.
    pub fn new() -> Result<Arc<Self>, MetricsError> {
        let registry = registry("assay_miner_build_info", env!("CARGO_PKG_VERSION"))?;
        Ok(Arc::new(Self {
            challenges: ChallengeMetrics::new(&registry)?,
            traces: trace_counts(&registry, PREFIX)?,
            gauges: Mutex::new(Gauges::new(&registry)?),
            registry,
        }))
    }

    /// Everything, as Prometheus reads it. Waits for no device.
    ///
    /// # Errors
    /// [`MetricsError`].
    pub fn page(&self, board: &StatusBoard) -> Result<String, MetricsError> {
        let gauges = self.gauges.lock().unwrap_or_else(PoisonError::into_inner);
        gauges.read(board);
        text(&self.registry)
    }
}

impl Gauges {
    fn new(registry: &Registry) -> Result<Self, MetricsError> {
        let gauge = |name: &str, help: &str| add(registry, IntGauge::new(named(name), help));
        let counter = |name: &str, help: &str| add(registry, IntCounter::new(named(name), help));
        let validators =
            Opts::new(named("validators"), "Validators of the settings, by how the miner stands with them.");
        Ok(Self {
            devices: DeviceGauges::new(registry)?,
            validators: add(registry, IntGaugeVec::new(validators, &["state"]))?,
            sessions: counter("sessions_total", "Sessions with validators.")?,
            running: gauge("challenges_running", "Challenges that have the devices.")?,
            declining: gauge("declining", "1 while challenges are declined for the hour (decline_hours).")?,
            log_lines: counter("log_lines_dropped_total", "Log lines that could not be written.")?,
        })
    }

    fn read(&self, board: &StatusBoard) {
        let status = board.get();
        self.read_validators(&status);
        self.running.set(status.challenge.is_some().into());
        self.declining.set(status.limits.declining_until.is_some().into());
        advance(&self.log_lines, logging::lost_lines());
        self.devices.read(&board.seen_devices());
    }

    fn read_validators(&self, status: &Status) {
        let state = |validator: &ValidatorStatus| match validator {
            _ if validator.ended.is_some() => "ended",
            _ if validator.connection.connected_since.is_some() => "connected",
            _ => "waiting",
        };
        for name in ["connected", "waiting", "ended"] {
            let count = status.validators.iter().filter(|validator| state(validator) == name).count();
            self.validators.with_label_values(&[name]).set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        advance(&self.sessions, status.validators.iter().map(|validator| validator.connection.sessions).sum());
    }
}

/// Brings a counter to what something else counted.
fn advance(counter: &IntCounter, count: u64) {
    counter.inc_by(count.saturating_sub(counter.get()));
}

/// A name with the miner's prefix.
fn named(name: &str) -> String {
    format!("{PREFIX}_{name}")
}

#[cfg(test)]
mod tests;
