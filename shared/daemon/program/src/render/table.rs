//! The one look that tables have.
//!
//! On a terminal a table has lines and fits the width: texts wrap between words, ids and figures never wrap, and where
//! even that is too wide columns are left out that can be, or each row is shown as a block of lines. Elsewhere, such as
//! in a pipe, it is plain: columns with three blanks between and no lines, for `awk -F '   +'`.

use std::borrow::Cow;

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, TableStyle, Width, presets};

use super::Screen;

/// Lines above, below and under the header; none between rows.
const STYLE: TableStyle = presets::UTF8_HORIZONTAL_ONLY.row_separator(LineStyle::none());
/// Blanks around each column on a terminal, and one more between two columns.
const PADDING: usize = 2;
const BETWEEN: usize = 1;
/// Blanks between the columns of a plain table: more than any cell has.
const GAP: &str = "   ";
/// Words of a text that are longer may be broken, such as paths.
const MAX_WORD: usize = 24;
/// Stands for an empty cell in a plain table, so that columns can be counted.
const NOTHING: &str = "–";

#[derive(Debug, Clone)]
pub struct Table {
    screen: Screen,
    header: Vec<Cell>,
    rows: Vec<Vec<Cell>>,
    optional: &'static [&'static str],
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    text: String,
    kind: CellKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CellKind {
    /// Wrapped between words.
    Text,
    /// Never wrapped.
    Id,
    /// Never wrapped, and to the right.
    Figure,
}

impl Cell {
    /// A cell with a text, which may be wrapped between words.
    pub fn new(text: impl ToString) -> Self {
        Self::of(&text.to_string(), CellKind::Text)
    }

    fn of(text: &str, kind: CellKind) -> Self {
        Self { text: text.split_whitespace().collect::<Vec<_>>().join(" "), kind }
    }

    fn width(&self) -> usize {
        width(&self.text)
    }

    fn longest_word(&self) -> usize {
        self.text.split(' ').map(width).max().unwrap_or(0)
    }

