//! The hook: a command or an HTTP server that is told of verdicts, of miners that come and go, and of health.
//!
//! It runs beside the validator and never holds anything up: events wait in a bounded queue, of which those that do not
//! fit are counted and dropped; a few are delivered at once, each attempt has a limit, and an event whose attempts all
//! failed is given up. Events carry numbers, since retries may change their order.

mod deliver;
mod target;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use assay_protocol::verdict::Verdict;
use assay_work::PublicKey;
use serde::Serialize;
use tokio::sync::{Semaphore, mpsc, watch};

pub use target::{HookTarget, HookTargetError};

use crate::clock::unix_seconds;

/// Events that wait; more are dropped.
const MAX_WAITING: usize = 1024;
/// Events that are delivered at once.
const MAX_AT_ONCE: usize = 4;
/// Attempts for each event.
const ATTEMPTS: u32 = 5;
/// How long an attempt may take.
const ATTEMPT_LIMIT: Duration = Duration::from_secs(10);
/// How long after the first failed attempt the second follows; twice as long after each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// The session that something happens in.
#[derive(Debug, Clone)]
pub struct Who {
    /// Its number.
    pub session: u64,
    /// The miner's key, proved.
    pub miner: PublicKey,
    /// Where it dialled from.
    pub address: Option<SocketAddr>,
    /// The miner's program and version: a claim.
    pub agent: String,
    /// When it was accepted.
    pub since: Instant,
}

/// What happened.
#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    /// A verdict is on disk.
    Verdict {
        /// The session.
        who: &'a Who,
        /// The verdict.
        verdict: &'a Verdict,
    },
    /// A miner proved its key.
    MinerConnected {
        /// The session.
        who: &'a Who,
        /// How many devices it claims.
        devices: usize,
    },
    /// A miner's session ended.
    MinerLeft {
        /// The session.
        who: &'a Who,
        /// Why.
        why: &'a str,
    },
    /// The validator serves, or does not.
    Health {
        /// Whether it does.
        serving: bool,
        /// Why not.
        why: &'a str,
    },
}

/// An event as it is given out: one JSON object.
#[derive(Debug, Default, Serialize)]
struct Message<'a> {
    event: &'static str,
    /// From 1, in the order in which events happened.
    sequence: u64,
    unix_seconds: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    miner_key: Option<PublicKey>,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    devices: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    connected_seconds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    serving: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    verdict: Option<&'a Verdict>,
}

/// An event that waits to be delivered.
#[derive(Debug)]
struct Job {
    event: &'static str,
    sequence: u64,
    body: Arc<[u8]>,
    _waiting: Waiting,
}

/// Where events go. A clone is the same hook.
#[derive(Debug, Clone)]
pub struct Hook {
    queue: mpsc::Sender<Job>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    target: Mutex<Option<Arc<HookTarget>>>,
    sequence: AtomicU64,
    dropped: AtomicU64,
    /// Events that are neither delivered nor given up.
    waiting: watch::Sender<usize>,
}

/// Counts an event for as long as it waits.
#[derive(Debug)]
struct Waiting(Arc<Shared>);

impl Hook {
    /// Starts the hook's task, inside a Tokio runtime; it ends with the last clone.
    #[must_use]
    pub fn start(target: Option<HookTarget>) -> Self {
        let (queue, jobs) = mpsc::channel(MAX_WAITING);
        let shared = Arc::new(Shared {
            target: Mutex::new(target.map(Arc::new)),
            sequence: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            waiting: watch::Sender::new(0),
        });
        tokio::spawn(deliver_all(jobs, shared.clone()));
        Self { queue, shared }
    }

    /// Sends further events elsewhere, or nowhere.
    pub fn set(&self, target: Option<HookTarget>) {
        *self.shared.target.lock().unwrap_or_else(PoisonError::into_inner) = target.map(Arc::new);
    }

