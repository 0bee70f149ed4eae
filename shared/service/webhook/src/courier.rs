//! The task of one webhook: events go out in order, one after the other, until each was accepted.
//!
//! Of several validators that share their records, the one with the webhook's lease sends. It counts the lease from
//! before its request, and renews it before each attempt that could outlast it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use assay_records::{EventKind, EventRecord, Location, Records, RecordsError, WebhookRecord};
use tokio::sync::watch;

use super::message::WebhookMessage;
use super::post::{DeliveryFailure, WebhookClient};
use super::{ATTEMPT_LIMIT, DeliveryCounts, FIRST_PAUSE, LEAST_ATTEMPTS, MAX_FAILING, MAX_PAUSE, MAX_RETRY_AFTER};
use assay_judge::entropy::{Entropy, OsEntropy};
use assay_program::clock::unix_ms;

/// Validity of a lease: after the loss of its validator a webhook waits for that long.
const LEASE: Duration = Duration::from_secs(20);
/// Age from which a lease is renewed before an attempt: the attempt must end before the lease.
const RENEWAL: Duration = Duration::from_secs(5);
/// Interval of retrying another validator's lease, or unreadable records.
const PATIENCE: Duration = Duration::from_secs(2);
/// Events read in one batch.
const MAX_BATCH: u32 = 32;
/// Interval of recording the accepted events: after a crash the unrecorded ones are sent again.
const NOTE_INTERVAL: Duration = Duration::from_secs(1);
/// The most events of other kinds passed over before the position is recorded.
const MAX_PASSED: i64 = 4096;
/// Fewer are recorded after this time.
const PASSED_INTERVAL: Duration = Duration::from_secs(3600);

/// Progress of a webhook's task.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CourierProgress {
    /// The last event that was accepted, or is of another kind.
    pub last_event: i64,
    /// Whether no event can be sent now: another validator sends, or the next attempt is later.
    pub is_paused: bool,
    /// Whether another validator sends.
    pub is_elsewhere: bool,
}

impl CourierProgress {
    /// Number of events, up to `last_event`, left to a later run of this validator.
    pub const fn left(self, last_event: i64) -> i64 {
        if self.is_elsewhere { 0 } else { last_event - self.last_event }
    }
}

/// Sender of the events of one webhook.
pub struct Courier {
    pub records: Records,
    /// Id of this run of the validator's process.
    pub holder: String,
    /// Id of the webhook.
    pub id: String,
    /// Destination without possible secrets.
    pub shown: String,
    pub poster: WebhookClient,
    /// Kinds of events; empty: all.
    pub kinds: Vec<EventKind>,
    pub progress: watch::Sender<CourierProgress>,
    /// Counters of deliveries.
    pub counts: Arc<DeliveryCounts>,
}

/// State of a courier that holds the lease.
struct CourierState {
    /// Time of the last request for the lease.
    since: Instant,
    /// The last event that was accepted, or is of another kind.
    last_event: i64,
    /// The last event recorded.
    noted: i64,
    /// Time of the last recording.
    noted_at: Instant,
    /// Events accepted since.
    sent: i64,
    /// Time of the next attempt: milliseconds since 1970.
    next_ms: Option<i64>,
}

/// The end of a courier: its webhook is removed or disabled.
struct CourierEnd;

impl Courier {
    /// Sends events until the webhook is removed or disabled.
    pub async fn run(mut self) {
        let mut events = self.records.event_watch();
        loop {
            match self.hold(&mut events).await {
                Ok(Some(CourierEnd)) => return,
                // Another validator has the lease.
                Ok(None) => self.pause(0, true),
                Err(error) => {
                    tracing::debug!(webhook = self.id, %error, "a webhook waits for the records");
                    self.pause(0, false);
                }
            }
            tokio::time::sleep(PATIENCE).await;
        }
    }

