//! The task of one webhook: events go out in order, one after the other, until each was taken.
//!
//! Of several validators that share their records the one with the webhook's lease sends. It counts the lease from
//! before it asked, and renews it before each attempt that could outlast it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use assay_records::{EventKind, EventRecord, Location, Records, RecordsError, WebhookRecord};
use tokio::sync::watch;

use super::message::Message;
use super::post::{NotTaken, Poster};
use super::target::Target;
use super::{ATTEMPT_LIMIT, Counts, FIRST_PAUSE, MAX_FAILING, MAX_PAUSE, MAX_RETRY_AFTER, command};
use crate::clock::unix_ms;
use crate::entropy::{Entropy, OsEntropy};

/// How long a lease stands without a sign of life: so long a webhook waits when its validator is lost.
const LEASE: Duration = Duration::from_secs(20);
/// How old a lease may be when an attempt begins: the attempt ends before the lease does.
const RENEWAL: Duration = Duration::from_secs(5);
/// How often another validator's lease is asked for, and records that cannot be read.
const PATIENCE: Duration = Duration::from_secs(2);
/// Events that are read at once.
const MAX_BATCH: u32 = 32;
/// How long until it is noted which events were taken: after a crash these are sent again.
const NOTE_INTERVAL: Duration = Duration::from_secs(1);
/// Events of other kinds that are passed over until that is noted.
const MAX_PASSED: i64 = 4096;

/// How far a webhook's task is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// The last event that was taken, or is of another kind.
    pub last_event: i64,
    /// Whether there is nothing to wait for: another validator sends, or the next attempt comes later.
    pub is_paused: bool,
}

/// What sends the events of one webhook.
pub struct Courier {
    /// The records.
    pub records: Records,
    /// The run of this validator's process.
    pub holder: String,
    /// The webhook.
    pub id: String,
    /// Where events go, without what may be secret.
    pub shown: String,
    /// How they get there.
    pub means: Means,
    /// Which events; empty: all.
    pub kinds: Vec<EventKind>,
    /// How far it is.
    pub progress: watch::Sender<Progress>,
    /// What is counted.
    pub counts: Arc<Counts>,
}

/// How events get to a receiver.
#[derive(Debug)]
pub enum Means {
    /// They are posted.
    Post(Poster),
    /// A command reads them.
    Command {
        /// A path, or a name that is looked up in `PATH`.
        program: String,
        /// Its arguments.
        arguments: Vec<String>,
    },
}

impl Means {
    /// For a target of the settings, which signs nothing.
    #[must_use]
    pub fn of(target: Target) -> Self {
        match target {
            Target::Command { program, arguments } => Self::Command { program, arguments },
            Target::Server(url) => Self::Post(Poster::new(url, None)),
        }
    }

    /// One attempt.
    ///
    /// # Errors
    /// [`NotTaken`].
    async fn deliver(&mut self, message: &Message) -> Result<(), NotTaken> {
        match self {
            Self::Post(poster) => poster.post(message, ATTEMPT_LIMIT).await.map(drop),
            Self::Command { program, arguments } => {
                let delivered = command::deliver(program, arguments, &message.body, ATTEMPT_LIMIT).await;
                delivered.map_err(NotTaken::because)
            }
        }
    }
}

/// What a courier knows while it has the lease.
struct Held {
    /// When the lease was asked for last.
    since: Instant,
    /// The last event that was taken, or is of another kind.
    last_event: i64,
    /// As the records have it.
    noted: i64,
    /// When they were told.
    noted_at: Instant,
    /// Events taken since.
    sent: i64,
    /// When the next attempt is made: milliseconds since 1970.
    next_ms: Option<i64>,
}

/// Why a courier ends.
struct Ended;

impl Courier {
    /// Sends events until the webhook is removed or disabled.
    pub async fn run(mut self) {
        let mut events = self.records.event_watch();
        loop {
            match self.hold(&mut events).await {
                Ok(Some(Ended)) => return,
                // Another validator has the lease.
                Ok(None) => {}
                Err(error) => tracing::debug!(webhook = self.id, %error, "a webhook waits for the records"),
            }
            self.pause(0);
            tokio::time::sleep(PATIENCE).await;
        }
    }

