//! The thread that writes the verdict log: no other waits for the disk.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use assay_work::text::printable;
use tokio::sync::oneshot;

use super::State;
use super::file::{LogFile, OpenError};

/// How long after a failed attempt the next one follows.
const RETRY: Duration = Duration::from_secs(1);
/// How often an error that stays is logged.
const REMIND: Duration = Duration::from_secs(60);

/// What the thread is asked for.
#[derive(Debug)]
pub enum Request {
    /// Write a line, and say when it is on disk.
    Append {
        /// With its line break.
        line: Vec<u8>,
        /// Told when it is there.
        written: Option<oneshot::Sender<()>>,
    },
    /// Open the file anew.
    Reopen {
        /// Lines for the head of a new file.
        head: Vec<Vec<u8>>,
        /// What came of it.
        done: oneshot::Sender<Result<(), OpenError>>,
    },
    /// Write what waits now or never.
    Finish(oneshot::Sender<()>),
}

/// A line that is not on disk yet.
struct Waiting {
    line: Vec<u8>,
    written: Option<oneshot::Sender<()>>,
}

/// The thread's state.
pub struct Writer {
    file: LogFile,
    requests: Receiver<Request>,
    state: Arc<State>,
    waiting: VecDeque<Waiting>,
    /// When the error that stands was logged last.
    told: Option<Instant>,
}

impl Writer {
    /// The writer of a file.
    pub fn new(file: LogFile, requests: Receiver<Request>, state: Arc<State>) -> Self {
        Self { file, requests, state, waiting: VecDeque::new(), told: None }
    }

    /// Writes until nobody can ask any more.
    pub fn run(mut self) {
        loop {
            let next = match self.waiting.is_empty() {
                true => self.requests.recv().map_err(|_| RecvTimeoutError::Disconnected),
                false => self.requests.recv_timeout(RETRY),
            };
            match next {
                Ok(request) => self.take(request),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return self.give_up(),
            }
            // What came meanwhile shares the wait for the disk.
            while let Ok(request) = self.requests.try_recv() {
                self.take(request);
            }
            self.write();
        }
    }

    fn take(&mut self, request: Request) {
        match request {
            Request::Append { line, written } => self.waiting.push_back(Waiting { line, written }),
            Request::Reopen { head, done } => {
                // Who asked may have gone.
                let _ = done.send(self.reopen(head));
            }
            Request::Finish(done) => {
                self.write();
                self.give_up();
                let _ = done.send(());
            }
        }
    }

    /// Writes what waits, in order, and tells who waits for it.
    fn write(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let (written, result) = self.file.append(self.waiting.iter().map(|waiting| waiting.line.as_slice()));
        match result {
            Ok(()) => self.recovered(),
            Err(error) => self.failed(&error),
        }
        for waiting in self.waiting.drain(..written) {
            waiting.written.map(|written| written.send(()));
        }
    }

    fn failed(&mut self, error: &std::io::Error) {
        self.state.change(|trouble| trouble.error = Some(error.to_string()));
        if self.told.is_none_or(|told| told.elapsed() >= REMIND) {
            self.told = Some(Instant::now());
            tracing::error!(
                file = %self.file.path().display(),
                %error,
                waiting = self.waiting.len(),
                "verdicts cannot be written to the verdict log: they are kept, and no challenge starts until they can"
            );
        }
    }

    fn recovered(&mut self) {
        self.state.change(|trouble| trouble.error = None);
        if self.told.take().is_some() {
            tracing::info!(
                file = %self.file.path().display(),
                verdicts = self.waiting.len(),
                "the verdict log is written again, with all that waited"
            );
        }
    }

    /// Takes the file that the path names now, where that is another one.
    fn reopen(&mut self, head: Vec<Vec<u8>>) -> Result<(), OpenError> {
        if self.file.is_at_its_path() {
            return Ok(());
        }
        self.file = LogFile::open(self.file.path())?;
        tracing::info!(file = %self.file.path().display(), "the verdict log was opened anew");
        if self.file.is_empty() {
            for line in head.into_iter().rev() {
                self.waiting.push_front(Waiting { line, written: None });
            }
        }
        Ok(())
    }

    /// The validator ends: what cannot be written is in the program's log.
    fn give_up(&mut self) {
        for waiting in self.waiting.drain(..) {
            let line = String::from_utf8_lossy(&waiting.line);
            tracing::error!(verdict = %printable(line.trim_end(), usize::MAX), "this verdict is not in the verdict log");
        }
    }
}
