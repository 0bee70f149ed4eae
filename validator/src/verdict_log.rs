//! The verdict log: every verdict as one line of JSON in a file.
//!
//! A line is on disk before its verdict is given out: [`VerdictLog::append`] returns then. One thread writes; the file is
//! whole lines at all times. A line that cannot be written is kept and tried again. Meanwhile the log is not
//! *recording*: health says so, and no challenge starts, so that no more lines wait than challenges ran by then.

mod file;
mod writer;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{oneshot, watch};

pub use file::{MAX_TAIL_BYTES, OpenError};

use file::LogFile;
use writer::{Request, Writer};

/// How long a line may take to reach the disk before the log counts as not recording: a disk that hangs gives no error.
const SLOW_LIMIT: Duration = Duration::from_secs(5);
/// How long the last lines may take when the validator ends.
const FINISH_LIMIT: Duration = Duration::from_secs(2);

/// The verdict log of a validator; a clone is the same log. Without a file everything counts as written.
#[derive(Debug, Clone)]
pub struct VerdictLog {
    requests: Option<Sender<Request>>,
    state: Arc<State>,
}

/// Whether lines reach the disk.
#[derive(Debug)]
struct State {
    trouble: Mutex<Trouble>,
    recording: watch::Sender<bool>,
    path: PathBuf,
}

/// What keeps lines from the disk.
#[derive(Debug, Default)]
struct Trouble {
    /// The last attempt failed: what the system said.
    error: Option<String>,
    /// Lines that wait for longer than [`SLOW_LIMIT`].
    slow: usize,
}

/// Why no challenge starts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "verdicts cannot be written to the verdict log {path} ({why}), and no challenge starts until they can: see that \
         there is room and that the disk answers"
)]
pub struct NotRecording {
    /// The file.
    path: String,
    /// What the system said.
    why: String,
}

impl VerdictLog {
    /// A log that keeps nothing.
    #[must_use]
    pub fn none() -> Self {
        Self { requests: None, state: Arc::new(State::new(Path::new(""))) }
    }

    /// Appends to a file, made when it is not there, and locked against other validators. A torn line at its end, as a
    /// crash in the middle of a write leaves it, is kept aside.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let file = LogFile::open(path)?;
        let (requests, queue) = std::sync::mpsc::channel();
        let state = Arc::new(State::new(path));
        let writer = Writer::new(file, queue, state.clone());
        let started = std::thread::Builder::new().name("verdict-log".into()).spawn(move || writer.run());
        started.map_err(|source| OpenError::File { path: path.into(), source })?;
        Ok(Self { requests: Some(requests), state })
    }

    /// Returns once the line is on disk, however long that takes. It returns without that only when the validator ends
    /// before; the line is in the program's log then.
    pub async fn append(&self, line: Vec<u8>) {
        let (written, mut done) = oneshot::channel();
        if !self.ask(Request::Append { line, written: Some(written) }) {
            return;
        }
        if tokio::time::timeout(SLOW_LIMIT, &mut done).await.is_err() {
            let _slow = Slow::note(&self.state);
            // An error is the end of the writer.
            let _ = done.await;
        }
    }

    /// Opens the file anew, after it was renamed, and puts lines at the head of one that is empty.
    ///
    /// # Errors
    /// The file cannot be opened: the one that is open stays in use.
    pub async fn reopen(&self, head: Vec<Vec<u8>>) -> Result<(), OpenError> {
        let (done, reopened) = oneshot::channel();
        if !self.ask(Request::Reopen { head, done }) {
            return Ok(());
        }
        let gone =
            || OpenError::File { path: self.state.path.clone(), source: io::Error::other("its writer has ended") };
        reopened.await.unwrap_or_else(|_| Err(gone()))
    }

    /// Tries to write what waits one last time, and logs what cannot be written.
    pub async fn finish(&self) {
        let (done, finished) = oneshot::channel();
        if self.ask(Request::Finish(done)) && tokio::time::timeout(FINISH_LIMIT, finished).await.is_err() {
            tracing::error!(file = %self.state.path.display(), "the disk of the verdict log does not answer");
        }
    }

    /// Whether verdicts reach the disk.
    ///
    /// # Errors
    /// [`NotRecording`], with what the system said.
    pub fn check(&self) -> Result<(), NotRecording> {
        let trouble = self.state.lock();
        let why = match &*trouble {
            Trouble { error: Some(error), .. } => error.clone(),
            Trouble { slow: 0, .. } => return Ok(()),
            Trouble { slow, .. } => format!("{slow} have waited for longer than {SLOW_LIMIT:?}"),
        };
        Err(NotRecording { path: self.state.path.display().to_string(), why })
    }

    /// Whether verdicts reach the disk, and each change of that.
    #[must_use]
    pub fn recording(&self) -> watch::Receiver<bool> {
        self.state.recording.subscribe()
    }

    /// False where there is nobody to ask.
    fn ask(&self, request: Request) -> bool {
        let Some(requests) = &self.requests else { return false };
        let asked = requests.send(request).is_ok();
        if !asked {
            self.state.change(|trouble| trouble.error = Some("its writer has ended".to_owned()));
        }
        asked
    }
}

impl Default for VerdictLog {
    fn default() -> Self {
        Self::none()
    }
}

impl State {
    fn new(path: &Path) -> Self {
        Self { trouble: Mutex::default(), recording: watch::Sender::new(true), path: path.into() }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Trouble> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what is wrong, and tells who follows when that makes a difference.
    fn change(&self, change: impl FnOnce(&mut Trouble)) {
        let mut trouble = self.lock();
        change(&mut trouble);
        let is_recording = trouble.error.is_none() && trouble.slow == 0;
        // Under the lock, so that the last change is what is told last.
        self.recording.send_if_modified(|recording| std::mem::replace(recording, is_recording) != is_recording);
    }
}

/// A line that waits for long, for as long as it does.
struct Slow<'a>(&'a State);

impl<'a> Slow<'a> {
    fn note(state: &'a State) -> Self {
        tracing::error!(file = %state.path.display(), "a verdict waits for the disk of the verdict log");
        state.change(|trouble| trouble.slow += 1);
        Self(state)
    }
}

impl Drop for Slow<'_> {
    fn drop(&mut self) {
        self.0.change(|trouble| trouble.slow -= 1);
    }
}

/// The whole lines at the end of a log, at most [`MAX_TAIL_BYTES`] of them; nothing where it is no regular file.
///
/// # Errors
/// What the system said.
pub fn tail(path: &Path) -> io::Result<Vec<u8>> {
    file::tail(path)
}

#[cfg(test)]
mod tests;
