//! docs/verdicts.md lists reasons and exit codes as the code defines them.

use std::fmt::Write;

use assay_integration_tests::document::check_section;
use assay_program::exit;
use assay_protocol::verdict::ReasonCode;

use crate::documents::source::{read, workspace};

const PAGE: &str = "docs/verdicts.md";

#[test]
fn every_reason_is_listed_as_it_is() {
    let mut expected = "| reason | class | what it means | advice |\n|---|---|---|---|\n".to_owned();
    for code in ReasonCode::ALL {
        writeln!(expected, "| `{}` | {} | {} | {} |", code.name(), code.class(), code.about(), code.advice()).unwrap();
    }
    check_section(&workspace().join(PAGE), "reasons", &expected).unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn every_exit_code_is_listed() {
    let page = read(PAGE);
    let codes = |text: &str, start: &str| {
        let lines = text.lines().filter_map(|line| line.strip_prefix(start)?.split(' ').next()?.parse::<u8>().ok());
        lines.collect::<Vec<_>>()
    };
    let expected = codes(exit::HELP, "  ");
    assert!(expected.len() > 5, "{expected:?}");
    let (_, section) = page.split_once("\n## Exit codes\n").expect("the page has the codes");
    assert_eq!(codes(section.split("\n## ").next().unwrap(), "| "), expected);
}
