//! Checks of the machine for `serve`, before any file is made or device opened. `config show` runs them too.

use std::fs;
use std::io::Read;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use assay_evidence::EvidenceLocation;
use assay_keeper::fleet::rules;
use assay_listen::bounds::ConnectionBounds;
use assay_listen::refused::open_files_limit;
use assay_listen::tls::warning;
use assay_program::exit::{Exit, Failure, chain};
use assay_protocol::identity::Identity;
use assay_protocol::verdict::Mode;
use assay_records::Location;
use assay_transport::own_key::identity;

use crate::config::ValidatorConfig;

/// The most bytes of a Unix socket's path, by `sockaddr_un` of Linux without the final zero; macOS has 4 fewer.
const MAX_SOCKET_PATH_BYTES: usize = if cfg!(target_os = "linux") { 107 } else { 103 };
/// Open files beside a socket for each connection: the log, the key, the pipes of workers.
const OTHER_FILES: u64 = 64;
/// First bytes of an SQLite file.
const SQLITE_HEAD: &[u8; 16] = b"SQLite format 3\0";

/// Checks the files that the validator uses: each is valid, or can be created. Returns a warning of the certificate in
/// tls_cert.
///
/// # Errors
/// [`Failure`] with the remedy, for the first unusable one.
pub fn check(config: &ValidatorConfig) -> Result<Option<String>, Failure> {
    check_key("key_file", &config.key_file)?;
    check_key("the key of receipts", &config.receipt_key_file())?;
    check_socket(&config.control_socket)?;
    let refused = |error: &(dyn std::error::Error + 'static)| Failure::new(Exit::Config, chain(error));
    rules::read(config.fleet_policy.as_deref(), Some(&config.policy)).map_err(|error| refused(&error))?;
    let issued = config.tls.issued().map_err(|error| refused(&error))?;
    check_records(&config.records)?;
    check_owner(&config.records, &config.key_file)?;
    check_evidence(&config.evidence.location)?;
    check_replays(config)?;
    config.log.check_file()?;
    Ok(issued.and_then(|issued| warning(&issued.valid_unix_seconds, assay_program::clock::unix_seconds())))
}

fn check_records(records: &Location) -> Result<(), Failure> {
    let Location::File(path) = records else { return Ok(()) };
    check_file("records", path)?;
    check_ancestor("records", path)?;
    let mut head = Vec::new();
    // A missing file is created; an unreadable one is reported when it is opened.
    let read = fs::File::open(path).map(|file| file.take(SQLITE_HEAD.len() as u64).read_to_end(&mut head));
    if read.is_ok() && !head.is_empty() && head != SQLITE_HEAD {
        return Err(wrong(
            "records",
            path,
            "this file is no database of SQLite: give another one, or a copy of a backup",
        ));
    }
    Ok(())
}

/// The validator's key, which is made where it may be.
pub fn own_identity(config: &ValidatorConfig) -> Result<Identity, Failure> {
    check_owner(&config.records, &config.key_file)?;
    identity(&config.key_file)
}

/// Refuses to make a new key beside records that another key's validator wrote: every miner that knows it would refuse it.
fn check_owner(records: &Location, key_file: &Path) -> Result<(), Failure> {
    match records {
        Location::File(path)
            if fs::metadata(path).is_ok_and(|file| file.len() > 0) && matches!(key_file.try_exists(), Ok(false)) =>
        {
            let why = format!(
                "the key is missing, though there are records ({}): restore it, or make another one with `assay-validator \
                 key`, which miners refuse that know the old one",
                path.display()
            );
            Err(wrong("key_file", key_file, &why))
        }
        _ => Ok(()),
    }
}

fn check_evidence(location: &EvidenceLocation) -> Result<(), Failure> {
    let EvidenceLocation::Folder(folder) = location else { return Ok(()) };
    if folder.exists() && !folder.is_dir() {
        return Err(wrong("evidence", folder, "a file is there, where a folder is expected"));
    }
    check_ancestor("evidence", folder)
}

/// Checks that a replay mode has devices, of this machine or of replay workers.
fn check_replays(config: &ValidatorConfig) -> Result<(), Failure> {
    let Some(mode @ (Mode::Replay | Mode::ReplaySample)) = config.policy.mode else { return Ok(()) };
    if config.replays_locally || matches!(config.records, Location::Postgres(_)) {
        return Ok(());
    }
    let message = format!(
        "mode {} with replay_locally = false needs replay workers: set records to the URL of the PostgreSQL database that \
         they share",
        mode.name()
    );
    Err(Failure::new(Exit::Config, message))
}

fn wrong(name: &str, path: &Path, why: &str) -> Failure {
    Failure::new(Exit::Config, format!("{name} = {}: {why}", path.display()))
}

fn check_key(name: &str, path: &Path) -> Result<(), Failure> {
    check_file(name, path)?;
    check_ancestor(name, path)?;
    if path.exists() {
        identity(path)?;
    }
    Ok(())
}

fn check_socket(path: &Path) -> Result<(), Failure> {
    let bytes = path.as_os_str().len();
    if bytes > MAX_SOCKET_PATH_BYTES {
        let why = format!(
            "{bytes} bytes are too many for the path of a socket, {MAX_SOCKET_PATH_BYTES} is the most: give a \
             shorter one"
        );
        return Err(wrong("control_socket", path, &why));
    }
    check_ancestor("control_socket", path)?;
    match fs::symlink_metadata(path) {
        Ok(file) if !file.file_type().is_socket() => {
            Err(wrong("control_socket", path, "a file that is not a socket is there: give another path, or remove it"))
        }
        _ => Ok(()),
    }
}

/// Checks that a path holds a file or is free.
fn check_file(name: &str, path: &Path) -> Result<(), Failure> {
    if path.as_os_str().is_empty() {
        return Err(wrong(name, path, "the path is empty"));
    }
    if path.is_dir() { Err(wrong(name, path, "a folder is there, where a file is expected")) } else { Ok(()) }
}

/// Checks the ancestors: folders are created, but a file in their place is an error.
fn check_ancestor(name: &str, path: &Path) -> Result<(), Failure> {
    match path.ancestors().skip(1).find(|folder| folder.exists()) {
        Some(folder) if !folder.is_dir() => {
            Err(wrong(name, path, &format!("{} is a file, where a folder is expected", folder.display())))
        }
        _ => Ok(()),
    }
}

/// Warns where the limit of open files is below the need of the configured miners.
pub fn warn_of_few_files(bounds: &ConnectionBounds) {
    let (needed, max_miners) = (bounds.connections() as u64 + OTHER_FILES, bounds.max_miners);
    if let Some(limit) = open_files_limit().filter(|limit| *limit < needed) {
        tracing::warn!(
            limit,
            needed,
            "fewer files may be open than max_miners = {max_miners} connections take: raise the limit (LimitNOFILE= in \
             the unit, ulimit -n in a shell), or lower max_miners"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_the_way_of_a_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("file"), "x").unwrap();
        let said = |result: Result<(), Failure>| result.unwrap_err().message;
        assert!(said(check_socket(&path("file"))).contains("not a socket"));
        assert!(said(check_socket(&path(&"x".repeat(107)))).contains("too many"));
        assert!(said(check_socket(&path("file/a.sock"))).contains("is a file, where a folder is expected"));
        assert!(check_socket(&path("new/a.sock")).is_ok(), "folders are made for it");
        assert!(said(check_key("key_file", &path("file"))).contains("file"), "it is no key");
        assert!(check_key("key_file", &path("new/validator.key")).is_ok() && !path("new").exists(), "nothing is made");
    }

    /// Regression test: a key that was lost was made anew, and every miner refused it for good.
    #[test]
    fn no_key_is_made_beside_records() {
        let folder = tempfile::tempdir().unwrap();
        let [records, key] = ["validator.db", "validator.key"].map(|name| folder.path().join(name));
        let check = || check_owner(&Location::File(records.clone()), &key).map_err(|failure| failure.message);
        assert_eq!(check(), Ok(()));
        fs::write(&records, "").unwrap();
        assert_eq!(check(), Ok(()), "an empty file has none");
        fs::write(&records, SQLITE_HEAD).unwrap();
        assert!(check().unwrap_err().contains("restore it"));
        fs::write(&key, "").unwrap();
        assert_eq!(check(), Ok(()));
    }

    #[test]
    fn files_that_the_start_would_refuse_are_refused_before_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("file"), "x").unwrap();
        let said = |result: Result<(), Failure>| result.unwrap_err().message;
        let records = |name: &str| check_records(&Location::File(path(name)));
        assert!(said(records("file")).contains("no database of SQLite") && said(records("")).contains("a folder"));
        assert!(said(records("file/a")).contains("where a folder is expected") && records("new/a").is_ok());
        let evidence = |name: &str| check_evidence(&EvidenceLocation::Folder(path(name)));
        assert!(said(evidence("file")).contains("a file is there") && said(evidence("file/a")).contains("is a file"));
        assert!(evidence("new/a").is_ok() && evidence("").is_ok() && !path("new").exists(), "nothing is made");
    }
}
