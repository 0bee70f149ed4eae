//! A file of records: made, or tried whether it is one.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::Duration;

use sqlx::{AnyConnection, Connection, Executor};

use crate::trouble::is_damage;
use crate::{Location, RecordsError, Result, id};

/// Says in the file's header whose it is: `assy`.
pub(crate) const MARK: &str = "PRAGMA application_id = 1634956153";
const APPLICATION_ID: i64 = 1_634_956_153;
/// SQLite's code for a file of another program.
const NOT_A_DATABASE: &str = "26";
/// How long an empty file may be another process's that makes records of it.
const MAKING_LIMIT: Duration = Duration::from_secs(5);
const MAKING_INTERVAL: Duration = Duration::from_millis(50);

/// Makes a store without tables that only its owner reads; its companions get the same mode. It has its name once it is on
/// disk: a start that is cut short leaves no empty file, which every later one would refuse. False where there is one.
pub(crate) async fn make(path: &Path) -> Result<bool> {
    let failed = |source| RecordsError::File { path: path.into(), source };
    if path.symlink_metadata().is_ok() {
        return Ok(false);
    }
    let new = path.with_added_extension(format!("{}.new", id::new(id::now_ms())?));
    new_file(&new).map_err(failed)?;
    let marked = mark(&Location::File(new.clone())).await;
    let named = marked.and_then(|()| match fs::hard_link(&new, path) {
        Ok(()) => Ok(true),
        // Another one was quicker.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(failed(error)),
    });
    // One that stays does no harm.
    let _ = fs::remove_file(&new);
    named
}

