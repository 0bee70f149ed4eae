//! Webhooks: servers that are sent events out of the records, and the command or URL of the setting `on_event`.
//!
//! Delivery rests on the records alone: which event a webhook had last lies there, so that events go out at least once
//! and in order, whatever is killed meanwhile. It holds nothing else up.

mod address;
mod command;
mod courier;
mod message;
mod post;
mod sign;
mod target;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use assay_protocol::identity::random_bytes;
use assay_records::{EventKind, Records, RecordsError, WebhookRecord, WebhookSource};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use self::courier::{Courier, Means, Progress};
use self::message::Message;
use self::post::Poster;
pub use self::sign::{Secret, SecretError};
pub use self::target::{Target, TargetError, Url};
use crate::clock::unix_seconds;

/// How long an attempt may take.
const ATTEMPT_LIMIT: Duration = Duration::from_secs(10);
/// How long after the first failed attempt the second follows at most; twice as long after each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause.
const MAX_PAUSE: Duration = Duration::from_secs(900);
/// The longest pause that a server may ask for.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(3600);
/// A webhook is disabled when every attempt of such a time failed: less than events are kept.
const MAX_FAILING: Duration = Duration::from_secs(5 * 86_400);
/// How often the webhooks of the records are listed, and old events removed.
const LIST_INTERVAL: Duration = Duration::from_secs(5);
/// How often old events are removed, in rounds of the above.
const PRUNE_ROUNDS: u32 = 60;
/// What the command or URL of the settings is sent.
const KINDS_OF_SETTINGS: [EventKind; 6] = [
    EventKind::Verdict,
    EventKind::State,
    EventKind::Finding,
    EventKind::MinerConnected,
    EventKind::MinerLeft,
    EventKind::Health,
];

/// How deliveries ended since the start.
#[derive(Debug, Default)]
pub struct Counts {
    taken: AtomicU64,
    failed: AtomicU64,
}

impl Counts {
    fn taken(&self) {
        self.taken.fetch_add(1, Ordering::Relaxed);
    }

    fn failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    /// Deliveries that were taken, and attempts that failed.
    #[must_use]
    pub fn get(&self) -> (u64, u64) {
        (self.taken.load(Ordering::Relaxed), self.failed.load(Ordering::Relaxed))
    }
}

/// Why a webhook was not tested.
#[derive(Debug, thiserror::Error)]
pub enum TestError {
    /// It is not posted to.
    #[error("this webhook is the setting on_event of a validator: it is tested by what happens")]
    OfSettings,
    /// Its receiver does not take it.
    #[error("the receiver does not take it: {0}")]
    NotTaken(String),
    /// The records cannot be read, or have no such webhook.
    #[error(transparent)]
    Records(#[from] RecordsError),
}

/// The webhooks of a validator. A clone is the same.
#[derive(Clone)]
pub struct Webhooks {
    records: Records,
    holder: String,
    /// What the settings name.
    of_settings: watch::Sender<Option<Target>>,
    /// Changes when webhooks of the records do.
    changed: watch::Sender<u64>,
    /// The progress of each webhook that has a task here.
    progress: Arc<std::sync::Mutex<HashMap<String, watch::Receiver<Progress>>>>,
    counts: Arc<Counts>,
}

impl Webhooks {
    /// Starts what sends events, inside a Tokio runtime, for a run of this validator's process.
    #[must_use]
    pub fn start(records: Records, holder: String, of_settings: Option<Target>) -> Self {
        let (of_settings, changed) = (watch::Sender::new(of_settings), watch::Sender::new(0));
        let webhooks = Self { records, holder, of_settings, changed, progress: Arc::default(), counts: Arc::default() };
        tokio::spawn(webhooks.clone().keep());
        webhooks
    }

    /// Sends further events of the settings elsewhere, or nowhere.
    pub fn set(&self, target: Option<Target>) {
        self.of_settings.send_if_modified(|current| {
            let differs = *current != target;
            *current = target;
            differs
        });
    }

    /// Looks at once for webhooks that were added, removed, enabled or disabled.
    pub fn changed(&self) {
        self.changed.send_modify(|changes| *changes += 1);
    }

    /// How deliveries ended since the start.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Sends a webhook a message that tells of nothing, and gives the status of the answer. One that was disabled is
    /// enabled when it takes that.
    ///
    /// # Errors
    /// [`TestError`].
    pub async fn test(&self, webhook: &WebhookRecord) -> Result<u16, TestError> {
        let mut poster = self.poster(webhook).await?.ok_or(TestError::OfSettings)?;
        let random: [u8; 16] = random_bytes().map_err(TestError::NotTaken)?;
        let id = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let message = Message::test(&webhook.id, id, unix_seconds());
        let status = poster.post(&message, ATTEMPT_LIMIT).await.map_err(|error| TestError::NotTaken(error.why))?;
        if webhook.disabled_ms.is_some() {
            self.records.enable_webhook(&webhook.id).await?;
            self.changed();
        }
        Ok(status.as_u16())
    }