    /// The columns that it needs.
    fn least_width(&self) -> usize {
        match self.kind {
            CellKind::Text => self.longest_word().min(MAX_WORD),
            CellKind::Id | CellKind::Figure => self.width(),
        }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

/// A cell with an id or a key, which is never wrapped.
pub fn id(text: impl ToString) -> Cell {
    Cell::of(&text.to_string(), CellKind::Id)
}

pub fn figure(text: impl ToString) -> Cell {
    Cell::of(&text.to_string(), CellKind::Figure)
}

/// An empty table with a header.
pub fn new(screen: &Screen, header: &[&str]) -> Table {
    let header = header.iter().map(|name| Cell::new(*name)).collect();
    Table { screen: *screen, header, rows: Vec::new(), optional: &[] }
}

impl Table {
    /// Adds a row, with a cell for each column.
    pub fn add_row(&mut self, cells: impl IntoIterator<Item = impl Into<Cell>>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// Leaves out columns, one after the other, where a terminal is too narrow for all.
    pub const fn leave_out_where_narrow(&mut self, columns: &'static [&'static str]) {
        self.optional = columns;
    }

    fn without(&self, column: &str) -> Self {
        let mut table = self.clone();
        if let Some(index) = table.header.iter().position(|name| name.text == column) {
            table.header.remove(index);
            table.rows.iter_mut().filter(|row| index < row.len()).for_each(|row| _ = row.remove(index));
        }
        table
    }

    pub fn row_count(&self) -> usize {
        self.rows.len()
    }

    fn column(&self, index: usize) -> impl Iterator<Item = &Cell> {
        self.rows.iter().filter_map(move |row| row.get(index))
    }

    /// The width of each column with every cell on one line; the column's name does not count.
    fn cell_widths(&self) -> Vec<usize> {
        (0..self.header.len()).map(|index| self.column(index).map(Cell::width).max().unwrap_or(0)).collect()
    }

    /// The width of each column with its name and every cell on one line.
    fn natural_widths(&self) -> Vec<usize> {
        self.cell_widths().iter().zip(&self.header).map(|(cells, name)| name.width().max(*cells)).collect()
    }

    /// The width of each column in a table of `width`; `None` where that is too narrow.
    fn widths(&self, width: usize) -> Option<Vec<usize>> {
        let least = |(index, name): (usize, &Cell)| {
            self.column(index).map(Cell::least_width).chain([name.longest_word()]).max().unwrap_or(0)
        };
        let mut widths: Vec<usize> = self.header.iter().enumerate().map(least).collect();
        let blanks = (PADDING + BETWEEN) * widths.len() - BETWEEN;
        let mut left = width.checked_sub(widths.iter().sum::<usize>() + blanks)?;
        for wanted in [self.cell_widths(), self.natural_widths()] {
            // The columns that lack least are widened first, so that as few as possible are wrapped.
            let mut by_lack: Vec<usize> = (0..widths.len()).collect();
            by_lack.sort_by_key(|index| wanted[*index].saturating_sub(widths[*index]));
            for index in by_lack {
                let more = left.min(wanted[index].saturating_sub(widths[index]));
                widths[index] += more;
                left -= more;
            }
        }
        Some(widths)
    }
}

/// The table as its screen shows it.
pub fn text(table: &Table) -> String {
    let Some(width) = table.screen.width.map(usize::from) else { return plain(table) };
    let mut shown = Cow::Borrowed(table);
    let mut optional = table.optional.iter();
    loop {
        match (shown.widths(width), optional.next()) {
            (Some(widths), _) => return lined(&shown, &widths),
            (None, Some(column)) => shown = Cow::Owned(shown.without(column)),
            (None, None) => return blocks(table, width),
        }
    }
}

/// With lines, in columns of these widths.
fn lined(table: &Table, widths: &[usize]) -> String {
    let mut shown = comfy_table::Table::new();
    // Width and colour are the screen's to say.
    shown.force_no_tty().load_style(STYLE).set_content_arrangement(ContentArrangement::Dynamic);
    shown.set_header(table.header.iter().map(|name| name.text.as_str()));
    for row in &table.rows {
        let cell = |cell: &Cell| {
            let alignment = if cell.kind == CellKind::Figure { CellAlignment::Right } else { CellAlignment::Left };
            comfy_table::Cell::new(&cell.text).set_alignment(alignment)
        };
        shown.add_row(row.iter().map(cell));
    }
    for (column, width) in shown.column_iter_mut().zip(widths) {
        let width = u16::try_from(width + PADDING).unwrap_or(u16::MAX);
        column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(width)));
    }
    shown.trim_fmt()
}

/// A table without lines, of any width.
fn plain(table: &Table) -> String {
    let widths = table.natural_widths();
    let line = |row: &Vec<Cell>| {
        let cell = |(index, (cell, all)): (usize, (&Cell, &usize))| {
            let text = if cell.text.is_empty() { NOTHING } else { &cell.text };
            let blanks = " ".repeat(all.saturating_sub(width(text)));
            // No line starts with blanks.
            let is_right = cell.kind == CellKind::Figure && index > 0;
            if is_right { format!("{blanks}{text}") } else { format!("{text}{blanks}") }
        };
        let cells: Vec<_> = row.iter().zip(&widths).enumerate().map(cell).collect();
        cells.join(GAP).trim_end().to_owned()
    };
    std::iter::once(&table.header).chain(&table.rows).map(line).collect::<Vec<_>>().join("\n")
}

/// Each row as a block of lines, one for each cell.
fn blocks(table: &Table, screen: usize) -> String {
    let names = table.header.iter().map(Cell::width).max().unwrap_or(0);
    let indent = names + 2;
    let line = |(name, cell): (&Cell, &Cell)| {
        let room = screen.saturating_sub(indent).max(1);
        let lines = if cell.kind == CellKind::Text { wrapped(&cell.text, room) } else { vec![cell.text.clone()] };
        let value = lines.join(&format!("\n{}", " ".repeat(indent)));
        format!("{}{}{value}", name.text, " ".repeat(indent - name.width())).trim_end().to_owned()
    };
    let block = |row: &Vec<Cell>| table.header.iter().zip(row).map(line).collect::<Vec<_>>().join("\n");
    table.rows.iter().map(block).collect::<Vec<_>>().join("\n\n")
}

