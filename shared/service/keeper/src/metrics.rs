//! The validator's metrics for Prometheus: one registry, served at `/metrics`.
//!
//! No label has a miner's key, an id, an address or a model: each has a set of values that the program knows, so that no
//! peer adds a series. [docs/metrics.md](../../docs/metrics.md) lists every family, out of [`Families`].

mod challenges;
mod families;
mod requests;
mod sessions;

use assay_listen::traffic::Traffic;
use assay_observe::metrics::MetricsError;
use assay_observe::prometheus::{IntGauge, Registry};
use tokio::sync::Mutex;

pub use self::challenges::{CHECK, PHASES, RECORD};
pub use self::families::Families;

/// The metrics of one validator.
pub struct ValidatorMetrics {
    pub registry: Registry,
    /// Counted and set where things happen.
    pub families: Families,
    /// Connections of miners.
    pub traffic: Traffic,
    /// Held by the scrape that is under way.
    pub scrape: Mutex<()>,
}

impl ValidatorMetrics {
    /// Registers the metrics, all at zero: a rate has a first value then.
    ///
    /// # Errors
    /// [`MetricsError`]: two metrics have one name.
    pub fn new() -> Result<Self, MetricsError> {
        let registry = Registry::new();
        let families = Families::register(&registry)?;
        families.build_info.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        families.show_challenges();
        families.show_sessions();
        let traffic = Traffic::of(&families.connections_total, &families.network_bytes_total);
        Ok(Self { traffic, registry, families, scrape: Mutex::new(()) })
    }
}

/// Increments a gauge while it lives.
pub struct GaugeGuard(IntGauge);

impl GaugeGuard {
    /// Increments the gauge.
    pub fn new(gauge: IntGauge) -> Self {
        gauge.inc();
        Self(gauge)
    }
}

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}
