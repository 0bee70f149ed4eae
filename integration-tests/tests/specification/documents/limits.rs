//! docs/limits.md agrees with the code: its figures are those of `bounds.rs`, its bounds of messages those of the
//! wire, and each test that it names exists.

use std::collections::BTreeSet;
use std::fmt::Write;

use assay_integration_tests::document::check_section;
use assay_judge::bounds::*;
use assay_listen::bounds::*;
use assay_protocol::wire::limits;

use crate::documents::source::{read, rust_files, workspace, written};

const PAGE: &str = "docs/limits.md";

#[test]
fn every_test_of_a_limit_exists() {
    let page = read(PAGE);
    let rows = page.lines().filter(|line| line.starts_with('|') && line.ends_with("` |"));
    let named: BTreeSet<_> = rows.filter_map(|row| row.rsplit('`').nth(1)).collect();
    assert!(named.len() >= 25, "only {named:?}");
    let sources: Vec<_> = rust_files(&workspace()).iter().map(|path| read(path)).collect();
    for name in named {
        let function = format!("fn {name}(");
        assert!(sources.iter().any(|source| source.contains(&function)), "there is no test {name}");
    }
}

#[test]
fn every_figure_is_the_codes() {
    let page = read(PAGE);
    let settings = [
        ("max_miners", ConnectionBounds::default().max_miners),
        ("max_address_connects_per_s", DEFAULT_ADDRESS_CONNECTS_PER_S),
        ("max_connects_per_s", DEFAULT_CONNECTS_PER_S),
        ("max_challenges", DEFAULT_CHALLENGES),
    ];
    for (name, value) in settings {
        assert!(page.contains(&format!("| `{name}` | {value} |")), "{name} = {value}");
    }
    let bounds = read("shared/service/listen/src/bounds.rs");
    let rates = [
        ("FRAMES", "RateLimit::new(2048, 32_768)", "2048 a second, 32,768 at once"),
        ("BYTES", "RateLimit::new(32 << 20, 16 << 20)", "32 MiB a second, 16 MiB at once"),
        ("SESSIONS_PER_KEY", "RateLimit::every(Duration::from_secs(5), 20)", "1 in 5 s, 20 at once"),
        ("LINES_PER_ADDRESS", "RateLimit::new(1, 100)", "1 a second, 100 at once"),
        ("LINES", "RateLimit::new(20, 1000)", "20 a second, 1000 at once"),
    ];
    for (name, value, said) in rates {
        assert_eq!(written(&bounds, name), Some(value));
        assert!(page.contains(said), "{name}: {said}");
    }
    let control = CONTROL_FRAME_COST;
    let figures = [
        format!("{} s | closed |", STRANGER_LIMIT.as_secs()),
        format!("| {} KiB | not read any more", MAX_STRANGER_BYTES >> 10),
        format!("requests without a session | {MAX_STRANGER_REQUESTS} |"),
        format!("{} s, {MAX_HANDSHAKE_TRIES} on a connection", HANDSHAKE_LIMIT.as_secs()),
        format!("streams of a connection | {MAX_STREAMS} |"),
        format!("headers | {} KiB", MAX_HEADER_BYTES >> 10),
        format!("a health check or query | {} KiB", MAX_QUERY_BYTES >> 10),
        format!("reset before they are served | {MAX_RESET_STREAMS} |"),
        format!(
            "{DEFAULT_ADDRESS_CONNECTS_PER_S} a second, {} at once",
            DEFAULT_ADDRESS_CONNECTS_PER_S * CONNECT_BURST_S
        ),
        format!("{DEFAULT_CONNECTS_PER_S} a second, {} at once", DEFAULT_CONNECTS_PER_S * CONNECT_BURST_S),
        format!("{} a second, {} at once", 2048 / control, 32_768 / control),
        format!("messages in a ping interval | {MAX_MESSAGES_PER_PING},"),
        format!("this validator held up | {} ms", HELD_UP_LIMIT.as_millis()),
        format!("a check waiting for a core | {} s", CHECK_WAIT_LIMIT.as_secs()),
    ];
    for figure in figures {
        assert!(page.contains(&figure), "the page does not say: {figure}");
    }
}

/// Name and value of each constant.
macro_rules! values {
    ($($name:ident)*) => { vec![$((stringify!($name), limits::$name as u64),)*] };
}

/// The constants of a file that are public, each with the first paragraph of its comment.
fn described(source: &str) -> Vec<(&str, String)> {
    let (mut found, mut paragraph, mut is_first) = (Vec::new(), String::new(), true);
    for line in source.lines() {
        if let Some(comment) = line.strip_prefix("///") {
            is_first &= !comment.trim().is_empty();
            if is_first {
                paragraph.push_str(comment);
            }
            continue;
        }
        if let Some((name, _)) = line.strip_prefix("pub const ").and_then(|rest| rest.split_once(':')) {
            found.push((name, paragraph.trim().replace("[`", "`").replace("`]", "`")));
        }
        (paragraph, is_first) = (String::new(), true);
    }
    found
}

#[test]
fn every_bound_of_the_wire_is_listed_with_its_value_and_reason() {
    let values = values!(
        MAX_MESSAGE_BYTES MAX_HANDSHAKE_BYTES MAX_SHORT_MESSAGE_BYTES HANDSHAKE_MESSAGES
        MAX_DEVICES SLOT_ENTRIES MAX_PRECISIONS MAX_VERSIONS MAX_JOIN_TOKEN_BYTES MAX_SUCCESSORS MAX_NAME_BYTES MAX_BACKEND_BYTES
        MAX_DEVICE_DETAIL_BYTES MAX_HARDWARE_TEXT_BYTES MAX_THROTTLE_REASONS MAX_XIDS MAX_AGENT_BYTES MAX_DETAIL_BYTES MAX_REASON_CODE_BYTES MAX_CLASS_BYTES MAX_ROOTS
        MAX_PROBE_DIGESTS MAX_EVIDENCE_BYTES MAX_OPEN_ITEMS MAX_OPEN_DRAWS MAX_CHUNK_DIGESTS MAX_SAMPLE_OPENINGS
        MAX_LINES MAX_RANGE_BYTES MAX_SIBLINGS MAX_REASONS MAX_RECEIPT_BYTES MAX_BOUNDS MIN_DEADLINE_MS MAX_DEADLINE_MS
        MIN_PING_INTERVAL_MS MAX_PING_INTERVAL_MS MAX_RETRY_AFTER_MS MAX_CLAIMED_MS MAX_PROGRESS_SLOTS
    );
    let source = read("shared/attest/protocol/src/wire/limits.rs");
    let described = described(&source);
    let names = |list: &[(&str, u64)]| list.iter().map(|(name, _)| (*name).to_owned()).collect::<Vec<_>>();
    let defined: Vec<_> = described.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(names(&values), defined, "this test has a value for each bound");
    let mut expected = "| bound | value | unit, and why |\n|---|--:|---|\n".to_owned();
    for ((name, value), (_, why)) in values.iter().zip(described) {
        assert!(!why.is_empty() && !why.contains('|'), "{name}: {why}");
        writeln!(expected, "| `{name}` | {value} | {why} |").unwrap();
    }
    check_section(&workspace().join(PAGE), "wire", &expected).unwrap_or_else(|error| panic!("{error}"));
}
