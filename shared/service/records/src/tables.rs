//! Every table and column with its meaning, as exports and docs/records.md list them: `tables.toml`. A test holds it
//! against the databases.

use std::sync::LazyLock;

use serde::Deserialize;
use serde::de::Error;

/// Every table that records are in.
pub static TABLES: LazyLock<Vec<TableSchema>> = LazyLock::new(|| {
    let file: TableFile = toml::from_str(include_str!("../tables.toml")).expect("the file is part of the program");
    file.table
});

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TableFile {
    table: Vec<TableSchema>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableSchema {
    pub name: String,
    /// The meaning of a row.
    pub about: String,
    pub columns: Vec<Column>,
}

#[derive(Debug, Deserialize)]
#[serde(try_from = "(String, String, String)")]
pub struct Column {
    pub name: String,
    pub kind: ColumnKind,
    /// Whether it may be empty.
    pub is_optional: bool,
    /// The meaning of a value.
    pub about: String,
}

impl TryFrom<(String, String, String)> for Column {
    type Error = toml::de::Error;

    fn try_from((name, kind, about): (String, String, String)) -> Result<Self, Self::Error> {
        let (kind, is_optional) = kind.strip_suffix('?').map_or((&*kind, false), |kind| (kind, true));
        let kind = ColumnKind::named(kind).ok_or_else(|| Self::Error::custom(format!("no type {kind}")))?;
        Ok(Self { name, kind, is_optional, about })
    }
}

assay_work::names! {
    /// The types of columns, by their names in the documentation.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum ColumnKind {
        /// A text; keys, ids and digests in lower-case hexadecimal.
        Text = "text",
        Json = "JSON",
        Integer = "integer",
        /// 0 or 1.
        Flag = "0 or 1",
        /// Milliseconds since 1970, UTC.
        Time = "time, ms",
        /// A floating-point number.
        Float = "float",
        /// Bytes; not in exports.
        Bytes = "bytes",
    }
}
