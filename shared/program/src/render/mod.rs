//! What a person reads: tables that fit the screen, and figures with units.

pub mod table;
pub mod units;

use std::io;

use super::logging::colour;

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
