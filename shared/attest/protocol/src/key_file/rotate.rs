//! Replaces the key in a file by a new one that the old one vouches for.
//!
//! Three steps, each of which a crash leaves done or undone: the new key goes to `<key_file>.new`, the statement beside
//! the old ones, the new key in the place of the old one. Before the last step the old key is in force, and the statement
//! about a key that never was is passed over; after it the new one is, and its statement is there.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use assay_work::PublicKey;

use super::{KeyFileError, disk, following, hex_line, new_seed, read_key, successors_file, successors_text};
use crate::identity::Identity;
use crate::successor::{MAX_OVERLAP_S, MAX_SUCCESSORS, Successor};

/// The secret of a key, overwritten when it is dropped.
type KeySeed = super::Zeroizing<[u8; 32]>;

/// A rotation under way, which excludes other rotations of the same file.
#[derive(Debug)]
pub struct Rotation {
    /// The path as given.
    key_file: PathBuf,
    /// The file itself, where the name is a link.
    target: PathBuf,
    old: Identity,
    /// Locked until it is closed.
    _file: File,
}

/// The result of a rotation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRotation {
    /// The key that was in the file.
    pub old_key: PublicKey,
    /// The key that is in it now.
    pub new_key: PublicKey,
    /// The time until which the old key vouches for the new one, in seconds since 1970; `None`: it does not.
    pub until_unix_seconds: Option<u64>,
    /// The earliest key that is followed no more, because a chain has at most 8 statements.
    pub dropped: Option<PublicKey>,
}

impl Rotation {
    /// Begins: reads the key, and keeps other rotations off.
    ///
    /// # Errors
    /// [`KeyFileError`]; there must be a key.
    pub fn begin(key_file: &Path, now_unix_seconds: u64) -> Result<Self, KeyFileError> {
        let failed = |error| KeyFileError::file(key_file, error);
        let file = File::open(key_file).map_err(failed)?;
        lock(key_file, &file)?;
        let old = read_key(key_file)?.ok_or_else(|| failed(std::io::ErrorKind::NotFound.into()))?;
        let old = following(old, key_file, now_unix_seconds)?;
        let target = fs::canonicalize(key_file).map_err(failed)?;
        Ok(Self { key_file: key_file.into(), target, old, _file: file })
    }

    /// Replaces the key by a new one, for which the old one vouches for `overlap`.
    ///
    /// # Errors
    /// [`KeyFileError`]: the old key is still in the file, or the new one is and its name may not be on the disk yet.
    pub fn finish(self, overlap: Duration, now_unix_seconds: u64) -> Result<KeyRotation, KeyFileError> {
        let (new, rotated, statements) = self.prepare(overlap, now_unix_seconds)?;
        self.write_key(&new)?;
        self.write_statements(&statements)?;
        self.install()?;
        Ok(rotated)
    }

    /// A new seed, the keys before and after, and the statements that stand from then on.
    pub(super) fn prepare(
        &self,
        overlap: Duration,
        now_unix_seconds: u64,
    ) -> Result<(KeySeed, KeyRotation, Vec<Successor>), KeyFileError> {
        let seed = new_seed()?;
        let new_key = Identity::from_seed(&seed).public_key();
        let overlap_s = overlap.as_secs().min(MAX_OVERLAP_S);
        let until_unix_seconds = (overlap_s > 0).then(|| now_unix_seconds.saturating_add(overlap_s));
        // Nearest first. Without a statement of the old key, those before it lead nowhere.
        let mut statements: Vec<_> = until_unix_seconds
            .map(|until| self.old.succeed(new_key, until))
            .into_iter()
            .flat_map(|newest| [newest].into_iter().chain(self.old.successors().iter().copied()))
            .collect();
        let dropped = statements.split_off(statements.len().min(MAX_SUCCESSORS)).last().map(|last| last.old_key);
        Ok((seed, KeyRotation { old_key: self.old.public_key(), new_key, until_unix_seconds, dropped }, statements))
    }

    pub(super) fn write_key(&self, seed: &[u8; 32]) -> Result<(), KeyFileError> {
        let owner = fs::metadata(&self.key_file).ok();
        disk::write(&self.new_file(), &*hex_line(seed), owner.as_ref())
            .map_err(|error| KeyFileError::file(&self.new_file(), error))
    }

    pub(super) fn write_statements(&self, statements: &[Successor]) -> Result<(), KeyFileError> {
        let path = successors_file(&self.key_file);
        let owner = fs::metadata(&self.key_file).ok();
        let text = successors_text(self.old.origin(), statements);
        disk::replace(&path, text.as_bytes(), owner.as_ref()).map_err(|error| KeyFileError::file(&path, error))
    }

    pub(super) fn install(&self) -> Result<(), KeyFileError> {
        disk::install(&self.new_file(), &self.target).map_err(|error| KeyFileError::file(&self.key_file, error))
    }

    fn new_file(&self) -> PathBuf {
        self.target.with_added_extension("new")
    }
}

/// Locks the file that has the name now: another rotation may have replaced it after it was opened.
#[cfg(unix)]
fn lock(key_file: &Path, file: &File) -> Result<(), KeyFileError> {
    use std::os::unix::fs::MetadataExt;
    let busy = || KeyFileError::Busy(key_file.into());
    match file.try_lock() {
        Ok(()) => {}
        Err(fs::TryLockError::WouldBlock) => return Err(busy()),
        Err(fs::TryLockError::Error(error)) => return Err(KeyFileError::file(key_file, error)),
    }
    let failed = |error| KeyFileError::file(key_file, error);
    let (locked, named) = (file.metadata().map_err(failed)?, fs::metadata(key_file).map_err(failed)?);
    if (locked.dev(), locked.ino()) == (named.dev(), named.ino()) { Ok(()) } else { Err(busy()) }
}

/// Windows would keep a locked file from being replaced.
#[cfg(not(unix))]
fn lock(_key_file: &Path, _file: &File) -> Result<(), KeyFileError> {
    Ok(())
}
