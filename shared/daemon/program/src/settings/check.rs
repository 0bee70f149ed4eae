//! From raw settings to checked ones: bounds, each with its reason.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use super::{Settings, SettingsError};

/// Stands for a value that the program chooses itself.
pub const AUTO: &str = "auto";

impl<R: clap::Args> Settings<R> {
    /// An error about a setting, with its value and origin.
    pub fn wrong(&self, key: &str, reason: impl Into<String>) -> SettingsError {
        let setting = self.setting(key);
        let value = setting.values.join(",");
        let value = if setting.is_plain { value } else { format!("{value:?}") };
        SettingsError::Value { key: key.to_owned(), value, origin: setting.origin.clone(), reason: reason.into() }
    }

    /// Passes a number on that lies in a range.
    ///
    /// # Errors
    /// [`SettingsError::Value`] with the range and the `reason` for it.
    pub fn in_range<T: PartialOrd + Display + Copy>(
        &self,
        key: &str,
        value: T,
        range: RangeInclusive<T>,
        reason: &str,
    ) -> Result<T, SettingsError> {
        if range.contains(&value) {
            return Ok(value);
        }
        Err(self.wrong(key, format!("must be from {} to {}: {reason}", range.start(), range.end())))
    }

    /// Parses a text.
    ///
    /// # Errors
    /// [`SettingsError::Value`] with the parser's error.
    pub fn parsed<T: FromStr<Err: Display>>(&self, key: &str, text: &str) -> Result<T, SettingsError> {
        text.parse().map_err(|error: T::Err| self.wrong(key, error.to_string()))
    }

    /// Parses a text that may be [`AUTO`], which is `None`.
    pub fn parsed_unless_auto<T: FromStr<Err: Display>>(
        &self,
        key: &str,
        text: &str,
    ) -> Result<Option<T>, SettingsError> {
        if text == AUTO { Ok(None) } else { self.parsed(key, text).map(Some) }
    }
}
