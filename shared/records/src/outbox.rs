//! The outbox: events are written in the transaction that does what they tell, so that none is lost and none told that
//! did not happen. Their numbers have no gaps, and whoever has seen one has seen all before it.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Weak};
use std::time::Duration;

use sqlx::any::AnyRow;
use sqlx::{Any, AnyConnection, Transaction};
use tokio::sync::watch;

use crate::store::{Store, get, json};
use crate::{EventRecord, HealthTold, MAX_ROWS, Records, RecordsError, Told, id};

/// How long events are kept.
pub const MAX_EVENT_AGE: Duration = Duration::from_secs(7 * 86_400);
/// How many events are kept; the oldest go first.
pub const MAX_EVENTS: i64 = 1_000_000;
/// Events that one transaction removes, so that no other writer waits for long.
const MAX_PRUNED: i64 = 10_000;
/// Events in one statement.
const MAX_EVENTS_AT_ONCE: usize = 64;
/// How often other validators' events are looked for.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// A transaction that can write, with the events that tell of it.
pub(crate) struct Tx {
    inner: Transaction<'static, Any>,
    events: Vec<Untold>,
    store: Arc<Store>,
}

/// An event that has no number yet.
struct Untold {
    at_ms: i64,
    miner: Option<String>,
    challenge: Option<String>,
    told: Told,
}

impl Tx {
    pub(crate) fn new(inner: Transaction<'static, Any>, store: Arc<Store>) -> Self {
        Self { inner, events: Vec::new(), store }
    }

    /// Tells of something that this transaction does.
    pub(crate) fn tell(&mut self, at_ms: i64, miner: Option<&str>, challenge: Option<&str>, told: Told) {
        let (miner, challenge) = (miner.map(str::to_owned), challenge.map(str::to_owned));
        self.events.push(Untold { at_ms, miner, challenge, told });
    }

    /// Commits it, with its events.
    pub(crate) async fn commit(mut self) -> Result<(), RecordsError> {
        let last = self.write_events().await?;
        let Self { inner, store, .. } = self;
        inner.commit().await?;
        if let Some(last) = last {
            note(&store.last_event, last);
        }
        Ok(())
    }

    /// Writes the events and gives the number of the last one.
    ///
    /// On PostgreSQL the row with the last number stays locked until the end of the transaction: that is what makes the
    /// order of numbers that of commits. So it is the last thing that a transaction does.
    async fn write_events(&mut self) -> Result<Option<i64>, RecordsError> {
        let count = i64::try_from(self.events.len()).unwrap_or(i64::MAX);
        if count == 0 {
            return Ok(None);
        }
        let sql = "UPDATE store SET last_event = last_event + $1 WHERE id = 1 RETURNING last_event";
        let last: i64 = sqlx::query_scalar(sql).bind(count).fetch_one(&mut *self.inner).await?;
        let mut seq = last - count;
        for events in self.events.chunks(MAX_EVENTS_AT_ONCE) {
            let sql = insert(events.len());
            let mut query = sqlx::query(&sql);
            for Untold { at_ms, miner, challenge, told } in events {
                seq += 1;
                query = query.bind(seq).bind(id::new(*at_ms)?).bind(*at_ms).bind(told.kind().name());
                query = query.bind(miner.clone()).bind(challenge.clone()).bind(told.document()?);
            }
            query.execute(&mut *self.inner).await?;
        }
        Ok(Some(last))
    }
}

impl Deref for Tx {
    type Target = AnyConnection;

    fn deref(&self) -> &AnyConnection {
        &self.inner
    }
}

impl DerefMut for Tx {
    fn deref_mut(&mut self) -> &mut AnyConnection {
        &mut self.inner
    }
}

fn insert(rows: usize) -> String {
    let row = |row: usize| {
        let columns: Vec<_> = (1..=7).map(|column| format!("${}", row * 7 + column)).collect();
        format!("({})", columns.join(", "))
    };
    let rows: Vec<_> = (0..rows).map(row).collect();
    format!("INSERT INTO events (seq, id, at_ms, kind, miner, challenge, document) VALUES {}", rows.join(", "))
}

/// Notes the number of the last event; what is older than what is known changes nothing.
fn note(last_event: &watch::Sender<i64>, last: i64) {
    last_event.send_if_modified(|known| {
        let is_newer = last > *known;
        *known = last.max(*known);
        is_newer
    });
}

/// Looks for the events of other validators, for as long as the store is open and somebody wants to know.
pub(crate) async fn poll(store: Weak<Store>) {
    loop {
        tokio::time::sleep(POLL_INTERVAL).await;
        let Some(store) = store.upgrade() else { return };
        if store.last_event.receiver_count() > 0
            && let Ok(last) = store.read_last_event().await
        {
            note(&store.last_event, last);
        }
    }
}

