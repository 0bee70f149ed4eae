//! docs/THREATS.md names tests that exist, one at least for each attack, and its tables fit a terminal.

use std::collections::BTreeSet;

use crate::documents::guarantees::has_test;
use crate::documents::source::{read, workspace};

const PAGE: &str = "docs/THREATS.md";

/// The file that the page means.
pub fn file(path: &str) -> String {
    let is_whole = workspace().join(path).is_file();
    if is_whole { path.to_owned() } else { format!("integration-tests/tests/{path}") }
}

/// The numbers of the attacks.
pub fn attacks() -> BTreeSet<String> {
    let is_number = |word: &str| word.len() > 1 && word[1..].bytes().all(|byte| byte.is_ascii_digit());
    let first_cell = |line: &str| Some(line.strip_prefix("| ")?.split(" |").next()?.to_owned());
    read(PAGE).lines().filter_map(first_cell).filter(|cell| is_number(cell)).collect()
}

#[test]
fn every_attack_has_a_test_that_exists() {
    let (page, attacks) = (read(PAGE), attacks());
    assert!(attacks.len() > 30, "{attacks:?}");
    let (_, tests) = page.split_once("\n## Tests\n").expect("the page ends with its tests");
    let mut tested = BTreeSet::new();
    for entry in tests.split("\n- ").skip(1) {
        let (attack, names) = entry.split_once(": ").expect("a number and its tests");
        assert!(tested.insert(attack.to_owned()), "{attack} stands there twice");
        let mut codes = names.split('`').skip(1).step_by(2).peekable();
        assert!(codes.peek().is_some(), "{attack} has no test");
        for code in codes {
            let (path, name) = code.split_once("::").unwrap_or((code, ""));
            let source = read(&file(path));
            assert!(name.is_empty() || has_test(&source, name), "{attack}: {path} has no test {name}");
        }
    }
    assert_eq!(tested, attacks);
}

#[test]
fn tables_fit_a_terminal() {
    let wide: Vec<_> =
        read(PAGE).lines().filter(|l| l.starts_with('|') && l.chars().count() > 100).map(str::to_owned).collect();
    assert!(wide.is_empty(), "{wide:#?}");
}
