//! Writes a case while its challenge runs: into a temporary file beside the store, off the runtime.
//!
//! A case has some entries in memory, which gather while those before are written; it stays in memory as a whole while
//! there is room for such cases, since most are dropped: nothing of a dropped case is encoded but its small entries. A
//! slow disk delays the session, not the runtime; the driver excuses the miner for that time. A disk that fails costs
//! the evidence, never the verdict.

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use assay_program::{blocking, clock};
use assay_protocol::message::OpeningsChunk;
use assay_protocol::verdict::Verdict;
use assay_work::ChallengeId;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::JoinHandle;

use assay_judge::case::entry::{CaseEntry, RunEvent, nanoseconds};
use assay_judge::case::file::{MARK, encode};
use assay_judge::verify::excuse::ValidatorDelays;
use assay_judge::verify::size::part_bytes;

use crate::{EvidenceError, EvidenceStore, Spool, StoredObject};

/// Bytes of the entries that are written at once: a handful of openings.
const BUFFER_BYTES: usize = 256 << 10;
/// As many of them wait, of all cases, for their verdict without a write: 64 MiB.
const MEMORY_PERMITS: u32 = (64 << 20) / BUFFER_BYTES as u32;
/// One permit for each [`BUFFER_BYTES`] of these cases.
static MEMORY: Semaphore = Semaphore::const_new(MEMORY_PERMITS as usize);

/// A case being written. Dropping it leaves no file.
#[derive(Debug)]
pub struct Capture {
    store: EvidenceStore,
    id: ChallengeId,
    began: Instant,
    waiting: WaitingEntries,
    /// The memory of a case without a write so far.
    memory: Option<SemaphorePermit<'static>>,
    /// The write under way, which returns the spool; `None` before the first one.
    writing: Option<JoinHandle<Result<Box<Spool>, EvidenceError>>>,
    /// Whether a write failed.
    is_lost: bool,
}

/// Entries that are not written yet.
#[derive(Debug, Default)]
struct WaitingEntries {
    entries: Vec<WaitingEntry>,
    /// Bytes of them, about those of the file.
    bytes: usize,
}

#[derive(Debug)]
enum WaitingEntry {
    /// One or several, as the file has them.
    Encoded(Vec<u8>),
    /// Openings, which are most of a case, as the check has them.
    Openings(u64, Arc<OpeningsChunk>),
}

impl Capture {
    /// Begins the case of a challenge.
    pub fn begin(store: EvidenceStore, id: ChallengeId) -> Self {
        let mut waiting = WaitingEntries::default();
        waiting.encoded(&MARK);
        Self { store, id, began: clock::now(), waiting, memory: None, writing: None, is_lost: false }
    }

    /// Adds entries. Waits only while too many wait and those before are still being written.
    pub async fn add(&mut self, entries: Vec<CaseEntry>) {
        if self.is_lost {
            return;
        }
        for entry in entries {
            if matches!(entry, CaseEntry::Event(RunEvent::Replayed(_) | RunEvent::Stop(_) | RunEvent::Leave(_))) {
                let clock = CaseEntry::Event(RunEvent::Clock(nanoseconds(clock::since(self.began))));
                self.waiting.encoded(&encode(clock, self.id));
            }
            match entry {
                CaseEntry::Openings(at, chunk) => self.waiting.openings(at, chunk),
                entry => self.waiting.encoded(&encode(entry, self.id)),
            }
        }
        if self.waiting.bytes >= BUFFER_BYTES && !self.stays_in_memory() {
            self.write().await;
        }
    }

    fn stays_in_memory(&mut self) -> bool {
        let held = self.memory.as_ref().map_or(0, SemaphorePermit::num_permits);
        let missing = (self.waiting.bytes / BUFFER_BYTES).saturating_sub(held) as u32;
        let Some(more) = MEMORY.try_acquire_many(missing).ok().filter(|_| self.writing.is_none()) else { return false };
        match &mut self.memory {
            Some(memory) => memory.merge(more),
            none => *none = Some(more),
        }
        true
    }

    /// Ends the case of a final verdict, and stores it on disk. `fleet`: the facts of its check against the fleet, as
    /// TOML. A stranger is a miner without any pass so far.
    pub async fn finish(
        mut self,
        verdict: &Verdict,
        held_up: ValidatorDelays,
        fleet: Option<String>,
        is_stranger: bool,
    ) -> Option<StoredObject> {
        // Texts and numbers always become JSON.
        let json = serde_json::to_vec(verdict).unwrap_or_default();
        let held_up = [CaseEntry::HeldUp(held_up)];
        let last = [CaseEntry::Verdict(json)];
        self.add(held_up.into_iter().chain(fleet.map(CaseEntry::Fleet)).chain(last).collect()).await;
        self.write().await;
        let spool = self.written().await?;
        let (store, id) = (self.store, self.id);
        let keeping = store.clone();
        let keep = move || spool.finish().and_then(|spooled| keeping.keep_blocking(spooled, is_stranger));
        done(blocking::spawn(keep)).await.map_err(|error| lost(&store, id, &*error)).ok()
    }

    /// Starts writing the entries that wait, once the previous write has ended.
    async fn write(&mut self) {
        let spool = self.written().await;
        if self.is_lost {
            return;
        }
        self.memory = None;
        let (waiting, store, id) = (std::mem::take(&mut self.waiting), self.store.clone(), self.id);
        self.writing = Some(blocking::spawn(move || {
            let mut spool = match spool {
                Some(spool) => spool,
                None => Box::new(store.spool()?),
            };
            for entry in waiting.entries {
                let bytes = match entry {
                    WaitingEntry::Encoded(bytes) => bytes,
                    WaitingEntry::Openings(at, chunk) => encode(CaseEntry::Openings(at, chunk), id),
                };
                spool.write(&bytes)?;
            }
            Ok(spool)
        }));
    }

    /// Waits for the write under way; returns the spool, `None` before the first write or after a failure.
    async fn written(&mut self) -> Option<Box<Spool>> {
        let written = done(self.writing.take()?).await;
        self.is_lost = written.is_err();
        written.map_err(|error| lost(&self.store, self.id, &*error)).ok()
    }
}

impl WaitingEntries {
    fn encoded(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len();
        match self.entries.last_mut() {
            Some(WaitingEntry::Encoded(before)) => before.extend_from_slice(bytes),
            _ => self.entries.push(WaitingEntry::Encoded(bytes.to_vec())),
        }
    }

    fn openings(&mut self, at: u64, chunk: Arc<OpeningsChunk>) {
        // A part has as many bytes as a message at most.
        self.bytes += part_bytes(&chunk.part) as usize;
        self.entries.push(WaitingEntry::Openings(at, chunk));
    }
}

/// Waits for work with the store; an error is of the store, or of the thread.
async fn done<T>(work: JoinHandle<Result<T, EvidenceError>>) -> Result<T, Box<dyn Error + Send + Sync>> {
    Ok(work.await??)
}

fn lost(store: &EvidenceStore, id: ChallengeId, error: &(dyn Error + 'static)) {
    if let Some(EvidenceError::NoRoom(why)) = error.downcast_ref() {
        // Strangers can cause that as often as they like: the sweep reports the count.
        tracing::debug!(challenge = %id, %why, "the evidence of this challenge is not kept");
        return;
    }
    store.note_lost();
    tracing::error!(challenge = %id, %error, "the evidence of this challenge is lost: its verdict stands without");
}

#[cfg(test)]
mod tests;
