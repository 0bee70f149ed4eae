//! What a person reads: tables that fit the screen, and figures with units.

pub mod table;
pub mod units;

use std::collections::BTreeSet;
use std::io;

use super::logging::colour;

/// Digits of an id in a table.
const SHORT_ID: usize = 8;

/// Where something is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Screen {
    /// Columns; `None` where lines may be of any length, such as in a file.
    pub width: Option<u16>,
    /// Whether colours are shown.
    pub colour: bool,
}

impl Screen {
    /// Neither wrapped nor coloured.
    pub const FILE: Self = Self { width: None, colour: false };

    /// Standard output as it is.
    #[must_use]
    pub fn stdout() -> Self {
        Self { width: comfy_table::Table::new().width(), colour: colour(&io::stdout()) }
    }
}

/// Ids as a table shows them: their first eight digits, or all where those are not distinct.
#[must_use]
pub fn short_ids<T: ToString>(ids: impl IntoIterator<Item = T>) -> Vec<String> {
    let ids: Vec<_> = ids.into_iter().map(|id| id.to_string()).collect();
    let short = |id: &String| id.chars().take(SHORT_ID).collect::<String>();
    let distinct: BTreeSet<_> = ids.iter().map(short).collect();
    if distinct.len() == ids.len() { ids.iter().map(short).collect() } else { ids }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_short_where_that_tells_them_apart() {
        assert_eq!(short_ids(["0123456789", "1123456789"]), ["01234567", "11234567"]);
        assert_eq!(short_ids(["0123456789", "0123456780"]), ["0123456789", "0123456780"]);
    }
}
