//! Exports: every table as JSON Lines, as one moment of the store, in bounded memory.
//!
//! A transaction that only reads sees one moment on both databases while others write. Lines go in batches through a
//! short queue to a thread that writes files.

use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::Value;
use serde_json::value::RawValue;
use sqlx::any::AnyRow;
use sqlx::{Any, Transaction};
use tokio::sync::mpsc;
use tokio_stream::StreamExt;

use crate::column::get;
use crate::file::new_file;
use crate::kind::DatabaseKind;
use crate::tables::{Column, ColumnKind, TABLES, TableSchema};
use crate::{ExportSummary, Records, RecordsError, Result, SCHEMA_VERSION, id};

/// The size in bytes at which a batch ends.
const MAX_BATCH_BYTES: usize = 8 << 20;
/// The file that is written last: an export without it is not whole.
const MANIFEST: &str = "export.json";

/// A transaction that only reads.
pub(crate) type ReadTransaction = Transaction<'static, Any>;

impl Records {
    /// Writes every table to a file in a folder, which must be new or empty, and the manifest last.
    ///
    /// # Errors
    /// The store cannot be read, or the folder cannot be written.
    pub async fn export(&self, folder: &Path) -> Result<ExportSummary> {
        make_folder(folder)?;
        let (mut tx, mut exported) = self.moment().await?;
        for table in TABLES.iter() {
            let (to, batches) = mpsc::channel(1);
            let path = folder.join(format!("{}.jsonl", table.name));
            let writer = tokio::task::spawn_blocking(move || write(&path, batches));
            // Where the writer has failed, it takes no more batches: its error counts.
            let columns: Vec<_> = table.columns.iter().filter(|column| column.kind != ColumnKind::Bytes).collect();
            let read = read_table(&mut tx, table, &columns, add_line, to).await;
            writer.await.map_err(|error| RecordsError::Export(error.to_string()))??;
            exported.tables.insert(table.name.clone(), read?);
        }
        let manifest = crate::document::to_json(&exported, "manifest")? + "\n";
        let path = folder.join(MANIFEST);
        let written = new_file(&path).and_then(|mut file| {
            file.write_all(manifest.as_bytes())?;
            file.sync_all()
        });
        written.map_err(|source| RecordsError::File { path, source })?;
        Ok(exported)
    }

    /// A transaction that sees one moment of the store.
    pub(crate) async fn moment(&self) -> Result<(ReadTransaction, ExportSummary)> {
        let begin = match self.store.kind {
            DatabaseKind::Sqlite => "BEGIN",
            DatabaseKind::Postgres => "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY",
        };
        let doing = |error| RecordsError::from(error).doing("read everything");
        let mut tx = self.store.unlimited().begin_with(begin).await.map_err(doing)?;
        // The first statement is the moment.
        sqlx::query("SELECT id FROM store").execute(&mut *tx).await.map_err(doing)?;
        Ok((tx, ExportSummary { schema_version: SCHEMA_VERSION, at_ms: id::now_ms(), tables: BTreeMap::new() }))
    }
}

/// Writes a file of batches until there are no more.
fn write(path: &Path, mut batches: mpsc::Receiver<String>) -> Result<()> {
    let mut file = new_file(path).map_err(|source| RecordsError::File { path: path.into(), source })?;
    let mut append = || {
        while let Some(batch) = batches.blocking_recv() {
            file.write_all(batch.as_bytes())?;
        }
        file.sync_all()
    };
    append().map_err(|error| RecordsError::Export(format!("{}: {error}", path.display())))
}

/// Reads columns of a table in order of its key, which is its first columns, and gives how many rows there are. `add`
/// adds a row to a batch.
pub(crate) async fn read_table(
    tx: &mut ReadTransaction,
    table: &TableSchema,
    columns: &[&Column],
    add: fn(&mut String, &AnyRow, &[&Column]) -> Result<()>,
    to: mpsc::Sender<String>,
) -> Result<u64> {
    let names: Vec<_> = columns.iter().map(|column| &*column.name).collect();
    let order = if names.len() > 1 { "1, 2" } else { "1" };
    let sql = sql!("SELECT {} FROM {} ORDER BY {order}", names.join(", "), table.name);
    let mut rows = sqlx::query(sql).fetch(&mut **tx);
    let (mut batch, mut count) = (String::new(), 0);
    while let Some(row) = rows.next().await {
        let row = row.map_err(|error| RecordsError::from(error).doing("read a table"))?;
        add(&mut batch, &row, columns)?;
        count += 1;
        if batch.len() >= MAX_BATCH_BYTES && to.send(std::mem::take(&mut batch)).await.is_err() {
            return Ok(count);
        }
    }
    // An error is the end of the writer, which says why.
    let _ = to.send(batch).await;
    Ok(count)
}

/// Adds a row as an object, its columns in order. Documents are in it as they are.
fn add_line(batch: &mut String, row: &AnyRow, columns: &[&Column]) -> Result<()> {
    let quoted = |text: String| Value::from(text).to_string();
    for (index, column) in columns.iter().enumerate() {
        let name = &*column.name;
        let value = match column.kind {
            ColumnKind::Float => get::<Option<f64>>(row, name)?.map(|value| Value::from(value).to_string()),
            ColumnKind::Integer | ColumnKind::Flag | ColumnKind::Time => {
                get::<Option<i64>>(row, name)?.map(|value| value.to_string())
            }
            ColumnKind::Json => {
                get::<Option<String>>(row, name)?.map(|text| if is_one_line(&text) { text } else { quoted(text) })
            }
            ColumnKind::Text => get::<Option<String>>(row, name)?.map(quoted),
            ColumnKind::Bytes => None,
        };
        let sign = if index == 0 { '{' } else { ',' };
        batch.push_str(&format!("{sign}\"{name}\":{}", value.as_deref().unwrap_or("null")));
    }
    batch.push_str("}\n");
    Ok(())
}

/// Whether a text is JSON that breaks no line.
fn is_one_line(text: &str) -> bool {
    !text.contains(['\n', '\r']) && serde_json::from_str::<&RawValue>(text).is_ok()
}

/// Makes a folder that only its owner reads, or takes one that is empty.
fn make_folder(folder: &Path) -> Result<()> {
    let failed = |source| RecordsError::File { path: PathBuf::from(folder), source };
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(folder).map_err(failed)?;
    match folder.read_dir().map_err(failed)?.next() {
        None => Ok(()),
        Some(_) => Err(failed(io::Error::new(io::ErrorKind::AlreadyExists, "the folder of an export must be empty"))),
    }
}
