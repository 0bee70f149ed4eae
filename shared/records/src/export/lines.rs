//! Rows as JSON Lines.

use std::fs::File;
use std::io::{self, BufWriter, Write};

use serde_json::value::RawValue;
use tokio::sync::mpsc;

use super::{Batch, Cell, exported};
use crate::tables::{Column, ColumnKind, Table};

/// Writes a line for each row until there are no more batches.
pub(super) fn write(table: &Table, file: &File, mut batches: mpsc::Receiver<Batch>) -> io::Result<()> {
    let columns: Vec<_> = exported(table).collect();
    let mut file = BufWriter::new(file);
    while let Some(batch) = batches.blocking_recv() {
        for row in batch {
            file.write_all(line(&columns, &row).as_bytes())?;
            file.write_all(b"\n")?;
        }
    }
    file.flush()
}

/// A row as an object, its columns in order. Documents are in it as they are.
pub(super) fn line(columns: &[&Column], row: &[Option<Cell>]) -> String {
    let mut line = String::from("{");
    for (column, cell) in columns.iter().zip(row) {
        if line.len() > 1 {
            line.push(',');
        }
        line.push_str(&format!("\"{}\":", column.name));
        match cell {
            None => line.push_str("null"),
            Some(Cell::Integer(value)) => line.push_str(&value.to_string()),
            Some(Cell::Float(value)) => line.push_str(&serde_json::Value::from(*value).to_string()),
            Some(Cell::Text(text)) if column.kind == ColumnKind::Json && is_one_line(text) => line.push_str(text),
            Some(Cell::Text(text)) => line.push_str(&serde_json::Value::from(text.as_str()).to_string()),
        }
    }
    line.push('}');
    line
}

/// Whether a text is JSON that breaks no line.
fn is_one_line(text: &str) -> bool {
    !text.contains(['\n', '\r']) && serde_json::from_str::<&RawValue>(text).is_ok()
}
