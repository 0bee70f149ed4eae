//! The one look that tables have.

pub use comfy_table::Cell;
use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, TableStyle, presets};

use super::Screen;

/// Lines above, below and under the header; none between rows.
const STYLE: TableStyle = presets::UTF8_HORIZONTAL_ONLY.row_separator(LineStyle::none());

/// An empty table with a header.
#[must_use]
pub fn new(screen: &Screen, header: &[&str]) -> Table {
    let mut table = Table::new();
    // Width and colour are the screen's to say.
    table.force_no_tty().load_style(STYLE).set_header(header.iter().copied());
    if let Some(width) = screen.width {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    }
    table
}

/// A cell with a figure.
#[must_use]
pub fn figure(text: impl ToString) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

/// The table without the blanks at the ends of its lines.
#[must_use]
pub fn text(table: &Table) -> String {
    table.trim_fmt()
}
