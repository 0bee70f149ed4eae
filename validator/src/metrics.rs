//! What the validator counts, for Prometheus: one registry, served at `/metrics`.
//!
//! No label has a miner's key, an id, an address or a model: each has a set of values that the program knows, so that no
//! peer adds a series. [docs/metrics.md](../../docs/metrics.md) lists every metric; a test holds the page against a scrape.

mod challenges;
mod gauges;
mod network;
mod requests;
mod storage;

use assay_observe::metrics::{MetricsError, TraceCounts, registry, trace_counts};
use assay_observe::prometheus::{IntGauge, Registry};
use tokio::sync::Mutex;

pub use self::challenges::{ChallengeMetrics, PHASES, RECORD};
pub(crate) use self::gauges::Gauges;
pub use self::network::{Handshake, NetworkMetrics};
pub use self::requests::HttpMetrics;
pub use self::storage::StorageMetrics;

/// What the names of all metrics but the process's own begin with.
const PREFIX: &str = "assay_validator";

/// What one validator counts.
pub struct Metrics {
    pub(crate) registry: Registry,
    /// Challenges, verdicts, checks and replays.
    pub challenges: ChallengeMetrics,
    /// Connections and sessions.
    pub network: NetworkMetrics,
    /// Evidence.
    pub storage: StorageMetrics,
    /// Requests over HTTP.
    pub http: HttpMetrics,
    /// Spans.
    pub traces: TraceCounts,
    /// What is read at a scrape; held by the one that is under way.
    pub(crate) gauges: Mutex<Gauges>,
}

impl Metrics {
    /// Nothing was counted yet.
    ///
    /// # Errors
    /// [`MetricsError`]: two metrics have one name.
    pub fn new() -> Result<Self, MetricsError> {
        let registry = registry("assay_validator_build_info", env!("CARGO_PKG_VERSION"))?;
        Ok(Self {
            challenges: ChallengeMetrics::new(&registry)?,
            network: NetworkMetrics::new(&registry)?,
            storage: StorageMetrics::new(&registry)?,
            http: HttpMetrics::new(&registry)?,
            traces: trace_counts(&registry, PREFIX)?,
            gauges: Mutex::new(Gauges::new(&registry)?),
            registry,
        })
    }
}

/// Counts one more for as long as it lives.
pub struct Counted(IntGauge);

impl Counted {
    /// One more of these.
    #[must_use]
    pub fn new(gauge: &IntGauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// A name with the validator's prefix.
fn named(name: &str) -> String {
    format!("{PREFIX}_{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_and_unit_is_as_prometheus_has_it() {
        let metrics = Metrics::new().unwrap();
        for family in metrics.registry.gather() {
            let (name, help) = (family.name(), family.help());
            assert!(name.starts_with("assay_validator_") || name.starts_with("process_"), "{name}");
            assert!(help.ends_with('.'), "{name}: {help}");
            let is_counter = family.get_field_type() == assay_observe::prometheus::proto::MetricType::COUNTER;
            assert_eq!(is_counter, name.ends_with("_total"), "{name}");
            for scaled in ["_ms", "_milliseconds", "_kib", "_mib", "_percent", "_minutes"] {
                assert!(!name.contains(scaled), "{name}: base units");
            }
        }
    }
}
