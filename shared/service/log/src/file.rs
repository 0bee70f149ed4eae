//! Files of this machine: replaced as a whole, read up to a bound.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use crate::error::LogError;

/// How the names of files end that are being written.
pub const NEW: &str = ".new";

/// Puts a file in its place, on disk and as a whole; makes its folder.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<(), LogError> {
    let write = || {
        let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
        fs::create_dir_all(folder)?;
        let name = path.with_added_extension(&NEW[1..]);
        let mut file = File::create(&name)?;
        file.write_all(bytes).and_then(|()| file.sync_all())?;
        fs::rename(&name, path)?;
        sync(folder)
    };
    write().map_err(LogError::file(path))
}

/// The names of a new folder are on disk with the folders above. Those that others own may be unreadable.
fn sync(folder: &Path) -> io::Result<()> {
    let flush = |folder: &Path| File::open(folder).and_then(|folder| folder.sync_all());
    // The folder of a bare name is the present one.
    flush(if folder.as_os_str().is_empty() { Path::new(".") } else { folder })?;
    for above in folder.ancestors().take(MAX_DEPTH).skip(1).take_while(|above| !above.as_os_str().is_empty()) {
        match flush(above) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            flushed => flushed?,
        }
    }
    Ok(())
}

/// Folders from a tile up to the log's: `tile`, the level, parts of the index, `.p`.
const MAX_DEPTH: usize = 4;

/// A file's bytes; `None` where there is none.
pub fn read(path: &Path, max_bytes: u64) -> Result<Option<Vec<u8>>, LogError> {
    let mut bytes = Vec::new();
    let opened = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened,
    };
    let read = opened.and_then(|file| file.take(max_bytes + 1).read_to_end(&mut bytes));
    read.map_err(LogError::file(path))?;
    if bytes.len() as u64 > max_bytes {
        return Err(LogError::malformed(format!("{} has more than {max_bytes} bytes", path.display())));
    }
    Ok(Some(bytes))
}

/// The paths of all files below a folder, with `/` between their parts. Those that are removed meanwhile may be left out.
pub fn files(folder: &Path) -> Result<Vec<String>, LogError> {
    let (mut found, mut folders) = (Vec::new(), vec![String::new()]);
    while let Some(below) = folders.pop() {
        let path = folder.join(&below);
        match list(&path, &below, &mut found, &mut folders) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && !below.is_empty() => {}
            listed => listed.map_err(LogError::file(&path))?,
        }
    }
    Ok(found)
}

fn list(path: &Path, below: &str, files: &mut Vec<String>, folders: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let name = format!("{below}{}", entry.file_name().to_string_lossy());
        match entry.file_type()? {
            kind if kind.is_dir() => folders.push(name + "/"),
            _ => files.push(name),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression test: a state file that was given by its bare name could not be written.
    #[test]
    fn the_folder_of_a_bare_name_is_the_present_one() {
        sync(Path::new("")).unwrap();
    }
}
