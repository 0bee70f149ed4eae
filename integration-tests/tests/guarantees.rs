//! GUARANTEES.md says what the code says: its tables of reasons and bounds are those of the code, and every test that
//! it names exists.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use assay_protocol::verdict::ReasonCode;
use assay_protocol::wire::limits;

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &str) -> String {
    fs::read_to_string(workspace().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The rows of the table between `<!-- name -->` and `<!-- /name -->`, without its head.
fn table(name: &str) -> Vec<String> {
    let text = read("GUARANTEES.md");
    let (_, after) = text.split_once(&format!("<!-- {name} -->\n")).expect("the table's start is marked");
    let (table, _) = after.split_once(&format!("<!-- /{name} -->")).expect("the table's end is marked");
    table.lines().skip(2).map(str::to_owned).collect()
}

/// A row's cells, without the quotes of code.
fn cells(row: &str) -> Vec<&str> {
    row.trim_matches('|').split('|').map(|cell| cell.trim().trim_matches('`')).collect()
}

/// The value of the constant `name` as a file writes it.
fn written<'a>(source: &'a str, name: &str) -> Option<&'a str> {
    source.lines().find_map(|line| {
        let line = line.strip_prefix("pub ").unwrap_or(line);
        let rest = line.strip_prefix("const ")?.strip_prefix(name)?.strip_prefix(':')?;
        rest.split_once(" = ")?.1.strip_suffix(';')
    })
}

#[test]
fn every_reason_is_listed_as_it_is() {
    let row =
        |code: &ReasonCode| format!("| `{}` | {} | {} | {} |", code.name(), code.class(), code.about(), code.advice());
    let expected: Vec<_> = ReasonCode::ALL.iter().map(row).collect();
    let found = table("reasons");
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found, expected);
    }
    assert_eq!(found.len(), expected.len(), "the table has other rows:\n{}", expected.join("\n"));
}

/// Name and value of each constant.
macro_rules! values {
    ($($name:ident)*) => { vec![$((stringify!($name), limits::$name as u64),)*] };
}

#[test]
fn every_bound_of_the_wire_is_listed_with_its_value() {
    let expected = values!(
        MAX_MESSAGE_BYTES MAX_HANDSHAKE_BYTES HANDSHAKE_MESSAGES
        MAX_DEVICES SLOT_ENTRIES MAX_VERSIONS MAX_NAME_BYTES MAX_BACKEND_BYTES
        MAX_DEVICE_DETAIL_BYTES MAX_HARDWARE_TEXT_BYTES MAX_THROTTLE_REASONS MAX_XIDS MAX_AGENT_BYTES MAX_DETAIL_BYTES MAX_REASON_CODE_BYTES MAX_CLASS_BYTES MAX_ROOTS
        MAX_PROBE_DIGESTS MAX_EVIDENCE_BYTES MAX_OPEN_ITEMS MAX_OPEN_DRAWS MAX_CHUNK_DIGESTS MAX_SAMPLE_OPENINGS
        MAX_LINES MAX_RANGE_BYTES MAX_SIBLINGS MAX_REASONS MAX_BOUNDS MIN_DEADLINE_MS MAX_DEADLINE_MS
        MIN_PING_INTERVAL_MS MAX_PING_INTERVAL_MS MAX_CLAIMED_MS MAX_PROGRESS_SLOTS
    );
    let source = read("shared/src/wire/limits.rs");
    let defined = source.lines().filter_map(|line| line.strip_prefix("pub const ")?.split_once(':'));
    let defined: Vec<_> = defined.map(|(name, _)| name).collect();
    let named: Vec<_> = expected.iter().map(|(name, _)| *name).collect();
    assert_eq!(named, defined, "this test has a value for each bound");
    let found = table("limits");
    for (row, (name, value)) in found.iter().zip(&expected) {
        assert_eq!(cells(row)[..2], [*name, &value.to_string()]);
    }
    assert_eq!(found.len(), expected.len());
}

#[test]
fn other_bounds_are_listed_as_the_code_writes_them() {
    for row in table("constants") {
        let [path, name, value, why] = cells(&row)[..] else { panic!("not four cells: {row}") };
        assert_eq!(written(&read(path), name), Some(value), "{name} in {path}");
        assert!(!why.is_empty(), "{row}");
    }
}

#[test]
fn every_test_that_enforces_something_exists() {
    let text = read("GUARANTEES.md");
    let named: BTreeSet<_> = text.split('`').filter_map(|code| code.split_once(".rs::")).collect();
    assert!(named.len() > 100, "only {} tests are named", named.len());
    for (path, test) in named {
        let source = read(&format!("{path}.rs"));
        let defined = source
            .lines()
            .any(|line| line.trim_start().trim_start_matches("async ").starts_with(&format!("fn {test}(")));
        assert!(defined, "{path}.rs has no test {test}");
    }
}
