//! A store of SQLite, copied into an empty database of PostgreSQL to go on there.

use sqlx::any::AnyRow;
use sqlx::postgres::PgConnection;
use sqlx::{Connection, Executor};
use tokio::sync::mpsc;

use crate::column::get;
use crate::export::{ReadTransaction, read_table};
use crate::kind::DatabaseKind;
use crate::pools::POSTGRES_SETTINGS;
use crate::tables::{Column, ColumnKind, TABLES, TableSchema};
use crate::{ExportSummary, Location, Records, RecordsError, Result, schema};

/// Tables that are not copied: the schema has its own row of the first, and leases are held by runs that have ended.
const NOT_COPIED: [&str; 2] = ["compatibility", "leases"];
/// Something in the schema that tables are made in.
const OCCUPANT: &str = "SELECT CAST(relname AS TEXT) FROM pg_class \
     WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema()) ORDER BY relname LIMIT 1";
/// No run of a copied validator is alive: the heartbeat of one that was killed counts for minutes in a file.
const END_RUNS: &str = "UPDATE validators SET expires_ms = heartbeat_ms";

impl Records {
    /// Copies a store of SQLite, as it is at one moment, into an empty database of PostgreSQL, in one transaction: a copy
    /// that fails leaves it empty.
    ///
    /// # Errors
    /// [`RecordsError::NotEmpty`], [`RecordsError::NotForPostgres`]; either store cannot be used.
    pub async fn copy_into(&self, to: &Location) -> Result<ExportSummary> {
        if self.store.kind == DatabaseKind::Postgres {
            return Err(RecordsError::NotForPostgres);
        }
        schema::refuse_any_newer(self.store.unlimited(), self.location()).await?;
        let failed = |source| RecordsError::Copy { location: to.clone(), source };
        let refused = |source| RecordsError::Open { location: to.clone(), source };
        let mut server = PgConnection::connect(&to.url()).await.map_err(refused)?;
        server.execute(POSTGRES_SETTINGS).await.map_err(refused)?;
        let mut into = server.begin().await.map_err(failed)?;
        if let Some(what) = sqlx::query_scalar(OCCUPANT).fetch_optional(&mut *into).await.map_err(failed)? {
            return Err(RecordsError::NotEmpty { location: to.clone(), what });
        }
        schema::make(&mut into, to).await?;
        let (mut from, mut copied) = self.moment().await?;
        for table in TABLES.iter().filter(|table| !NOT_COPIED.contains(&&*table.name)) {
            let rows = copy_table(&mut from, &mut into, table).await?.map_err(failed)?;
            copied.tables.insert(table.name.clone(), rows);
        }
        into.execute(END_RUNS).await.map_err(failed)?;
        into.commit().await.map_err(failed)?;
        Ok(copied)
    }
}

/// Copies a table in batches, and gives how many rows there are, or the error of the database that takes them.
async fn copy_table(
    from: &mut ReadTransaction,
    into: &mut PgConnection,
    table: &TableSchema,
) -> Result<Result<u64, sqlx::Error>> {
    let columns: Vec<_> = table.columns.iter().collect();
    let names: Vec<_> = columns.iter().map(|column| &*column.name).collect();
    let statement = format!("COPY {} ({}) FROM STDIN", table.name, names.join(", "));
    let (to, mut batches) = mpsc::channel::<String>(1);
    // Where it has failed, it takes no more batches: its error counts.
    let write = async move {
        let mut copy = into.copy_in_raw(&statement).await?;
        while let Some(batch) = batches.recv().await {
            copy.send(batch.into_bytes()).await?;
        }
        copy.finish().await
    };
    let (read, written) = tokio::join!(read_table(from, table, &columns, add_row, to), write);
    read.map(|_| written)
}

/// Adds a row in the text format of COPY.
fn add_row(batch: &mut String, row: &AnyRow, columns: &[&Column]) -> Result<()> {
    for (index, column) in columns.iter().enumerate() {
        let name = &*column.name;
        let value = match column.kind {
            ColumnKind::Float => get::<Option<f64>>(row, name)?.map(|value| value.to_string()),
            ColumnKind::Integer | ColumnKind::Flag | ColumnKind::Time => {
                get::<Option<i64>>(row, name)?.map(|value| value.to_string())
            }
            ColumnKind::Json | ColumnKind::Text => get::<Option<String>>(row, name)?.map(|text| escaped(&text)),
            ColumnKind::Bytes => get::<Option<Vec<u8>>>(row, name)?.map(|bytes| format!(r"\\x{}", hex::encode(bytes))),
        };
        if index > 0 {
            batch.push('\t');
        }
        batch.push_str(value.as_deref().unwrap_or(r"\N"));
    }
    batch.push('\n');
    Ok(())
}

/// A text in which no sign ends a column or a row. PostgreSQL has no zero in a text.
fn escaped(text: &str) -> String {
    let escaped = text.replace('\\', r"\\").replace('\t', r"\t").replace('\n', r"\n").replace('\r', r"\r");
    escaped.replace('\0', "\u{FFFD}")
}