impl Store {
    /// The number of the last event, as the database has it.
    pub(crate) async fn read_last_event(&self) -> Result<i64, RecordsError> {
        let last = sqlx::query_scalar("SELECT last_event FROM store WHERE id = 1").fetch_one(self.read()).await;
        last.map_err(|e| RecordsError::from(e).doing("look for events"))
    }
}

impl Records {
    /// The events after one, in order. Where the first of them does not follow it, those between were removed.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn events(&self, after: i64, limit: u32) -> Result<Vec<EventRecord>, RecordsError> {
        let sql = "SELECT * FROM events WHERE seq > $1 ORDER BY seq LIMIT $2";
        let rows = sqlx::query(sql).bind(after).bind(i64::from(limit.min(MAX_ROWS))).fetch_all(self.read()).await;
        let rows = rows.map_err(|e| RecordsError::from(e).doing("read events"))?;
        rows.iter().map(event_of).collect()
    }

    /// The number of the last event; 0 before the first one.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn last_event(&self) -> Result<i64, RecordsError> {
        self.store.read_last_event().await
    }

    /// The number of the oldest event that is kept; `None` where there is none.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn first_event(&self) -> Result<Option<i64>, RecordsError> {
        let first = sqlx::query_scalar("SELECT MIN(seq) FROM events").fetch_one(self.read()).await;
        first.map_err(|e| RecordsError::from(e).doing("look for events"))
    }

    /// The number of the last event, and each change of it: at once for this process's, within a second for others'.
    #[must_use]
    pub fn event_watch(&self) -> watch::Receiver<i64> {
        self.store.last_event.subscribe()
    }

    /// Tells that a validator serves, or does not.
    ///
    /// # Errors
    /// The store cannot be written.
    pub async fn note_health(&self, health: HealthTold, at_ms: i64) -> Result<(), RecordsError> {
        self.write("note the validator's health", async {
            let mut tx = self.begin().await?;
            tx.tell(at_ms, None, None, Told::Health(health));
            tx.commit().await
        })
        .await
    }

    /// Removes the events that are older than [`MAX_EVENT_AGE`] or more than [`MAX_EVENTS`], and gives how many.
    ///
    /// # Errors
    /// The store cannot be written.
    pub async fn prune_events(&self) -> Result<u64, RecordsError> {
        let age_ms = i64::try_from(MAX_EVENT_AGE.as_millis()).unwrap_or(i64::MAX);
        self.prune(id::now_ms() - age_ms, MAX_EVENTS).await
    }

    /// Removes the events of before a time, and all but the newest `kept`.
    ///
    /// # Errors
    /// The store cannot be written.
    pub async fn prune(&self, before_ms: i64, kept: i64) -> Result<u64, RecordsError> {
        let mut removed = 0;
        loop {
            let some = self.prune_some(before_ms, kept).await?;
            removed += some;
            if some == 0 {
                return Ok(removed);
            }
        }
    }

    async fn prune_some(&self, before_ms: i64, kept: i64) -> Result<u64, RecordsError> {
        // The oldest come first in order of numbers too, but for what clocks do.
        let sql = "SELECT MAX(seq) FROM (SELECT seq, at_ms FROM events ORDER BY seq LIMIT $3) AS oldest \
             WHERE at_ms < $1 OR seq <= (SELECT last_event FROM store WHERE id = 1) - $2";
        let until = sqlx::query_scalar(sql).bind(before_ms).bind(kept).bind(MAX_PRUNED).fetch_one(self.read()).await;
        let until: Option<i64> = until.map_err(|e| RecordsError::from(e).doing("look for old events"))?;
        let Some(until) = until else { return Ok(0) };
        self.write("remove old events", async {
            let mut tx = self.begin().await?;
            let removed = sqlx::query("DELETE FROM events WHERE seq <= $1").bind(until).execute(&mut *tx).await?;
            tx.commit().await?;
            Ok(removed.rows_affected())
        })
        .await
    }
}

fn event_of(row: &AnyRow) -> Result<EventRecord, RecordsError> {
    let kind = json(&format!("\"{}\"", get::<String>(row, "kind")?), "kind of event")?;
    Ok(EventRecord {
        seq: get(row, "seq")?,
        id: get(row, "id")?,
        at_ms: get(row, "at_ms")?,
        miner: get(row, "miner")?,
        challenge: get(row, "challenge")?,
        told: Told::parse(kind, &get::<String>(row, "document")?)?,
    })
}
