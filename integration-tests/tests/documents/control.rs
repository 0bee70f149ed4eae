//! The control socket as documents describe it: refusals, and the methods that an operator's program calls.

use assay_validator::control::{REASON, Refusal};
use tonic::Code;

use crate::source::read;

/// A status as gRPC writes it.
const fn name(code: Code) -> &'static str {
    match code {
        Code::NotFound => "NOT_FOUND",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Unavailable => "UNAVAILABLE",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        _ => "another one",
    }
}

#[test]
fn every_refusal_is_listed_with_its_status_and_word() {
    let page = read("docs/PROTOCOL.md");
    let (_, table) = page.split_once("<!-- refusals -->\n").expect("the table's start is marked");
    let (table, _) = table.split_once("<!-- /refusals -->").expect("the table's end is marked");
    let rows: Vec<_> = table.lines().skip(2).collect();
    for (row, refusal) in rows.iter().zip(Refusal::ALL) {
        let start = format!("| `{}` | `{}` | ", name(refusal.code()), refusal.name());
        assert!(row.starts_with(&start), "{start}: {row}");
    }
    assert_eq!(rows.len(), Refusal::ALL.len());
    assert!(page.contains(&format!("`{REASON}`")));
}

#[test]
fn every_method_is_described() {
    let page = read("docs/PROTOCOL.md");
    let (_, section) = page.split_once("\n## The control socket\n").expect("a section of the control socket");
    let proto = read("proto/assay/v1/control.proto");
    let methods: Vec<_> = proto.lines().filter_map(|line| line.trim().strip_prefix("rpc ")?.split_once('(')).collect();
    assert!(methods.len() >= 6, "{methods:?}");
    for (method, _) in methods {
        assert!(section.contains(&format!("- `{method}` ")), "{method}");
    }
}
