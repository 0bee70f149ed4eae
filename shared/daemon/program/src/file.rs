//! Files of JSON objects, as commands read them.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::exit::{Exit, Failure};

/// The largest file read: openings of an audit with every sample there can be stay below it.
const MAX_FILE_BYTES: u64 = 1 << 30;

/// Reads a file (`-`: standard input) and parses its text.
///
/// # Errors
/// [`Failure`]: the file cannot be read, or `parse` refuses its text.
pub fn read<T, E: Display>(path: &Path, parse: impl Fn(&str) -> Result<T, E>) -> Result<T, Failure> {
    let text = read_text(path)?;
    parse(&text).map_err(|error| Failure::new(Exit::Data, format!("{}: {error}", path.display())))
}

/// Reads a text from a file, or from standard input for `-`.
///
/// # Errors
/// [`Failure`]: the file cannot be read, is too large, or is not UTF-8.
pub fn read_text(path: &Path) -> Result<String, Failure> {
    read_at_most(path, MAX_FILE_BYTES)
}

/// Reads a text of at most `max_bytes`, as [`read_text`] does.
pub fn read_at_most(path: &Path, max_bytes: u64) -> Result<String, Failure> {
    let failed = |error| Failure::because(Exit::Io, format!("cannot read {}", path.display()), error);
    let mut text = String::new();
    let read = if path == Path::new("-") {
        io::stdin().lock().take(max_bytes + 1).read_to_string(&mut text)
    } else {
        File::open(path).and_then(|file| file.take(max_bytes + 1).read_to_string(&mut text))
    };
    match read.map_err(failed)? as u64 {
        bytes if bytes > max_bytes => {
            Err(Failure::new(Exit::Data, format!("{} is larger than {max_bytes} bytes", path.display())))
        }
        _ => Ok(text),
    }
}

/// Whether a file could be written now, so that an hour's work is not done in vain. Nothing is changed.
pub fn check_writable(path: &Path) -> Result<(), Failure> {
    let is_new = !path.exists();
    std::fs::OpenOptions::new().append(true).create(true).open(path).map_err(|error| cannot_write(path, error))?;
    if is_new {
        // A file that cannot be removed stays, empty.
        let _ = std::fs::remove_file(path);
    }
    Ok(())
}

/// Writes a text to a file. Where that fails, no part of it is left.
pub fn write_text(path: &Path, text: &str) -> Result<(), Failure> {
    write(path, text.as_bytes())
}

/// Writes bytes to a file. Where that fails, no part of them is left.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    std::fs::write(path, bytes).map_err(|error| {
        // Anything but a file, such as a device, stays; a file that cannot be removed stays as it is.
        if path.is_file() {
            let _ = std::fs::remove_file(path);
        }
        cannot_write(path, error)
    })
}

fn cannot_write(path: &Path, error: io::Error) -> Failure {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.exists());
    let why = folder.map_or_else(String::new, |folder| format!(": the folder {} is missing", folder.display()));
    Failure::because(Exit::Io, format!("cannot write {}{why}", path.display()), error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, PartialEq, Eq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Probe {
        walks: u32,
        steps: u32,
    }

    fn parse(text: &str) -> Result<Probe, serde_json::Error> {
        serde_json::from_str(text)
    }

    fn read_probe(text: &str) -> Result<Probe, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("probe.json");
        std::fs::write(&path, text).unwrap();
        read(&path, parse).map_err(|error| error.to_string())
    }

    #[test]
    fn a_wrong_field_is_named_with_its_file() {
        assert_eq!(read_probe(r#"{"walks": 64, "steps": 1}"#), Ok(Probe { walks: 64, steps: 1 }));
        let error = read_probe(r#"{"walks": 64}"#).unwrap_err();
        assert!(error.contains("probe.json: ") && error.contains("steps"), "{error}");
        assert!(read_probe("{").unwrap_err().contains("probe.json: EOF"));
    }

    #[test]
    fn a_text_is_written_or_the_folder_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.json");
        write_text(&path, "{}").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "{}");
        let error = write_text(&folder.path().join("no/out.json"), "{}").unwrap_err();
        assert!(error.exit == Exit::Io && error.message.contains("is missing"), "{error}");
    }

    #[test]
    fn what_could_not_be_written_is_known_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.json");
        check_writable(&path).unwrap();
        assert!(!path.exists(), "nothing is left");
        std::fs::write(&path, "kept").unwrap();
        check_writable(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "kept");
        assert_eq!(check_writable(folder.path()).unwrap_err().exit, Exit::Io);
        assert!(check_writable(&folder.path().join("no/out.json")).unwrap_err().message.contains("is missing"));
    }

    #[test]
    fn a_larger_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("large");
        std::fs::write(&path, "12345").unwrap();
        assert_eq!(read_at_most(&path, 5).unwrap(), "12345");
        let error = read_at_most(&path, 4).unwrap_err();
        assert!(error.exit == Exit::Data && error.message.contains("larger than 4 bytes"), "{error}");
    }

    #[test]
    fn a_missing_file_is_no_data_error() {
        let error = read(Path::new("no/such/file"), parse).unwrap_err();
        assert_eq!(error.exit, Exit::Io);
    }
}
