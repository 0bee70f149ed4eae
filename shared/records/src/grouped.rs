//! What is written in transactions that several share: challenges that begin, and verdicts.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::conclude::conclude;
use crate::group::{Waiting, Write};
use crate::store::Store;
use crate::tx::Tx;
use crate::{Begun, Conclusion, Records, RecordsError, challenges};

impl Records {
    /// Notes a challenge before its offer goes out, so that none is lost with its validator.
    ///
    /// # Errors
    /// The store cannot be written.
    pub async fn begin_challenge(&self, begun: &Begun) -> Result<(), RecordsError> {
        let write = Write::Begin(Box::new(begun.clone()));
        self.write("note a challenge", self.store.write_grouped(write)).await
    }

    /// Writes a verdict and all that becomes known with it, whole or not at all; it is on disk when this returns.
    /// The same verdict again changes nothing.
    ///
    /// # Errors
    /// [`RecordsError::ConcludedBefore`] when the challenge has another verdict: this one must not be given out. Else
    /// the store cannot be written, and the same call can be tried again.
    pub async fn conclude(&self, conclusion: &Conclusion) -> Result<(), RecordsError> {
        let write = Write::Conclude(Box::new(conclusion.clone()));
        self.write("record a verdict", self.store.write_grouped(write)).await
    }
}

impl Write {
    /// False where it was written before.
    async fn write(&self, tx: &mut Tx) -> Result<bool, RecordsError> {
        match self {
            Self::Begin(begun) => challenges::begin(tx, begun).await.map(|()| true),
            Self::Conclude(conclusion) => conclude(tx, conclusion).await,
        }
    }
}

impl Store {
    /// Writes with others, and waits until it is on disk.
    async fn write_grouped(self: &Arc<Self>, write: Write) -> Result<(), RecordsError> {
        let (done, written) = oneshot::channel();
        if self.group.push(Waiting { write, done }) {
            tokio::spawn(write_waiting(self.clone()));
        }
        // Without an answer it is as with a connection that broke: it may be written or not, and can be repeated.
        written.await.unwrap_or_else(|_| Err(sqlx::Error::WorkerCrashed.into()))
    }

    /// All of them in one transaction.
    async fn write_together(&self, group: &[Waiting]) -> Result<(), RecordsError> {
        let mut tx = self.begin_told().await?;
        for waiting in group {
            waiting.write.write(&mut tx).await?;
        }
        tx.commit().await
    }

    async fn write_alone(&self, write: &Write) -> Result<(), RecordsError> {
        let mut tx = self.begin_told().await?;
        if write.write(&mut tx).await? {
            tx.commit().await?;
        }
        Ok(())
    }
}

/// Writes what waits until nothing does.
async fn write_waiting(store: Arc<Store>) {
    let mut writer = Writer { store, has_ended: false };
    while let Some(group) = writer.store.group.next() {
        if group.len() > 1 && writer.store.write_together(&group).await.is_ok() {
            // A caller that has gone does not want to know.
            group.into_iter().for_each(|waiting| drop(waiting.done.send(Ok(()))));
            continue;
        }
        // One that cannot be written keeps none of the others from it.
        for Waiting { write, done } in group {
            let written = writer.store.write_alone(&write).await;
            drop(done.send(written));
        }
    }
    writer.has_ended = true;
}

/// A task that writes: where it panics, the next write begins another one.
struct Writer {
    store: Arc<Store>,
    has_ended: bool,
}

impl Drop for Writer {
    fn drop(&mut self) {
        if !self.has_ended {
            self.store.group.writer_ended();
        }
    }
}