    /// Sends events while this validator holds the lease.
    async fn hold(&mut self, events: &mut watch::Receiver<i64>) -> Result<Option<CourierEnd>, RecordsError> {
        let since = Instant::now();
        if !self.take().await? {
            return Ok(None);
        }
        let Some(webhook) = self.enabled().await? else { return Ok(Some(CourierEnd)) };
        let (last_event, next_ms) = (webhook.delivery.last_event, webhook.delivery.next_ms);
        self.progress.send_replace(CourierProgress { last_event, ..CourierProgress::default() });
        let mut held = CourierState { since, last_event, noted: last_event, noted_at: since, sent: 0, next_ms };
        loop {
            if !self.renew(&mut held).await? {
                return Ok(None);
            }
            if let Some(next_ms) = held.next_ms {
                self.pause(held.last_event, false);
                let wait = Duration::from_millis(u64::try_from(next_ms - unix_ms()).unwrap_or(0));
                if !wait.is_zero() {
                    tokio::time::sleep(wait.min(RENEWAL)).await;
                    // A successful test makes the next attempt immediate.
                    let Some(webhook) = self.enabled().await? else { return Ok(Some(CourierEnd)) };
                    held.next_ms = webhook.delivery.next_ms.or(Some(0));
                    continue;
                }
            }
            let last = *events.borrow_and_update();
            let batch = self.records.events(held.last_event, MAX_BATCH).await?;
            if !batch.is_empty() {
                if let Some(ended) = self.send(&mut held, batch).await? {
                    return Ok(Some(ended));
                }
            } else if last > held.last_event {
                // All events up to that one were removed, or are unknown.
                self.skip(&mut held, last).await?;
            } else {
                self.note(&mut held).await?;
                let known = held.last_event;
                self.progress.send_replace(CourierProgress { last_event: known, ..CourierProgress::default() });
                // The lease is renewed meanwhile; an error means that the records have ended.
                let _ = tokio::time::timeout(RENEWAL, events.wait_for(|last| *last > known)).await;
            }
        }
    }

    /// Sends a batch until an event is not accepted.
    async fn send(
        &mut self,
        held: &mut CourierState,
        batch: Vec<EventRecord>,
    ) -> Result<Option<CourierEnd>, RecordsError> {
        if let Some(first) = batch.first().filter(|first| first.seq > held.last_event + 1) {
            self.skip(held, first.seq - 1).await?;
        }
        for event in batch {
            if !self.kinds.is_empty() && !self.kinds.contains(&event.kind()) {
                held.last_event = event.seq;
                continue;
            }
            if !self.renew(held).await? {
                return Ok(None);
            }
            let message = WebhookMessage::of(&event, &self.records).await?;
            match self.poster.post(&message, ATTEMPT_LIMIT).await {
                Ok(_) => self.taken(held, &event).await?,
                Err(not_taken) => {
                    self.note(held).await?;
                    return self.failed(held, &event, not_taken).await;
                }
            }
        }
        if held.last_event - held.noted > MAX_PASSED {
            self.note(held).await?;
        }
        Ok(None)
    }

    /// Skips events that were removed before they could be sent, or whose kinds only a newer release knows.
    async fn skip(&self, held: &mut CourierState, last: i64) -> Result<(), RecordsError> {
        self.note(held).await?;
        let skipped = last - held.last_event;
        tracing::warn!(
            webhook = self.id,
            target = self.shown,
            skipped,
            "a webhook misses events that were removed, or that only a newer release knows"
        );
        self.records.skipped(&self.id, last).await?;
        (held.last_event, held.noted) = (last, last);
        Ok(())
    }

    async fn taken(&self, held: &mut CourierState, event: &EventRecord) -> Result<(), RecordsError> {
        tracing::debug!(webhook = self.id, event = event.id, sequence = event.seq, "a webhook has an event");
        self.counts.taken();
        held.last_event = event.seq;
        held.sent += 1;
        // The end of a failure is recorded at once.
        if held.next_ms.take().is_some() || held.noted_at.elapsed() >= NOTE_INTERVAL {
            self.note(held).await?;
        }
        Ok(())
    }

    /// Records the accepted events; those of other kinds with the next accepted one, or in large numbers.
    async fn note(&self, held: &mut CourierState) -> Result<(), RecordsError> {
        if held.sent > 0 || notes_passed(held.last_event - held.noted, held.noted_at.elapsed()) {
            self.records.delivered(&self.id, held.last_event, held.sent).await?;
            (held.noted, held.noted_at, held.sent) = (held.last_event, Instant::now(), 0);
            self.progress.send_replace(CourierProgress { last_event: held.last_event, ..CourierProgress::default() });
        }
        Ok(())
    }

    /// Records a failed attempt and the time of the next one; disables a webhook that has failed for too long.
    async fn failed(
        &self,
        held: &mut CourierState,
        event: &EventRecord,
        not_taken: DeliveryFailure,
    ) -> Result<Option<CourierEnd>, RecordsError> {
        self.counts.failed();
        let DeliveryFailure { why, retry_after, is_gone } = not_taken;
        let Some(webhook) = self.enabled().await? else { return Ok(Some(CourierEnd)) };
        let (attempt, now) = (webhook.delivery.attempts + 1, unix_ms());
        let has_failed = webhook.delivery.failing_ms.is_some_and(|since| has_failed_for_long(now - since, attempt));
        let (webhook, target, sequence) = (&self.id, &self.shown, event.seq);
        if is_gone || has_failed {
            tracing::error!(webhook, target, sequence, attempt, "a webhook is disabled: {why}");
            self.records.disable_webhook(webhook, &why).await?;
            return Ok(Some(CourierEnd));
        }
        let pause = backoff(attempt).max(retry_after.unwrap_or_default().min(MAX_RETRY_AFTER));
        let (event, kind) = (&event.id, event.kind().name());
        tracing::warn!(
            webhook,
            target,
            event,
            kind,
            sequence,
            attempt,
            "the webhook failed, another attempt follows: {why}"
        );
        let next_ms = now + i64::try_from(pause.as_millis()).unwrap_or(i64::MAX / 2);
        self.records.not_delivered(webhook, &why, next_ms).await?;
        held.next_ms = Some(next_ms);
        self.pause(held.last_event, false);
        Ok(None)
    }

