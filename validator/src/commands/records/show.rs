//! `assay-validator show`: a document, for a person.

use std::fmt::Write;

use assay_program::exit::{Exit, print};
use assay_program::utc;
use assay_work::text::printable;
use serde_json::Value;

use super::ask;
use crate::cli::records::ShowArgs;
use crate::client::escaped;
use crate::client::place::Place;

/// Blanks for each level.
const INDENT: usize = 2;
/// The most bytes of a text that are shown: longer ones are for programs.
const MAX_TEXT_BYTES: usize = 1024;

/// Shows the one thing with an id.
///
/// # Errors
/// No validator answers, or nothing, or more than one thing, has the id.
pub fn execute(place: &Place, args: &ShowArgs) -> anyhow::Result<Exit> {
    let document = found(place, &args.id)?;
    if args.common.json {
        print(&serde_json::to_string_pretty(&document)?)?;
    } else {
        let mut out = String::new();
        fields(&mut out, &document, 0);
        print(out.trim_end())?;
    }
    Ok(Exit::Done)
}

/// The document of the one thing with an id.
///
/// # Errors
/// As [`execute`].
pub fn found(place: &Place, id: &str) -> anyhow::Result<Value> {
    ask(place, async |client| client.get(&format!("/find/{}", escaped(id))).await)
}

/// A line for each field, with those of an object below its name.
fn fields(out: &mut String, document: &Value, level: usize) {
    let all = document.as_object().into_iter().flatten();
    let is_plain =
        |value: &Value| !value.is_object() && !matches!(value, Value::Array(list) if list.iter().any(Value::is_object));
    let (plain, nested): (Vec<_>, Vec<_>) =
        all.filter(|(_, value)| !is_nothing(value)).partition(|(_, value)| is_plain(value));
    let width = plain.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let indent = " ".repeat(INDENT * level);
    for (name, value) in plain {
        // Writing into memory cannot fail.
        let _ = writeln!(out, "{indent}{name:width$}  {}", shown(name, value));
    }
    for (name, value) in nested {
        match value {
            Value::Array(list) => {
                for (number, item) in list.iter().enumerate() {
                    let _ = writeln!(out, "{indent}{name} {}", number + 1);
                    fields(out, item, level + 1);
                }
            }
            object => {
                let _ = writeln!(out, "{indent}{name}");
                fields(out, object, level + 1);
            }
        }
    }
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// A value by its name: moments as dates.
fn shown(name: &str, value: &Value) -> String {
    let unix_s = match value.as_u64() {
        Some(at) if name == "at_ms" || name.ends_with("_ms") && at > 1_000_000_000_000 => Some(at / 1000),
        Some(at) if name == "unix_seconds" || name.ends_with("_s") && at > 1_000_000_000 => Some(at),
        _ => None,
    };
    match (unix_s, value) {
        (Some(unix_s), _) => utc::text(unix_s),
        (None, Value::String(text)) => printable(text, MAX_TEXT_BYTES),
        (None, Value::Array(list)) => list.iter().map(|value| shown("", value)).collect::<Vec<_>>().join(", "),
        (None, value) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_document_is_shown_by_its_fields() {
        let document = json!({
            "found": "miner", "key": "abab", "first_seen_ms": 1_767_225_599_000_i64, "device_ms": 1200, "due": null,
            "labels": { "rack": "7" }, "keys": ["abab", "cdcd"], "devices": [{ "name": "GPU\u{1b}", "gone": false }],
        });
        let mut out = String::new();
        fields(&mut out, &document, 0);
        let expected = "device_ms      1200\nfirst_seen_ms  2025-12-31 23:59:59 UTC\nfound          miner\n\
             key            abab\nkeys           abab, cdcd\ndevices 1\n  gone  false\n  name  GPU \nlabels\n  rack  7\n";
        assert_eq!(out, expected);
    }
}
