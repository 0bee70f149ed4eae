//! Backups that are consistent while validators write, and whether a file is whole.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use sqlx::{AnyConnection, Connection};

use crate::file::new_file;
use crate::kind::DatabaseKind;
use crate::trouble::is_damage;
use crate::{Location, Records, RecordsError, Result};

/// Interval of reading a file whole.
const CHECK_INTERVAL: Duration = Duration::from_secs(86_400);
/// Interval of checking that it is still in its place.
const PLACE_INTERVAL: Duration = Duration::from_secs(60);

impl Records {
    /// Copies a store of SQLite into a new file, as it is at one moment, while it is written. The file has no gaps, and
    /// is under its name only when it is whole and on disk. It is a store like any other: to restore it, put it in the
    /// store's place while no validator runs.
    ///
    /// # Errors
    /// The file exists or cannot be written; [`RecordsError::NotForPostgres`], which names the tool for that.
    pub async fn backup(&self, to: &Path) -> Result<()> {
        if self.store.kind == DatabaseKind::Postgres {
            return Err(RecordsError::NotForPostgres);
        }
        let failed = |source| RecordsError::File { path: to.into(), source };
        if fs::symlink_metadata(to).is_ok() {
            let why = "a file is there already: give another name";
            return Err(failed(io::Error::new(io::ErrorKind::AlreadyExists, why)));
        }
        let part = to.with_added_extension("part");
        // Made by us first, so that only its owner reads it.
        new_file(&part).map_err(failed)?;
        let copied = self.copy_to(&part, to).await;
        if copied.is_err() {
            // The rest of the file is of no use; the error is returned all the same.
            let _ = fs::remove_file(&part);
        }
        copied
    }

    /// Reads a whole file and reports its damage, which is [`Records::trouble`] from then on; `None`: the file is
    /// sound, or the store is not a file. Takes as long as the disk does, on a connection of its own. A thorough check
    /// holds indices against their tables too, and ends that trouble where the file was repaired.
    pub async fn check(&self, is_thorough: bool) -> Result<Option<String>> {
        let Location::File(path) = self.location() else { return Ok(None) };
        if self.is_moved() {
            // To open it would make an empty one.
            return Err(RecordsError::File { path: path.clone(), source: io::ErrorKind::NotFound.into() });
        }
        let sql = if is_thorough { "PRAGMA integrity_check(1)" } else { "PRAGMA quick_check(1)" };
        let mut connection = AnyConnection::connect(&self.location().url()).await?;
        let found = sqlx::query_scalar::<_, String>(sql).fetch_one(&mut connection).await;
        drop(connection.close().await);
        let damage = match found {
            Err(error) if is_damage(&error) => Some(error.to_string()),
            found => {
                Some(found.map_err(|e| RecordsError::from(e).doing("check what is"))?).filter(|found| found != "ok")
            }
        };
        if damage.is_some() || is_thorough {
            self.store.trouble.damaged(damage.clone());
        }
        Ok(damage)
    }

    /// Checks for ever that the file is in its place, and reads it whole at the start and once a day. Damage is trouble,
    /// and checked again until it is repaired: a disk that cannot be read for a while looks the same.
    pub async fn watch_file(self) {
        let mut checked = None;
        loop {
            self.look_at_file(&mut checked).await;
            tokio::time::sleep(PLACE_INTERVAL).await;
        }
    }

    async fn look_at_file(&self, checked: &mut Option<Instant>) {
        self.check_place();
        let is_damaged = self.is_damaged();
        if is_damaged || checked.is_none_or(|at| at.elapsed() >= CHECK_INTERVAL) {
            *checked = Some(Instant::now());
            match self.check(is_damaged).await {
                Ok(damage) => tracing::debug!(?damage, "the file of the records was checked for damage"),
                Err(error) => tracing::warn!(%error, "the file of the records was not checked for damage"),
            }
        }
    }

    /// Refuses a store that a thorough check finds damaged.
    ///
    /// # Errors
    /// [`RecordsError::Damaged`]; the store cannot be read.
    pub async fn refuse_damage(&self) -> Result<()> {
        match (self.check(true).await?, self.location()) {
            (Some(what), Location::File(path)) => Err(RecordsError::Damaged { path: path.clone(), what }),
            _ => Ok(()),
        }
    }

    async fn copy_to(&self, part: &Path, to: &Path) -> Result<()> {
        let failed = |source| RecordsError::File { path: to.into(), source };
        let name = part.to_str().ok_or_else(|| failed(io::Error::other("the path is not UTF-8")))?;
        let copied = sqlx::query("VACUUM INTO $1").bind(name).execute(self.store.unlimited()).await;
        copied.map_err(|error| RecordsError::from(error).doing("copy everything"))?;
        File::open(part).and_then(|file| file.sync_all()).map_err(failed)?;
        // No other file is replaced.
        fs::hard_link(part, to).and_then(|()| fs::remove_file(part)).map_err(failed)?;
        sync_folder(to).map_err(failed)
    }
}

/// Makes a file's name last.
fn sync_folder(path: &Path) -> io::Result<()> {
    if !cfg!(unix) {
        return Ok(());
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn damage_of_a_file_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("validator.db");
        let records = Records::open(&Location::File(path.clone())).await.unwrap();
        assert_eq!(records.check(false).await.unwrap(), None);
        records.close().await;
        let mut bytes = fs::read(&path).unwrap();
        let last = bytes.len() - 4096;
        bytes[last..].fill(0xff);
        fs::write(&path, bytes).unwrap();
        let records = Records::open(&Location::File(path)).await.unwrap();
        assert!(records.check(false).await.unwrap().is_some());
        let trouble = records.trouble().unwrap();
        assert!(trouble.contains("restore a backup"), "{trouble}");
    }

    /// A page of SQLite's files.
    const PAGE_BYTES: usize = 4096;

    #[tokio::test(flavor = "multi_thread")]
    async fn damage_ends_with_its_repair_without_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("validator.db");
        let location = Location::File(path.clone());
        // A store that is closed is one file.
        Records::open(&location).await.unwrap().close().await;
        let records = Records::open(&location).await.unwrap();
        let mut checked = None;
        records.look_at_file(&mut checked).await;
        assert!(checked.is_some() && !records.is_damaged());
        let whole = fs::read(&path).unwrap();
        let mut damaged = whole.clone();
        damaged[2 * PAGE_BYTES..].fill(0xff);
        fs::write(&path, damaged).unwrap();
        records.look_at_file(&mut checked).await;
        assert!(!records.is_damaged(), "it is read whole once a day");
        assert!(records.check(false).await.unwrap().is_some() && records.is_damaged());
        records.look_at_file(&mut checked).await;
        assert!(records.is_damaged(), "it still is");
        fs::write(&path, whole).unwrap();
        records.look_at_file(&mut checked).await;
        assert_eq!(records.trouble(), None);
    }
}