    fn pause(&self, last_event: i64, is_elsewhere: bool) {
        self.progress.send_modify(|progress| {
            *progress =
                CourierProgress { last_event: progress.last_event.max(last_event), is_paused: true, is_elsewhere };
        });
    }

    async fn enabled(&self) -> Result<Option<WebhookRecord>, RecordsError> {
        Ok(self.records.webhook(&self.id).await?.filter(|webhook| webhook.disabled_ms.is_none()))
    }

    /// Takes the lease; a file of records has only one validator.
    async fn take(&self) -> Result<bool, RecordsError> {
        match self.records.location() {
            Location::File(_) => Ok(true),
            Location::Postgres(_) => self.records.lease(&lease_of(&self.id), &self.holder, LEASE).await,
        }
    }

    /// Renews a lease that may end before an attempt. False when it is lost.
    async fn renew(&self, held: &mut CourierState) -> Result<bool, RecordsError> {
        let now = Instant::now();
        if now.duration_since(held.since) < RENEWAL {
            return Ok(true);
        }
        let is_held = self.take().await?;
        if is_held {
            held.since = now;
        }
        Ok(is_held)
    }
}

/// Subject of a webhook's lease.
pub fn lease_of(id: &str) -> String {
    format!("webhook:{id}")
}

/// The pause before the next attempt: doubled after each failure, less a random part of up to half, so that retries
/// after a common failure spread out.
/// Whether events of other kinds are recorded as passed over: many, or few after a while, since events that are removed
/// count as missed.
fn notes_passed(passed: i64, since: Duration) -> bool {
    passed > MAX_PASSED || (passed > 0 && since >= PASSED_INTERVAL)
}

/// Whether a webhook that fails for this long, at this attempt, is disabled.
fn has_failed_for_long(failing_ms: i64, attempt: i64) -> bool {
    Duration::from_millis(failing_ms.max(0).unsigned_abs()) >= MAX_FAILING && attempt >= LEAST_ATTEMPTS
}

fn backoff(attempt: i64) -> Duration {
    let doublings = u32::try_from(attempt - 1).unwrap_or(0).min(16);
    let pause = (FIRST_PAUSE * 2_u32.pow(doublings)).min(MAX_PAUSE);
    let draw = OsEntropy.below(1000).unwrap_or(0);
    pause - pause.mul_f64(draw as f64 / 2000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_without_attempts_disables_no_webhook() {
        let days = |days: i64| days * 86_400_000;
        assert!(has_failed_for_long(days(5), 100));
        assert!(!has_failed_for_long(days(6), 3), "the validator was off");
        assert!(!has_failed_for_long(days(-6), 500), "the clock was set back");
        assert!(!has_failed_for_long(days(5) - 1, 500));
    }

    #[test]
    fn events_of_other_kinds_are_passed_over_before_they_are_removed() {
        let hours = |hours: u64| Duration::from_secs(3600 * hours);
        assert!(notes_passed(1, hours(1)) && notes_passed(MAX_PASSED + 1, hours(0)));
        assert!(!notes_passed(0, hours(9)) && !notes_passed(MAX_PASSED, hours(1) - Duration::from_millis(1)));
    }

    #[test]
    fn what_another_validator_sends_is_not_left() {
        let progress = CourierProgress { last_event: 3, is_paused: true, is_elsewhere: false };
        assert_eq!((progress.left(10), CourierProgress { is_elsewhere: true, ..progress }.left(10)), (7, 0));
    }

    #[test]
    fn pauses_double_up_to_their_bound_with_jitter() {
        for (attempt, most_s) in [(1, 1), (2, 2), (5, 16), (10, 512), (11, 900), (1000, 900)] {
            let most = Duration::from_secs(most_s);
            let pauses: Vec<_> = (0..64).map(|_| backoff(attempt)).collect();
            assert!(pauses.iter().all(|pause| *pause <= most && *pause >= most / 2), "{attempt}: {pauses:?}");
            assert!(pauses.iter().any(|pause| *pause != pauses[0]), "{attempt}: {pauses:?}");
        }
    }
}
