//! Requests that come while others are on their way to the database are grouped, since many take as long as one: a disk
//! to commit, a thread to wake up. A request is answered only once it is done.

use std::collections::VecDeque;

use tokio::sync::oneshot;

use crate::Result;
use parking_lot::Mutex;

/// The most requests in a group, so that later ones do not wait for long.
const MAX_GROUP: usize = 64;

/// Requests that wait, in the order of their arrival.
#[derive(Debug)]
pub(crate) struct RequestGroup<A, R>(Mutex<RequestQueue<A, R>>);

#[derive(Debug)]
struct RequestQueue<A, R> {
    waiting: VecDeque<PendingRequest<A, R>>,
    /// Count of running tasks.
    workers: usize,
    max_workers: usize,
}

/// A request, and the channel of its answer.
#[derive(Debug)]
pub(crate) struct PendingRequest<A, R> {
    pub(crate) asked: A,
    pub(crate) done: oneshot::Sender<Result<R>>,
}

impl<A, R> RequestGroup<A, R> {
    /// A group with at most `max_workers` tasks at once.
    pub(crate) const fn new(max_workers: usize) -> Self {
        Self(Mutex::new(RequestQueue { waiting: VecDeque::new(), workers: 0, max_workers }))
    }

    /// Waits for the answer. `work` is begun as a task where too few work already.
    pub(crate) async fn ask<W>(&self, asked: A, work: impl FnOnce() -> W) -> Result<R>
    where
        W: Future<Output = ()> + Send + 'static,
    {
        let (done, answer) = oneshot::channel();
        if self.push(PendingRequest { asked, done }) {
            tokio::spawn(work());
        }
        // Without an answer it is as with a connection that broke: it may be done or not, and can be repeated.
        answer.await.unwrap_or_else(|_| Err(sqlx::Error::WorkerCrashed.into()))
    }

    /// Puts it behind the others; says whether the caller is to begin a task that works.
    fn push(&self, waiting: PendingRequest<A, R>) -> bool {
        let mut queue = self.0.lock();
        queue.waiting.push_back(waiting);
        let begins = queue.workers < queue.max_workers;
        queue.workers += usize::from(begins);
        begins
    }

    /// A task that works: where it panics, the next one to ask begins another one.
    pub(crate) const fn worker(&self) -> Worker<'_, A, R> {
        Worker { group: self, has_ended: false }
    }

    /// The next requests, at most [`MAX_GROUP`]; `None` ends the task that asks. Requests whose sender waits no more
    /// are passed over.
    fn next(&self) -> Option<Vec<PendingRequest<A, R>>> {
        let mut queue = self.0.lock();
        let mut next = Vec::new();
        while next.len() < MAX_GROUP
            && let Some(waiting) = queue.waiting.pop_front()
        {
            if !waiting.done.is_closed() {
                next.push(waiting);
            }
        }
        if next.is_empty() {
            queue.workers -= 1;
            return None;
        }
        Some(next)
    }
}

/// Counts as a task that works until it has no more to do.
#[derive(Debug)]
pub(crate) struct Worker<'a, A, R> {
    group: &'a RequestGroup<A, R>,
    has_ended: bool,
}

impl<A, R> Worker<'_, A, R> {
    /// The next requests; `None` ends the task.
    pub(crate) fn next(&mut self) -> Option<Vec<PendingRequest<A, R>>> {
        let next = self.group.next();
        self.has_ended = next.is_none();
        next
    }
}

impl<A, R> Drop for Worker<'_, A, R> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.group.0.lock().workers -= 1;
        }
    }
}
