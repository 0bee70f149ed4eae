//! Key files: a secret key that only its owner reads, and beside it the statements by which earlier keys are followed.
//!
//! `<key_file>` has the seed as 64 hex digits. `<key_file>.successors` has a line `origin KEY`, which names the first
//! key, and a line for each statement. Both are replaced as a whole, never written in place. No secret but the current
//! one is kept: an old key vouches by the statement that it signed.

mod disk;
mod rotate;

use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use assay_work::PublicKey;
use assay_work::bytes::decode_hex;
use zeroize::Zeroizing;

pub use self::rotate::{KeyRotation, Rotation};
use crate::identity::{Identity, random_bytes};
use crate::successor::{Lineage, MAX_SUCCESSORS, Successor};

/// The largest key file that is read: 64 digits and some blanks. One of successors has 8 lines of 272 digits.
const MAX_FILE_BYTES: u64 = 4096;
/// The first word of the successors' first line.
const ORIGIN: &str = "origin ";

/// An error of a key file.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// A file could not be read, made or written.
    #[error("key file {path}: {source}{}", remedy(.source))]
    File {
        /// The file concerned.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// There is a folder, a device or a pipe of that name.
    #[error("key file {0} is no regular file: name a file, such as {example}", example = .0.join("miner.key").display())]
    NoFile(PathBuf),
    /// The file holds something else than one key.
    #[error("key file {0} does not hold 64 lower-case hex digits: restore it, or move it away to have a new key made")]
    Malformed(PathBuf),
    /// Others can read the file.
    #[error(
        "key file {path} can be read by others (mode {mode:03o}): chmod 600 it, or move it away to have a new key made"
    )]
    Exposed {
        /// The file concerned.
        path: PathBuf,
        /// Its permission bits: some of group's or others' are set.
        mode: u32,
    },
    /// The file is another user's, who can change it at any time.
    #[error("key file {path} belongs to another user (uid {owner}): chown it to the user that this program runs as")]
    Foreign {
        /// The file concerned.
        path: PathBuf,
        /// The id of its owner.
        owner: u32,
    },
    /// The file of statements holds something else.
    #[error(
        "{0} does not hold successor statements: restore it, or move it away; whoever pins an earlier key then does not \
         follow it to this one"
    )]
    MalformedSuccessors(PathBuf),
    /// Another rotation of the same key is under way.
    #[error("key file {0} is being replaced by another `key rotate`: nothing was changed")]
    Busy(PathBuf),
    /// The operating system gave no random bytes.
    #[error("the operating system gave no random bytes: {0}")]
    Random(String),
}

/// The remedy for a file that the system does not give.
fn remedy(error: &io::Error) -> &'static str {
    use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    match error.kind() {
        PermissionDenied => ": run as the user whose key it is, or name another file",
        ReadOnlyFilesystem => ": name a file in a folder that can be written to",
        _ => "",
    }
}

impl KeyFileError {
    fn file(path: &Path, source: io::Error) -> Self {
        Self::File { path: path.into(), source }
    }
}

impl Identity {
    /// Reads the key file and the statements beside it, or makes a key with mode 0600 (and its folder) when there is no
    /// file. Windows has no modes: every reader of the folder can read the key.
    ///
    /// # Errors
    /// [`KeyFileError`], each with its remedy; a malformed or exposed file is never overwritten.
    pub fn load_or_create(path: &Path) -> Result<Self, KeyFileError> {
        let key = match read_key(path)? {
            Some(key) => key,
            None => create(path)?,
        };
        following(key, path, unix_seconds())
    }
}

/// The file with the statements about a key file.
pub fn successors_file(key_file: &Path) -> PathBuf {
    key_file.with_added_extension("successors")
}

/// The key in a file; `None` where there is no file.
fn read_key(path: &Path) -> Result<Option<Identity>, KeyFileError> {
    let Some((text, mode)) = disk::read(path)? else { return Ok(None) };
    if mode & 0o077 != 0 {
        return Err(KeyFileError::Exposed { path: path.into(), mode });
    }
    let mut seed = Zeroizing::new([0; 32]);
    let text = str::from_utf8(&text).map_err(|_| KeyFileError::Malformed(path.into()))?;
    decode_hex(text.trim_end(), &mut *seed).map_err(|_| KeyFileError::Malformed(path.into()))?;
    Ok(Some(Identity::from_seed(&seed)))
}

/// Makes a key that no file had. Where another program makes the same file at this moment, both have its key.
fn create(path: &Path) -> Result<Identity, KeyFileError> {
    let seed = new_seed()?;
    if disk::create(path, &*hex_line(&seed))? {
        return Ok(Identity::from_seed(&seed));
    }
    let gone = || KeyFileError::file(path, io::ErrorKind::NotFound.into());
    read_key(path)?.ok_or_else(gone)
}

fn new_seed() -> Result<Zeroizing<[u8; 32]>, KeyFileError> {
    random_bytes().map(Zeroizing::new).map_err(KeyFileError::Random)
}

/// The seed as a key file has it.
fn hex_line(seed: &[u8; 32]) -> Zeroizing<[u8; 65]> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut line = Zeroizing::new([b'\n'; 65]);
    for (i, byte) in seed.iter().enumerate() {
        line[2 * i] = DIGITS[usize::from(byte >> 4)];
        line[2 * i + 1] = DIGITS[usize::from(byte & 15)];
    }
    line
}

/// The identity of a key with the statements beside its file that stand at this time. The files of a rotation that did
/// not finish say nothing about this key.
fn following(key: Identity, key_file: &Path, now_unix_seconds: u64) -> Result<Identity, KeyFileError> {
    let path = successors_file(key_file);
    let Some((text, _)) = disk::read(&path)? else { return Ok(key) };
    let malformed = || KeyFileError::MalformedSuccessors(path.clone());
    let text = str::from_utf8(&text).map_err(|_| malformed())?;
    let mut lines = text.lines();
    let origin = lines.next().and_then(|line| line.strip_prefix(ORIGIN)).ok_or_else(malformed)?;
    let origin: PublicKey = origin.parse().map_err(|_| malformed())?;
    let statements: Vec<_> = lines.map(Successor::from_hex).collect::<Result<_, _>>().map_err(|_| malformed())?;
    if statements.len() > MAX_SUCCESSORS {
        return Err(malformed());
    }
    let successors = Lineage::verify(key.public_key(), &statements).standing(|s| s.is_current(now_unix_seconds));
    Ok(key.following(&successors, origin))
}

/// The file of statements, as [`following`] reads it.
fn successors_text(origin: PublicKey, statements: &[Successor]) -> String {
    let lines: String = statements.iter().map(|statement| statement.to_hex() + "\n").collect();
    format!("{ORIGIN}{origin}\n{lines}")
}

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests;
