//! The pools of connections, and how each connection is set up and tried.

use std::sync::Arc;
use std::time::Duration;

use sqlx::any::AnyPoolOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use sqlx::{AnyConnection, AnyPool, Connection, Executor};
use tokio::time::timeout;

use crate::kind::DatabaseKind;
use crate::readers::{Readers, STATEMENT_LIMIT, StatementSteps};
use crate::trouble::StoreTrouble;
use crate::{Location, RecordsError, Result};

/// How long a connection is waited for: longer than writers of SQLite wait for each other.
const ACQUIRE_LIMIT: Duration = Duration::from_secs(10);
/// How long a server may take to answer on a connection of a pool. One that died without closing it never does.
const PING_LIMIT: Duration = Duration::from_secs(3);
/// Connections that read for the API: few, so that it leaves sessions their share of the processor.
const API_READERS: u32 = 2;
/// Settings of each connection to a file: readers do not wait for the writer, and a commit is on disk.
const SQLITE_SETTINGS: &str = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; \
     PRAGMA busy_timeout = 8000; PRAGMA journal_size_limit = 67108864";
/// Settings of each connection to PostgreSQL: a commit is on disk, and waits for a lock end.
pub(crate) const POSTGRES_SETTINGS: &str = "SET synchronous_commit = on; SET lock_timeout = '8s'; \
     SET idle_in_transaction_session_timeout = '60s'; SET application_name = 'assay'";

/// Opens connections that stay.
pub(crate) async fn pool(location: &Location, kind: DatabaseKind, connections: u32) -> Result<AnyPool> {
    let settings = match kind {
        DatabaseKind::Sqlite => SQLITE_SETTINGS,
        DatabaseKind::Postgres => POSTGRES_SETTINGS,
    };
    let options = options(kind, connections, settings.to_owned());
    let url = location.url();
    let opened = match options.connect(&url).await {
        // It tried for all that time, and forgot why.
        Err(sqlx::Error::PoolTimedOut) => match timeout(PING_LIMIT, AnyConnection::connect(&url)).await {
            Ok(Err(why)) => Err(why),
            _ => Err(sqlx::Error::PoolTimedOut),
        },
        opened => opened,
    };
    opened.map_err(|source| RecordsError::Open { location: location.clone(), source })
}

/// Connections of the API: opened when they are asked for first.
pub(crate) fn api_readers(location: &Location, kind: DatabaseKind, trouble: &Arc<StoreTrouble>) -> Result<Readers> {
    let refused = |source| RecordsError::Open { location: location.clone(), source };
    if kind == DatabaseKind::Postgres {
        let settings = format!("{POSTGRES_SETTINGS}; SET statement_timeout = '{}s'", STATEMENT_LIMIT.as_secs());
        let pool = options(kind, API_READERS, settings).connect_lazy(&location.url()).map_err(refused)?;
        return Ok(Readers::Any(pool, trouble.clone()));
    }
    let options = location.url().parse::<SqliteConnectOptions>().map_err(refused)?.create_if_missing(false);
    let steps = Arc::<StatementSteps>::default();
    let (first, next) = (steps.clone(), steps.clone());
    let pool = SqlitePoolOptions::new()
        .max_connections(API_READERS)
        .acquire_timeout(ACQUIRE_LIMIT)
        .max_lifetime(None)
        .idle_timeout(None)
        .test_before_acquire(false)
        .after_connect(move |connection, _| {
            let steps = first.clone();
            Box::pin(async move {
                connection.execute(SQLITE_SETTINGS).await?;
                steps.limit(connection).await
            })
        })
        .before_acquire(move |connection, _| {
            let steps = next.clone();
            Box::pin(async move { steps.limit(connection).await.map(|()| true) })
        });
    Ok(Readers::Limited(pool.connect_lazy_with(options), trouble.clone(), steps))
}

fn options(kind: DatabaseKind, connections: u32, settings: String) -> AnyPoolOptions {
    let lasting = AnyPoolOptions::new().max_connections(connections).acquire_timeout(ACQUIRE_LIMIT);
    let lasting = match kind {
        // A new connection would open the file that has the name by then.
        DatabaseKind::Sqlite => lasting.max_lifetime(None).idle_timeout(None),
        DatabaseKind::Postgres => lasting,
    };
    lasting
        // Below, with more.
        .test_before_acquire(false)
        .after_connect(move |connection: &mut AnyConnection, _| {
            let settings = sql!("{settings}");
            Box::pin(async move { connection.execute(settings).await.map(drop) })
        })
        .before_acquire(move |connection, _| {
            Box::pin(async move {
                // A server may have gone away, a file does not.
                if kind == DatabaseKind::Postgres {
                    ping(connection).await?;
                }
                // After an error of the disk SQLite has rolled back already, but sqlx still counts the transaction:
                // such a connection would begin no other one.
                Ok(!connection.is_in_transaction())
            })
        })
        .after_release(move |connection, _| {
            Box::pin(async move {
                // The pool's own wait, for the end of work that was given up, has no limit.
                if kind == DatabaseKind::Postgres {
                    ping(connection).await?;
                }
                Ok(true)
            })
        })
}

async fn ping(connection: &mut AnyConnection) -> Result<(), sqlx::Error> {
    timeout(PING_LIMIT, connection.ping()).await.unwrap_or(Err(sqlx::Error::PoolTimedOut))
}
