//! The outbox: events are written in the transaction that makes the change they report, so that every change has its
//! event and every event its change. Their numbers have no gaps, and a reader that has seen one has seen all before it.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use sqlx::any::AnyRow;
use tokio::sync::watch;

use crate::column::{get, read};
use crate::document::json;
use crate::document::malformed;
use crate::store::Store;
use crate::{EventDocument, EventKind, EventRecord, HealthEvent, MAX_ROWS, Records, RecordsError, Result};

/// How long events are kept.
pub const MAX_EVENT_AGE: Duration = Duration::from_secs(7 * 86_400);
/// How many events are kept; the oldest go first.
pub const MAX_EVENTS: i64 = 1_000_000;
/// Events that one transaction removes, so that no other writer waits for long.
const MAX_PRUNED: i64 = 10_000;
/// How often other validators' events are looked for.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Looks for the events of other validators, for as long as the store is open and has subscribers.
async fn poll(store: Weak<Store>) {
    loop {
        tokio::time::sleep(POLL_INTERVAL).await;
        let Some(store) = store.upgrade() else { return };
        if store.last_event.is_watched()
            && let Ok(last) = store.read_last_event().await
        {
            store.last_event.note(last);
        }
    }
}

impl Store {
    /// The number of the last event, as the database has it.
    async fn read_last_event(&self) -> Result<i64> {
        let last = sqlx::query_scalar("SELECT last_event FROM store WHERE id = 1").fetch_one(self.read()).await;
        last.map_err(|e| RecordsError::from(e).doing("look for events"))
    }
}

impl Records {
    /// The events after one, in order, without those of kinds that only a newer release knows. Where the first of them
    /// does not follow it, those between were removed, or are of such kinds.
    pub async fn events(&self, after: i64, limit: u32) -> Result<Vec<EventRecord>> {
        let kinds = EventKind::ALL.map(EventKind::name).join("', '");
        let sql = sql!("SELECT * FROM events WHERE seq > $1 AND kind IN ('{kinds}') ORDER BY seq LIMIT $2");
        self.list("read events", sqlx::query(sql).bind(after).bind(i64::from(limit.min(MAX_ROWS))), event_of).await
    }

    /// The number of the last event; 0 before the first one.
    pub async fn last_event(&self) -> Result<i64> {
        self.store.read_last_event().await
    }

    /// The number of the last event, and whether operators acted between another one and it. The order of events is that
    /// of their transactions, and depends on no clock.
    pub async fn actions_since(&self, after: i64) -> Result<(i64, bool), RecordsError> {
        let last = self.last_event().await?;
        let sql = "SELECT COUNT(*) FROM events WHERE seq > $1 AND seq <= $2 AND kind = 'action'";
        let count = sqlx::query_scalar(sql).bind(after).bind(last).fetch_one(self.read()).await;
        let count: i64 = count.map_err(|e| RecordsError::from(e).doing("look for operators' actions"))?;
        Ok((last, count > 0))
    }

    /// The number of the oldest event that is kept; `None` in an empty outbox.
    pub async fn first_event(&self) -> Result<Option<i64>> {
        let first = sqlx::query_scalar("SELECT MIN(seq) FROM events").fetch_one(self.read()).await;
        first.map_err(|e| RecordsError::from(e).doing("look for events"))
    }

    /// The number of the last event, and each change of it: at once for this process's, within a second for others'.
    ///
    /// # Panics
    /// Panics outside a Tokio runtime.
    pub fn event_watch(&self) -> watch::Receiver<i64> {
        let watch = self.store.last_event.subscribe();
        if self.store.is_shared() && !self.store.is_polled.swap(true, Ordering::AcqRel) {
            tokio::spawn(poll(Arc::downgrade(&self.store)));
        }
        watch
    }

    /// Notes that a validator serves, or does not, with its event.
    pub async fn note_health(&self, health: HealthEvent, at_ms: i64) -> Result<()> {
        transaction!(self, "note the validator's health", |tx| {
            tx.tell(at_ms, None, None, EventDocument::Health(health));
        })
    }

    /// Removes the events that are older than [`MAX_EVENT_AGE`] by the database's clock or more than [`MAX_EVENTS`], and
    /// gives how many.
    pub async fn prune_events(&self) -> Result<u64> {
        let age_ms = i64::try_from(MAX_EVENT_AGE.as_millis()).unwrap_or(i64::MAX);
        self.prune(self.now_ms().await? - age_ms, MAX_EVENTS).await
    }

    /// Removes the events before the first one that is not of before a time, and all but the newest `kept`.
    pub async fn prune(&self, before_ms: i64, kept: i64) -> Result<u64> {
        let mut removed = 0;
        loop {
            let some = self.prune_some(before_ms, kept).await?;
            removed += some;
            if some == 0 {
                return Ok(removed);
            }
        }
    }

    async fn prune_some(&self, before_ms: i64, kept: i64) -> Result<u64> {
        // The oldest have the lowest numbers, unless the clock of a validator is wrong: one behind removes no others.
        let sql = "WITH oldest AS (SELECT seq, at_ms FROM events ORDER BY seq LIMIT $3) SELECT MAX(seq) FROM oldest \
             WHERE seq <= (SELECT last_event FROM store WHERE id = 1) - $2 OR (at_ms < $1 AND seq < \
             COALESCE((SELECT MIN(k.seq) FROM oldest k WHERE k.at_ms >= $1), 9223372036854775807))";
        let until = sqlx::query_scalar(sql).bind(before_ms).bind(kept).bind(MAX_PRUNED).fetch_one(self.read()).await;
        let until: Option<i64> = until.map_err(|e| RecordsError::from(e).doing("look for old events"))?;
        let Some(until) = until else { return Ok(0) };
        transaction!(self, "remove old events", |tx| {
            let removed = sqlx::query("DELETE FROM events WHERE seq <= $1").bind(until).execute(&mut *tx).await?;
            removed.rows_affected()
        })
    }
}

fn event_of(row: &AnyRow) -> Result<EventRecord> {
    let kind = json(&format!("\"{}\"", get::<String>(row, "kind")?), "kind of event")?;
    Ok(read!(row => EventRecord {
        seq, id, at_ms, miner, challenge;
        told: EventDocument::parse(kind, &get::<String>(row, "document")?).map_err(malformed)?,
    }))
}
