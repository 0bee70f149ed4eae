//! What `serve` needs of the machine beside its settings, looked at before anything is made or opened. `config show`
//! asks the same.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use assay_program::exit::{Exit, Failure};
use assay_transport::own_key::identity;

use crate::bounds::Bounds;
use crate::config::ValidatorConfig;
use crate::expectations::Expectations;

/// The most bytes of a Unix socket's path, by `sockaddr_un` of Linux without the zero at its end; macOS has 4 fewer.
const MAX_SOCKET_PATH_BYTES: usize = if cfg!(target_os = "linux") { 107 } else { 103 };
/// Files that the validator has open beside a socket for each connection: its log, its key, the pipes of its workers.
const OTHER_FILES: u64 = 64;

/// Checks the files that the validator uses: each is what it has to be, or can be made.
///
/// # Errors
/// [`Failure`] with the remedy, for the first that cannot be used.
pub fn check(config: &ValidatorConfig) -> Result<(), Failure> {
    check_key(&config.key_file)?;
    check_socket(&config.control_socket)?;
    Expectations::load(config.expectations.as_deref())
        .map_err(|error| Failure::new(Exit::Config, error.to_string()))?;
    config.tls.issued().map_err(|error| Failure::new(Exit::Config, error.to_string()))?;
    for (name, file) in [("verdict_log", &config.verdict_log), ("log_file", &config.log.file)] {
        if let Some(file) = file {
            check_file(name, file)?;
            check_folder(name, file)?;
        }
    }
    Ok(())
}

fn wrong(name: &str, path: &Path, why: &str) -> Failure {
    Failure::new(Exit::Config, format!("{name} = {}: {why}", path.display()))
}

fn check_key(path: &Path) -> Result<(), Failure> {
    check_file("key_file", path)?;
    check_ancestor("key_file", path)?;
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

/// A path that a file is expected at, or nothing.
fn check_file(name: &str, path: &Path) -> Result<(), Failure> {
    if path.as_os_str().is_empty() {
        return Err(wrong(name, path, "the path is empty"));
    }
    if path.is_dir() { Err(wrong(name, path, "a folder is there, where a file is expected")) } else { Ok(()) }
}

/// The folder that the file is in, which is not made for it.
fn check_folder(name: &str, path: &Path) -> Result<(), Failure> {
    match path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        Some(folder) if !folder.is_dir() => {
            Err(wrong(name, path, &format!("the folder {} is missing: make it", folder.display())))
        }
        _ => Ok(()),
    }
}

/// Folders are made for the file; a file in their place is in the way.
fn check_ancestor(name: &str, path: &Path) -> Result<(), Failure> {
    match path.ancestors().skip(1).find(|folder| folder.exists()) {
        Some(folder) if !folder.is_dir() => {
            Err(wrong(name, path, &format!("{} is a file, where a folder is expected", folder.display())))
        }
        _ => Ok(()),
    }
}

/// Warns where the system lets the validator open fewer files than its miners take.
pub fn warn_of_few_files(bounds: &Bounds) {
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

/// How many files this process may have open; Linux alone says so in a file.
#[must_use]
pub fn open_files_limit() -> Option<u64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
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
        assert!(said(check_file("verdict_log", folder.path())).contains("a folder is there"));
        assert!(said(check_file("verdict_log", Path::new(""))).contains("empty"));
        assert!(said(check_folder("verdict_log", &path("missing/log"))).contains("missing: make it"));
        assert!(check_folder("verdict_log", Path::new("log")).is_ok());
        assert!(said(check_key(&path("file"))).contains("file"), "it is no key");
        assert!(check_key(&path("new/validator.key")).is_ok() && !path("new").exists(), "nothing is made");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_limit_of_open_files_is_known() {
        assert!(open_files_limit().is_some_and(|limit| limit > 0));
    }
}
