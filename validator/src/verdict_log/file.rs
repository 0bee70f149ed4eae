//! The file of the verdict log: whole lines, locked, and on disk when it says so.

use std::ffi::OsString;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Bytes of a log that are read back at start: thousands of verdicts.
pub const MAX_TAIL_BYTES: u64 = 16 << 20;
/// Bytes of the longest line: 64 devices, and 256 reasons with details of full length. A longer end without a line
/// break is no torn verdict.
const MAX_LINE_BYTES: u64 = 4 << 20;
/// Bytes read at once in search of a line break.
const BLOCK_BYTES: u64 = 64 << 10;

/// Why a verdict log cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The system does not let us.
    #[error("verdict log {path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another process has it.
    #[error("verdict log {0}: another validator writes it; give each validator a file of its own (verdict_log)")]
    Locked(PathBuf),
    /// It is something else.
    #[error(
        "verdict log {0}: this is no verdict log, its last {most} MiB have no line break; give another file (verdict_log)",
        most = MAX_LINE_BYTES >> 20
    )]
    NoLines(PathBuf),
}

/// An open verdict log.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    file: File,
    /// A pipe or a terminal can be neither locked nor cut.
    is_regular: bool,
    /// Where a line begins that was written in part and could not be cut off yet.
    torn_at: Option<u64>,
    /// Bytes that went out of the line that is next, where they cannot be taken back.
    gone: usize,
}

impl LogFile {
    /// Opens a file to append to, makes it when it is not there, locks it, and repairs its end.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let failed = |source| OpenError::File { path: path.into(), source };
        // Only a regular file is read.
        let is_regular = std::fs::metadata(path).map_or(true, |found| found.is_file());
        let is_new = !path.exists();
        let mut options = OpenOptions::new();
        options.create(true).append(true).read(is_regular);
        let file = options.open(path).map_err(failed)?;
        let mut log = Self { path: path.into(), file, is_regular, torn_at: None, gone: 0 };
        if is_regular {
            log.lock()?;
            log.repair()?;
        }
        if is_new {
            sync_folder(path).map_err(failed)?;
        }
        Ok(log)
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the path still names this file.
    pub fn is_at_its_path(&self) -> bool {
        let same = |a: &std::fs::Metadata, b: &std::fs::Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
        let found = (self.file.metadata(), std::fs::metadata(&self.path));
        matches!(&found, (Ok(open), Ok(named)) if same(open, named))
    }

    /// Whether it has no line.
    pub fn is_empty(&self) -> bool {
        self.is_regular && self.file.metadata().is_ok_and(|found| found.len() == 0)
    }

