//! Files that are read from one open descriptor and written as a whole: a reader finds the old content or the new one.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;

use zeroize::Zeroizing;

use super::{KeyFileError, MAX_FILE_BYTES};
use crate::identity::random_bytes;

/// Bytes that are overwritten when they are dropped.
type SecretBytes = Zeroizing<Vec<u8>>;

/// The content of a small regular file of this user's or of root's, and its permission bits; `None` where there is no
/// file. All questions are asked of the opened file: another one that takes its name meanwhile is not read.
pub fn read(path: &Path) -> Result<Option<(SecretBytes, u32)>, KeyFileError> {
    let mut options = OpenOptions::new();
    options.read(true);
    // A pipe would wait for its writer.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    let file = match options.open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(_) if path.is_dir() => return Err(KeyFileError::NoFile(path.into())),
        Err(error) => return Err(KeyFileError::file(path, error)),
    };
    let found = file.metadata().map_err(|error| KeyFileError::file(path, error))?;
    if !found.is_file() {
        return Err(KeyFileError::NoFile(path.into()));
    }
    check_owner(path, &found)?;
    // All of it at once: a buffer that grows leaves copies behind.
    let mut content = Zeroizing::new(Vec::with_capacity(MAX_FILE_BYTES as usize + 1));
    file.take(MAX_FILE_BYTES).read_to_end(&mut content).map_err(|error| KeyFileError::file(path, error))?;
    Ok(Some((content, mode(&found))))
}

/// Makes a file with mode 0600, and its folder; says whether it did, or there is one by now.
pub fn create(path: &Path, content: &[u8]) -> Result<bool, KeyFileError> {
    let failed = |error| KeyFileError::file(path, error);
    if let Some(folder) = folder(path) {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    let suffix: [u8; 4] = random_bytes().map_err(KeyFileError::Random)?;
    let temporary = path.with_added_extension(hex::encode(suffix));
    write(&temporary, content, service_of(path).as_ref()).map_err(failed)?;
    let linked = match fs::hard_link(&temporary, path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        // A file system without links.
        Err(_) if !path.exists() => fs::rename(&temporary, path).map(|()| true),
        Err(error) => Err(error),
    };
    // After a rename it is gone.
    let _ = fs::remove_file(&temporary);
    let made = linked.map_err(failed)?;
    sync_folder(path).map_err(failed)?;
    Ok(made)
}

/// Writes a file with mode 0600 and of this owner to the disk, instead of one that was left there.
pub fn write(path: &Path, content: &[u8], owner: Option<&Metadata>) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    let written = give(&file, owner).and_then(|()| file.write_all(content)).and_then(|()| file.sync_all());
    if written.is_err() {
        // That the disk is full is known already.
        let _ = fs::remove_file(path);
    }
    written
}

/// Puts a written file in the place of another, as one step that a crash leaves done or undone.
pub fn install(written: &Path, path: &Path) -> io::Result<()> {
    fs::rename(written, path)?;
    sync_folder(path)
}

/// Writes a file and puts it in the place of another.
pub fn replace(path: &Path, content: &[u8], owner: Option<&Metadata>) -> io::Result<()> {
    let new = path.with_added_extension("new");
    write(&new, content, owner)?;
    install(&new, path)
}

fn folder(path: &Path) -> Option<&Path> {
    path.parent().filter(|folder| !folder.as_os_str().is_empty())
}

/// A file's new name is on the disk once its folder is.
#[cfg(unix)]
fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(folder(path).unwrap_or_else(|| Path::new(".")))?.sync_all()
}

/// Windows opens no folders, and writes their changes in order.
#[cfg(not(unix))]
fn sync_folder(_path: &Path) -> io::Result<()> {
    Ok(())
}

/// Root replaces the key of a service's user: the file stays that user's.
#[cfg(unix)]
fn give(file: &File, owner: Option<&Metadata>) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, fchown};
    let own = file.metadata()?;
    match owner {
        Some(owner) if owner.uid() != own.uid() || owner.gid() != own.gid() => {
            fchown(file, Some(owner.uid()), Some(owner.gid()))
        }
        _ => Ok(()),
    }
}

#[cfg(not(unix))]
fn give(_file: &File, _owner: Option<&Metadata>) -> io::Result<()> {
    Ok(())
}

/// The owner of the folder, where root makes a file in it: a service of that user has to read its key.
#[cfg(unix)]
fn service_of(path: &Path) -> Option<Metadata> {
    let is_root = rustix::process::geteuid().is_root();
    folder(path).filter(|_| is_root).and_then(|folder| fs::metadata(folder).ok())
}

#[cfg(not(unix))]
fn service_of(_path: &Path) -> Option<Metadata> {
    None
}

/// A file of another user's may be changed by that user at any time, also where the folder lets everybody write. Root
/// may look at anybody's.
#[cfg(unix)]
fn check_owner(path: &Path, found: &Metadata) -> Result<(), KeyFileError> {
    use std::os::unix::fs::MetadataExt;
    let (owner, own) = (found.uid(), rustix::process::geteuid().as_raw());
    if own == 0 || owner == own || owner == 0 {
        return Ok(());
    }
    Err(KeyFileError::Foreign { path: path.into(), owner })
}

#[cfg(not(unix))]
fn check_owner(_path: &Path, _found: &Metadata) -> Result<(), KeyFileError> {
    Ok(())
}

#[cfg(unix)]
fn mode(found: &Metadata) -> u32 {
    std::os::unix::fs::PermissionsExt::mode(&found.permissions()) & 0o777
}

/// Elsewhere a file has no mode: on Windows it inherits its readers from its folder, which by default is in the user's
/// profile, and those are the user, administrators and the system.
#[cfg(not(unix))]
fn mode(_found: &Metadata) -> u32 {
    0o600
}
