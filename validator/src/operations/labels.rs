//! Labels of miners: names and values set by operators.

use assay_api::{MAX_LABEL_NAME_BYTES, MAX_LABEL_VALUE_CHARS, MAX_LABELS};
use assay_records::Labels;

use super::OperationError;

/// Why a text is no label.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LabelError {
    /// The value is missing.
    #[error("{0:?} is no label: expected NAME=VALUE")]
    NoValue(String),
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
        && value.chars().all(|c| !c.is_control() && !matches!(c, ',' | '='))
        && value.trim() == value;
    if is_value { Ok((name, value.to_owned())) } else { Err(LabelError::Value(name)) }
}

/// Checks labels that came in a request.
pub(super) fn check(labels: Labels) -> Result<Labels, OperationError> {
    if labels.len() > MAX_LABELS {
        return Err(OperationError::Invalid(format!("{} labels are more than {MAX_LABELS}", labels.len())));
    }
    let each = labels.into_iter().map(|(name, value)| parse_label(&format!("{name}={value}")));
    each.collect::<Result<_, _>>().map_err(|error| OperationError::Invalid(error.to_string()))
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
        for value in ["", " 7", "a,b", "a=b", "\u{1b}[31m", &"x".repeat(129)] {
            assert!(matches!(parse_label(&format!("rack={value}")), Err(LabelError::Value(_))), "{value}");
        }
    }

    #[test]
    fn a_miner_has_a_bounded_number_of_labels() {
        let labels = |count: usize| (0..count).map(|number| (format!("l{number}"), "1".to_owned())).collect();
        assert!(check(labels(MAX_LABELS)).is_ok() && check(labels(MAX_LABELS + 1)).is_err());
    }
}
