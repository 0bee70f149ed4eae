//! Arguments of commands to a running validator, as typed.

pub mod access;
pub mod challenge;
pub mod receipt;
pub mod records;
pub mod running;
pub mod server;

use assay_policy::fields::ModeChoice;
use assay_protocol::verdict::Mode;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

/// Reads one of these modes.
pub fn mode_parser(modes: &'static [Mode]) -> impl TypedValueParser<Value = Mode> {
    let named = |name: String| modes.iter().copied().find(|mode| mode.name() == name).ok_or("no such mode");
    let words = ModeChoice::WORDS.iter().filter(|(name, _)| modes.iter().any(|mode| mode.name() == *name));
    possible(words).try_map(named)
}

/// One of these words, each with its help.
pub fn possible<'w>(words: impl IntoIterator<Item = &'w (&'static str, &'static str)>) -> PossibleValuesParser {
    let values: Vec<_> = words.into_iter().map(|(name, help)| PossibleValue::new(*name).help(*help)).collect();
    PossibleValuesParser::new(values)
}

/// Parses one of these values by its name.
fn one_of<T: Copy + Send + Sync + 'static, const COUNT: usize>(
    values: [T; COUNT],
    name: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    let found = move |text: String| values.into_iter().find(|value| name(*value) == text).ok_or("no such value");
    PossibleValuesParser::new(values.map(name)).try_map(found)
}
