//! Backups that are consistent while validators write, and whether a file is whole.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use sqlx::{AnyConnection, Connection};

use crate::file::new_file;
use crate::kind::DatabaseKind;
use crate::trouble::is_damage;
use crate::{Location, Records, RecordsError, Result};

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
}
