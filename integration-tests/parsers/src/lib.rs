//! The parsers that an adversary reaches, each as a function of bytes that panics where an invariant does not hold.
//!
//! `integration-tests/fuzz` has a fuzz target for each of [`TARGETS`], under the same name, with its corpus; the test
//! of this crate replays every corpus.

#![forbid(unsafe_code)]

pub mod cases;
mod edits;
pub mod files;
pub mod honest;
pub mod keys;
pub mod openings;
pub mod pipe;
pub mod policy;
pub mod runs;
pub mod stream;
pub mod texts;
pub mod tokens;
pub mod wire;

/// The name of a target, and its function.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: &[Target] = &[
    ("api_documents", texts::api_documents),
    ("case", cases::case),
    ("case_entries", cases::case_entries),
    ("certificate", keys::certificate),
    ("challenge_json", files::challenge_json),
    ("evidence_json", files::evidence_json),
    ("miner_messages", wire::miner_messages),
    ("object", cases::object),
    ("opening_edits", openings::edited),
    ("openings", openings::stream),
    ("pass_openings", files::pass_openings),
    ("policy_file", policy::policy_file),
    ("probe_file", files::probe_file),
    ("proxy_answer", stream::proxy_answer),
    ("receipt", tokens::receipt),
    ("receipt_keys", tokens::receipt_keys),
    ("run", runs::edited),
    ("session_stream", stream::session_stream),
    ("settings_file", policy::settings_file),
    ("successors", keys::successors),
    ("sweep_file", files::sweep_file),
    ("texts", texts::texts),
    ("tls_hello", stream::tls_hello),
    ("validator_messages", wire::validator_messages),
    ("worker_replies", pipe::worker_replies),
    ("worker_requests", pipe::worker_requests),
];

/// The text of an input; `None` where it is not UTF-8.
fn text(data: &[u8]) -> Option<&str> {
    std::str::from_utf8(data).ok()
}