    /// Waits until every event has been taken that can be now, but not for longer than `limit`.
    pub async fn finish(&self, limit: Duration) {
        let Ok(last) = self.records.last_event().await else { return };
        let all: Vec<_> = self.lock().iter().map(|(id, progress)| (id.clone(), progress.clone())).collect();
        let finished = async {
            for (_, progress) in &mut all.clone() {
                // One whose task has ended has nothing to send.
                let _ = progress.wait_for(|now| now.last_event >= last || now.is_paused).await;
            }
        };
        let _ = tokio::time::timeout(limit, finished).await;
        for (webhook, progress) in all {
            let events = last - progress.borrow().last_event;
            if events > 0 {
                tracing::warn!(
                    webhook,
                    events,
                    "the validator ends before a webhook had all events: the others follow when one runs again"
                );
            }
        }
    }

    /// Gives every enabled webhook a task, and ends those of the others; for ever.
    async fn keep(self) {
        let mut tasks: HashMap<String, JoinHandle<()>> = HashMap::new();
        let (mut changes, mut of_settings) = (self.changed.subscribe(), self.of_settings.subscribe());
        let (mut rounds, mut kept) = (0_u32, None);
        loop {
            if let Err(error) = self.assign(&mut tasks, &mut of_settings, &mut kept).await {
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
                _ = of_settings.changed() => {}
            }
        }
    }

    async fn assign(
        &self,
        tasks: &mut HashMap<String, JoinHandle<()>>,
        of_settings: &mut watch::Receiver<Option<Target>>,
        kept: &mut Option<String>,
    ) -> Result<(), RecordsError> {
        let target = of_settings.borrow_and_update().clone();
        let own = target.as_ref().map(Target::id);
        let mut webhooks = self.records.webhooks().await?;
        // Once for each that the settings name: one that is disabled while it is named stays so.
        if *kept != own {
            keep(&self.records, target.as_ref()).await?;
            kept.clone_from(&own);
            webhooks = self.records.webhooks().await?;
        }
        let is_ours = |webhook: &WebhookRecord| match webhook.source {
            WebhookSource::Operator => true,
            WebhookSource::Settings => own.as_ref() == Some(&webhook.id),
        };
        webhooks.retain(|webhook| webhook.disabled_ms.is_none() && is_ours(webhook));
        tasks.retain(|id, task| {
            let stays = !task.is_finished() && webhooks.iter().any(|webhook| webhook.id == *id);
            if !stays {
                task.abort();
                self.lock().remove(id);
            }
            stays
        });
        for webhook in webhooks {
            if !tasks.contains_key(&webhook.id)
                && let Some(courier) = self.courier(&webhook, target.as_ref()).await?
            {
                self.lock().insert(webhook.id.clone(), courier.progress.subscribe());
                tasks.insert(webhook.id, tokio::spawn(courier.run()));
            }
        }
        Ok(())
    }

    async fn courier(&self, webhook: &WebhookRecord, target: Option<&Target>) -> Result<Option<Courier>, RecordsError> {
        let (means, kinds) = match (webhook.source, target) {
            (WebhookSource::Settings, Some(target)) => (Means::of(target.clone()), KINDS_OF_SETTINGS.to_vec()),
            (WebhookSource::Settings, None) => return Ok(None),
            (WebhookSource::Operator, _) => match self.poster(webhook).await? {
                Some(poster) => (Means::Post(poster), webhook.kinds.clone()),
                None => return Ok(None),
            },
        };
        let last_event = webhook.delivery.last_event;
        Ok(Some(Courier {
            records: self.records.clone(),
            holder: self.holder.clone(),
            id: webhook.id.clone(),
            shown: webhook.target.clone(),
            means,
            kinds,
            progress: watch::Sender::new(Progress { last_event, is_paused: false }),
            counts: self.counts.clone(),
        }))
    }

    /// What posts to a webhook of the records; `None` where it has no URL that can be posted to.
    async fn poster(&self, webhook: &WebhookRecord) -> Result<Option<Poster>, RecordsError> {
        let Some(secrets) = self.records.webhook_secrets(&webhook.id).await? else { return Ok(None) };
        let url = secrets.url.parse::<Url>().ok();
        Ok(url.map(|url| Poster::new(url, Secret::kept(secrets.secret))))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, watch::Receiver<Progress>>> {
        self.progress.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Notes the webhook of the settings, where there is one: it is sent what happens from then on, or what it has not had.
///
/// # Errors
/// The records cannot be written.
pub async fn keep(records: &Records, of_settings: Option<&Target>) -> Result<(), RecordsError> {
    match of_settings {
        Some(target) => records.keep_webhook(&target.id(), &target.to_string()).await,
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
