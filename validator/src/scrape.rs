//! The page of metrics: what was counted, and what there is of everything now.

use std::time::Duration;

use assay_fleet::State;
use assay_observe::metrics::{MetricsError, text};
use assay_observe::prometheus::IntCounter;
use assay_observe::prometheus::core::{AtomicF64, GenericCounter};
use assay_program::logging;
use assay_records::{MinerCount, RecordsError, Status, WebhookRecord};

use crate::clock::unix_ms;
use crate::gate::Report;
use crate::metrics::{Gauges, PHASES, RECORD};
use crate::registry::VERDICT;
use crate::validator::Validator;
use crate::verify::turns::Load;

/// How long a scrape waits for the records. Without an answer the numbers of the last one stay.
const RECORDS_LIMIT: Duration = Duration::from_secs(2);
/// For how long a connected miner's challenge has been due before it counts as overdue: challenges wait for a place.
const OVERDUE: Duration = Duration::from_secs(300);

/// Everything, as Prometheus reads it. Scrapes follow one another, and none waits for the records without a bound.
///
/// # Errors
/// [`MetricsError`].
pub async fn page(validator: &Validator) -> Result<String, MetricsError> {
    let gauges = validator.metrics.gauges.lock().await;
    gauges.read(validator).await;
    text(&validator.metrics.registry)
}

impl Gauges {
    /// Reads everything.
    async fn read(&self, validator: &Validator) {
        self.read_process(validator);
        self.read_sessions(validator);
        self.read_network(validator);
        self.read_replays(validator);
        self.read_storage(validator).await;
        // A store that is away must not hold the numbers up that say so.
        if let Ok(Ok(fleet)) = tokio::time::timeout(RECORDS_LIMIT, FleetNumbers::of(validator)).await {
            self.set_fleet(&fleet);
        }
    }

    fn read_process(&self, validator: &Validator) {
        self.draining.set(validator.shutdown.is_draining().into());
        let lag = validator.lag.report();
        advance_float(&self.held_up, lag.held_up.as_secs_f64());
        self.lag.set(lag.worst.as_secs_f64());
        let expires = validator.tls.issued().map_or(0, |issued| issued.not_after_unix_seconds);
        self.certificate.set(expires.try_into().unwrap_or(i64::MAX));
    }

    fn read_sessions(&self, validator: &Validator) {
        let census = validator.registry.census();
        self.connected.set(number(census.connected));
        self.miners_limit.set(i64::from(validator.registry.bounds().max_miners));
        for phase in PHASES {
            // Operators are told of a verdict that is on its way to the disk.
            let shown = if phase == RECORD { VERDICT } else { phase };
            self.running.with_label_values(&[phase]).set(number(census.in_phase(shown)));
        }
        self.challenges_limit.set(i64::from(validator.registry.bounds().max_challenges));
    }

    fn read_network(&self, validator: &Validator) {
        let Report { over_address_rate, over_rate, made_room, sent_too_much, lines_left_out, .. } =
            validator.gate.totals();
        for (cause, count) in [
            ("address_rate", over_address_rate),
            ("rate", over_rate),
            ("made_room", made_room),
            ("sent_too_much", sent_too_much),
        ] {
            advance(&self.refused.with_label_values(&[cause]), count);
        }
        advance_float(&self.log_lines.with_label_values(&["left_out"]), lines_left_out as f64);
        advance_float(&self.log_lines.with_label_values(&["lost"]), logging::lost_lines() as f64);
    }

    fn read_replays(&self, validator: &Validator) {
        let Load { running, waiting } = validator.replays.load();
        self.replays_running.set(number(running));
        self.replays_waiting.set(number(waiting));
        self.replay_workers.set(number(validator.replays.shared().map_or(0, |shared| shared.workers().len())));
        self.replay_devices.set(validator.replays.local_devices().into());
    }

    async fn read_storage(&self, validator: &Validator) {
        self.records_ok.set(validator.records.trouble().is_none().into());
        self.verdict_log_ok.set(validator.verdicts.check().is_ok().into());
        let writes = validator.records.writes();
        advance(&self.writes, writes.count);
        advance(&self.write_errors, writes.errors);
        advance_float(&self.write_seconds, writes.took.as_secs_f64());
        let (taken, failed) = validator.webhooks.counts().get();
        advance(&self.deliveries.with_label_values(&["delivered"]), taken);
        advance(&self.deliveries.with_label_values(&["failed"]), failed);
        let evidence = validator.evidence.clone();
        if let Ok(Ok(waiting)) = tokio::task::spawn_blocking(move || evidence.backlog()).await {
            self.evidence_waiting.set(number(waiting.objects));
            self.evidence_waiting_bytes.set(waiting.bytes.try_into().unwrap_or(i64::MAX));
        }
    }

    fn set_fleet(&self, fleet: &FleetNumbers) {
        for status in [Status::Pending, Status::Approved, Status::Suspended, Status::Revoked] {
            self.status.with_label_values(&[status.name()]).set(fleet.sum(|count| count.status == status));
        }
        for state in State::ALL {
            self.state.with_label_values(&[state.name()]).set(fleet.sum(|count| count.state == state.name()));
        }
        self.overdue.set(fleet.overdue);
        let mut states = [("ok", 0), ("failing", 0), ("disabled", 0)];
        for webhook in &fleet.webhooks {
            let state = match webhook {
                _ if webhook.disabled_ms.is_some() => 2,
                _ if webhook.delivery.failing_ms.is_some() => 1,
                _ => 0,
            };
            states[state].1 += 1;
        }
        for (state, count) in states {
            self.webhooks.with_label_values(&[state]).set(count);
        }
        let in_use = fleet.webhooks.iter().filter(|webhook| webhook.disabled_ms.is_none());
        let behind = in_use.map(|webhook| fleet.last_event - webhook.delivery.last_event).max();
        self.webhook_events.set(behind.unwrap_or(0).max(0));
    }
}

/// What the records say of the whole fleet.
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

/// Brings a counter to what something else counted.
fn advance(counter: &IntCounter, count: u64) {
    counter.inc_by(count.saturating_sub(counter.get()));
}

/// The same for one that has fractions.
fn advance_float(counter: &GenericCounter<AtomicF64>, count: f64) {
    counter.inc_by((count - counter.get()).max(0.0));
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
