//! What is counted of what is kept: uploads of evidence.

use assay_observe::metrics::{MetricsError, add};
use assay_observe::prometheus::{IntCounter, Registry};

use super::named;

/// What is counted of what is kept.
#[derive(Clone)]
pub struct StorageMetrics {
    /// Uploads of evidence that failed.
    pub evidence_failures: IntCounter,
}

impl StorageMetrics {
    pub(super) fn new(registry: &Registry) -> Result<Self, MetricsError> {
        let failures = "Attempts to bring evidence into its bucket that failed.";
        let failures = IntCounter::new(named("evidence_upload_failures_total"), failures);
        Ok(Self { evidence_failures: add(registry, failures)? })
    }
}
