//! The file with a miner's state: written whole or not at all, at most once a second.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use assay_program::clock::unix_seconds;

use super::MinerStatus;

/// How often the state is looked at.
const INTERVAL: Duration = Duration::from_secs(1);
/// How often it is written though it is the same: how old it is says when a miner that was killed was there last.
const REFRESH: Duration = Duration::from_secs(10);
/// The suffix that this file's name adds to the key file's.
const SUFFIX: &str = ".status";
/// The largest file that is read: 64 devices take some dozens of KiB.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Where the miner with this key file writes its state.
pub fn path_of(key_file: &Path) -> PathBuf {
    with_suffix(key_file, SUFFIX)
}

/// A path whose name has this suffix, which begins with a dot.
pub fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    path.with_added_extension(suffix.trim_start_matches('.'))
}

/// Reads a state; `None` where no miner has written one.
///
/// # Errors
/// The system's error; a file that holds no state.
pub fn read(path: &Path) -> io::Result<Option<MinerStatus>> {
    let text = match fs::metadata(path).and_then(|metadata| match metadata.len() {
        0..=MAX_FILE_BYTES => fs::read_to_string(path),
        _ => Err(io::Error::other("larger than any status")),
    }) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    serde_json::from_str(&text).map(Some).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// When a miner wrote its state last, or could not, in seconds since 1970.
pub fn touched(path: &Path) -> Option<u64> {
    let modified = fs::metadata(path).and_then(|metadata| metadata.modified()).ok()?;
    modified.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs())
}

/// Writes a miner's state as it changes, on a thread of its own. Dropped, it writes it a last time.
#[derive(Debug)]
pub struct StatusWriter {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl StatusWriter {
    /// Starts to write the states that `state` gives.
    ///
    /// # Errors
    /// No thread could be started.
    pub fn start(path: PathBuf, state: impl Fn() -> MinerStatus + Send + 'static) -> io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let mut file = StatusFile { path, last: None, failing: false };
        let run = move || loop {
            file.update(state());
            if stopped.recv_timeout(INTERVAL) != Err(RecvTimeoutError::Timeout) {
                file.last = None;
                file.update(state());
                return;
            }
        };
        let thread = thread::Builder::new().name("status".into()).spawn(run)?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for StatusWriter {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct StatusFile {
    path: PathBuf,
    /// The content of the file, and the moment of its writing.
    last: Option<(MinerStatus, Instant)>,
    /// Whether the last attempt to write failed: an operator is warned once.
    failing: bool,
}

impl StatusFile {
    fn update(&mut self, status: MinerStatus) {
        let due = self.last.as_ref().is_none_or(|(last, at)| *last != status || at.elapsed() >= REFRESH);
        if !due {
            return;
        }
        let written = MinerStatus { written: unix_seconds(), ..status.clone() };
        match write(&self.path, &written) {
            Ok(()) => {
                if std::mem::take(&mut self.failing) {
                    tracing::info!(path = %self.path.display(), "the status file can be written again");
                }
                self.last = Some((status, Instant::now()));
            }
            Err(error) => {
                // A full disk takes this, by which `check` sees that the miner does not hang.
                let file = OpenOptions::new().write(true).open(&self.path);
                let _ = file.and_then(|file| file.set_modified(SystemTime::now()));
                if !std::mem::replace(&mut self.failing, true) {
                    let path = self.path.display();
                    tracing::warn!(%path, "`status` shows nothing new: its file cannot be written: {error}");
                }
            }
        }
    }
}

fn write(path: &Path, status: &MinerStatus) -> io::Result<()> {
    write_whole(path, &(serde_json::to_string(status)? + "\n"))
}

/// Writes beside the file and renames, so that a reader sees the old text or the new one.
pub fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    let beside = with_suffix(path, ".new");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = options.open(&beside).and_then(|mut file| file.write_all(text.as_bytes()));
    let renamed = written.and_then(|()| fs::rename(&beside, path));
    if renamed.is_err() {
        let _ = fs::remove_file(&beside);
    }
    renamed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::SharedLimits;
    use crate::status::StatusBoard;
    use assay_work::PublicKey;

    #[test]
    fn a_state_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = path_of(&folder.path().join("miner.key"));
        assert_eq!(read(&path).unwrap(), None);
        let board = StatusBoard::new(&PublicKey([7; 32]), &["127.0.0.1:7400".to_owned()], SharedLimits::default());
        let shared = board.clone();
        let writer = StatusWriter::start(path.clone(), move || shared.get()).unwrap();
        board.ended("a test");
        drop(writer);
        let found = read(&path).unwrap().unwrap();
        assert_eq!(MinerStatus { written: 0, ..found.clone() }, board.get());
        assert!(found.written > 0 && found.ended.unwrap().why == "a test");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn what_is_the_same_is_not_written_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let mut file = StatusFile { path: path.clone(), last: None, failing: false };
        file.update(MinerStatus::default());
        fs::remove_file(&path).unwrap();
        file.update(MinerStatus::default());
        assert!(!path.exists());
        file.update(MinerStatus { pid: 1, ..MinerStatus::default() });
        assert_eq!(read(&path).unwrap().unwrap().pid, 1);
    }

    #[test]
    fn a_file_that_cannot_be_written_shows_that_its_miner_lives() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let mut file = StatusFile { path: path.clone(), last: None, failing: false };
        file.update(MinerStatus::default());
        let old = SystemTime::now() - Duration::from_secs(3600);
        OpenOptions::new().write(true).open(&path).unwrap().set_modified(old).unwrap();
        // As on a full disk: the new file cannot be written.
        fs::create_dir(folder.path().join("a.new")).unwrap();
        file.update(MinerStatus { pid: 1, ..MinerStatus::default() });
        assert_eq!(read(&path).unwrap().unwrap().pid, 0, "the old state is left whole");
        assert!(touched(&path).unwrap() + 60 > unix_seconds());
    }

    #[test]
    fn what_is_no_state_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "{").unwrap();
        assert_eq!(read(&path).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert!(read(folder.path()).is_err());
    }
}
