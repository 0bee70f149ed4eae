//! What is read at a scrape: how much there is of everything then.

use assay_observe::metrics::{MetricsError, add};
use assay_observe::prometheus::core::{AtomicF64, AtomicU64 as Count, GenericCounter};
use assay_observe::prometheus::{CounterVec, Gauge, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};

use super::named;

/// What is read at a scrape: [`crate::scrape`] sets it.
pub(crate) struct Gauges {
    pub(crate) draining: IntGauge,
    pub(crate) connected: IntGauge,
    pub(crate) miners_limit: IntGauge,
    pub(crate) running: IntGaugeVec,
    pub(crate) challenges_limit: IntGauge,
    pub(crate) status: IntGaugeVec,
    pub(crate) state: IntGaugeVec,
    pub(crate) overdue: IntGauge,
    pub(crate) replays_running: IntGauge,
    pub(crate) replays_waiting: IntGauge,
    pub(crate) replay_workers: IntGauge,
    pub(crate) replay_devices: IntGauge,
    pub(crate) records_ok: IntGauge,
    pub(crate) verdict_log_ok: IntGauge,
    pub(crate) writes: Counter,
    pub(crate) write_errors: Counter,
    pub(crate) write_seconds: GenericCounter<AtomicF64>,
    pub(crate) evidence_waiting: IntGauge,
    pub(crate) evidence_waiting_bytes: IntGauge,
    pub(crate) webhooks: IntGaugeVec,
    pub(crate) webhook_events: IntGauge,
    pub(crate) deliveries: IntCounterVec,
    pub(crate) certificate: IntGauge,
    pub(crate) refused: IntCounterVec,
    pub(crate) log_lines: CounterVec,
    pub(crate) held_up: GenericCounter<AtomicF64>,
    pub(crate) lag: Gauge,
}

type Counter = GenericCounter<Count>;

impl Gauges {
    pub(super) fn new(registry: &Registry) -> Result<Self, MetricsError> {
        let gauge = |name: &str, help: &str| add(registry, IntGauge::new(named(name), help));
        let gauges = |name: &str, help: &str, label: &str| {
            add(registry, IntGaugeVec::new(Opts::new(named(name), help), &[label]))
        };
        let counter = |name: &str, help: &str| add(registry, IntCounter::new(named(name), help));
        let float = |name: &str, help: &str| {
            add(registry, GenericCounter::<AtomicF64>::with_opts(Opts::new(named(name), help)))
        };
        let lines = Opts::new(named("log_lines_dropped_total"), "Log lines that were not written, by why.");
        let deliveries = Opts::new(named("webhook_deliveries_total"), "Attempts to deliver an event to a webhook.");
        let refused = "Connections of miners that were turned away or closed, by why.";
        Ok(Self {
            draining: gauge("draining", "1 while the validator ends: it starts no challenge.")?,
            connected: gauge("miners_connected", "Miners with a session.")?,
            miners_limit: gauge("miners_connected_limit", "Miners that may be connected (max_miners).")?,
            running: gauges("challenges_running", "Challenges under way, by phase.", "phase")?,
            challenges_limit: gauge("challenges_limit", "Challenges that may run at once (max_challenges).")?,
            status: gauges("miners", "Miners in the records, by whether they take part.", "status")?,
            state: gauges("miners_attestation", "Miners in the records, by attestation state.", "state")?,
            overdue: gauge("miners_overdue", "Connected miners whose challenge has been due for over five minutes.")?,
            replays_running: gauge("replays_running", "Replays under way.")?,
            replays_waiting: gauge("replays_waiting", "Replays that wait for their turn.")?,
            replay_workers: gauge("replay_workers", "Replay workers that share the records and are alive.")?,
            replay_devices: gauge("replay_devices", "Devices of this validator that replay.")?,
            records_ok: gauge(
                "records_writable",
                "1 where the records can be written: without them no challenge starts.",
            )?,
            verdict_log_ok: gauge("verdict_log_writable", "1 where the verdict log can be written, or there is none.")?,
            writes: counter("records_writes_total", "Writes into the records.")?,
            write_errors: counter("records_write_errors_total", "Writes into the records that failed.")?,
            write_seconds: float("records_write_seconds_total", "Time that writes into the records took.")?,
            evidence_waiting: gauge("evidence_waiting", "Objects of evidence that wait for their bucket.")?,
            evidence_waiting_bytes: gauge("evidence_waiting_bytes", "Bytes of evidence that wait for their bucket.")?,
            webhooks: gauges("webhooks", "Webhooks, by whether their deliveries work.", "state")?,
            webhook_events: gauge("webhook_events_waiting", "Events that the slowest webhook in use has not had yet.")?,
            deliveries: add(registry, IntCounterVec::new(deliveries, &["outcome"]))?,
            certificate: gauge(
                "tls_certificate_expiry_timestamp_seconds",
                "When the certificate of an authority expires; 0 where miners are shown one of the validator's own key.",
            )?,
            refused: add(
                registry,
                IntCounterVec::new(Opts::new(named("connections_refused_total"), refused), &["cause"]),
            )?,
            log_lines: add(registry, CounterVec::new(lines, &["cause"]))?,
            held_up: float(
                "held_up_seconds_total",
                "Time for which the process was held up: times of miners are excused.",
            )?,
            lag: add(
                registry,
                Gauge::new(named("lag_seconds"), "Most time that the process was late by in the last minute."),
            )?,
        })
    }
}
