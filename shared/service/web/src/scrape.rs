//! The page of metrics: counters, and gauges of the current state.

use std::time::Duration;

use assay_api::VERDICT_PHASE;
use assay_keeper::metrics::{Families, PHASES, RECORD};
use assay_keeper::validator::Validator;
use assay_listen::gate::Report;
use assay_observe::metrics::{MetricsError, advance};
use assay_observe::page::text;
use assay_observe::prometheus::IntGaugeVec;
use assay_policy::State;
use assay_program::clock::unix_ms;
use assay_program::logging;
use assay_records::{Approval, MinerCount, RecordsError, WebhookRecord};
use assay_replay::turns::ReplayLoad;

/// The longest wait of a scrape for the records. Without an answer their last numbers stay.
const RECORDS_LIMIT: Duration = Duration::from_secs(2);
/// Time after which a connected miner's due challenge counts as overdue: challenges wait for a place.
const OVERDUE: Duration = Duration::from_secs(300);

/// All metrics in the format of Prometheus. Scrapes run one at a time, and their wait for the records is bounded.
pub async fn page(validator: &Validator) -> Result<String, MetricsError> {
    let _turn = validator.reports.metrics.scrape.lock().await;
    Scrape { families: &validator.reports.metrics.families, validator }.read().await;
    text(&validator.reports.metrics.registry)
}

/// Families under way of being read.
struct Scrape<'a> {
    families: &'a Families,
    validator: &'a Validator,
}

