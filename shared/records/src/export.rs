//! Exports: every table, as one moment of the store, in bounded memory.
//!
//! A transaction that only reads sees one moment on both databases while others write. Rows stream through a short
//! queue of batches to a thread that writes files.

mod lines;
mod parquet;

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sqlx::any::AnyRow;
use sqlx::{Any, Transaction};
use tokio::sync::mpsc;
use tokio_stream::StreamExt;

use crate::column::get;
use crate::kind::Kind;
use crate::tables::{Column, ColumnKind, TABLES, Table};
use crate::{Records, RecordsError, SCHEMA_VERSION, id};

/// A batch ends with so many rows.
const MAX_BATCH_ROWS: usize = 16_384;
/// A batch ends once its texts have so many bytes.
const MAX_BATCH_BYTES: usize = 8 << 20;
/// The file that is written last: an export without it is not whole.
const MANIFEST: &str = "export.json";

/// How an export is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// A file of JSON Lines for each table.
    JsonLines,
    /// A Parquet file for each table, compressed by zstd.
    Parquet,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::JsonLines => "json-lines",
            Self::Parquet => "parquet",
        })
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = [Self::JsonLines, Self::Parquet].into_iter().find(|format| format.to_string() == text);
        found.ok_or_else(|| format!("no format {text:?}: there are json-lines and parquet"))
    }
}

/// What an export has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Exported {
    /// The version of the schema: what tables and columns mean.
    pub schema_version: i64,
    /// The moment that it shows.
    pub at_ms: i64,
    /// Rows of each table.
    pub tables: BTreeMap<String, u64>,
}

/// A value of a row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cell {
    Integer(i64),
    Float(f64),
    Text(String),
}

/// Rows of a table: a cell for each of [`exported`], none where the column is empty.
pub(crate) type Batch = Vec<Vec<Option<Cell>>>;

/// The columns of a table that exports have.
pub(crate) fn exported(table: &Table) -> impl Iterator<Item = &'static Column> + use<> {
    table.columns.iter().filter(|column| column.kind != ColumnKind::Bytes)
}

/// A transaction that only reads.
type Moment = Transaction<'static, Any>;

/// Where rows go.
enum To {
    Batches(mpsc::Sender<Batch>),
    Lines(mpsc::Sender<String>),
}

