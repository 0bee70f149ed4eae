//! Transactions that write, with the events of their changes.

use std::mem;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use sqlx::{Any, AnyConnection, Transaction};
use tokio::sync::watch;

use crate::document::malformed;
use crate::rows::Rows;
use crate::{EventDocument, Result, id};

/// The number of the last event that this process knows of.
#[derive(Debug, Default)]
pub(crate) struct LastEvent(watch::Sender<i64>);

impl LastEvent {
    /// Notes the number of the last event; an older number changes nothing.
    pub(crate) fn note(&self, last: i64) {
        self.0.send_if_modified(|known| {
            let is_newer = last > *known;
            *known = last.max(*known);
            is_newer
        });
    }

    /// It, and each change of it.
    pub(crate) fn subscribe(&self) -> watch::Receiver<i64> {
        self.0.subscribe()
    }

    /// Whether it has subscribers.
    pub(crate) fn is_watched(&self) -> bool {
        self.0.receiver_count() > 0
    }
}

/// A transaction that can write, with the events of its changes.
pub(crate) struct Tx {
    inner: Transaction<'static, Any>,
    events: Vec<UnnumberedEvent>,
    last_event: Arc<LastEvent>,
}

/// An event that has no number yet.
struct UnnumberedEvent {
    at_ms: i64,
    miner: Option<String>,
    challenge: Option<String>,
    told: EventDocument,
}

impl Tx {
    pub(crate) fn new(inner: Transaction<'static, Any>, last_event: Arc<LastEvent>) -> Self {
        Self { inner, events: Vec::new(), last_event }
    }

    /// Adds the event of a change by this transaction.
    pub(crate) fn tell(&mut self, at_ms: i64, miner: Option<&str>, challenge: Option<&str>, told: EventDocument) {
        let (miner, challenge) = (miner.map(str::to_owned), challenge.map(str::to_owned));
        self.events.push(UnnumberedEvent { at_ms, miner, challenge, told });
    }

    /// Commits it, with its events.
    pub(crate) async fn commit(mut self) -> Result<()> {
        let last = self.write_events().await?;
        let Self { inner, last_event, .. } = self;
        inner.commit().await?;
        if let Some(last) = last {
            last_event.note(last);
        }
        Ok(())
    }

    /// Writes the events and gives the number of the last one.
    ///
    /// On PostgreSQL the row with the last number stays locked until the end of the transaction: so the order of
    /// numbers is that of commits, and this is the last statement of a transaction.
    async fn write_events(&mut self) -> Result<Option<i64>> {
        let count = i64::try_from(self.events.len()).unwrap_or(i64::MAX);
        if count == 0 {
            return Ok(None);
        }
        let sql = "UPDATE store SET last_event = last_event + $1 WHERE id = 1 RETURNING last_event";
        let last: i64 = sqlx::query_scalar(sql).bind(count).fetch_one(&mut *self.inner).await?;
        let mut insert = Rows::new("INSERT INTO events (seq, id, at_ms, kind, miner, challenge, document) VALUES", "");
        for (seq, event) in (last - count + 1..).zip(mem::take(&mut self.events)) {
            let UnnumberedEvent { at_ms, miner, challenge, told } = event;
            let (id, document) = (id::new(at_ms)?, told.document().map_err(malformed)?);
            insert.push([
                seq.into(),
                id.into(),
                at_ms.into(),
                told.kind().name().into(),
                miner.into(),
                challenge.into(),
                document.into(),
            ]);
        }
        insert.execute(self).await?;
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