impl Scrape<'_> {
    /// Reads everything.
    async fn read(&self) {
        let validator = self.validator;
        self.read_process();
        self.read_sessions();
        self.read_network();
        self.read_replays();
        self.read_storage().await;
        // An unavailable store must not block the gauges that report it.
        if let Ok(Ok(fleet)) = tokio::time::timeout(RECORDS_LIMIT, FleetNumbers::of(validator)).await {
            self.set_fleet(&fleet);
        }
    }

    fn read_process(&self) {
        let validator = self.validator;
        set(&self.families.challenges_blocked, [("draining", validator.shutdown.is_draining().into())]);
        let lag = validator.listening.lag.report();
        advance(&self.families.held_up_seconds_total, lag.held_up.as_secs_f64());
        self.families.lag_seconds.set(lag.worst.as_secs_f64());
        let expires = validator.listening.tls.issued().map_or(0, |issued| *issued.valid_unix_seconds.end());
        self.families.tls_certificate_expiry_timestamp_seconds.set(expires.try_into().unwrap_or(i64::MAX));
    }

    fn read_sessions(&self) {
        let validator = self.validator;
        let (census, bounds) = (validator.registry.census(), &validator.registry.bounds);
        self.families.miners_connected.set(number(census.connected));
        set(
            &self.families.capacity,
            [("miners", bounds.max_miners.into()), ("challenges", bounds.max_challenges.into())],
        );
        for phase in PHASES {
            // Operators see a verdict on its way to the disk as a phase of its own name.
            let shown = if phase == RECORD { VERDICT_PHASE } else { phase };
            set(&self.families.challenges_running, [(phase, number(census.in_phase(shown)))]);
        }
    }

    fn read_network(&self) {
        let validator = self.validator;
        let Report { over_address_rate, over_rate, made_room, sent_too_much, lines_left_out, .. } =
            validator.listening.gate.totals();
        for (outcome, count) in [
            ("address_rate", over_address_rate),
            ("rate", over_rate),
            ("made_room", made_room),
            ("sent_too_much", sent_too_much),
        ] {
            advance(&self.families.connections_total.with_label_values(&[outcome]), count);
        }
        for (cause, count) in [("left_out", lines_left_out), ("lost", logging::lost_lines())] {
            advance(&self.families.log_lines_dropped_total.with_label_values(&[cause]), count);
        }
    }

    fn read_replays(&self) {
        let validator = self.validator;
        let ReplayLoad { running, waiting } = validator.capacity.replays.load();
        set(&self.families.jobs_running, [("replay", number(running))]);
        set(&self.families.jobs_waiting, [("replay", number(waiting))]);
        let workers = validator.capacity.replays.shared().map_or(0, |shared| shared.workers().len());
        let devices = validator.capacity.replays.local_devices().into();
        set(&self.families.capacity, [("replay_workers", number(workers)), ("replay_devices", devices)]);
    }

    async fn read_storage(&self) {
        let validator = self.validator;
        set(&self.families.challenges_blocked, [("records", validator.records.trouble().is_some().into())]);
        let writes = validator.records.writes();
        for (outcome, count) in [("done", writes.count.saturating_sub(writes.errors)), ("failed", writes.errors)] {
            advance(&self.families.records_writes_total.with_label_values(&[outcome]), count);
        }
        advance(&self.families.records_write_seconds_total, writes.took.as_secs_f64());
        let (taken, failed) = validator.reports.webhooks.counts().get();
        for (outcome, count) in [("delivered", taken), ("failed", failed)] {
            advance(&self.families.webhook_deliveries_total.with_label_values(&[outcome]), count);
        }
        set(&self.families.jobs_waiting, [("log", validator.reports.log.trouble().is_some().into())]);
        let evidence = validator.evidence.clone();
        for (cause, count) in [("lost", evidence.lost()), ("no_room", evidence.refused())] {
            advance(&self.families.evidence_failures_total.with_label_values(&[cause]), count);
        }
        if let Ok(Ok(waiting)) = tokio::task::spawn_blocking(move || evidence.backlog()).await {
            set(&self.families.jobs_waiting, [("upload", number(waiting.objects))]);
            self.families.evidence_waiting_bytes.set(waiting.bytes.try_into().unwrap_or(i64::MAX));
        }
    }

    fn set_fleet(&self, fleet: &FleetNumbers) {
        for (status, state) in Approval::ALL.into_iter().flat_map(|status| State::ALL.map(|state| (status, state))) {
            let miners = self.families.miners.with_label_values(&[status.name(), state.name()]);
            miners.set(fleet.sum(|count| count.status == status && count.state == state.name()));
        }
        self.families.miners_overdue.set(fleet.overdue);
        let mut states = [("ok", 0), ("failing", 0), ("disabled", 0)];
        for webhook in &fleet.webhooks {
            let state = match webhook {
                _ if webhook.disabled_ms.is_some() => 2,
                _ if webhook.delivery.failing_ms.is_some() => 1,
                _ => 0,
            };
            states[state].1 += 1;
        }
        set(&self.families.webhooks, states);
        let in_use = fleet.webhooks.iter().filter(|webhook| webhook.disabled_ms.is_none());
        let behind = in_use.map(|webhook| fleet.last_event - webhook.delivery.last_event).max();
        set(&self.families.jobs_waiting, [("delivery", behind.unwrap_or(0).max(0))]);
    }
}

/// Counts of the whole fleet, from the records.
struct FleetNumbers {
    counts: Vec<MinerCount>,
    overdue: i64,
    webhooks: Vec<WebhookRecord>,
    last_event: i64,
}

impl FleetNumbers {
    async fn of(validator: &Validator) -> Result<Self, RecordsError> {
        let since = unix_ms() - i64::try_from(OVERDUE.as_millis()).unwrap_or(i64::MAX);
        let counts = validator.records.miner_counts().await?;
        let overdue = validator.records.overdue_miners(since).await?;
        let webhooks = validator.records.webhooks().await?;
        Ok(Self { counts, overdue, webhooks, last_event: validator.records.last_event().await? })
    }

    fn sum(&self, of: impl Fn(&&MinerCount) -> bool) -> i64 {
        self.counts.iter().filter(of).map(|count| count.miners).sum()
    }
}

/// Sets series of a family with one label.
fn set<const N: usize>(family: &IntGaugeVec, series: [(&str, i64); N]) {
    for (label, value) in series {
        family.with_label_values(&[label]).set(value);
    }
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
