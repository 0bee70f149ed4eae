//! Writes a case down while its challenge runs: into a temporary file beside the store, off the runtime.
//!
//! What is in memory of a case is a buffer that fills while the one before it is written; a short case stays in memory
//! while few do, since most are dropped. A disk that does not follow holds the session up, not the runtime; the driver
//! excuses the miner for that time. A disk that fails costs the evidence, never the verdict.

use std::time::Instant;

use assay_evidence::{Digest, EvidenceError, EvidenceStore, Spool, Stored};
use assay_protocol::verdict::{Outcome, Verdict};
use assay_work::ChallengeId;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::{JoinHandle, spawn_blocking};

use super::entry::{Entry, Event, nanoseconds};
use super::file::{MARK, encode};
use crate::verify::excuse::HeldUp;

/// Bytes that are gathered before they are written: a handful of openings.
const BUFFER_BYTES: usize = 256 << 10;
/// Bytes of a case that are gathered before the first of them are written, where there is a place for it.
const SHORT_BYTES: usize = 1 << 20;
/// Cases that stay in memory up to [`SHORT_BYTES`] at one time.
const MAX_SHORT: u32 = 64;
/// Their places.
static PLACES: Semaphore = Semaphore::const_new(MAX_SHORT as usize);

/// A case that is being written. Dropped, it leaves nothing.
#[derive(Debug)]
pub struct Capture {
    store: EvidenceStore,
    id: ChallengeId,
    began: Instant,
    buffer: Vec<u8>,
    /// The place of a case of which nothing was written yet.
    place: Option<SemaphorePermit<'static>>,
    /// The write under way, which gives the spool back; none before the first one.
    writing: Option<JoinHandle<Result<Box<Spool>, EvidenceError>>>,
    /// It could not be written.
    is_lost: bool,
}

/// Why a case is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The miner failed.
    Fail,
    /// It could not be judged.
    Inconclusive,
    /// A pass that was drawn to be kept.
    Drawn,
}

impl Why {
    /// The stable name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fail => "fail",
            Self::Inconclusive => "inconclusive",
            Self::Drawn => "drawn",
        }
    }

    /// Whether, and why, the case of a verdict is kept: that of a pass only where it was drawn.
    #[must_use]
    pub const fn of(outcome: Outcome, is_drawn: bool) -> Option<Self> {
        match outcome {
            Outcome::Fail => Some(Self::Fail),
            Outcome::Inconclusive => Some(Self::Inconclusive),
            Outcome::Pass if is_drawn => Some(Self::Drawn),
            Outcome::Pass => None,
        }
    }
}

/// A case that is in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    /// Its name there.
    pub digest: Digest,
    /// Bytes before compression.
    pub bytes: u64,
    /// Bytes in the store.
    pub stored_bytes: u64,
    /// Why it is kept.
    pub why: Why,
}

impl Capture {
    /// The case of a challenge that begins.
    #[must_use]
    pub fn begin(store: EvidenceStore, id: ChallengeId) -> Self {
        Self { store, id, began: Instant::now(), buffer: MARK.to_vec(), place: None, writing: None, is_lost: false }
    }

    /// Adds entries. Waits only where the buffer is full and the one before it is still being written.
    pub async fn add(&mut self, entries: Vec<Entry>) {
        if self.is_lost {
            return;
        }
        for entry in entries {
            if matches!(entry, Entry::Event(Event::Replayed(_) | Event::Stop(_) | Event::Leave(_))) {
                let clock = Entry::Event(Event::Clock(nanoseconds(self.began.elapsed())));
                self.buffer.extend(encode(clock, self.id));
            }
            self.buffer.extend(encode(entry, self.id));
        }
        if self.buffer.len() >= BUFFER_BYTES && !self.stays_in_memory() {
            self.write().await;
        }
    }

    fn stays_in_memory(&mut self) -> bool {
        if self.writing.is_some() || self.buffer.len() >= SHORT_BYTES {
            return false;
        }
        self.place = self.place.take().or_else(|| PLACES.try_acquire().ok());
        self.place.is_some()
    }

    /// Ends the case of a verdict that is final, and keeps it, on disk. `fleet`: what the verdict was held against beside
    /// the work, as TOML.
    pub async fn finish(mut self, verdict: &Verdict, held_up: HeldUp, fleet: Option<String>, why: Why) -> Option<Kept> {
        // Texts and numbers always become JSON.
        let json = serde_json::to_vec(verdict).unwrap_or_default();
        let held_up = [Entry::HeldUp(held_up)];
        let last = [Entry::Verdict(json)];
        self.add(held_up.into_iter().chain(fleet.map(Entry::Fleet)).chain(last).collect()).await;
        self.write().await;
        let spool = self.written().await?;
        let (store, id) = (self.store, self.id);
        let keep = move || spool.finish().and_then(|spooled| store.keep_blocking(spooled));
        match spawn_blocking(keep).await {
            Ok(Ok(Stored { digest, bytes, stored_bytes })) => Some(Kept { digest, bytes, stored_bytes, why }),
            Ok(Err(error)) => lost(id, &error),
            Err(error) => lost(id, &error),
        }
    }

    /// Has the buffer written, once the one before it was.
    async fn write(&mut self) {
        let spool = self.written().await;
        if self.is_lost {
            return;
        }
        self.place = None;
        let buffer = std::mem::replace(&mut self.buffer, Vec::with_capacity(BUFFER_BYTES));
        let store = self.store.clone();
        self.writing = Some(spawn_blocking(move || {
            let mut spool = match spool {
                Some(spool) => spool,
                None => Box::new(store.spool()?),
            };
            spool.write(&buffer)?;
            Ok(spool)
        }));
    }

    /// The spool, once nothing is being written to it; none before the first write, or where one failed.
    async fn written(&mut self) -> Option<Box<Spool>> {
        let spool = match self.writing.take()?.await {
            Ok(Ok(spool)) => return Some(spool),
            Ok(Err(error)) => lost(self.id, &error),
            Err(error) => lost(self.id, &error),
        };
        self.is_lost = true;
        spool
    }
}

fn lost<T>(id: ChallengeId, error: &dyn std::error::Error) -> Option<T> {
    tracing::error!(challenge = %id, %error, "the evidence of this challenge is lost: its verdict stands without");
    None
}

#[cfg(test)]
mod tests;
