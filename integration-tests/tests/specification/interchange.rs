//! The interchange form (WORK.md, JSON): texts to refuse, each with the field that the error must name.

use crate::files::{vector, vector_folder, vector_text};
use assay_work::{JsonError, JsonObject, UncheckedChallenge, UncheckedProbe, from_json};
use serde::Deserialize;
use serde::de::IgnoredAny;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InvalidTexts {
    _comment: IgnoredAny,
    cases: Vec<InvalidText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InvalidText {
    expect: String,
    what: String,
    object: String,
    text: String,
}

fn read(object: &str, text: &str) -> Result<(), JsonError> {
    match object {
        "challenge" => from_json::<UncheckedChallenge>(text).map(|_| ()),
        "probe" => from_json::<UncheckedProbe>(text).map(|_| ()),
        other => panic!("no object {other}"),
    }
}

/// The field that an error is about: the one that its cause quotes, or the last of its path.
fn named(error: JsonError) -> String {
    let JsonError::Field { path, cause } = error else { panic!("{error}") };
    let said = cause.to_string();
    let quoted = ["missing field `", "unknown field `", "duplicate field `"];
    let quoted = quoted.iter().find_map(|start| said.strip_prefix(start)?.split_once('`'));
    quoted.map_or_else(|| path.rsplit('.').next().unwrap_or(&path).to_owned(), |(name, _)| name.to_owned())
}

#[test]
pub(super) fn every_wrong_field_of_a_text_is_named() {
    let file: InvalidTexts = vector("invalid-json");
    assert_eq!(file.cases.len(), 15);
    for case in &file.cases {
        let error = read(&case.object, &case.text).expect_err(&case.what);
        assert_eq!(named(error), case.expect, "{}", case.what);
    }
}

/// Deep in lists, and where the names of fields are those of devices.
#[test]
fn a_repeated_field_is_named_wherever_it_is() {
    let text = vector_text("segments-plain");
    let twice = |field: &str| {
        let at = text.find(field).unwrap_or_else(|| panic!("no {field}"));
        let rest = &text[at..];
        let value = &rest[..=rest.find([',', ']']).unwrap()].trim_end_matches(',');
        let error = JsonObject::parse(&text.replacen(value, &format!("{value}, {value}"), 1)).unwrap_err();
        (error.to_string(), named(error))
    };
    let (error, name) = twice(r#""first_byte": "#);
    assert!(error.starts_with("valid.segments[0].state: ") && name == "first_byte", "{error}");
    let device = r#""08c184bfb50f89662db7fed0c30e9e97": ["#;
    let (error, name) = twice(device);
    assert!(error.starts_with("valid.committed_roots: ") && device.contains(&name), "{error}");
}

#[test]
fn no_field_of_the_vectors_is_repeated() {
    let files = std::fs::read_dir(vector_folder()).unwrap().map(|entry| entry.unwrap().path());
    let files: Vec<_> = files.filter(|path| path.extension().is_some_and(|e| e == "json")).collect();
    assert!(files.len() >= 20);
    for path in files {
        JsonObject::parse(&std::fs::read_to_string(&path).unwrap())
            .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    }
}
