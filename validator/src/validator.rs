//! What all sessions of a validator share.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use assay_program::shutdown::Shutdown;
use assay_protocol::verdict::{Outcome, Verdict};
use tokio::sync::{Semaphore, watch};

use crate::drain::Drain;
use crate::policy::Policy;
use crate::registry::Registry;
use crate::session::Admission;
use crate::verify::replay::Replayer;
use crate::verify::turns::ReplayTurns;

/// What all sessions share.
pub struct Validator {
    /// Our key, and which miners are admitted.
    pub admission: Arc<Admission>,
    /// The default policy of a challenge, which a reload replaces.
    pub policies: watch::Sender<Arc<Policy>>,
    /// Who is connected.
    pub registry: Registry,
    /// Our own devices, where there are any.
    pub replayer: Option<Arc<Replayer>>,
    /// One permit for each check that may run at once: as many as there are cores.
    pub checks: Semaphore,
    /// Who has our devices, and who waits for them.
    pub turns: ReplayTurns,
    /// Where verdicts are kept.
    pub verdicts: VerdictLog,
    /// How challenges ended since the start.
    pub verdict_counts: VerdictCounts,
    /// When to end.
    pub shutdown: Shutdown,
    /// What is still under way when it is time to end.
    pub drain: Arc<Drain>,
    /// The number of the next session.
    pub next_session: AtomicU64,
}

impl Validator {
    /// A number for a new session.
    pub fn session_number(&self) -> u64 {
        self.next_session.fetch_add(1, Ordering::Relaxed)
    }

    /// The default policy of a challenge that begins now.
    #[must_use]
    pub fn policy(&self) -> Arc<Policy> {
        self.policies.borrow().clone()
    }

    /// Hears of other policies from now on.
    #[must_use]
    pub fn policy_changes(&self) -> watch::Receiver<Arc<Policy>> {
        self.policies.subscribe()
    }

    /// Keeps and logs a verdict.
    pub fn record(&self, verdict: &Verdict) {
        // The file first: a verdict that the log mentions is always there.
        if let Err(error) = self.verdicts.write(verdict) {
            tracing::error!(%error, "the verdict log could not be written");
        }
        let reasons: Vec<_> = verdict.reasons.iter().map(|r| r.code.name()).collect();
        let (id, miner, tops) = (verdict.challenge_id, verdict.miner_key, format!("{:.3}", verdict.whole.tops));
        match verdict.outcome {
            Outcome::Pass => tracing::info!(challenge = %id, %miner, tops, "pass"),
            Outcome::Fail => tracing::warn!(challenge = %id, %miner, ?reasons, "fail"),
            Outcome::Inconclusive => tracing::warn!(challenge = %id, %miner, ?reasons, "inconclusive"),
        }
    }
}

/// Verdicts by their outcome.
#[derive(Debug, Default)]
pub struct VerdictCounts {
    /// Passes.
    pub passed: AtomicU64,
    /// Fails.
    pub failed: AtomicU64,
    /// Inconclusive ones.
    pub inconclusive: AtomicU64,
}

impl VerdictCounts {
    /// Counts a verdict.
    pub fn add(&self, outcome: Outcome) {
        let count = match outcome {
            Outcome::Pass => &self.passed,
            Outcome::Fail => &self.failed,
            Outcome::Inconclusive => &self.inconclusive,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// Verdicts as lines of JSON in a file, where one is configured.
#[derive(Debug, Default)]
pub struct VerdictLog(Option<(PathBuf, Mutex<File>)>);

impl VerdictLog {
    /// Appends to a file, made when it is not there.
    ///
    /// # Errors
    /// What the system said.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(Some((path.into(), Mutex::new(append_to(path)?)))))
    }

    /// Opens the file anew, after it was renamed.
    ///
    /// # Errors
    /// What the system said; the file that is open stays in use.
    pub fn reopen(&self) -> io::Result<()> {
        let Some((path, file)) = &self.0 else { return Ok(()) };
        *file.lock().unwrap_or_else(PoisonError::into_inner) = append_to(path)?;
        Ok(())
    }

    fn write(&self, verdict: &Verdict) -> io::Result<()> {
        let Some((_, file)) = &self.0 else { return Ok(()) };
        let mut line = serde_json::to_vec(verdict)?;
        line.push(b'\n');
        // One write for a line, so that lines of two processes do not mix.
        file.lock().unwrap_or_else(PoisonError::into_inner).write_all(&line)
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

/// Seconds since 1970; 0 when the clock is set before that.
#[must_use]
pub fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}
