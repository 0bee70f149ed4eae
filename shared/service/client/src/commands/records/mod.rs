//! Commands on enrolment and records: each asks the running validator, and prints its documents.

pub mod access;
pub mod copies;
pub mod decide;
pub mod enroll;
pub mod follow;
pub mod history;
pub mod lists;
pub mod round;
pub mod show;

use std::io::Write;

use assay_api::MAX_DOCUMENTS;
use assay_program::exit::{Exit, Failure, print_document};
use assay_program::render::Screen;
use assay_program::utc;
use assay_work::text::quoted;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::place::ApiLocation;
use crate::{Client, Result, escaped};

/// Placeholder for a missing value.
const NOTHING: &str = "–";

/// The documents of a list, at most `most`.
///
/// # Errors
/// No validator answers, or it refuses.
pub fn list(place: &ApiLocation, path: &str, query: &impl Serialize, most: u32) -> anyhow::Result<Vec<Value>> {
    if most > MAX_DOCUMENTS {
        return Err(Failure::new(Exit::Usage, format!("--limit: {most} is more than {MAX_DOCUMENTS}")).into());
    }
    ask(place, async |client| client.list(path, query, most).await)
}

/// The only document with an id.
///
/// # Errors
/// No validator answers, or the id is unknown or ambiguous.
pub fn found<T: DeserializeOwned>(place: &ApiLocation, id: &str) -> anyhow::Result<T> {
    ask(place, async |client| client.get(&format!("/find/{}", escaped(id))).await)
}

/// Sends a request to a validator, and returns its answer.
///
/// # Errors
/// No validator answers, or it refuses.
pub fn ask<T: DeserializeOwned>(
    place: &ApiLocation,
    question: impl AsyncFnOnce(Client) -> Result<T>,
) -> anyhow::Result<T> {
    crate::block_on(async { Ok(question(Client::of(place)).await.map_err(Failure::from)?) })
}

/// Prints documents of a list as JSON or as a table; `none` in place of an empty table.
fn shown(
    found: &[Value],
    as_json: bool,
    none: &str,
    table: impl FnOnce(&[Value], &Screen) -> String,
) -> anyhow::Result<Exit> {
    let text = || if found.is_empty() { none.to_owned() } else { table(found, &Screen::stdout()) };
    Ok(print_document(found, as_json, text)?)
}

/// Prints a new secret alone, for scripts, with a note about it on standard error; or the whole document as JSON.
fn secret(made: &Value, field: &str, as_json: bool, note: impl FnOnce() -> String) -> anyhow::Result<Exit> {
    let done = print_document(made, as_json, || text(made, field).to_owned())?;
    if !as_json {
        // A closed standard error is ignored.
        let _ = writeln!(std::io::stderr(), "{}", note());
    }
    Ok(done)
}

/// A text field of a document; empty without one.
fn text<'a>(document: &'a Value, field: &str) -> &'a str {
    document[field].as_str().unwrap_or_default()
}

/// A peer's own text, quoted; empty without one.
fn claimed(document: &Value, field: &str) -> String {
    match text(document, field) {
        "" => NOTHING.to_owned(),
        text => quoted(text).to_string(),
    }
}

/// A time of a document, to the minute.
fn moment(document: &Value, field: &str) -> String {
    document[field].as_i64().map_or_else(|| NOTHING.to_owned(), minute)
}

/// A time, to the minute and in UTC.
fn minute(at_ms: i64) -> String {
    let mut shown = utc::text(u64::try_from(at_ms / 1000).unwrap_or_default());
    shown.truncate("2026-11-22 07:15".len());
    shown
}

/// Labels as people write them.
fn labels(document: &Value) -> String {
    let labels = document["labels"].as_object().into_iter().flatten();
    let labels: Vec<_> = labels.map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or_default())).collect();
    if labels.is_empty() { NOTHING.to_owned() } else { labels.join(" ") }
}

/// The first eight digits of an id.
fn short(id: &str) -> &str {
    id.get(..8).unwrap_or(id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_are_shown_or_nothing_is() {
        let document = json!({
            "at_ms": 1_767_225_599_999_i64, "labels": { "rack": "7", "row": "a" }, "name": "GPU\u{1b}[31m", "id": "0123456789",
        });
        assert_eq!(moment(&document, "at_ms"), "2025-12-31 23:59");
        assert_eq!((moment(&document, "gone_ms"), labels(&json!({}))), ("–".to_owned(), "–".to_owned()));
        assert_eq!(labels(&document), "rack=7 row=a");
        assert!(!claimed(&document, "name").contains('\u{1b}') && claimed(&document, "model") == "–");
        assert_eq!((short("0123456789"), short("01")), ("01234567", "01"));
    }
}
