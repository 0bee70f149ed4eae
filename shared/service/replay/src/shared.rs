//! Replays on the workers that share this validator's records: submitted there, and awaited.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use assay_device::Handle;
use assay_records::{JobRequest, JobState, Records, RecordsError, WorkerRecord};
use assay_work::Challenge;
use assay_work::text::quoted;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use super::ReplayOutcome;
use super::job::{MAX_JOB_BYTES, ReplayJob, ReplayReport, digest};
use crate::turns::{ReplayTurn, ReplayTurns};
use assay_judge::replay::MachineCapacity;

/// Interval of reading the list of workers.
const LOOK_UP: Duration = Duration::from_secs(2);
/// Intervals of polling a submitted replay: the first, and the longest.
const POLL: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));
/// The longest wait while no worker has room for a replay: a restarted worker is back by then.
const NO_WORKER_LIMIT: Duration = Duration::from_secs(30);
/// The longest wait for unresponsive records.
const NO_ANSWER_LIMIT: Duration = Duration::from_secs(60);
/// The longest life of a submitted replay: it ends even if its validator is lost.
const JOB_LIFE: Duration = Duration::from_secs(24 * 3600);

/// A live replay worker.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveReplayWorker {
    pub name: String,
    /// Address of the machine.
    pub address: String,
    /// Its measured capacity.
    pub capacity: MachineCapacity,
}

/// The replays of a validator on workers that share its records. Clones share them.
#[derive(Clone)]
pub struct SharedReplays {
    records: Records,
    /// Id of this run of the validator's process.
    instance: String,
    workers: watch::Sender<Arc<Vec<LiveReplayWorker>>>,
    /// Turns: one replay for each worker at a time.
    pub(super) turns: ReplayTurns,
}

/// The waits of a replay.
struct ReplayWaits {
    /// Time since which no worker has room for it.
    no_worker: Option<Instant>,
    /// Time since which the records do not answer.
    no_answer: Option<Instant>,
}

impl SharedReplays {
    /// Creates the replays through these records, for this run of the process.
    pub fn new(records: Records, instance: String) -> Self {
        Self { records, instance, workers: watch::Sender::default(), turns: ReplayTurns::default() }
    }

    /// The live workers, as of the last reading.
    pub fn workers(&self) -> Arc<Vec<LiveReplayWorker>> {
        self.workers.borrow().clone()
    }

    /// Capacities of the workers.
    pub(super) fn capacities(&self) -> Vec<MachineCapacity> {
        self.workers().iter().map(|worker| worker.capacity.clone()).collect()
    }

    pub(super) fn fits(&self, challenge: &Challenge) -> bool {
        self.workers().iter().any(|worker| worker.capacity.fits(challenge))
    }

    /// Reads the list of workers periodically, for ever.
    pub async fn watch(self) {
        let mut ticks = tokio::time::interval(LOOK_UP);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            match self.records.workers().await {
                Ok(workers) => self.note(workers),
                // The workers of the last reading may still live: a replay waits for them.
                Err(error) => tracing::debug!(%error, "replay workers cannot be looked up"),
            }
        }
    }

    fn note(&self, found: Vec<WorkerRecord>) {
        let workers: Vec<_> = found.into_iter().filter_map(read_worker).collect();
        let names = |workers: &[LiveReplayWorker]| -> BTreeMap<String, String> {
            workers.iter().map(|worker| (worker.name.clone(), worker.address.clone())).collect()
        };
        let (before, now) = (names(&self.workers()), names(&workers));
        for (name, address) in now.iter().filter(|(name, _)| !before.contains_key(*name)) {
            tracing::info!(worker = %quoted(name), machine = %quoted(address), "a replay worker is there");
        }
        for name in before.keys().filter(|name| !now.contains_key(*name)) {
            tracing::warn!(worker = %quoted(name), "a replay worker is gone");
        }
        self.turns.set_places(workers.len());
        self.workers.send_replace(Arc::new(workers));
    }

    /// Has a worker replay, and waits for its report.
    pub(super) async fn replay(&self, _turn: ReplayTurn, job: &ReplayJob, handle: &Handle) -> ReplayOutcome {
        let document = job.written();
        if document.len() > MAX_JOB_BYTES {
            return ReplayOutcome::unknown(format!("a replay of {} bytes is too large to be shared", document.len()));
        }
        let request = JobRequest {
            challenge: &job.challenge.id().to_string(),
            submitted_by: &self.instance,
            // At most 2^20 slots of 2^30 bytes.
            needs_bytes: i64::from(job.largest_share()) * job.challenge.slot_bytes() as i64,
            ttl: JOB_LIFE,
            document: &document,
        };
        let id = match self.records.submit(&request).await {
            Ok(id) => id,
            Err(error) => return ReplayOutcome::unknown(format!("no replay was submitted: {error}")),
        };
        let waited = self.wait_for(&id, job, &document, handle).await;
        // The job has no reader from here on. If it cannot be removed, it expires.
        if let Err(error) = self.records.remove_job(&id).await {
            tracing::warn!(job = id, %error, "a replay stays in the records");
        }
        waited.unwrap_or_else(ReplayOutcome::unknown)
    }

    /// Waits until the job has ended; the error is the reason for giving up.
    async fn wait_for(
        &self,
        id: &str,
        job: &ReplayJob,
        document: &[u8],
        handle: &Handle,
    ) -> Result<ReplayOutcome, String> {
        let mut patience = ReplayWaits { no_worker: None, no_answer: None };
        let began = Instant::now();
        loop {
            // A fifth of the elapsed time: the wait adds at most a fifth.
            let (soonest, latest) = POLL;
            tokio::time::sleep((began.elapsed() / 5).clamp(soonest, latest)).await;
            if handle.is_cancelled() {
                return Err("the replay was cancelled".to_owned());
            }
            let state = self.records.job(id).await;
            let now = Instant::now();
            patience.check(&state, self.fits(&job.challenge), now)?;
            match state {
                Ok(Some(JobState::Done { result })) => return Ok(read(&result, job, document)),
                Ok(Some(JobState::Failed { why })) => {
                    return Ok(ReplayOutcome::unknown(format!("no replay worker finished it: {}", quoted(&why))));
                }
                Ok(None) => return Ok(ReplayOutcome::unknown("the replay was removed from the records")),
                Ok(Some(JobState::Waiting { .. } | JobState::Running { .. })) | Err(_) => {}
            }
        }
    }
}

