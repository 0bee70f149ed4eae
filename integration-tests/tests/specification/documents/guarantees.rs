//! GUARANTEES.md names tests that exist, and every attack of docs/THREATS.md has a promise there.

use std::collections::BTreeSet;

use crate::documents::source::read;
use crate::documents::threats::{attacks, file};

const PAGE: &str = "GUARANTEES.md";

/// The means that enforce a guarantee.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Enforced {
    /// A test, by its file and function.
    Test { path: String, name: String },
    /// A step of `scripts/check`.
    Step(String),
    /// Nothing yet.
    Pending,
}

/// The rows of the page: each promise with the cell of its test.
fn promises(page: &str) -> Vec<(&str, &str)> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |")?.rsplit_once(" | "));
    rows.filter(|row| *row != ("guarantee", "test")).collect()
}

fn enforcement(cell: &str) -> Option<Enforced> {
    if cell == "*pending*" {
        return Some(Enforced::Pending);
    }
    let code = cell.strip_prefix('`')?.strip_suffix('`').filter(|code| !code.contains('`'))?;
    if let Some(step) = code.strip_prefix("scripts/check ") {
        return Some(Enforced::Step(step.to_owned()));
    }
    let (path, name) = code.split_once(".rs::")?;
    Some(Enforced::Test { path: format!("{path}.rs"), name: name.to_owned() })
}

/// Whether a file has a test of this name: a function with an attribute that makes it one, or, where the file runs the
/// suite of devices, one of that suite, or one of the suite of records.
pub fn has_test(source: &str, name: &str) -> bool {
    const SUITE: &str = "integration-tests/kits/src/conformance.rs";
    if source.contains("\nassay_kits::device_conformance!(")
        && read(SUITE).contains(&format!("\n                {name}\n"))
    {
        return true;
    }
    let of_records = |end: &str| read("shared/service/records/tests/suite/main.rs").contains(&format!(" {name}{end}"));
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
    let page = read(PAGE);
    let promises = promises(&page);
    assert!(promises.len() > 120, "only {} promises", promises.len());
    let said: BTreeSet<_> = promises.iter().map(|(promise, _)| promise).collect();
    assert_eq!(said.len(), promises.len(), "a promise stands there twice");
    for (promise, cell) in promises {
        match enforcement(cell).unwrap_or_else(|| panic!("no test, and not pending: {promise}")) {
            Enforced::Test { path, name } => {
                assert!(has_test(&read(&file(&path)), &name), "{promise} {path} has no test {name}");
            }
            Enforced::Step(step) => {
                assert!(read("scripts/check").contains(&format!("\nstep_{step}() {{")), "scripts/check has no {step}");
            }
            Enforced::Pending => {}
        }
    }
}

#[test]
fn every_attack_has_a_promise() {
    let page = read(PAGE);
    let numbers = |promise: &str| {
        let (_, numbers) = promise.strip_suffix(')')?.rsplit_once(" (")?;
        Some(numbers.split(", ").map(str::to_owned).collect::<Vec<_>>())
    };
    let promises = promises(&page);
    let held = promises.iter().filter(|(_, cell)| *cell != "*pending*");
    let known: BTreeSet<_> = held.filter_map(|(promise, _)| numbers(promise)).flatten().collect();
    let lacking: Vec<_> = attacks().into_iter().filter(|attack| !known.contains(attack)).collect();
    assert!(lacking.is_empty(), "no promise has the number of {lacking:?}");
}
