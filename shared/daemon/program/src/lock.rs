//! One daemon for a file, such as its key: a lock beside it, held for the life of the daemon.
//!
//! Two daemons with one key would take over each other's session for ever. The lock goes with its process, however that
//! ends, so a file left behind by one that was killed is no obstacle. The holder's name in it is for people.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::clock::unix_seconds;
use super::exit::{Failure, of_file_error};
use super::utc;

/// The extension that the lock's name adds to the key file's.
const EXTENSION: &str = "lock";
/// Attempts to take a lock that is held: a process that asks for the holder has it for a moment.
const ATTEMPTS: u32 = 10;
const PAUSE: Duration = Duration::from_millis(20);
/// The longest record that is read: it is one line.
const MAX_RECORD_BYTES: u64 = 4096;

/// The lock of a key file. Dropped, it is free.
#[derive(Debug)]
pub struct StateLock {
    /// Locked until it is closed.
    _file: File,
}

/// Who holds a lock, in its own words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockHolder {
    /// Its process id.
    pub pid: u32,
    pub program: String,
    /// When it took the lock, in seconds since 1970.
    pub started: u64,
    /// Its public key.
    pub who: String,
}

/// Why a lock cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another daemon holds the lock.
    #[error(
        "the file {} is in use by {}: stop that one first, or give this one another --{setting}",
        file.display(),
        shown(holder.as_ref())
    )]
    Held {
        file: PathBuf,
        /// The setting that names it.
        setting: &'static str,
        /// Who has it, where that can be read.
        holder: Option<LockHolder>,
    },
    /// The lock file cannot be made, written or locked.
    #[error(
        "cannot lock {}, which keeps a second daemon off the same file: its folder must be writable, or give another \
         --{setting}",
        path.display()
    )]
    File {
        path: PathBuf,
        /// The setting that names the file beside it.
        setting: &'static str,
        source: io::Error,
    },
}

impl From<LockError> for Failure {
    fn from(error: LockError) -> Self {
        let (message, exit) = (error.to_string(), of_file_error(&error));
        match error {
            LockError::Held { .. } => Self::new(exit, message),
            LockError::File { source, .. } => Self::because(exit, message, source),
        }
    }
}

impl StateLock {
    /// Takes the lock of a key file at once, and writes down its holder. `who` is the daemon's public key.
    ///
    /// # Errors
    /// [`LockError`]: another daemon has it, or the file cannot be made.
    pub fn acquire(key_file: &Path, who: &str) -> Result<Self, LockError> {
        Self::acquire_for("key-file", key_file, who)
    }

    /// The same of the file that another setting names.
    pub fn acquire_for(setting: &'static str, file: &Path, who: &str) -> Result<Self, LockError> {
        let path = path_of(file);
        let failed = |source| LockError::File { path: path.clone(), setting, source };
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        for attempt in 0..ATTEMPTS {
            if let Some(mut file) = system::lock(&path).map_err(failed)? {
                write(&mut file, who).map_err(failed)?;
                return Ok(Self { _file: file });
            }
            if attempt + 1 < ATTEMPTS {
                thread::sleep(PAUSE);
            }
        }
        Err(LockError::Held { file: file.to_owned(), setting, holder: read(&path) })
    }

    /// The holder of a key file's lock; `None` when the lock is free, or the file cannot be read.
    pub fn holder(key_file: &Path) -> Option<LockHolder> {
        let path = path_of(key_file);
        if system::is_locked(&path) { read(&path) } else { None }
    }
}

fn path_of(file: &Path) -> PathBuf {
    file.with_added_extension(EXTENSION)
}

fn write(file: &mut File, who: &str) -> io::Result<()> {
    let program = std::env::current_exe().ok().and_then(|path| Some(path.file_stem()?.to_string_lossy().into_owned()));
    let program = program.unwrap_or_else(|| "another program".to_owned());
    let holder = LockHolder { pid: std::process::id(), program, started: unix_seconds(), who: who.to_owned() };
    let record = serde_json::to_string(&holder)? + "\n";
    file.set_len(0)?;
    file.seek(SeekFrom::Start(0))?;
    file.write_all(record.as_bytes())
}

