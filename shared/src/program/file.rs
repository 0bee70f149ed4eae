//! Files in the interchange form (WORK.md, JSON), as commands read and write them.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::exit::{Exit, Failure};
use crate::work::json::from_json;

/// The largest file read: openings of an audit with every sample there can be stay below it.
const MAX_FILE_BYTES: u64 = 1 << 30;

/// Reads an object from a file (`-`: standard input): the object itself, or one that holds it under `name`
/// as the vectors do.
///
/// # Errors
/// [`Failure`]: the file cannot be read, or a field is wrong, which is named.
pub fn read<T: DeserializeOwned>(path: &Path, name: &str) -> Result<T, Failure> {
    let text = read_text(path)?;
    let wrong = |error: &dyn std::error::Error| Failure::new(Exit::Data, format!("{}: {error}", path.display()));
    let held = serde_json::from_str::<Value>(&text).ok().and_then(|mut value| match value.get_mut(name) {
        Some(held @ Value::Object(_)) => Some(held.take()),
        _ => None,
    });
    match held {
        Some(held) => from_json(&held.to_string())
            .map_err(|error| Failure::new(Exit::Data, format!("{}: {name}: {error}", path.display()))),
        None => from_json(&text).map_err(|error| wrong(&error)),
    }
}

/// Reads a text from a file, or from standard input for `-`.
///
/// # Errors
/// [`Failure`]: the file cannot be read, is too large, or is no UTF-8.
pub fn read_text(path: &Path) -> Result<String, Failure> {
    let failed = |error| Failure::because(Exit::Io, format!("cannot read {}", path.display()), error);
    let mut text = String::new();
    let read = if path == Path::new("-") {
        io::stdin().lock().take(MAX_FILE_BYTES + 1).read_to_string(&mut text)
    } else {
        File::open(path).and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text))
    };
    match read.map_err(failed)? as u64 {
        bytes if bytes > MAX_FILE_BYTES => {
            Err(Failure::new(Exit::Data, format!("{} is larger than {MAX_FILE_BYTES} bytes", path.display())))
        }
        _ => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::UncheckedProbe;

    fn read_probe(text: &str) -> Result<UncheckedProbe, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("probe.json");
        std::fs::write(&path, text).unwrap();
        read(&path, "probe").map_err(|error| error.to_string())
    }

    #[test]
    fn the_object_stands_alone_or_under_its_name() {
        let probe = format!(r#"{{"seed": "{}", "walks": 64, "steps": 1, "rounds": 1}}"#, "00".repeat(32));
        let alone = read_probe(&probe).unwrap();
        let held = read_probe(&format!(r#"{{"_comment": "x", "challenge": {{}}, "probe": {probe}}}"#)).unwrap();
        assert_eq!(alone, held);
    }

    #[test]
    fn a_wrong_field_is_named_with_its_file() {
        let error = read_probe(r#"{"probe": {"walks": 64}}"#).unwrap_err();
        assert!(error.contains("probe.json: probe: ") && error.contains("seed"), "{error}");
        assert!(read_probe("{").unwrap_err().contains("not JSON"));
    }

    #[test]
    fn a_missing_file_is_no_data_error() {
        let error = read::<UncheckedProbe>(Path::new("no/such/file"), "probe").unwrap_err();
        assert_eq!(error.exit, Exit::Io);
    }
}
