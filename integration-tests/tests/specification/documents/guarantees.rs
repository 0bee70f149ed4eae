//! GUARANTEES.md says what the code says: its tables of reasons and bounds are those of the code, and every test that
//! it names exists.

use std::collections::BTreeSet;

use assay_protocol::verdict::ReasonCode;
use assay_protocol::wire::limits;

use crate::documents::source::read;

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
pub fn written<'a>(source: &'a str, name: &str) -> Option<&'a str> {
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
        MAX_MESSAGE_BYTES MAX_HANDSHAKE_BYTES MAX_SHORT_MESSAGE_BYTES HANDSHAKE_MESSAGES
        MAX_DEVICES SLOT_ENTRIES MAX_PRECISIONS MAX_VERSIONS MAX_JOIN_TOKEN_BYTES MAX_SUCCESSORS MAX_NAME_BYTES MAX_BACKEND_BYTES
        MAX_DEVICE_DETAIL_BYTES MAX_HARDWARE_TEXT_BYTES MAX_THROTTLE_REASONS MAX_XIDS MAX_AGENT_BYTES MAX_DETAIL_BYTES MAX_REASON_CODE_BYTES MAX_CLASS_BYTES MAX_ROOTS
        MAX_PROBE_DIGESTS MAX_EVIDENCE_BYTES MAX_OPEN_ITEMS MAX_OPEN_DRAWS MAX_CHUNK_DIGESTS MAX_SAMPLE_OPENINGS
        MAX_LINES MAX_RANGE_BYTES MAX_SIBLINGS MAX_REASONS MAX_RECEIPT_BYTES MAX_BOUNDS MIN_DEADLINE_MS MAX_DEADLINE_MS
        MIN_PING_INTERVAL_MS MAX_PING_INTERVAL_MS MAX_RETRY_AFTER_MS MAX_CLAIMED_MS MAX_PROGRESS_SLOTS
    );
    let source = read("shared/protocol/src/wire/limits.rs");
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

/// What enforces a guarantee.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Enforced {
    /// A test, by its file and function.
    Test { path: String, name: String },
    /// A step of `scripts/check`.
    Step(String),
    /// Nothing yet.
    Pending,
}

/// What enforces each row of the tables whose last column is `test`. A function alone is one of the file that the
/// section names: "Tests in `path.rs`."
fn enforced() -> Vec<Enforced> {
    let text = read("GUARANTEES.md");
    let (mut file, mut is_listing, mut found) = (None, false, Vec::new());
    for line in text.lines() {
        if line.starts_with('#') {
            file = None;
        } else if let Some((_, path)) = line.split_once("Tests in `") {
            file = path.split_once('`').map(|(path, _)| path);
        }
        let Some(row) = line.strip_prefix('|') else {
            is_listing = false;
            continue;
        };
        let row = row.strip_suffix('|').unwrap_or(row);
        let (promise, last) = row.rsplit_once('|').map_or(("", row), |(before, last)| (before.trim(), last.trim()));
        if last == "test" {
            is_listing = true;
        } else if is_listing && !line.starts_with("|---") {
            assert!(!promise.is_empty(), "{line}");
            found.push(enforcement(last, file).unwrap_or_else(|| panic!("no test, and not pending: {line}")));
        }
    }
    found
}

fn enforcement(cell: &str, file: Option<&str>) -> Option<Enforced> {
    if cell == "*pending*" {
        return Some(Enforced::Pending);
    }
    let code = cell.strip_prefix('`')?.strip_suffix('`').filter(|code| !code.contains('`'))?;
    if let Some(step) = code.strip_prefix("scripts/check ") {
        return Some(Enforced::Step(step.to_owned()));
    }
    let (path, name) = match code.split_once(".rs::") {
        Some((path, name)) => (format!("{path}.rs"), name),
        None => (file?.to_owned(), code),
    };
    Some(Enforced::Test { path, name: name.to_owned() })
}

/// Whether a file has a test of this name: a function with an attribute that makes it one, or, where the file runs the
/// suite of devices, one of that suite, or one of the suite of records.
pub fn has_test(source: &str, name: &str) -> bool {
    const SUITE: &str = "shared/device/src/testing/conformance.rs";
    if source.contains("\nassay_device::device_conformance!(")
        && read(SUITE).contains(&format!("\n                {name}\n"))
    {
        return true;
    }
    let of_records = |end: &str| read("shared/records/tests/suite/main.rs").contains(&format!(" {name}{end}"));
    if source.contains(&format!("\npub async fn {name}(store: &TestStore)")) && (of_records(",") || of_records(";")) {
        return true;
    }
    let lines: Vec<_> = source.lines().map(str::trim_start).collect();
    let declared = format!("fn {name}(");
    // Some tests are run by others too.
    let is_it = |line: &str| line.trim_start_matches("pub(super) ").trim_start_matches("async ").starts_with(&declared);
    let attributes = |at: usize| lines[..at].iter().rev().take_while(|line| line.starts_with("#[")).copied();
    let is_test = |line: &str| line == "#[test]" || line.starts_with("#[tokio::test");
    (0..lines.len()).any(|at| is_it(lines[at]) && attributes(at).any(is_test))
}

#[test]
fn every_guarantee_is_pending_or_has_a_test_that_exists() {
    // Tests named elsewhere in the text exist too.
    let text = read("GUARANTEES.md");
    let anywhere = text.split('`').filter_map(|code| code.split_once(".rs::"));
    let anywhere = anywhere.map(|(path, name)| Enforced::Test { path: format!("{path}.rs"), name: name.to_owned() });
    let enforced: BTreeSet<_> = enforced().into_iter().chain(anywhere).collect();
    let tests = enforced.iter().filter(|by| matches!(by, Enforced::Test { .. })).count();
    assert!(tests > 250, "only {tests} tests are named");
    for by in enforced {
        match by {
            Enforced::Test { path, name } => assert!(has_test(&read(&path), &name), "{path} has no test {name}"),
            Enforced::Step(step) => {
                assert!(read("scripts/check").contains(&format!("\nstep_{step}() {{")), "scripts/check has no {step}");
            }
            Enforced::Pending => {}
        }
    }
}