/// The holder's record, once it is written.
fn read(path: &Path) -> Option<LockHolder> {
    for _ in 0..ATTEMPTS {
        let mut text = String::new();
        let file = File::open(path).ok()?;
        file.take(MAX_RECORD_BYTES).read_to_string(&mut text).ok()?;
        if let Ok(holder) = serde_json::from_str(&text) {
            return Some(holder);
        }
        thread::sleep(PAUSE);
    }
    None
}

fn shown(holder: Option<&LockHolder>) -> String {
    let another = || "another daemon".to_owned();
    holder.map_or_else(another, |LockHolder { pid, program, started, .. }| {
        format!("{program}, process {pid}, since {}", utc::text(*started))
    })
}

#[cfg(not(windows))]
mod system {
    use std::fs::TryLockError;

    use super::*;

    /// The file, locked; `None` when someone else has it.
    pub(super) fn lock(path: &Path) -> io::Result<Option<File>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    pub(super) fn is_locked(path: &Path) -> bool {
        File::open(path).is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }
}

/// A locked file cannot be read here. One that is open without others allowed to write it is as good as locked.
#[cfg(windows)]
mod system {
    use super::*;
    use std::os::windows::fs::OpenOptionsExt;

    /// `FILE_SHARE_READ`.
    const SHARE_READ: u32 = 1;
    /// `ERROR_SHARING_VIOLATION`.
    const SHARING_VIOLATION: i32 = 32;

    /// The file, which no other process can open to write; `None` when another process has it open so.
    pub(super) fn lock(path: &Path) -> io::Result<Option<File>> {
        let opened =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).share_mode(SHARE_READ).open(path);
        match opened {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.raw_os_error() == Some(SHARING_VIOLATION) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(super) fn is_locked(path: &Path) -> bool {
        let opened = OpenOptions::new().write(true).open(path);
        opened.is_err_and(|error| error.raw_os_error() == Some(SHARING_VIOLATION))
    }
}

#[cfg(test)]
mod tests {
    use super::super::exit::Exit;
    use super::*;

    #[test]
    fn the_second_is_told_of_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let key_file = folder.path().join("state/miner.key");
        assert_eq!(StateLock::holder(&key_file), None);
        let first = StateLock::acquire(&key_file, "a key").unwrap();
        let holder = StateLock::holder(&key_file).unwrap();
        assert_eq!((holder.pid, holder.who.as_str()), (std::process::id(), "a key"));
        let error = StateLock::acquire(&key_file, "another").unwrap_err();
        let said = error.to_string();
        for part in [&format!("process {}", holder.pid), &holder.program, &utc::text(holder.started), "--key-file"] {
            assert!(said.contains(part), "{part} in {said}");
        }
        assert_eq!(Failure::from(error).exit, Exit::Config);
        let records = folder.path().join("state/validator.db");
        let _records = StateLock::acquire_for("records", &records, "a key").unwrap();
        let said = StateLock::acquire_for("records", &records, "another").unwrap_err().to_string();
        assert!(said.contains("validator.db") && said.contains("another --records"), "{said}");
        drop(first);
        assert_eq!(StateLock::holder(&key_file), None);
        StateLock::acquire(&key_file, "another").unwrap();
    }

    #[test]
    fn another_key_file_has_another_lock() {
        let folder = tempfile::tempdir().unwrap();
        let _first = StateLock::acquire(&folder.path().join("a.key"), "a").unwrap();
        let _second = StateLock::acquire(&folder.path().join("b.key"), "b").unwrap();
    }

    #[test]
    fn what_a_killed_daemon_left_is_no_obstacle() {
        let folder = tempfile::tempdir().unwrap();
        let key_file = folder.path().join("miner.key");
        for left in ["", "not a record", r#"{"pid":1,"program":"assay-miner","started":1,"who":"a key of 64 digits"}"#]
        {
            fs::write(path_of(&key_file), left).unwrap();
            assert_eq!(StateLock::holder(&key_file), None);
            let lock = StateLock::acquire(&key_file, "b").unwrap();
            assert_eq!(StateLock::holder(&key_file).unwrap().who, "b");
            drop(lock);
        }
    }

    #[test]
    fn a_folder_that_is_none_is_named() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("file"), "").unwrap();
        let error = StateLock::acquire(&folder.path().join("file/miner.key"), "a").unwrap_err();
        let said = error.to_string();
        assert!(matches!(error, LockError::File { .. }) && said.contains("miner.key.lock"), "{said}");
        assert_eq!(Failure::from(error).exit, Exit::Config);
    }
}
