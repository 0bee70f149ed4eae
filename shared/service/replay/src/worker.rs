//! A replay worker: takes replays from records that validators share, and computes them on the devices of this machine,
//! one at a time.
//!
//! A worker holds a replay while it renews its lease. After a crash the lease expires, and another worker begins anew;
//! the records drop a report that comes after that.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use assay_device::Handle;
use assay_program::exit::chain;
use assay_program::shutdown::Shutdown;
use assay_records::{Job, MAX_JOB_ATTEMPTS, Records, RecordsError};
use assay_work::ChallengeId;
use assay_work::text::quoted;
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;
use tracing::field::display;

use super::job::{ReplayJob, ReplayReport, digest};
use super::{ReplayFinding, ReplayOutcome, Replayer};

/// Validity of a lease, and of a worker's heartbeat.
const LEASE: Duration = Duration::from_secs(10);
/// Interval of renewing both.
const RENEWAL: Duration = Duration::from_millis(2500);
/// Polling interval of an idle worker.
const POLL: Duration = Duration::from_millis(200);
/// Pause after a replay that its devices did not compute, or while the records do not answer: another worker may
/// succeed.
const PAUSE: Duration = Duration::from_secs(5);
/// The most attempts to write a report.
const REPORT_ATTEMPTS: u32 = 5;

pub struct ReplayWorker {
    /// Its name, unique among workers.
    name: String,
    /// Address of the machine.
    address: String,
    records: Records,
    replayer: Arc<Replayer>,
    counts: ReplayCounts,
}

/// Counts of replays since the start.
#[derive(Debug, Default)]
struct ReplayCounts {
    done: AtomicU64,
    /// Handed back, or lost to another worker.
    not_done: AtomicU64,
}

/// Result of a replay on this worker.
enum ReplayEnd {
    /// Its report is in the records.
    Reported(ReplayReport),
    /// It was withdrawn, or another worker has it now.
    Gone,
    /// It waits for another worker.
    HandedBack(String),
    /// Its result could not be written: its lease expires.
    Unwritten(RecordsError),
}

impl ReplayWorker {
    /// Creates a worker over these devices.
    pub fn new(name: String, address: String, records: Records, replayer: Replayer) -> Self {
        Self { name, address, records, replayer: replayer.into(), counts: ReplayCounts::default() }
    }

    /// Its status in one line.
    pub fn in_a_line(&self) -> String {
        let ReplayCounts { done, not_done } = &self.counts;
        format!("replays: {} reported, {} not", done.load(Ordering::Relaxed), not_done.load(Ordering::Relaxed))
    }

    /// Takes and computes replays until it is asked to stop. A replay that runs then is finished, or handed back if the
    /// worker must stop at once.
    ///
    /// # Errors
    /// A newer release migrated the records beyond this one ([`RecordsError::Newer`]).
    pub async fn run(&self, shutdown: Shutdown) -> Result<(), RecordsError> {
        let (mut draining, capacity) = (shutdown.clone(), self.replayer.capacity().written());
        let live = async {
            tokio::select! {
                newer = self.live(&capacity) => return Err(newer),
                () = draining.draining() => {}
            }
            // Validators size no further challenges by this machine.
            if let Err(error) =
                self.records.worker_heartbeat(&self.name, &self.address, &capacity, Duration::ZERO).await
            {
                tracing::warn!(error = chain(&error), "validators take this worker for alive for some seconds");
            }
            Ok(())
        };
        let work = async {
            self.work(shutdown).await;
            Ok(())
        };
        tokio::try_join!(live, work).map(|_| ())
    }

    /// Sends heartbeats with this worker's capacity, until the records are of a release that this one cannot follow.
    async fn live(&self, capacity: &str) -> RecordsError {
        let mut beats = tokio::time::interval(RENEWAL);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_failing = false;
        loop {
            beats.tick().await;
            let beat = self.records.worker_heartbeat(&self.name, &self.address, capacity, LEASE).await;
            let was_failing = std::mem::replace(&mut is_failing, beat.is_err());
            match beat {
                Err(error @ RecordsError::Newer { .. }) => return error,
                Err(error) if !was_failing => {
                    tracing::warn!(error = chain(&error), "the records do not take this worker's heartbeat");
                }
                _ => {}
            }
        }
    }

    async fn work(&self, shutdown: Shutdown) {
        // Room of the largest device: the worker itself checks whether a share fits.
        let room = self.replayer.capacity().largest_bytes();
        while !shutdown.is_draining() {
            match self.records.take(&self.name, room, LEASE).await {
                Ok(Some(job)) => {
                    let is_done = self.replay(&job, shutdown.clone()).await;
                    let count = if is_done { &self.counts.done } else { &self.counts.not_done };
                    count.fetch_add(1, Ordering::Relaxed);
                    if !is_done {
                        pause(PAUSE, shutdown.clone()).await;
                    }
                }
                Ok(None) => pause(POLL, shutdown.clone()).await,
                Err(error) => {
                    tracing::warn!(error = chain(&error), "no replay can be taken");
                    pause(PAUSE, shutdown.clone()).await;
                }
            }
        }
    }