impl Records {
    /// Writes every table to a file in a folder, which must be new or empty, and the manifest last.
    ///
    /// # Errors
    /// The store cannot be read, or the folder cannot be written.
    pub async fn export(&self, format: Format, folder: &Path) -> Result<Exported, RecordsError> {
        make_folder(folder)?;
        let (mut tx, mut exported) = self.moment().await?;
        for table in TABLES {
            let (to, batches) = mpsc::channel(1);
            let path = folder.join(format!("{}.{}", table.name, format.extension()));
            let writer = tokio::task::spawn_blocking(move || format.write(table, &path, batches));
            // Where the writer has failed, nobody takes batches any more: what it says counts.
            let read = read_table(&mut tx, table, &To::Batches(to)).await;
            writer.await.map_err(|error| RecordsError::Export(error.to_string()))??;
            exported.tables.insert(table.name.to_owned(), read?);
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

    /// Sends every table as JSON Lines: first the version of the schema, then `{"table": …, "row": {…}}` for each row,
    /// and what was sent last. Without that last line an export is not whole.
    ///
    /// # Errors
    /// The store cannot be read, or nobody receives any more.
    pub async fn export_lines(&self, to: mpsc::Sender<String>) -> Result<Exported, RecordsError> {
        let gone = |_| RecordsError::Export("nobody reads it any more".to_owned());
        let (mut tx, mut exported) = self.moment().await?;
        let head = serde_json::json!({"schema_version": exported.schema_version, "at_ms": exported.at_ms});
        to.send(head.to_string()).await.map_err(gone)?;
        for table in TABLES {
            let rows = read_table(&mut tx, table, &To::Lines(to.clone())).await?;
            exported.tables.insert(table.name.to_owned(), rows);
        }
        to.send(crate::document::to_json(&exported, "manifest")?).await.map_err(gone)?;
        Ok(exported)
    }

    /// A transaction that sees one moment of the store.
    async fn moment(&self) -> Result<(Moment, Exported), RecordsError> {
        let begin = match self.store.kind {
            Kind::Sqlite => "BEGIN",
            Kind::Postgres => "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY",
        };
        let doing = |error| RecordsError::from(error).doing("read everything");
        let mut tx = self.read().begin_with(begin).await.map_err(doing)?;
        // The first statement is the moment.
        sqlx::query("SELECT id FROM store").execute(&mut *tx).await.map_err(doing)?;
        Ok((tx, Exported { schema_version: SCHEMA_VERSION, at_ms: id::now_ms(), tables: BTreeMap::new() }))
    }
}

impl Format {
    const fn extension(self) -> &'static str {
        match self {
            Self::JsonLines => "jsonl",
            Self::Parquet => "parquet",
        }
    }

    fn write(self, table: &Table, path: &Path, batches: mpsc::Receiver<Batch>) -> Result<(), RecordsError> {
        let file = new_file(path).map_err(|source| RecordsError::File { path: path.into(), source })?;
        let written = match self {
            Self::JsonLines => lines::write(table, &file, batches).map_err(|error| error.to_string()),
            Self::Parquet => parquet::write(table, &file, batches).map_err(|error| error.to_string()),
        };
        let written = written.and_then(|()| file.sync_all().map_err(|error| error.to_string()));
        written.map_err(|error| RecordsError::Export(format!("{}: {error}", path.display())))
    }
}

/// Reads a table in order of its key, which is its first columns, and gives how many rows there are.
async fn read_table(tx: &mut Moment, table: &'static Table, to: &To) -> Result<u64, RecordsError> {
    let columns: Vec<_> = exported(table).collect();
    let names: Vec<_> = columns.iter().map(|column| column.name).collect();
    let sql = format!("SELECT {} FROM {} ORDER BY 1, 2", names.join(", "), table.name);
    let mut rows = sqlx::query(&sql).fetch(&mut **tx);
    let (mut batch, mut bytes, mut count) = (Batch::new(), 0, 0);
    while let Some(row) = rows.next().await {
        let row = row.map_err(|error| RecordsError::from(error).doing("read a table"))?;
        let cells = cells(&row, &columns)?;
        count += 1;
        match to {
            To::Lines(lines) => {
                let line = format!("{{\"table\":\"{}\",\"row\":{}}}", table.name, lines::line(&columns, &cells));
                let gone = |_| RecordsError::Export("nobody reads it any more".to_owned());
                lines.send(line).await.map_err(gone)?;
            }
            To::Batches(batches) => {
                let text = |cell: &Option<Cell>| if let Some(Cell::Text(text)) = cell { text.len() } else { 8 };
                bytes += cells.iter().map(text).sum::<usize>();
                batch.push(cells);
                if batch.len() >= MAX_BATCH_ROWS || bytes >= MAX_BATCH_BYTES {
                    bytes = 0;
                    if batches.send(std::mem::take(&mut batch)).await.is_err() {
                        return Ok(count);
                    }
                }
            }
        }
    }
    if let (To::Batches(batches), false) = (to, batch.is_empty()) {
        // An error is the end of the writer, which says why.
        let _ = batches.send(batch).await;
    }
    Ok(count)
}

fn cells(row: &AnyRow, columns: &[&Column]) -> Result<Vec<Option<Cell>>, RecordsError> {
    let cell = |column: &&Column| {
        Ok(match column.kind {
            ColumnKind::Float => get::<Option<f64>>(row, column.name)?.map(Cell::Float),
            ColumnKind::Integer | ColumnKind::Flag | ColumnKind::Time => {
                get::<Option<i64>>(row, column.name)?.map(Cell::Integer)
            }
            ColumnKind::Text | ColumnKind::Json => get::<Option<String>>(row, column.name)?.map(Cell::Text),
            ColumnKind::Bytes => None,
        })
    };
    columns.iter().map(cell).collect()
}

/// Makes a folder that only its owner reads, or takes one that is empty.
fn make_folder(folder: &Path) -> Result<(), RecordsError> {
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

/// A new file that only its owner reads.
pub(crate) fn new_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create_new(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}
