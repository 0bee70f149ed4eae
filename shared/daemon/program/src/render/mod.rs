//! Text for people: tables that fit the screen, and figures with units.

pub mod table;
pub mod units;

use std::io::{self, IsTerminal};

/// The fewest digits of an id in a table.
const SHORT_ID: usize = 8;
/// The narrowest terminal that tables are fitted to: one that reports less, or 0, does not know its width.
const MIN_WIDTH: u16 = 40;

/// The destination of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Screen {
    /// Columns of a terminal; `None` elsewhere, such as in a file, or where a terminal does not report it: output there
    /// is plain, with lines of any length.
    pub width: Option<u16>,
    pub colour: bool,
}

impl Screen {
    /// Neither wrapped nor coloured.
    pub const FILE: Self = Self { width: None, colour: false };

    /// Standard output as it is.
    pub fn stdout() -> Self {
        let width = comfy_table::Table::new().width();
        Self { width: width.filter(|width| *width >= MIN_WIDTH), colour: colour(&io::stdout()) }
    }
}

/// Whether colours suit a stream: a terminal that has them, and no `NO_COLOR` (<https://no-color.org>) or `CLICOLOR=0`.
pub fn colour(stream: &impl IsTerminal) -> bool {
    colours_are_wanted(|name| std::env::var(name).ok()) && stream.is_terminal()
}

fn colours_are_wanted(variable: impl Fn(&str) -> Option<String>) -> bool {
    let is_set = |name| variable(name).is_some_and(|value| !value.is_empty());
    !is_set("NO_COLOR")
        && variable("CLICOLOR").is_none_or(|value| value != "0")
        && variable("TERM").is_none_or(|value| value != "dumb")
}

/// Ids as a table shows them: of each the first digits that make it unique among the others, eight or more.
pub fn short_ids<T: ToString>(ids: impl IntoIterator<Item = T>) -> Vec<String> {
    let ids: Vec<_> = ids.into_iter().map(|id| id.to_string()).collect();
    let mut sorted: Vec<_> = ids.iter().map(String::as_str).collect();
    sorted.sort_unstable();
    let short = |id: &String| {
        // The id that shares the most digits is adjacent.
        let at = sorted.partition_point(|other| *other < id.as_str());
        let beside = [at.checked_sub(1), Some(at + 1)].into_iter().flatten().filter_map(|at| sorted.get(at));
        let shared = beside.map(|other| id.chars().zip(other.chars()).take_while(|(a, b)| a == b).count()).max();
        id.chars().take(shared.map_or(SHORT_ID, |shared| SHORT_ID.max(shared + 1))).collect()
    };
    ids.iter().map(short).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_for_terminals_that_have_them() {
        let wanted = |variables: &[(&str, &str)]| {
            colours_are_wanted(|name| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned()))
        };
        assert!(wanted(&[("TERM", "xterm")]) && wanted(&[("NO_COLOR", "")]) && wanted(&[("CLICOLOR", "1")]));
        for variable in [("TERM", "dumb"), ("NO_COLOR", "1"), ("CLICOLOR", "0")] {
            assert!(!wanted(&[variable]), "{variable:?}");
        }
    }

    #[test]
    fn ids_are_as_short_as_tells_them_apart() {
        assert_eq!(short_ids(["0123456789", "1123456789"]), ["01234567", "11234567"]);
        assert_eq!(
            short_ids(["0123456789ab", "0123456780ab", "ff23456780ab"]),
            ["0123456789", "0123456780", "ff234567"]
        );
        // The same one twice has no shorter name.
        assert_eq!(short_ids(["0123456789", "0123456789"]), ["0123456789", "0123456789"]);
        assert_eq!(short_ids(["0123"]), ["0123"]);
        assert!(short_ids([""; 0]).is_empty());
    }
}
