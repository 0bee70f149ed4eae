//! Webhooks: servers that receive events from the records.
//!
//! Delivery depends on the records alone: they have the last event delivered to each webhook, so that events go out at
//! least once and in order, across crashes. Delivery delays no other work.

#![forbid(unsafe_code)]

mod address;
mod courier;
mod message;
mod post;
mod sign;
mod url;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use assay_program::clock::unix_seconds;
use assay_protocol::identity::random_bytes;
use assay_records::{Records, RecordsError, WebhookRecord};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use self::courier::{Courier, CourierProgress};
use self::message::WebhookMessage;
use self::post::WebhookClient;
pub use self::sign::{SecretError, SigningSecret};
pub use self::url::Url;

/// Time limit of an attempt.
const ATTEMPT_LIMIT: Duration = Duration::from_secs(10);
/// The longest pause after the first failed attempt; doubled after each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause.
const MAX_PAUSE: Duration = Duration::from_secs(900);
/// The longest pause that a server may ask for.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(3600);
/// A webhook is disabled when all attempts over this time failed: shorter than events are kept.
const MAX_FAILING: Duration = Duration::from_secs(5 * 86_400);
/// Failed attempts before that: of a validator that was off, or a clock that was set, there are fewer.
const LEAST_ATTEMPTS: i64 = 100;
/// Interval of listing the webhooks of the records.
const LIST_INTERVAL: Duration = Duration::from_secs(5);
/// Interval of removing old events, in units of the above.
const PRUNE_ROUNDS: u32 = 60;

/// Counts of deliveries since the start.
#[derive(Debug, Default)]
pub struct DeliveryCounts {
    taken: AtomicU64,
    failed: AtomicU64,
}

impl DeliveryCounts {
    fn taken(&self) {
        self.taken.fetch_add(1, Ordering::Relaxed);
    }

    fn failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    /// Number of accepted deliveries, and of failed attempts.
    pub fn get(&self) -> (u64, u64) {
        (self.taken.load(Ordering::Relaxed), self.failed.load(Ordering::Relaxed))
    }
}

/// Reasons why a test of a webhook failed.
#[derive(Debug, thiserror::Error)]
pub enum TestError {
    #[error("the receiver does not take it: {0}")]
    NotTaken(String),
    /// The records cannot be read, or have no such webhook.
    #[error(transparent)]
    Records(#[from] RecordsError),
}

/// The webhooks of a validator. Clones share their state.
#[derive(Clone)]
pub struct Webhooks {
    records: Records,
    holder: String,
    /// Signals a change of the webhooks.
    changed: watch::Sender<u64>,
    /// The progress of each webhook that has a task here.
    progress: Arc<parking_lot::Mutex<HashMap<String, watch::Receiver<CourierProgress>>>>,
    counts: Arc<DeliveryCounts>,
}

impl Webhooks {
    /// Creates the webhooks of a run of this validator's process.
    pub fn new(records: Records, holder: String) -> Self {
        Self { records, holder, changed: watch::Sender::new(0), progress: Arc::default(), counts: Arc::default() }
    }

    /// Signals that webhooks were added, removed, enabled or disabled.
    pub fn changed(&self) {
        self.changed.send_modify(|changes| *changes += 1);
    }

    pub fn counts(&self) -> &DeliveryCounts {
        &self.counts
    }

    /// Sends a webhook a test message, and returns the status of the answer. On success a disabled webhook is enabled,
    /// and failed events are tried again at once.
    pub async fn test(&self, webhook: &WebhookRecord) -> Result<u16, TestError> {
        let none = || RecordsError::NoSuchWebhook(webhook.id.clone());
        let mut poster = self.poster(webhook).await?.ok_or_else(none)?;
        let random: [u8; 16] = random_bytes().map_err(TestError::NotTaken)?;
        let id = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let message = WebhookMessage::test(&webhook.id, id, unix_seconds());
        let status = poster.post(&message, ATTEMPT_LIMIT).await.map_err(|error| TestError::NotTaken(error.why))?;
        self.records.enable_webhook(&webhook.id, webhook.disabled_ms).await?;
        self.changed();
        Ok(status.as_u16())
    }