/// Reads a worker's report; an invalid one is a fault of the worker or of its author.
fn read(result: &str, job: &ReplayJob, document: &[u8]) -> ReplayOutcome {
    match ReplayReport::read(result, job, digest(document)) {
        Ok(report) => report.into_replayed(),
        Err(error) => {
            tracing::error!(challenge = %job.challenge.id(), %error, "a replay worker's report is not believed");
            ReplayOutcome::unknown(format!("a replay worker's report is not believed: {error}"))
        }
    }
}

impl ReplayWaits {
    /// Checks whether the replay waits on; the error is the reason not to.
    fn check(
        &mut self,
        state: &Result<Option<JobState>, RecordsError>,
        has_worker: bool,
        now: Instant,
    ) -> Result<(), String> {
        let over = |since: &mut Option<Instant>, is_so: bool, limit: Duration| {
            let first = if is_so { Some(since.unwrap_or(now)) } else { None };
            *since = first;
            first.is_some_and(|first| now.duration_since(first) >= limit)
        };
        let is_waiting = matches!(state, Ok(Some(JobState::Waiting { .. })));
        if over(&mut self.no_worker, is_waiting && !has_worker, NO_WORKER_LIMIT) {
            return Err(format!("no replay worker has had room for {NO_WORKER_LIMIT:?}"));
        }
        if over(&mut self.no_answer, state.is_err(), NO_ANSWER_LIMIT) {
            return Err(format!("the records have not answered for {NO_ANSWER_LIMIT:?}"));
        }
        Ok(())
    }
}

fn read_worker(record: WorkerRecord) -> Option<LiveReplayWorker> {
    match MachineCapacity::read(record.capacity.get()) {
        Ok(capacity) => Some(LiveReplayWorker { name: record.id, address: record.address, capacity }),
        Err(error) => {
            tracing::warn!(worker = %quoted(&record.id), %error, "a replay worker is not used");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replay_waits_for_a_worker_for_a_while() {
        let start = Instant::now();
        let at = |s| start + Duration::from_secs(s);
        let mut patience = ReplayWaits { no_worker: None, no_answer: None };
        let waiting = Ok(Some(JobState::Waiting { ahead: 0 }));
        assert!(patience.check(&waiting, false, at(0)).is_ok());
        assert!(patience.check(&waiting, false, at(29)).is_ok());
        assert!(patience.check(&waiting, true, at(29)).is_ok(), "one came");
        assert!(patience.check(&waiting, false, at(40)).is_ok());
        assert!(patience.check(&waiting, false, at(69)).is_ok());
        assert!(patience.check(&waiting, false, at(70)).unwrap_err().contains("no replay worker"));
    }

    #[test]
    fn records_that_do_not_answer_end_a_replay() {
        let start = Instant::now();
        let at = |s| start + Duration::from_secs(s);
        let mut patience = ReplayWaits { no_worker: None, no_answer: None };
        let error = || Err(RecordsError::NoSuchMiner(String::new()));
        assert!(patience.check(&error(), true, at(0)).is_ok());
        assert!(patience.check(&Ok(Some(JobState::Waiting { ahead: 0 })), true, at(50)).is_ok());
        assert!(patience.check(&error(), true, at(59)).is_ok());
        assert!(patience.check(&error(), true, at(118)).is_ok());
        assert!(patience.check(&error(), true, at(119)).unwrap_err().contains("have not answered"));
    }
}