    /// Sends events for as long as the lease is this validator's.
    async fn hold(&mut self, events: &mut watch::Receiver<i64>) -> Result<Option<Ended>, RecordsError> {
        let since = Instant::now();
        if !self.take().await? {
            return Ok(None);
        }
        let Some(webhook) = self.enabled().await? else { return Ok(Some(Ended)) };
        let (last_event, next_ms) = (webhook.delivery.last_event, webhook.delivery.next_ms);
        let mut held = Held { since, last_event, noted: last_event, noted_at: since, sent: 0, next_ms };
        loop {
            if !self.renew(&mut held).await? {
                return Ok(None);
            }
            if let Some(next_ms) = held.next_ms {
                self.pause(held.last_event);
                let wait = Duration::from_millis(u64::try_from(next_ms - unix_ms()).unwrap_or(0));
                if !wait.is_zero() {
                    tokio::time::sleep(wait.min(RENEWAL)).await;
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
                // All up to that one were there, and are no more.
                self.skip(&mut held, last).await?;
            } else {
                self.note(&mut held).await?;
                let known = held.last_event;
                self.progress.send_replace(Progress { last_event: known, is_paused: false });
                // The lease is renewed meanwhile; an error would be the end of the records.
                let _ = tokio::time::timeout(RENEWAL, events.wait_for(|last| *last > known)).await;
            }
        }
    }

    /// Sends a batch, as far as it is taken.
    async fn send(&mut self, held: &mut Held, batch: Vec<EventRecord>) -> Result<Option<Ended>, RecordsError> {
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
            let message = Message::of(&event, &self.records).await?;
            match self.means.deliver(&message).await {
                Ok(()) => self.taken(held, &event).await?,
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

    /// Goes on behind events that were removed before they could be sent.
    async fn skip(&self, held: &mut Held, last: i64) -> Result<(), RecordsError> {
        self.note(held).await?;
        let skipped = last - held.last_event;
        tracing::warn!(
            webhook = self.id,
            target = self.shown,
            skipped,
            "events were removed before a webhook had them"
        );
        self.records.skipped(&self.id, last).await?;
        (held.last_event, held.noted) = (last, last);
        Ok(())
    }

    async fn taken(&self, held: &mut Held, event: &EventRecord) -> Result<(), RecordsError> {
        tracing::debug!(webhook = self.id, event = event.id, sequence = event.seq, "a webhook has an event");
        self.counts.taken();
        held.last_event = event.seq;
        held.sent += 1;
        // What failed before is over once it is noted.
        if held.next_ms.take().is_some() || held.noted_at.elapsed() >= NOTE_INTERVAL {
            self.note(held).await?;
        }
        Ok(())
    }

    /// Notes which events were taken; those of other kinds with the next that is, or when there are many.
    async fn note(&self, held: &mut Held) -> Result<(), RecordsError> {
        if held.sent > 0 || held.last_event - held.noted > MAX_PASSED {
            self.records.delivered(&self.id, held.last_event, held.sent).await?;
            (held.noted, held.noted_at, held.sent) = (held.last_event, Instant::now(), 0);
            self.progress.send_replace(Progress { last_event: held.last_event, is_paused: false });
        }
        Ok(())
    }

    /// Notes an attempt that failed, and when the next one follows; disables a webhook that has failed for too long.
    async fn failed(
        &self,
        held: &mut Held,
        event: &EventRecord,
        not_taken: NotTaken,
    ) -> Result<Option<Ended>, RecordsError> {
        self.counts.failed();
        let NotTaken { why, retry_after, is_gone } = not_taken;
        let Some(webhook) = self.enabled().await? else { return Ok(Some(Ended)) };
        let (attempt, now) = (webhook.delivery.attempts + 1, unix_ms());
        let failing =
            Duration::from_millis(webhook.delivery.failing_ms.map_or(0, |since| (now - since).unsigned_abs()));
        let (webhook, target, sequence) = (&self.id, &self.shown, event.seq);
        if is_gone || failing >= MAX_FAILING {
            tracing::error!(webhook, target, sequence, attempt, "a webhook is disabled: {why}");
            self.records.disable_webhook(webhook, &why).await?;
            return Ok(Some(Ended));
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
        self.pause(held.last_event);
        Ok(None)
    }

    fn pause(&self, last_event: i64) {
        self.progress.send_modify(|progress| {
            *progress = Progress { last_event: progress.last_event.max(last_event), is_paused: true };
        });
    }

    async fn enabled(&self) -> Result<Option<WebhookRecord>, RecordsError> {
        Ok(self.records.webhook(&self.id).await?.filter(|webhook| webhook.disabled_ms.is_none()))
    }

    /// Takes the lease; a file is one validator's alone.
    async fn take(&self) -> Result<bool, RecordsError> {
        match self.records.location() {
            Location::File(_) => Ok(true),
            Location::Postgres(_) => self.records.lease(&lease_of(&self.id), &self.holder, LEASE).await,
        }
    }

    /// Renews a lease that may end before an attempt does. False where it is lost.
    async fn renew(&self, held: &mut Held) -> Result<bool, RecordsError> {
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

/// The subject of a webhook's lease.
pub fn lease_of(id: &str) -> String {
    format!("webhook:{id}")
}

/// The pause before the next attempt: twice as long after each that failed, and up to a half of it less, so that not all
/// who failed at once come back at once.
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
    fn pauses_double_up_to_their_bound_with_jitter() {
        for (attempt, most_s) in [(1, 1), (2, 2), (5, 16), (10, 512), (11, 900), (1000, 900)] {
            let most = Duration::from_secs(most_s);
            let pauses: Vec<_> = (0..64).map(|_| backoff(attempt)).collect();
            assert!(pauses.iter().all(|pause| *pause <= most && *pause >= most / 2), "{attempt}: {pauses:?}");
            assert!(pauses.iter().any(|pause| *pause != pauses[0]), "{attempt}: {pauses:?}");
        }
    }
}
