//! Settings in a TOML file.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use toml::{Spanned, Value};

use super::{Origin, SettingsError};

/// The entry of a file for one key.
#[derive(Debug)]
pub(super) struct SettingEntry {
    /// The values, one unless it is a list.
    pub values: Vec<String>,
    pub origin: Origin,
    /// Whether it is `true` or `false` without quotes, in a file: no text is meant by that.
    pub is_bare_bool: bool,
}

impl SettingEntry {
    /// An entry from a variable, a flag or a default.
    pub(super) fn new(values: Vec<String>, origin: Origin) -> Self {
        Self { values, origin, is_bare_bool: false }
    }
}

/// Reads a file into its keys.
pub(super) fn read(path: &Path) -> Result<BTreeMap<String, SettingEntry>, SettingsError> {
    let text = fs::read_to_string(path).map_err(|source| SettingsError::Read { path: path.into(), source })?;
    let table: BTreeMap<Spanned<String>, Spanned<Value>> = toml::from_str(&text)
        .map_err(|error| SettingsError::Syntax { path: path.into(), message: error.to_string() })?;
    let entry = |(key, value): (Spanned<String>, Spanned<Value>)| {
        let line = 1 + text[..key.span().start.min(text.len())].matches('\n').count();
        let origin = Origin::File { path: PathBuf::from(path), line };
        let key = key.into_inner();
        let values = texts(&key, value.as_ref(), &origin)?;
        Ok((key, SettingEntry { values, origin, is_bare_bool: value.as_ref().is_bool() }))
    };
    table.into_iter().map(entry).collect()
}

/// The values as they would be typed.
fn texts(key: &str, value: &Value, origin: &Origin) -> Result<Vec<String>, SettingsError> {
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        Value::Boolean(flag) => Some(flag.to_string()),
        Value::Datetime(_) | Value::Array(_) | Value::Table(_) => None,
    };
    let values = match value {
        Value::Array(items) => items.iter().map(text).collect(),
        single => text(single).map(|t| vec![t]),
    };
    let reason = if value.is_table() {
        format!("there are no sections: write its settings at the top of the file, without [{key}]")
    } else {
        "expected a text, a number, true or false, or a list of those".to_owned()
    };
    values.ok_or_else(|| SettingsError::Value {
        key: key.to_owned(),
        value: value.to_string().trim_end().to_owned(),
        origin: origin.clone(),
        reason,
    })
}
