//! The miner's metrics for Prometheus: its devices, its challenges, and its validators.
//!
//! The only labels that are not fixed are the index and the model of a device of this host: no peer adds a series.

mod challenges;
mod devices;

use std::sync::Arc;

use assay_observe::metrics::{MetricsError, SECONDS, advance};
use assay_observe::page::text;
use assay_observe::prometheus::Registry;
use assay_program::logging;
use parking_lot::Mutex;

use crate::status::{MinerStatus, StatusBoard, ValidatorStatus};

assay_observe::families! {
    /// Metrics of a miner. Gauges and the counts that other parts keep are read at a scrape.
    Families of "assay_miner" {
        device_state: IntGaugeVec ["device", "model", "state"], "1 for up, or the kind of fault.";
        device_worker_restarts_total: IntCounterVec ["device", "model"], "Workers started for lost ones.";
        device_memory_bytes: IntGaugeVec ["device", "model", "kind"], "Total, free, offered, used.";
        device_temperature_celsius: GaugeVec ["device", "model"], "Temperature, by NVML.";
        device_power_watts: GaugeVec ["device", "model"], "Power draw, by NVML.";
        device_clock_hertz: GaugeVec ["device", "model", "clock"], "By NVML: sm, memory.";
        device_utilization_ratio: GaugeVec ["device", "model"], "Time with a kernel, by NVML.";
        device_throttled: IntGaugeVec ["device", "model"], "1 where heat or power holds it back.";
        validators: IntGaugeVec ["state"], "Validators: connected, waiting, ended.";
        sessions_total: IntCounter [], "Sessions with validators.";
        challenges_running: IntGauge [], "1 while a challenge has the devices.";
        challenges_total: IntCounterVec ["event"], "Challenges started, or why declined or broken off.";
        challenge_phase_seconds: HistogramVec ["phase", "end"], "Time of each phase.", SECONDS;
        verdicts_total: IntCounterVec ["outcome"], "Verdicts of validators.";
        verdict_reasons_total: IntCounterVec ["code", "class"], "Reasons; a verdict may have several.";
        last_verdict_timestamp_seconds: IntGaugeVec ["outcome"], "0 where none came.";
        build_info: IntGaugeVec ["version"], "Always 1.";
        log_lines_dropped_total: IntCounter [], "Lines that could not be written.";
        trace_spans_total: IntCounterVec ["outcome"], "Spans of traces: exported, lost.";
    }
}

/// The metrics of one miner.
pub struct MinerMetrics {
    registry: Registry,
    /// Counted and set where things happen.
    pub families: Families,
    /// Held by the scrape that is under way.
    scrape: Mutex<()>,
}

impl MinerMetrics {
    /// Registers the metrics, all at zero: a rate has a first value then.
    ///
    /// # Errors
    /// [`MetricsError`]: two metrics have one name.
    pub fn new() -> Result<Arc<Self>, MetricsError> {
        let registry = Registry::new();
        let families = Families::register(&registry)?;
        families.build_info.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        families.show_challenges();
        Ok(Arc::new(Self { registry, families, scrape: Mutex::new(()) }))
    }

    /// Everything, as Prometheus reads it. Waits for no device.
    pub fn page(&self, board: &StatusBoard) -> Result<String, MetricsError> {
        let _turn = self.scrape.lock();
        self.families.read(board);
        text(&self.registry)
    }
}

impl Families {
    fn read(&self, board: &StatusBoard) {
        let status = board.get();
        self.read_validators(&status);
        self.challenges_running.set(status.challenge.is_some().into());
        advance(&self.log_lines_dropped_total, logging::lost_lines());
        self.read_devices(&board.seen_devices());
    }

    fn read_validators(&self, status: &MinerStatus) {
        let state = |validator: &ValidatorStatus| match validator {
            _ if validator.ended.is_some() => "ended",
            _ if validator.connection.connected_since.is_some() => "connected",
            _ => "waiting",
        };
        for name in ["connected", "waiting", "ended"] {
            let count = status.validators.iter().filter(|validator| state(validator) == name).count();
            self.validators.with_label_values(&[name]).set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        advance(&self.sessions_total, status.validators.iter().map(|validator| validator.connection.sessions).sum());
    }
}