    /// Waits until every event that can be delivered now is accepted, but at most for `limit`.
    pub async fn finish(&self, limit: Duration) {
        let Ok(last) = self.records.last_event().await else { return };
        let all: Vec<_> = self.progress.lock().iter().map(|(id, progress)| (id.clone(), progress.clone())).collect();
        let finished = async {
            for (_, progress) in &mut all.clone() {
                // A task that has ended has no events to send.
                let _ = progress.wait_for(|now| now.last_event >= last || now.is_paused).await;
            }
        };
        let _ = tokio::time::timeout(limit, finished).await;
        for (webhook, progress) in all {
            let events = progress.borrow().left(last);
            if events > 0 {
                tracing::warn!(
                    webhook,
                    events,
                    "the validator ends before a webhook had all events: the others follow when one runs again"
                );
            }
        }
    }

    /// Keeps a task for every enabled webhook, and ends the others; for ever.
    pub async fn keep(self) {
        let mut tasks: HashMap<String, JoinHandle<()>> = HashMap::new();
        let (mut changes, mut rounds) = (self.changed.subscribe(), 0_u32);
        loop {
            if let Err(error) = self.assign(&mut tasks).await {
                tracing::debug!(%error, "webhooks are looked for later");
            }
            if rounds.is_multiple_of(PRUNE_ROUNDS)
                && let Err(error) = self.records.prune_events().await
            {
                tracing::debug!(%error, "old events are removed later");
            }
            rounds = rounds.wrapping_add(1);
            tokio::select! {
                () = tokio::time::sleep(LIST_INTERVAL) => {}
                _ = changes.changed() => {}
            }
        }
    }

    async fn assign(&self, tasks: &mut HashMap<String, JoinHandle<()>>) -> Result<(), RecordsError> {
        let mut webhooks = self.records.webhooks().await?;
        webhooks.retain(|webhook| webhook.disabled_ms.is_none());
        tasks.retain(|id, task| {
            let stays = !task.is_finished() && webhooks.iter().any(|webhook| webhook.id == *id);
            if !stays {
                task.abort();
                self.progress.lock().remove(id);
            }
            stays
        });
        for webhook in webhooks {
            if !tasks.contains_key(&webhook.id)
                && let Some(courier) = self.courier(&webhook).await?
            {
                self.progress.lock().insert(webhook.id.clone(), courier.progress.subscribe());
                tasks.insert(webhook.id, tokio::spawn(courier.run()));
            }
        }
        Ok(())
    }

    async fn courier(&self, webhook: &WebhookRecord) -> Result<Option<Courier>, RecordsError> {
        let Some(poster) = self.poster(webhook).await? else { return Ok(None) };
        let last_event = webhook.delivery.last_event;
        Ok(Some(Courier {
            records: self.records.clone(),
            holder: self.holder.clone(),
            id: webhook.id.clone(),
            shown: webhook.target.clone(),
            poster,
            kinds: webhook.kinds.clone(),
            progress: watch::Sender::new(CourierProgress { last_event, ..CourierProgress::default() }),
            counts: self.counts.clone(),
        }))
    }

    /// Creates the poster of a recorded webhook; `None` without a usable URL.
    async fn poster(&self, webhook: &WebhookRecord) -> Result<Option<WebhookClient>, RecordsError> {
        let Some(secrets) = self.records.webhook_secrets(&webhook.id).await? else { return Ok(None) };
        let url = secrets.url.parse::<Url>().ok();
        Ok(url.map(|url| WebhookClient::new(url, SigningSecret::kept(secrets.secret))))
    }
}

#[cfg(test)]
mod tests;