    /// Computes a job, and logs its result in one line; returns whether it was reported.
    async fn replay(&self, job: &Job, shutdown: Shutdown) -> bool {
        let (id, attempt, began) = (&job.id, job.attempt, Instant::now());
        let challenge = job.challenge.parse::<ChallengeId>().ok().map(display);
        tracing::debug!(challenge, job = id, attempt, "replay: taken");
        let end = self.compute(job, shutdown).await;
        let seconds = began.elapsed().as_secs_f64();
        match &end {
            ReplayEnd::Reported(report) => {
                tracing::info!(challenge, job = id, attempt, seconds, "replay: {}", report.word());
            }
            ReplayEnd::Gone => {
                tracing::info!(challenge, job = id, attempt, seconds, "replay: withdrawn, or another worker's")
            }
            ReplayEnd::HandedBack(why) => {
                tracing::warn!(challenge, job = id, attempt, seconds, "replay: handed back: {}", quoted(why));
            }
            ReplayEnd::Unwritten(error) => {
                tracing::error!(challenge, job = id, attempt, seconds, "replay: not reported: {}", chain(error));
            }
        }
        matches!(end, ReplayEnd::Reported(_) | ReplayEnd::Gone)
    }

    async fn compute(&self, job: &Job, shutdown: Shutdown) -> ReplayEnd {
        let began = Instant::now();
        let read = match ReplayJob::read(&job.document) {
            Ok(read) => read,
            Err(error) => return self.hand_back(job, error.to_string()).await,
        };
        let (challenge, handle) = (read.challenge.id(), Handle::default());
        let running = {
            let (replayer, handle) = (self.replayer.clone(), handle.clone());
            tokio::task::spawn_blocking(move || replayer.replay(&read, &handle))
        };
        let replayed = match self.attend(job, running, &handle, shutdown).await {
            Ok(replayed) => replayed,
            Err(end) => return end,
        };
        // Another worker may have working devices.
        if let ReplayFinding::Unknown { detail } = &replayed.finding
            && job.attempt < MAX_JOB_ATTEMPTS
        {
            return self.hand_back(job, detail.clone()).await;
        }
        let seconds = began.elapsed().as_secs_f64();
        let report = ReplayReport::new(digest(&job.document), challenge, &self.name, seconds, replayed);
        self.report(job, report).await
    }

    /// Keeps the lease of the job while it is computed. Returns its end where there is no report to write.
    async fn attend(
        &self,
        job: &Job,
        mut running: JoinHandle<ReplayOutcome>,
        handle: &Handle,
        mut shutdown: Shutdown,
    ) -> Result<ReplayOutcome, ReplayEnd> {
        let mut renewals = tokio::time::interval(RENEWAL);
        renewals.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut is_gone, mut is_stopped) = (false, false);
        let ended = loop {
            tokio::select! {
                ended = &mut running => break ended,
                () = shutdown.stopped(), if !is_stopped => {
                    is_stopped = true;
                    handle.cancel();
                }
                _ = renewals.tick(), if !is_gone => {
                    let renewed = tokio::time::timeout(RENEWAL, self.records.renew_job(&job.id, &self.name, LEASE));
                    match renewed.await {
                        Ok(Ok(true)) => {}
                        Ok(Ok(false)) => {
                            is_gone = true;
                            handle.cancel();
                        }
                        // The records may recover before the lease ends.
                        Ok(Err(error)) => tracing::debug!(error = chain(&error), job = job.id, "a lease was not renewed"),
                        Err(_) => tracing::debug!(job = job.id, "a lease was not renewed in time"),
                    }
                }
            }
        };
        match ended {
            _ if is_gone => Err(ReplayEnd::Gone),
            // It may have finished before the stop took effect.
            Ok(ReplayOutcome { finding: ReplayFinding::Unknown { .. }, .. }) if is_stopped => {
                Err(self.hand_back(job, "this worker is stopped".to_owned()).await)
            }
            Ok(replayed) => Ok(replayed),
            Err(error) => Ok(ReplayOutcome::unknown(format!("the replay ended early: {error}"))),
        }
    }

    async fn hand_back(&self, job: &Job, why: String) -> ReplayEnd {
        match self.records.hand_back(&job.id, &self.name, &why).await {
            Ok(true) => ReplayEnd::HandedBack(why),
            Ok(false) => ReplayEnd::Gone,
            Err(error) => ReplayEnd::Unwritten(error),
        }
    }

    async fn report(&self, job: &Job, report: ReplayReport) -> ReplayEnd {
        let written = report.written();
        let mut attempts = 0;
        loop {
            attempts += 1;
            match self.records.finish(&job.id, &self.name, &written).await {
                Ok(true) => return ReplayEnd::Reported(report),
                Ok(false) => return ReplayEnd::Gone,
                Err(error) if attempts >= REPORT_ATTEMPTS => return ReplayEnd::Unwritten(error),
                Err(_) => tokio::time::sleep(POLL).await,
            }
        }
    }
}

/// Waits, at most until the worker drains.
async fn pause(time: Duration, mut shutdown: Shutdown) {
    tokio::select! {
        () = tokio::time::sleep(time) => {}
        () = shutdown.draining() => {}
    }
}
