//! Labels of miners: names and values set by operators, and changes of them.

use crate::record::Labels;
use assay_work::text::is_printable;
use serde::{Deserialize, Serialize};
use utoipa::openapi::schema::{AdditionalProperties, AnyOfBuilder, ArrayBuilder, Object, ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// The most labels of a miner.
pub const MAX_LABELS: usize = 32;
/// The longest name of a label.
pub const MAX_LABEL_NAME_BYTES: usize = 63;
/// The longest value of a label.
pub const MAX_LABEL_VALUE_CHARS: usize = 128;

/// Labels to set, and to take away: at least one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ChangeLabels {
    /// To be set.
    pub set: Labels,
    /// Names of those to be taken away.
    pub remove: Vec<String>,
}

fn name() -> ObjectBuilder {
    let pattern = format!("^[A-Za-z0-9][A-Za-z0-9._/-]{{0,{}}}$", MAX_LABEL_NAME_BYTES - 1);
    ObjectBuilder::new().schema_type(Type::String).pattern(Some(pattern))
}

fn labels(least: Option<usize>) -> ObjectBuilder {
    let value = ObjectBuilder::new().schema_type(Type::String).min_length(Some(1));
    ObjectBuilder::new()
        .property_names(Some(name()))
        .additional_properties(Some(value.max_length(Some(MAX_LABEL_VALUE_CHARS))))
        .min_properties(least)
        .max_properties(Some(MAX_LABELS))
}

/// Labels as part of another document.
pub(crate) fn any_labels() -> Object {
    labels(None).description(Some("What the miner is labelled with.")).build()
}

// Derived, it would allow a change of nothing.
impl PartialSchema for ChangeLabels {
    fn schema() -> RefOr<Schema> {
        let change = |required: &str| {
            let least = |field: &str| (field == required).then_some(1);
            let remove = ArrayBuilder::new().items(name().build()).min_items(least("remove"));
            ObjectBuilder::new()
                .property("set", labels(least("set")).description(Some("To be set.")))
                .property("remove", remove.description(Some("Names of those to be taken away.")))
                .required(required)
                .additional_properties(Some(AdditionalProperties::<Schema>::FreeForm(false)))
        };
        let either = AnyOfBuilder::new().item(change("set")).item(change("remove"));
        either.description(Some("Labels to set, and to take away: at least one.")).into()
    }
}

impl ToSchema for ChangeLabels {}

/// Why a text is no label.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LabelError {
    /// The value is missing.
    #[error("{0:?} is no label: expected NAME=VALUE")]
    NoValue(String),
    /// The name.
    #[error(
        "{0:?} is no name of a label: 1 to {MAX_LABEL_NAME_BYTES} letters, digits, '.', '_', '-' or '/', the first a letter or \
         digit"
    )]
    Name(String),
    /// The value.
    #[error(
        "the value of label {0} must have 1 to {MAX_LABEL_VALUE_CHARS} characters of printable text without ',' and '='"
    )]
    Value(String),
}

/// Parses the name of a label.
///
/// # Errors
/// [`LabelError::Name`].
pub fn parse_name(text: &str) -> Result<String, LabelError> {
    let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/".contains(&byte);
    let is_name = (1..=MAX_LABEL_NAME_BYTES).contains(&text.len())
        && text.bytes().all(is_sign)
        && text.as_bytes()[0].is_ascii_alphanumeric();
    if is_name { Ok(text.to_owned()) } else { Err(LabelError::Name(text.to_owned())) }
}

/// Parses a label: `rack=7`.
pub fn parse_label(text: &str) -> Result<(String, String), LabelError> {
    let (name, value) = text.split_once('=').ok_or_else(|| LabelError::NoValue(text.to_owned()))?;
    let name = parse_name(name)?;
    let is_value = (1..=MAX_LABEL_VALUE_CHARS).contains(&value.chars().count())
        && is_printable(value)
        && !value.contains([',', '='])
        && value.trim() == value;
    if is_value { Ok((name, value.to_owned())) } else { Err(LabelError::Value(name)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_names_with_values() {
        assert_eq!(parse_label("rack=7"), Ok(("rack".to_owned(), "7".to_owned())));
        assert_eq!(parse_label("dc/row.a_b-c=Halle 3"), Ok(("dc/row.a_b-c".to_owned(), "Halle 3".to_owned())));
        assert!(matches!(parse_label("rack"), Err(LabelError::NoValue(_))));
        for name in ["", "-a", "a b", "ä", &"x".repeat(64)] {
            assert!(matches!(parse_label(&format!("{name}=1")), Err(LabelError::Name(_))), "{name}");
        }
        // The turn of direction and the mark without a letter are regression tests, found by fuzzing.
        for value in ["", " 7", "a,b", "a=b", "\u{1b}[31m", "7\u{202e}8", "\u{5a1}", &"x".repeat(129)] {
            assert!(matches!(parse_label(&format!("rack={value}")), Err(LabelError::Value(_))), "{value}");
        }
    }
}