    /// Queues an event; never waits.
    pub fn tell(&self, event: Event<'_>) {
        if self.shared.target().is_none() {
            return;
        }
        let message = self.message(event);
        // Texts and numbers always become JSON.
        let body = serde_json::to_vec(&message).unwrap_or_default().into();
        let (event, sequence) = (message.event, message.sequence);
        let job = Job { event, sequence, body, _waiting: Waiting::new(&self.shared) };
        if self.queue.try_send(job).is_err() && self.shared.dropped.fetch_add(1, Ordering::Relaxed) == 0 {
            tracing::warn!(event, "the hook is slower than what happens: {MAX_WAITING} events wait, more are dropped");
        }
    }

    /// Waits until all events were delivered or given up, but not for longer than `limit`.
    pub async fn finish(&self, limit: Duration) {
        let mut waiting = self.shared.waiting.subscribe();
        // The sender lives as long as this.
        let finished = tokio::time::timeout(limit, waiting.wait_for(|waiting| *waiting == 0)).await.is_ok();
        if !finished {
            tracing::warn!(events = *self.shared.waiting.borrow(), "the validator ends before the hook had all events");
        }
    }

    fn message<'a>(&self, event: Event<'a>) -> Message<'a> {
        let sequence = 1 + self.shared.sequence.fetch_add(1, Ordering::Relaxed);
        let at = |event| Message { event, sequence, unix_seconds: unix_seconds(), ..Message::default() };
        let of = |event, who: &'a Who| Message {
            miner_key: Some(who.miner),
            address: who.address.map(|address| address.to_string()),
            agent: Some(&who.agent),
            ..at(event)
        };
        match event {
            Event::Verdict { who, verdict } => Message { verdict: Some(verdict), ..of("verdict", who) },
            Event::MinerConnected { who, devices } => Message { devices: Some(devices), ..of("miner_connected", who) },
            Event::MinerLeft { who, why } => {
                let connected_seconds = Some(who.since.elapsed().as_secs());
                Message { connected_seconds, why: Some(why), ..of("miner_left", who) }
            }
            Event::Health { serving, why } => Message { serving: Some(serving), why: Some(why), ..at("health") },
        }
    }
}

impl Shared {
    fn target(&self) -> Option<Arc<HookTarget>> {
        self.target.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Waiting {
    fn new(shared: &Arc<Shared>) -> Self {
        shared.waiting.send_modify(|waiting| *waiting += 1);
        Self(shared.clone())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.waiting.send_modify(|waiting| *waiting -= 1);
    }
}

/// Delivers events as they come, a few at once.
async fn deliver_all(mut jobs: mpsc::Receiver<Job>, shared: Arc<Shared>) {
    let places = Arc::new(Semaphore::new(MAX_AT_ONCE));
    while let Some(job) = jobs.recv().await {
        // The semaphore is never closed.
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let dropped = shared.dropped.swap(0, Ordering::Relaxed);
        if dropped > 0 {
            tracing::warn!(dropped, "events were dropped: the hook was slower than what happened");
        }
        let shared = shared.clone();
        tokio::spawn(async move {
            deliver(&job, &shared).await;
            drop((job, place));
        });
    }
}

/// Tries to deliver an event, some times.
async fn deliver(job: &Job, shared: &Shared) {
    let mut pause = FIRST_PAUSE;
    for attempt in 1..=ATTEMPTS {
        // Each attempt asks where to: the target may have been mended by a reload.
        let Some(target) = shared.target() else { return };
        let Err(error) = deliver::once(&target, &job.body, ATTEMPT_LIMIT).await else {
            tracing::debug!(event = job.event, sequence = job.sequence, attempt, hook = %target, "the hook has an event");
            return;
        };
        let (event, sequence) = (job.event, job.sequence);
        if attempt == ATTEMPTS {
            tracing::error!(event, sequence, attempt, hook = %target, "the hook failed, the event is given up: {error}");
            return;
        }
        tracing::warn!(event, sequence, attempt, hook = %target, "the hook failed, another attempt follows: {error}");
        tokio::time::sleep(pause).await;
        pause *= 2;
    }
}

#[cfg(test)]
mod tests;
