//! Files of JSON objects, as commands read them.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use serde_json::Value;

use super::exit::{Exit, Failure};

/// The largest file read: openings of an audit with every sample there can be stay below it.
const MAX_FILE_BYTES: u64 = 1 << 30;

/// Reads an object from a file (`-`: standard input): the object itself, or one that holds it under `name`
/// as the vectors do. `parse` reads the object's text.
///
/// # Errors
/// [`Failure`]: the file cannot be read, or a field is wrong, which is named.
pub fn read<T, E: Display>(path: &Path, name: &str, parse: impl Fn(&str) -> Result<T, E>) -> Result<T, Failure> {
    let text = read_text(path)?;
    let wrong = |error: E| Failure::new(Exit::Data, format!("{}: {error}", path.display()));
    let held = serde_json::from_str::<Value>(&text).ok().and_then(|mut value| match value.get_mut(name) {
        Some(held @ Value::Object(_)) => Some(held.take()),
        _ => None,
    });
    match held {
        Some(held) => parse(&held.to_string())
            .map_err(|error| Failure::new(Exit::Data, format!("{}: {name}: {error}", path.display()))),
        None => parse(&text).map_err(wrong),
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
        read(&path, "probe", parse).map_err(|error| error.to_string())
    }

    #[test]
    fn the_object_stands_alone_or_under_its_name() {
        let probe = r#"{"walks": 64, "steps": 1}"#;
        let alone = read_probe(probe).unwrap();
        let held = read_probe(&format!(r#"{{"_comment": "x", "challenge": {{}}, "probe": {probe}}}"#)).unwrap();
        assert_eq!(alone, held);
    }

    #[test]
    fn a_wrong_field_is_named_with_its_file() {
        let error = read_probe(r#"{"probe": {"walks": 64}}"#).unwrap_err();
        assert!(error.contains("probe.json: probe: ") && error.contains("steps"), "{error}");
        assert!(read_probe("{").unwrap_err().contains("probe.json: EOF"));
    }

    #[test]
    fn a_missing_file_is_no_data_error() {
        let error = read(Path::new("no/such/file"), "probe", parse).unwrap_err();
        assert_eq!(error.exit, Exit::Io);
    }
}
