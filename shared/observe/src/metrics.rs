//! What every daemon's metrics have: the process, the build, and the text that Prometheus reads.

use prometheus::core::Collector;
use prometheus::{IntCounter, IntGauge, Opts, Registry, TextEncoder};

/// The media type of [`text`].
pub const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Upper bounds of durations between a check of a part of the openings and a challenge of an hour.
pub const SECONDS: [f64; 15] =
    [0.001, 0.0025, 0.01, 0.025, 0.1, 0.25, 1.0, 2.5, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0];

/// What became of spans.
#[derive(Debug, Clone)]
pub struct TraceCounts {
    /// The collector took them.
    pub exported: IntCounter,
    /// They were dropped.
    pub lost: IntCounter,
}

/// Why a registry refuses a metric: its name or its labels are malformed, or it is there already. Either is a mistake of
/// the program.
#[derive(Debug, thiserror::Error)]
#[error("a metric cannot be registered: {0}")]
pub struct MetricsError(#[from] prometheus::Error);

/// A registry with what every daemon has: `process_*` (on Linux), and the build as a metric of this name.
///
/// # Errors
/// [`MetricsError`].
pub fn registry(build: &'static str, version: &str) -> Result<Registry, MetricsError> {
    let registry = Registry::new();
    #[cfg(target_os = "linux")]
    crate::process::register(&registry)?;
    let info = Opts::new(build, "Always 1; the label says which version runs.").const_label("version", version);
    add(&registry, IntGauge::with_opts(info))?.set(1);
    Ok(registry)
}

/// Registers a metric.
///
/// # Errors
/// [`MetricsError`].
pub fn add<C: Collector + Clone + 'static>(
    registry: &Registry,
    metric: prometheus::Result<C>,
) -> Result<C, MetricsError> {
    let metric = metric?;
    registry.register(Box::new(metric.clone()))?;
    Ok(metric)
}

/// The counts of spans, under names that begin with `prefix`.
///
/// # Errors
/// [`MetricsError`].
pub fn trace_counts(registry: &Registry, prefix: &str) -> Result<TraceCounts, MetricsError> {
    let counter = |name: &str, help: &str| add(registry, IntCounter::new(format!("{prefix}_{name}"), help));
    Ok(TraceCounts {
        exported: counter("trace_spans_exported_total", "Spans that the collector took.")?,
        lost: counter("trace_spans_lost_total", "Spans that were dropped, since the collector did not take them.")?,
    })
}

/// Everything in the registry, as Prometheus reads it.
///
/// # Errors
/// [`MetricsError`]: a collector gave metrics of one name with different types.
pub fn text(registry: &Registry) -> Result<String, MetricsError> {
    Ok(TextEncoder::new().encode_to_string(&registry.gather())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_the_process_and_the_build() {
        let registry = registry("assay_test_build_info", "1.2.3").unwrap();
        trace_counts(&registry, "assay_test").unwrap().lost.inc_by(3);
        let text = text(&registry).unwrap();
        assert!(text.contains("assay_test_build_info{version=\"1.2.3\"} 1\n"), "{text}");
        assert!(
            text.contains("# TYPE assay_test_trace_spans_lost_total counter\nassay_test_trace_spans_lost_total 3\n")
        );
        #[cfg(target_os = "linux")]
        for name in ["process_resident_memory_bytes", "process_open_fds", "process_cpu_seconds_total"] {
            assert!(text.contains(&format!("\n{name} ")), "{name} in {text}");
        }
    }

    #[test]
    fn a_name_is_registered_once() {
        let registry = Registry::new();
        add(&registry, IntGauge::new("assay_test", "help")).unwrap();
        let error = add(&registry, IntGauge::new("assay_test", "help")).unwrap_err();
        assert!(error.to_string().contains("cannot be registered"), "{error}");
        assert!(add(&registry, IntGauge::new("no name", "help")).is_err());
    }
}