/// A new file that only its owner reads.
pub(crate) fn new_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create_new(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Says in a new file whose it is, on disk.
async fn mark(location: &Location) -> Result<()> {
    let failed = |source| RecordsError::Open { location: location.clone(), source };
    let mut connection = AnyConnection::connect(&location.url()).await.map_err(failed)?;
    connection.execute(MARK).await.map_err(failed)?;
    connection.close().await.map_err(failed)
}

/// Refuses a file that is there and is not a store of ours, before anything of it is changed.
pub(crate) async fn check(path: &Path, location: &Location) -> Result<()> {
    let foreign = |what: String| RecordsError::Foreign { path: path.into(), what };
    let mut waited = Duration::ZERO;
    // Its size says so: to open and close it would give up the locks that SQLite in this process has on it.
    while fs::metadata(path).is_ok_and(|found| found.len() == 0) {
        if waited >= MAKING_LIMIT {
            return Err(foreign("it is empty".to_owned()));
        }
        tokio::time::sleep(MAKING_INTERVAL).await;
        waited += MAKING_INTERVAL;
    }
    let refused = |error: sqlx::Error| match &error {
        sqlx::Error::Database(said) if said.code().as_deref() == Some(NOT_A_DATABASE) => foreign(said.to_string()),
        sqlx::Error::Database(said) if is_damage(&error) => {
            RecordsError::Damaged { path: path.into(), what: said.to_string() }
        }
        _ => RecordsError::Open { location: location.clone(), source: error },
    };
    let mut connection = AnyConnection::connect(&location.url()).await.map_err(refused)?;
    let known = read(&mut connection).await;
    // Nothing was written.
    drop(connection.close().await);
    match known.map_err(refused)? {
        (APPLICATION_ID, _) | (0, None) => Ok(()),
        (0, Some(table)) => Err(foreign(format!("it has a table {table:?}"))),
        (other, _) => Err(foreign(format!("its application id is {other:#010x}"))),
    }
}

/// Refuses a file that others can change, who could let miners in; warns of one that others can read.
pub(crate) fn check_mode(path: &Path) -> Result<()> {
    let mode = mode(path) & 0o777;
    if mode & 0o022 != 0 {
        return Err(RecordsError::Exposed { path: path.into(), mode });
    }
    if mode & 0o044 != 0 {
        tracing::warn!(file = %path.display(), "the records can be read by others (mode {mode:03o}): chmod 600 them");
    }
    Ok(())
}

#[cfg(unix)]
fn mode(path: &Path) -> u32 {
    fs::metadata(path).map_or(0, |file| std::os::unix::fs::PermissionsExt::mode(&file.permissions()))
}

/// Which file is under a name: its device and its inode.
#[cfg(unix)]
pub(crate) fn identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

/// Windows has no modes: a user who may write the folder may write the file.
#[cfg(not(unix))]
fn mode(_: &Path) -> u32 {
    0
}

/// Windows does not remove a file that is open.
#[cfg(not(unix))]
pub(crate) fn identity(_: &Path) -> Option<(u64, u64)> {
    None
}

/// The id of the program whose file it is, and a table of a file that was not made by migrations.
async fn read(connection: &mut AnyConnection) -> Result<(i64, Option<String>), sqlx::Error> {
    let id = sqlx::query_scalar::<_, i64>("PRAGMA application_id").fetch_one(&mut *connection).await?;
    let sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND NOT EXISTS \
         (SELECT 1 FROM sqlite_master WHERE name = '_sqlx_migrations') ORDER BY name LIMIT 1";
    Ok((id, sqlx::query_scalar(sql).fetch_optional(connection).await?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Records;

    #[tokio::test]
    async fn a_first_start_that_was_cut_short_is_done_again() {
        sqlx::any::install_default_drivers();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("validator.db");
        assert!(make(&path).await.unwrap() && !make(&path).await.unwrap());
        let names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["validator.db"]);
        assert!(Records::open(&Location::File(path)).await.unwrap().is_new());
    }

    #[tokio::test]
    async fn what_is_no_store_is_refused_and_not_changed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("validator.db");
        let location = Location::File(path.clone());
        sqlx::any::install_default_drivers();
        let refused = async || {
            let before = fs::read(&path).unwrap();
            let error = Records::open(&location).await.unwrap_err();
            assert!(matches!(error, RecordsError::Foreign { .. }), "{error}");
            assert!(fs::read(&path).unwrap() == before, "it was changed");
            fs::remove_file(&path).unwrap();
            error.to_string()
        };
        fs::write(&path, b"").unwrap();
        assert!(refused().await.contains("it is empty"));
        fs::write(&path, [b'x'; 8192]).unwrap();
        assert!(refused().await.contains("not a database"));
        fs::write(&path, b"").unwrap();
        let mut other = AnyConnection::connect(&location.url()).await.unwrap();
        other.execute("CREATE TABLE notes (x TEXT)").await.unwrap();
        other.close().await.unwrap();
        assert!(refused().await.contains("it has a table \"notes\""));
        fs::write(&path, b"").unwrap();
        let mut other = AnyConnection::connect(&location.url()).await.unwrap();
        other.execute("PRAGMA application_id = 7; CREATE TABLE notes (x TEXT)").await.unwrap();
        other.close().await.unwrap();
        assert!(refused().await.contains("its application id is 0x00000007"));
    }

    /// A store whose disk lost a part of it is not another program's, and is not to be moved away.
    #[tokio::test]
    async fn a_store_that_was_cut_or_overwritten_is_refused_as_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("validator.db");
        let location = Location::File(path.clone());
        Records::open(&location).await.unwrap().close().await;
        let whole = fs::read(&path).unwrap();
        let mut overwritten = whole.clone();
        overwritten[100..4096].fill(0xff);
        for damaged in [&whole[..6000], &overwritten] {
            fs::write(&path, damaged).unwrap();
            let error = Records::open(&location).await.unwrap_err();
            assert!(matches!(error, RecordsError::Damaged { .. }), "{error}");
            let said = error.to_string();
            assert!(said.contains("malformed") && said.ends_with("mend the disk, or restore a backup"), "{said}");
            assert!(fs::read(&path).unwrap() == *damaged, "it was changed");
        }
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_file_that_others_can_change_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("validator.db");
        let location = Location::File(path.clone());
        Records::open(&location).await.unwrap().close().await;
        for (mode, is_good) in [(0o666, false), (0o620, false), (0o644, true), (0o600, true)] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let opened = Records::open(&location).await;
            assert_eq!(opened.is_ok(), is_good, "{mode:o}: {opened:?}");
            assert!(is_good || opened.unwrap_err().to_string().contains("chmod 600"));
        }
    }
}
