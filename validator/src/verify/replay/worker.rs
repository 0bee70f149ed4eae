//! A replay worker: takes replays from records that validators share, and computes them on the devices of this machine,
//! one at a time.
//!
//! A replay is the worker's for as long as it renews its lease. One that ends without a word loses it, and another worker
//! begins anew; a report that comes after that is dropped by the records.

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
use super::{Finding, Replayed, Replayer};

/// How long a replay stays a worker's without a sign of life; so long a worker counts as alive, too.
const LEASE: Duration = Duration::from_secs(10);
/// How often a worker renews both.
const RENEWAL: Duration = Duration::from_millis(2500);
/// How often an idle worker looks for a replay.
const POLL: Duration = Duration::from_millis(200);
/// How long a worker rests after a replay that its devices did not compute, or while the records do not answer: another
/// worker may have more luck.
const PAUSE: Duration = Duration::from_secs(5);
/// How often a report is tried again that could not be written.
const REPORT_ATTEMPTS: u32 = 5;

/// A replay worker.
pub struct ReplayWorker {
    /// Its name, other than that of every other worker.
    name: String,
    /// The machine.
    address: String,
    records: Records,
    replayer: Arc<Replayer>,
    counts: Counts,
}

/// Replays since the start.
#[derive(Debug, Default)]
struct Counts {
    /// Reported.
    done: AtomicU64,
    /// Handed back, or lost to another worker.
    not_done: AtomicU64,
}

/// How a replay ended here.
enum End {
    /// Its report is in the records.
    Reported(ReplayReport),
    /// It was withdrawn, or another worker has it by now.
    Gone,
    /// It waits for another worker.
    HandedBack(String),
    /// What became of it could not be written: its lease ends by itself.
    Unwritten(RecordsError),
}

impl ReplayWorker {
    /// A worker over these devices.
    #[must_use]
    pub fn new(name: String, address: String, records: Records, replayer: Replayer) -> Self {
        Self { name, address, records, replayer: replayer.into(), counts: Counts::default() }
    }

    /// What it does, in a line.
    #[must_use]
    pub fn in_a_line(&self) -> String {
        let Counts { done, not_done } = &self.counts;
        format!("replays: {} reported, {} not", done.load(Ordering::Relaxed), not_done.load(Ordering::Relaxed))
    }

    /// Takes and computes replays until it is asked to stop. A replay that runs then is finished, unless it is to stop at
    /// once: it is handed back.
    pub async fn run(&self, shutdown: Shutdown) {
        let (mut draining, capacity) = (shutdown.clone(), self.replayer.capacity().written());
        let live = async {
            tokio::select! {
                () = self.live(&capacity) => {}
                () = draining.draining() => {}
            }
            // Validators size no challenge by this machine any more.
            if let Err(error) =
                self.records.worker_heartbeat(&self.name, &self.address, &capacity, Duration::ZERO).await
            {
                tracing::warn!(error = chain(&error), "validators take this worker for alive for some seconds");
            }
        };
        tokio::join!(live, self.work(shutdown));
    }

    /// Says for ever that this worker lives, and what it can replay.
    async fn live(&self, capacity: &str) {
        let mut beats = tokio::time::interval(RENEWAL);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_failing = false;
        loop {
            beats.tick().await;
            let beat = self.records.worker_heartbeat(&self.name, &self.address, capacity, LEASE).await;
            if let Some(error) = beat.as_ref().err().filter(|_| !is_failing) {
                tracing::warn!(error = chain(error), "the records do not take this worker's heartbeat");
            }
            is_failing = beat.is_err();
        }
    }

    async fn work(&self, shutdown: Shutdown) {
        // What a device holds: the worker itself sees whether a share fits.
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

    /// Computes a job, and says in a line what came of it; whether it was reported.
    async fn replay(&self, job: &Job, shutdown: Shutdown) -> bool {
        let (id, attempt, began) = (&job.id, job.attempt, Instant::now());
        let challenge = job.challenge.parse::<ChallengeId>().ok().map(display);
        tracing::debug!(challenge, job = id, attempt, "replay: taken");
        let end = self.compute(job, shutdown).await;
        let seconds = began.elapsed().as_secs_f64();
        match &end {
            End::Reported(report) => {
                tracing::info!(challenge, job = id, attempt, seconds, "replay: {}", report.word());
            }
            End::Gone => {
                tracing::info!(challenge, job = id, attempt, seconds, "replay: withdrawn, or another worker's")
            }
            End::HandedBack(why) => {
                tracing::warn!(challenge, job = id, attempt, seconds, "replay: handed back: {}", quoted(why));
            }
            End::Unwritten(error) => {
                tracing::error!(challenge, job = id, attempt, seconds, "replay: not reported: {}", chain(error));
            }
        }
        matches!(end, End::Reported(_) | End::Gone)
    }

    async fn compute(&self, job: &Job, shutdown: Shutdown) -> End {
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
        // Another worker may have devices that do not fail.
        if let Finding::Unknown { detail } = &replayed.finding
            && job.attempt < MAX_JOB_ATTEMPTS
        {
            return self.hand_back(job, detail.clone()).await;
        }
        let seconds = began.elapsed().as_secs_f64();
        let report = ReplayReport::new(digest(&job.document), challenge, &self.name, seconds, replayed);
        self.report(job, report).await
    }

    /// Keeps the job this worker's while it is computed. Gives how it ended where nothing is to be reported.
    async fn attend(
        &self,
        job: &Job,
        mut running: JoinHandle<Replayed>,
        handle: &Handle,
        mut shutdown: Shutdown,
    ) -> Result<Replayed, End> {
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
                        // The records may answer before the lease ends.
                        Ok(Err(error)) => tracing::debug!(error = chain(&error), job = job.id, "a lease was not renewed"),
                        Err(_) => tracing::debug!(job = job.id, "a lease was not renewed in time"),
                    }
                }
            }
        };
        match ended {
            _ if is_gone => Err(End::Gone),
            // It may have been done before it could be stopped.
            Ok(Replayed { finding: Finding::Unknown { .. }, .. }) if is_stopped => {
                Err(self.hand_back(job, "this worker is stopped".to_owned()).await)
            }
            Ok(replayed) => Ok(replayed),
            Err(error) => Ok(Replayed::unknown(format!("the replay ended early: {error}"))),
        }
    }

    async fn hand_back(&self, job: &Job, why: String) -> End {
        match self.records.hand_back(&job.id, &self.name, &why).await {
            Ok(true) => End::HandedBack(why),
            Ok(false) => End::Gone,
            Err(error) => End::Unwritten(error),
        }
    }

    async fn report(&self, job: &Job, report: ReplayReport) -> End {
        let written = report.written();
        let mut attempts = 0;
        loop {
            attempts += 1;
            match self.records.finish(&job.id, &self.name, &written).await {
                Ok(true) => return End::Reported(report),
                Ok(false) => return End::Gone,
                Err(error) if attempts >= REPORT_ATTEMPTS => return End::Unwritten(error),
                Err(_) => tokio::time::sleep(POLL).await,
            }
        }
    }
}

/// Waits, but no longer than until the worker drains.
async fn pause(time: Duration, mut shutdown: Shutdown) {
    tokio::select! {
        () = tokio::time::sleep(time) => {}
        () = shutdown.draining() => {}
    }
}
