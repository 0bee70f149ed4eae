//! Texts of other hosts and of operators, and the documents of the HTTP API.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use assay_api::{BeginChallenge, Cursor, LiveEvent, SearchResult, parse_label};
use assay_evidence::{Digest, EvidenceLocation};
use assay_policy::text::duration;
use assay_program::address::Address;
use assay_program::prefix::Prefix;
use assay_program::span::Span;
use assay_protocol::join_token::JoinToken;
use assay_receipts::EatNonce;
use assay_transport::target::Target;
use assay_work::size::Size;
use assay_work::text::{is_printable, printable, quoted};
use assay_work::{DeviceId, PublicKey, Signature};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::text;

/// A text that is read is read again, to the same value, as it is shown.
fn parsed<T: FromStr + Display + PartialEq + Debug>(text: &str) -> Option<T> {
    let value: T = text.parse().ok()?;
    assert_eq!(value.to_string().parse().ok().as_ref(), Some(&value));
    Some(value)
}

/// Every small text that is parsed.
pub fn texts(data: &[u8]) {
    let Some(text) = text(data) else { return };
    let shown = printable(text, 64);
    assert!(shown.len() <= 64 && is_printable(&shown) && is_printable(&quoted(text).to_string()));
    assert!(!is_printable(text) || printable(text, usize::MAX) == text);
    let _ = (parsed::<Address>(text), parsed::<Target>(text), parsed::<Prefix>(text), parsed::<Span>(text));
    let _ = (parsed::<Size>(text), parsed::<Digest>(text), parsed::<EatNonce>(text));
    let _ = (parsed::<DeviceId>(text), parsed::<PublicKey>(text), parsed::<Signature>(text));
    let _ = (duration(text), text.parse::<EvidenceLocation>().map_err(|error| error.to_string()));
    if let Ok(token) = text.parse::<JoinToken>() {
        assert!(token.secret() == text && format!("{token:?}") == "JoinToken(…)");
    }
    if let Ok((name, value)) = parse_label(text) {
        assert!(is_printable(&name) && is_printable(&value), "{name:?} {value:?}");
    }
}

/// Reads a document; one that is read is read again as it is written.
fn document<T: DeserializeOwned + Serialize>(data: &[u8]) {
    let Ok(document) = serde_json::from_slice::<T>(data) else { return };
    let json = serde_json::to_string(&document).expect("a document becomes JSON");
    let again: T = serde_json::from_str(&json).expect("a document that was written is read");
    assert_eq!(serde_json::to_string(&again).ok(), Some(json));
}

/// The documents that a validator is sent, and those that a client is.
pub fn api_documents(data: &[u8]) {
    document::<BeginChallenge>(data);
    document::<assay_api::CreateJoinToken>(data);
    document::<assay_api::MinersQuery>(data);
    document::<LiveEvent>(data);
    document::<SearchResult>(data);
    if let Ok(cursor) = serde_json::from_slice::<Cursor>(data)
        && let Ok(place) = cursor.place::<(i64, String)>()
    {
        assert_eq!(Cursor::after(&place).place(), Ok(place));
    }
}
