//! The tables of states in docs/PROTOCOL.md, as the tests hold them against the sessions.

use std::collections::BTreeSet;
use std::path::Path;
use std::{fmt, fs};

/// Which challenge a message names, in the order of how much is known of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Named {
    /// It names no challenge.
    None,
    /// The one that runs.
    This,
    /// One that ended after the miner had committed to it.
    Committed,
    /// One that ended before.
    Ended,
    /// One that is not known, or not any more.
    Other,
}

impl fmt::Display for TableCell<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { message, id, state, reaction } = self;
        let of = if id.is_empty() { "" } else { " of " };
        write!(f, "{message}{of}{id} in {state}: {reaction}")
    }
}

/// One side's table: the reaction to each message in each state.
#[derive(Debug, Clone)]
pub struct StateTable {
    states: Vec<String>,
    rows: Vec<Row>,
    /// Row and column of each cell that was looked up.
    seen: BTreeSet<(usize, usize)>,
}

/// A reaction with its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableCell<'a> {
    pub message: &'a str,
    pub id: &'a str,
    pub state: &'a str,
    pub reaction: &'a str,
}

#[derive(Debug, Clone)]
struct Row {
    message: String,
    id: String,
    cells: Vec<String>,
}

/// The messages that the row `any about a challenge` stands for.
const ABOUT_A_CHALLENGE: [&str; 8] =
    ["Declined", "Progress", "Commitment", "DeviceRoots", "ProbeAnswer", "DeviceDigests", "OpeningsChunk", "Abort"];

/// The text of docs/PROTOCOL.md.
pub fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/PROTOCOL.md");
    fs::read_to_string(path).expect("the page is there")
}

pub fn cells(row: &str) -> Vec<String> {
    let inner = row.trim().strip_prefix('|').and_then(|row| row.strip_suffix('|'));
    let inner = inner.unwrap_or_else(|| panic!("not a row: {row}"));
    inner.split('|').map(|cell| cell.trim().to_owned()).collect()
}

impl StateTable {
    /// The table between `<!-- name -->` and `<!-- /name -->`.
    pub fn read(name: &str) -> Self {
        let page = page();
        let (_, after) = page.split_once(&format!("<!-- {name} -->\n")).expect("the table's start is marked");
        let (table, _) = after.split_once(&format!("<!-- /{name} -->")).expect("the table's end is marked");
        let mut lines = table.lines();
        let head = cells(lines.next().expect("the table has a head"));
        assert_eq!(head[..2], ["message", "id"], "the first two columns");
        let rows = lines.skip(1).map(|line| {
            let mut cells = cells(line);
            assert_eq!(cells.len(), head.len(), "{line}");
            let rest = cells.split_off(2);
            Row { message: cells.remove(0), id: cells.remove(0), cells: rest }
        });
        Self { states: head[2..].to_vec(), rows: rows.collect(), seen: BTreeSet::new() }
    }

    /// The cell of the first row that fits.
    pub fn cell(&mut self, message: &str, named: Named, state: &str) -> String {
        let column = self.states.iter().position(|s| s == state).unwrap_or_else(|| panic!("no state {state}"));
        let row = self.rows.iter().position(|row| row.fits(message, named));
        let row = row.unwrap_or_else(|| panic!("no row for {message} of {named:?}"));
        self.seen.insert((row, column));
        self.rows[row].cells[column].clone()
    }

    /// Takes over the cells that another copy of the table has looked up.
    pub fn add_seen(&mut self, other: &Self) {
        self.seen.extend(&other.seen);
    }

    /// Cells that can occur, by message, id, state and reaction, and whether each was looked up.
    pub fn all_cells(&self) -> impl Iterator<Item = (TableCell<'_>, bool)> {
        self.rows.iter().enumerate().flat_map(move |(at, row)| {
            row.cells.iter().enumerate().filter(|(_, cell)| *cell != "-").map(move |(column, reaction)| {
                let (message, id, state) = (&*row.message, &*row.id, &*self.states[column]);
                (TableCell { message, id, state, reaction }, self.seen.contains(&(at, column)))
            })
        })
    }

    /// Requires that every cell was looked up, but for those that cannot occur.
    pub fn assert_all_seen(&self) {
        for (at, row) in self.rows.iter().enumerate() {
            for (column, cell) in row.cells.iter().enumerate() {
                let place = format!("{} of {:?} in {}: {cell}", row.message, row.id, self.states[column]);
                assert_eq!(cell != "-", self.seen.contains(&(at, column)), "{place} was not, or should not be, met");
            }
        }
    }
}

impl Row {
    fn fits(&self, message: &str, named: Named) -> bool {
        let of_message = self.message == message
            || (self.message == "any about a challenge" && ABOUT_A_CHALLENGE.contains(&message));
        let of_id = match self.id.as_str() {
            "" => named == Named::None,
            "this" => named == Named::This,
            "committed" => named == Named::Committed,
            "ended" => matches!(named, Named::Committed | Named::Ended),
            "other" => named == Named::Other,
            id => panic!("the page has no id {id}"),
        };
        of_message && of_id
    }
}
