//! Group commit: what comes while a transaction is on its way to the disk goes into the next one together, since a disk
//! takes as long for one as for many. Nobody is answered before the commit of what he wrote.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::{Begun, Conclusion, RecordsError};

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
pub(crate) struct Waiting {
    pub(crate) write: Write,
    pub(crate) done: oneshot::Sender<Result<(), RecordsError>>,
}

impl Group {
    /// So many transactions at once.
    pub(crate) const fn new(max_writers: usize) -> Self {
        Self(Mutex::new(Queue { waiting: VecDeque::new(), writers: 0, max_writers }))
    }

    /// Puts a write behind the others; says whether the caller is to begin a task that writes.
    pub(crate) fn push(&self, waiting: Waiting) -> bool {
        let mut queue = self.lock();
        queue.waiting.push_back(waiting);
        let begins = queue.writers < queue.max_writers;
        queue.writers += usize::from(begins);
        begins
    }

    /// A task that writes has ended before there was nothing left.
    pub(crate) fn writer_ended(&self) {
        self.lock().writers -= 1;
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next ones, at most [`MAX_GROUP`]; none ends the task that asks. Whoever waits no more is passed over.
    pub(crate) fn next(&self) -> Option<Vec<Waiting>> {
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
