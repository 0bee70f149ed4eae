//! The families of metrics, and the labels that tell their series apart.

use assay_observe::metrics::SECONDS;

/// Upper bounds of a request's time: a page has 200 ms.
const REQUEST_SECONDS: [f64; 10] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 1.0, 10.0];

assay_observe::families! {
    /// Metrics of a validator. Gauges and the counts that other parts keep are read at a scrape by `web/scrape.rs`.
    Families of "assay_validator" {
        challenges_started_total: IntCounterVec ["asked"], "Challenges of the schedule, of operators.";
        challenges_running: IntGaugeVec ["phase"], "Challenges under way.";
        challenges_blocked: IntGaugeVec ["cause"], "1 where none can start: draining, records.";
        challenge_phase_seconds: HistogramVec ["phase"], "Time of phases, checks, verdicts.", SECONDS;
        verdicts_total: IntCounterVec ["outcome", "mode"], "Verdicts on disk.";
        verdict_reasons_total: IntCounterVec ["code", "class"], "Reasons; a verdict may have several.";
        findings_total: IntCounterVec ["code"], "Findings beside the work.";
        attestation_changes_total: IntCounterVec ["to"], "Miners that came into an attestation state.";
        jobs_running: IntGaugeVec ["kind"], "Checks on a core, and replays on a device.";
        jobs_waiting: IntGaugeVec ["kind"], "Checks, replays, uploads, webhook deliveries, failed appends.";
        capacity: IntGaugeVec ["of"], "Most challenges and miners; all that can replay.";
        miners: IntGaugeVec ["status", "state"], "Miners in the records.";
        miners_connected: IntGauge [], "Miners with a session.";
        miners_overdue: IntGauge [], "Connected, and due for over five minutes.";
        sessions_total: IntCounterVec ["outcome"], "Proved keys: entered, or why they were not.";
        connections_total: IntCounterVec ["outcome"], "Connections by TLS, or why they were closed.";
        network_bytes_total: IntCounterVec ["direction"], "Bytes of and to miners, inside TLS.";
        records_writes_total: IntCounterVec ["outcome"], "Writes into the records: done, failed.";
        records_write_seconds_total: Counter [], "Time that all writes took.";
        evidence_failures_total: IntCounterVec ["cause"], "Evidence: upload failed, lost, no_room.";
        evidence_waiting_bytes: IntGauge [], "Evidence that waits for its bucket.";
        webhooks: IntGaugeVec ["state"], "Webhooks: ok, failing, disabled.";
        webhook_deliveries_total: IntCounterVec ["outcome"], "Attempts: delivered, failed.";
        http_request_seconds: HistogramVec ["route", "status"], "Until the answer's head.", REQUEST_SECONDS;
        build_info: IntGaugeVec ["version"], "Always 1.";
        lag_seconds: Gauge [], "Most that the process was late in the last minute.";
        held_up_seconds_total: Counter [], "Time for which the process was held up.";
        log_lines_dropped_total: IntCounterVec ["cause"], "Lines lost, or left_out for one address.";
        tls_certificate_expiry_timestamp_seconds: IntGauge [], "0 without an authority.";
        trace_spans_total: IntCounterVec ["outcome"], "Spans of traces: exported, lost.";
    }
}
