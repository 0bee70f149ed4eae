//! Backups that are consistent while validators write.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::kind::Kind;
use crate::{Records, RecordsError, export};

impl Records {
    /// Copies a store of SQLite into a new file, as it is at one moment, while it is written. The file has no gaps, and
    /// is under its name only when it is whole and on disk. It is a store like any other: to restore it, put it in the
    /// store's place while no validator runs.
    ///
    /// # Errors
    /// The file exists or cannot be written; [`RecordsError::NotForPostgres`], which names the tool for that.
    pub async fn backup(&self, to: &Path) -> Result<(), RecordsError> {
        if self.store.kind == Kind::Postgres {
            return Err(RecordsError::NotForPostgres);
        }
        let failed = |source| RecordsError::File { path: to.into(), source };
        let exists = || failed(io::Error::from(io::ErrorKind::AlreadyExists));
        if fs::symlink_metadata(to).is_ok() {
            return Err(exists());
        }
        let part = part_of(to);
        // Made by us first, so that only its owner reads it.
        export::new_file(&part).map_err(failed)?;
        let copied = self.copy_to(&part, to).await;
        if copied.is_err() {
            // What is left of it is of no use; the error is told all the same.
            let _ = fs::remove_file(&part);
        }
        copied
    }

    async fn copy_to(&self, part: &Path, to: &Path) -> Result<(), RecordsError> {
        let failed = |source| RecordsError::File { path: to.into(), source };
        let name = part.to_str().ok_or_else(|| failed(io::Error::other("the path is not UTF-8")))?;
        let copied = sqlx::query("VACUUM INTO $1").bind(name).execute(self.read()).await;
        copied.map_err(|error| RecordsError::from(error).doing("copy everything"))?;
        File::open(part).and_then(|file| file.sync_all()).map_err(failed)?;
        // No other file is replaced.
        fs::hard_link(part, to).and_then(|()| fs::remove_file(part)).map_err(failed)?;
        sync_folder(to).map_err(failed)
    }
}

/// The name of a file that is not whole yet.
fn part_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".part");
    name.into()
}

/// Makes a file's name last.
fn sync_folder(path: &Path) -> io::Result<()> {
    if !cfg!(unix) {
        return Ok(());
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}
