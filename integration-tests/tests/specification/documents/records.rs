//! docs/records.md lists the tables as the code defines them.

use std::fmt::Write;

use assay_integration_tests::document::check_section;
use assay_records::EventKind;
use assay_records::tables::{TABLES, TableSchema};

use super::source::{read, workspace};

/// Tables of which the page has the purpose alone: what validators need for their own work.
const INTERNAL: &[&str] = &[
    "store",
    "compatibility",
    "validators",
    "leases",
    "workers",
    "jobs",
    "shown",
    "events",
    "tokens",
    "api_tokens",
    "webhooks",
    "deliveries",
];

#[test]
fn the_page_lists_every_table_and_column() {
    let (internal, shown): (Vec<&TableSchema>, Vec<&TableSchema>) =
        TABLES.iter().partition(|table| INTERNAL.contains(&&*table.name));
    assert_eq!(internal.len(), INTERNAL.len(), "each is a table");
    let mut expected = String::new();
    for table in shown {
        write!(expected, "\n### {}\n\n{}\n\n", table.name, table.about).unwrap();
        for column in &table.columns {
            let optional = if column.is_optional { "?" } else { "" };
            writeln!(expected, "- `{}`{optional} ({}): {}", column.name, column.kind.name(), column.about).unwrap();
        }
    }
    expected.push_str("\n### For the validators' own work\n\n");
    for table in internal {
        writeln!(expected, "- `{}`: {}", table.name, table.about).unwrap();
    }
    expected.push('\n');
    check_section(&workspace().join("docs/records.md"), "tables", &expected).unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn the_page_names_the_version_of_the_schema() {
    let sentence = format!("The version of the schema is {}.", assay_records::SCHEMA_VERSION);
    assert!(read("docs/records.md").contains(&sentence), "no sentence: {sentence}");
}

#[test]
fn the_page_of_webhooks_lists_every_kind_of_event() {
    let mut expected = "\n| kind | what happened |\n|---|---|\n".to_owned();
    for kind in EventKind::ALL {
        writeln!(expected, "| `{kind}` | {} |", kind.about().trim()).unwrap();
    }
    expected.push('\n');
    check_section(&workspace().join("docs/api.md"), "events", &expected).unwrap_or_else(|error| panic!("{error}"));
}
