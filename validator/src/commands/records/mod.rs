//! Commands about enrolment and records: each asks the running validator, and prints its documents.

pub mod copies;
pub mod decide;
pub mod enroll;
pub mod history;
pub mod lists;
pub mod round;
pub mod show;

use assay_program::exit::{Exit, Failure, print};
use assay_program::utc;
use assay_protocol::wire::v1::change_request::Change;
use assay_protocol::wire::v1::query_request::Query;
use assay_protocol::wire::v1::{ChangeRequest, QueryRequest};
use assay_work::text::quoted;
use serde_json::Value;

use super::control;
use crate::config::ValidatorConfig;

/// What stands for nothing.
const NOTHING: &str = "–";

/// The documents that answer a query.
///
/// # Errors
/// No validator answers on the socket, or it refuses.
pub fn ask(config: &ValidatorConfig, query: Query) -> anyhow::Result<Vec<Value>> {
    control::block_on(async {
        let client = control::connect(&config.control_socket).await?;
        let request = QueryRequest { query: Some(query) };
        let mut answer = client.ask(|mut rpc| async move { rpc.query(request).await }).await?;
        let mut documents = Vec::new();
        while let Some(document) = answer.message().await.map_err(|status| client.failure(&status))? {
            documents.push(document_of(&document.json)?);
        }
        Ok(documents)
    })
}

/// What came of a change. A copy of the records, or a round, may take its time.
///
/// # Errors
/// No validator answers on the socket, or it refuses.
pub fn make(config: &ValidatorConfig, change: Change) -> anyhow::Result<Value> {
    control::block_on(async {
        let client = control::connect(&config.control_socket).await?;
        let request = ChangeRequest { change: Some(change) };
        let takes_time = matches!(request.change, Some(Change::Export(_) | Change::Backup(_) | Change::Round(_)));
        let made = if takes_time {
            let answer = client.rpc().change(request).await;
            answer.map_err(|status| client.failure(&status))?.into_inner()
        } else {
            client.ask(|mut rpc| async move { rpc.change(request).await }).await?
        };
        Ok(document_of(&made.json)?)
    })
}

fn document_of(json: &[u8]) -> Result<Value, Failure> {
    serde_json::from_slice(json).map_err(|error| Failure::because(Exit::Io, "the validator sent no JSON", error))
}

/// Prints documents as a JSON array.
fn print_all(documents: &[Value]) -> anyhow::Result<()> {
    Ok(print(&serde_json::to_string_pretty(documents)?)?)
}

/// A text of a document; nothing where there is none.
fn text<'a>(document: &'a Value, field: &str) -> &'a str {
    document[field].as_str().unwrap_or_default()
}

/// A text that a peer chose, in quotes; nothing where there is none.
fn claimed(document: &Value, field: &str) -> String {
    match text(document, field) {
        "" => NOTHING.to_owned(),
        text => quoted(text).to_string(),
    }
}

/// A moment of a document, to the minute.
fn moment(document: &Value, field: &str) -> String {
    document[field].as_i64().map_or_else(|| NOTHING.to_owned(), minute)
}

/// A moment, to the minute and in UTC.
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

/// The first digits of an id, for what names one thing only.
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
