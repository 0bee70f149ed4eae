//! Group commit: what comes while a transaction is on its way to the disk goes into the next one together, since a disk
//! takes as long for one as for many. Nobody is answered before the commit of what he wrote.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::conclude::conclude;
use crate::outbox::Tx;
use crate::store::Store;
use crate::{Begun, Conclusion, RecordsError, challenges};

/// Writes of one transaction, so that no other writer waits for long.
const MAX_GROUP: usize = 64;

/// What can share a transaction.
#[derive(Debug)]
pub(crate) enum Write {
    /// A challenge that begins.
    Begin(Box<Begun>),
    /// A verdict.
    Conclude(Box<Conclusion>),
}

/// Writes that wait for their transaction, in the order in which they came.
#[derive(Debug)]
pub(crate) struct Group(Mutex<Queue>);

#[derive(Debug)]
struct Queue {
    waiting: VecDeque<Waiting>,
    /// Tasks that write.
    writers: usize,
    max_writers: usize,
}

#[derive(Debug)]
struct Waiting {
    write: Write,
    done: oneshot::Sender<Result<(), RecordsError>>,
}

impl Group {
    /// So many transactions at once.
    pub(crate) const fn new(max_writers: usize) -> Self {
        Self(Mutex::new(Queue { waiting: VecDeque::new(), writers: 0, max_writers }))
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next ones, at most [`MAX_GROUP`]; none ends the task that asks. Whoever waits no more is passed over.
    fn next(&self) -> Option<Vec<Waiting>> {
        let mut queue = self.lock();
        let mut next = Vec::new();
        while next.len() < MAX_GROUP
            && let Some(waiting) = queue.waiting.pop_front()
        {
            if !waiting.done.is_closed() {
                next.push(waiting);
            }
        }
        if next.is_empty() {
            queue.writers -= 1;
            return None;
        }
        Some(next)
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
    pub(crate) async fn write_grouped(self: &Arc<Self>, write: Write) -> Result<(), RecordsError> {
        let (done, written) = oneshot::channel();
        let begins = {
            let mut queue = self.group.lock();
            queue.waiting.push_back(Waiting { write, done });
            let begins = queue.writers < queue.max_writers;
            queue.writers += usize::from(begins);
            begins
        };
        if begins {
            tokio::spawn(write_waiting(self.clone()));
        }
        // Without an answer it is as with a connection that broke: it may be written or not, and can be repeated.
        written.await.unwrap_or_else(|_| Err(sqlx::Error::WorkerCrashed.into()))
    }

    /// All of them in one transaction.
    async fn write_together(self: &Arc<Self>, group: &[Waiting]) -> Result<(), RecordsError> {
        let mut tx = self.begin_told().await?;
        for waiting in group {
            waiting.write.write(&mut tx).await?;
        }
        tx.commit().await
    }

    async fn write_alone(self: &Arc<Self>, write: &Write) -> Result<(), RecordsError> {
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
            self.store.group.lock().writers -= 1;
        }
    }
}