/// A text in lines, broken between words.
fn wrapped(text: &str, most: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if width(line) + 1 + width(word) <= most => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn width(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "0123456789abcdef0123456789abcdef";

    fn table(width: Option<u16>) -> Table {
        let mut table = new(&Screen { width, colour: false }, &["device", "name", "free GiB", "note"]);
        table.add_row([id(KEY), "NVIDIA H100 80GB HBM3".into(), figure("3.00"), "".into()]);
        table.add_row([id("ff"), "A  processor".into(), figure("12.5"), "of a note".into()]);
        table
    }

    #[test]
    fn a_wide_screen_shows_each_row_on_a_line() {
        let expected = "\
─────────────────────────────────────────────────────────────────────────────────────
 device                             name                    free GiB   note
═════════════════════════════════════════════════════════════════════════════════════
 0123456789abcdef0123456789abcdef   NVIDIA H100 80GB HBM3       3.00
 ff                                 A processor                 12.5   of a note
─────────────────────────────────────────────────────────────────────────────────────";
        let shown = text(&table(Some(120)));
        let blanks = |text: &str| text.lines().map(|line| line.trim_end_matches('─').to_owned()).collect::<Vec<_>>();
        let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ").replace(['─', '═'], "");
        assert_eq!(squeezed(&shown), squeezed(expected), "{shown}");
        assert_eq!(blanks(&shown).len(), 6, "{shown}");
    }

    #[test]
    fn columns_that_can_be_left_out_are_before_rows_become_blocks() {
        let names = |width: u16| {
            let mut table = table(Some(width));
            table.leave_out_where_narrow(&["note", "free GiB"]);
            let shown = text(&table);
            ["note", "free", "═"].map(|name| shown.contains(name))
        };
        assert_eq!([names(60), names(55), names(48)], [[true, true, true], [false, true, true], [false, false, true]]);
        assert_eq!(names(30), [true, true, false], "a block has every cell");
    }

    #[test]
    fn texts_wrap_between_words_and_ids_do_not() {
        for width in [60, 65, 70, 75] {
            let shown = text(&table(Some(width)));
            assert!(shown.lines().all(|line| line.chars().count() <= width.into()), "{shown}");
            assert!(shown.contains(KEY) && shown.contains('═'), "{shown}");
            for word in ["NVIDIA", "H100", "80GB", "HBM3", "processor", "3.00", "12.5"] {
                assert!(shown.split_whitespace().any(|part| part == word), "{word} at {width}:\n{shown}");
            }
        }
    }

    #[test]
    fn a_screen_that_is_too_narrow_shows_blocks() {
        let expected = "\
device    0123456789abcdef0123456789abcdef
name      NVIDIA H100 80GB HBM3
free GiB  3.00
note

device    ff
name      A processor
free GiB  12.5
note      of a note";
        assert_eq!(text(&table(Some(50))), expected);
        assert!(text(&table(Some(40))).contains("name      NVIDIA H100 80GB HBM3"));
        let mut long = new(&Screen { width: Some(40), colour: false }, &["key", "text"]);
        long.add_row([id(KEY.repeat(2)), "a text that has more words than fit".into()]);
        let shown = text(&long);
        assert_eq!(shown, format!("key   {}\ntext  a text that has more words than\n      fit", KEY.repeat(2)));
    }

    #[test]
    fn a_file_gets_columns_that_awk_can_take_apart() {
        let expected = "\
device                             name                    free GiB   note
0123456789abcdef0123456789abcdef   NVIDIA H100 80GB HBM3       3.00   –
ff                                 A processor                 12.5   of a note";
        let shown = text(&table(None));
        assert_eq!(shown, expected);
        for line in shown.lines() {
            assert_eq!(line.split(GAP).filter(|cell| !cell.trim().is_empty()).count(), 4, "{line}");
        }
    }
}