    /// Writes lines and has the disk take them; gives how many are there. What is written of any other is cut off again.
    ///
    /// # Errors
    /// What the system said of the first line that is not there.
    pub fn append<'a>(&mut self, lines: impl IntoIterator<Item = &'a [u8]>) -> (usize, io::Result<()>) {
        let begin = match self.end() {
            Ok(begin) => begin,
            Err(error) => return (0, Err(error)),
        };
        let (mut written, mut result) = (0, Ok(()));
        for line in lines {
            result = self.write(line);
            if result.is_err() {
                break;
            }
            written += 1;
        }
        if written > 0
            && let Err(error) = self.sync()
        {
            // What the disk has of these lines is not known.
            self.cut(begin);
            return (0, Err(error));
        }
        (written, result)
    }

    /// Where the next line begins, once nothing of a torn one is left.
    fn end(&mut self) -> io::Result<u64> {
        if let Some(at) = self.torn_at {
            self.file.set_len(at)?;
            self.torn_at = None;
        }
        self.file.metadata().map(|found| found.len())
    }

    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        if !self.is_regular {
            while self.gone < line.len() {
                match self.file.write(&line[self.gone..]) {
                    Ok(0) => return Err(ErrorKind::WriteZero.into()),
                    Ok(bytes) => self.gone += bytes,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
            self.gone = 0;
            return Ok(());
        }
        let begin = self.end()?;
        // One write where there is room. Where there is not, the next one says why.
        let result = self.file.write_all(line);
        if result.is_err() {
            self.cut(begin);
        }
        result
    }

    /// Cuts off what was written from there on; where that fails, it is done before the next line.
    fn cut(&mut self, begin: u64) {
        if self.is_regular && self.file.set_len(begin).is_err() {
            self.torn_at = Some(begin);
        }
    }

    fn sync(&self) -> io::Result<()> {
        match self.file.sync_data() {
            // A pipe has no disk.
            Err(_) if !self.is_regular => Ok(()),
            result => result,
        }
    }

    fn lock(&self) -> Result<(), OpenError> {
        match self.file.try_lock() {
            Ok(()) => Ok(()),
            Err(TryLockError::WouldBlock) => Err(OpenError::Locked(self.path.clone())),
            Err(TryLockError::Error(error)) => {
                // Some network file systems have no locks.
                tracing::warn!(file = %self.path.display(), %error, "the verdict log cannot be locked: see that no other \
                     validator writes it");
                Ok(())
            }
        }
    }

    /// Ends the last line where only its line break is missing; else puts it into a file of its own.
    fn repair(&mut self) -> Result<(), OpenError> {
        let failed = |source| OpenError::File { path: self.path.clone(), source };
        let end = self.file.metadata().map_err(failed)?.len();
        let begin =
            last_line(&mut self.file, end).map_err(failed)?.ok_or_else(|| OpenError::NoLines(self.path.clone()))?;
        if begin == end {
            return Ok(());
        }
        let torn = read_from(&mut self.file, begin).map_err(failed)?;
        if serde_json::from_slice::<serde::de::IgnoredAny>(&torn).is_ok_and(|_| torn.starts_with(b"{")) {
            tracing::warn!(file = %self.path.display(), "the last line of the verdict log had no line break: it was added");
            self.file.write_all(b"\n").and_then(|()| self.file.sync_all()).map_err(failed)?;
            return Ok(());
        }
        let aside = keep_aside(&self.path, &torn).map_err(failed)?;
        self.file.set_len(begin).and_then(|()| self.file.sync_all()).map_err(failed)?;
        tracing::warn!(
            file = %self.path.display(),
            bytes = torn.len(),
            kept = %aside.display(),
            "the verdict log ended inside a line, as after a crash or on a full disk: the torn end was moved to a file of its \
             own"
        );
        Ok(())
    }
}

/// Where the last line begins that has no line break: at the end where all have; `None` where it is too long for one.
fn last_line(file: &mut File, end: u64) -> io::Result<Option<u64>> {
    let mut from = end;
    while from > 0 && end - from < MAX_LINE_BYTES {
        let begin = from.saturating_sub(BLOCK_BYTES);
        let mut block = vec![0; (from - begin) as usize];
        file.seek(SeekFrom::Start(begin))?;
        file.read_exact(&mut block)?;
        if let Some(at) = block.iter().rposition(|byte| *byte == b'\n') {
            return Ok(Some(begin + at as u64 + 1));
        }
        from = begin;
    }
    Ok((from == 0).then_some(0))
}

fn read_from(file: &mut File, begin: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(begin))?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Writes bytes into a new file beside `path`, named after it and the time.
fn keep_aside(path: &Path, bytes: &[u8]) -> io::Result<PathBuf> {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    // A later second where there is a file of this name.
    for seconds in seconds.. {
        let mut name = OsString::from(path);
        name.push(format!(".torn-{seconds}"));
        match OpenOptions::new().write(true).create_new(true).open(&name) {
            Ok(mut file) => {
                file.write_all(bytes)?;
                file.sync_all()?;
                sync_folder(path)?;
                return Ok(name.into());
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    unreachable!("the range has no end")
}

/// Has the disk take the name of a new file.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

/// The whole lines at the end of a log.
pub fn tail(path: &Path) -> io::Result<Vec<u8>> {
    if !std::fs::metadata(path)?.is_file() {
        return Ok(Vec::new());
    }
    let mut file = File::open(path)?;
    let end = file.metadata()?.len();
    let begin = end.saturating_sub(MAX_TAIL_BYTES);
    let mut bytes = read_from(&mut file, begin)?;
    if begin > 0 {
        let first = bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |at| at + 1);
        bytes.drain(..first);
    }
    Ok(bytes)
}
