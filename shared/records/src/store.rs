//! The store: its connections, and how everything is read and written through them.

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::path::Path;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use sqlx::any::AnyPoolOptions;
use sqlx::{Any, AnyConnection, AnyPool, Connection, Database, Executor, Transaction, TransactionManager};
use tokio::sync::watch;

use crate::group::Group;
use crate::kind::Kind;
use crate::token_uses::TokenUses;
use crate::trouble::{SLOW_LIMIT, Trouble};
use crate::tx::{LastEvent, Tx};
use crate::write::Write;
use crate::writes::{WriteCounter, Writes};
use crate::{Location, MinerRecord, RecordsError, schema};

/// How long a connection is waited for: longer than writers of SQLite wait for each other.
const ACQUIRE_LIMIT: Duration = Duration::from_secs(10);
/// How long a write may take before it counts as failed. Whether it was done is unknown then; writes can be repeated.
const WRITE_LIMIT: Duration = Duration::from_secs(30);
/// How often a store in trouble is tried.
const PROBE_INTERVAL: Duration = Duration::from_millis(500);
/// Connections that read a file at once. One writes.
const FILE_READERS: u32 = 4;
/// Connections of one process to PostgreSQL, whose default bound for all of them is 100.
const POSTGRES_CONNECTIONS: u32 = 8;
/// Groups of writes that are on their way to PostgreSQL at once: half of the connections.
const POSTGRES_GROUPS: usize = 4;

/// Queries for miners at once, each for all that were asked for meanwhile.
const LOOKUPS: usize = 2;

/// What each connection to a file is told: readers do not wait for the writer, and what is committed is on disk.
const SQLITE_SETTINGS: &str = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; \
     PRAGMA busy_timeout = 8000; PRAGMA journal_size_limit = 67108864";
/// What each connection to PostgreSQL is told: what is committed is on disk, and nobody waits for a lock for ever.
const POSTGRES_SETTINGS: &str = "SET synchronous_commit = on; SET lock_timeout = '8s'; \
     SET idle_in_transaction_session_timeout = '60s'; SET application_name = 'assay'";

/// The records of a validator; a clone is the same store.
#[derive(Clone)]
pub struct Records {
    pub(crate) store: Arc<Store>,
}

pub(crate) struct Store {
    pub(crate) location: Location,
    pub(crate) kind: Kind,
    readers: AnyPool,
    writers: AnyPool,
    trouble: Trouble,
    is_probed: AtomicBool,
    writes: WriteCounter,
    /// Writes that share transactions.
    pub(crate) writing: Group<Write, ()>,
    /// Miners that are looked up, by a key, in queries that several share.
    pub(crate) looking_up: Group<String, Option<MinerRecord>>,
    /// Whether events of other validators are looked for.
    pub(crate) is_polled: AtomicBool,
    /// The number of the last event that this process knows of.
    pub(crate) last_event: Arc<LastEvent>,
    /// When uses of API tokens were noted last.
    pub(crate) token_uses: TokenUses,
}

impl std::fmt::Debug for Records {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Records({})", self.store.location)
    }
}

impl Records {
    /// Opens a store, makes it when it is not there, and migrates it forward.
    ///
    /// # Errors
    /// It cannot be opened or migrated, or it is of a newer release ([`RecordsError::Newer`]).
    pub async fn open(location: &Location) -> Result<Self, RecordsError> {
        sqlx::any::install_default_drivers();
        let (kind, writers, readers) = match location {
            Location::File(path) => {
                make_file(path)?;
                (Kind::Sqlite, 1, FILE_READERS)
            }
            Location::Postgres(_) => (Kind::Postgres, POSTGRES_CONNECTIONS, 0),
        };
        let writers = pool(location, kind, writers).await?;
        // PostgreSQL has no use for a pool of its own for readers.
        let readers = if readers == 0 { writers.clone() } else { pool(location, kind, readers).await? };
        schema::migrate(&writers, kind, location).await?;
        let (trouble, is_probed) = (Trouble::new(), AtomicBool::new(false));
        let (is_polled, groups) = (AtomicBool::new(false), if kind == Kind::Sqlite { 1 } else { POSTGRES_GROUPS });
        let (location, last_event, token_uses) = (location.clone(), Arc::default(), TokenUses::default());
        let writes = WriteCounter::default();
        let (writing, looking_up) = (Group::new(groups), Group::new(LOOKUPS));
        let store = Store {
            location,
            kind,
            readers,
            writers,
            trouble,
            is_probed,
            writes,
            writing,
            looking_up,
            is_polled,
            last_event,
            token_uses,
        };
        let records = Self { store: Arc::new(store) };
        let last = records.write("note the start", records.store.touch()).await?;
        records.store.last_event.note(last);
        Ok(records)
    }

    /// Where the store is.
    #[must_use]
    pub fn location(&self) -> &Location {
        &self.store.location
    }

    /// Why the store cannot be written now; `None` when it can.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        self.store.trouble.now()
    }

    /// The same, and each change of it. While there is trouble the store is tried again twice a second.
    #[must_use]
    pub fn troubles(&self) -> watch::Receiver<Option<String>> {
        self.store.trouble.subscribe()
    }

    /// What writing took so far.
    #[must_use]
    pub fn writes(&self) -> Writes {
        self.store.writes.get()
    }

    /// Closes every connection. A file is one file then, without a log beside it.
    pub async fn close(&self) {
        self.store.readers.close().await;
        self.store.writers.close().await;
    }

    /// Where reads are made.
    pub(crate) fn read(&self) -> &AnyPool {
        self.store.read()
    }

    /// A transaction that can write. Nothing of it is there until it is committed.
    pub(crate) async fn begin(&self) -> Result<Tx, RecordsError> {
        self.store.begin_told().await
    }

    /// Waits for a write, and notes whether the store can be written.
    pub(crate) async fn write<T>(
        &self,
        doing: &'static str,
        work: impl Future<Output = Result<T, RecordsError>> + Send,
    ) -> Result<T, RecordsError> {
        let (mut work, began) = (pin!(work), Instant::now());
        let ended = match tokio::time::timeout(SLOW_LIMIT, &mut work).await {
            Ok(ended) => ended,
            Err(_) => {
                let _slow = self.store.trouble.slow();
                let limit = WRITE_LIMIT - SLOW_LIMIT;
                let slow = RecordsError::Slow { doing, limit_s: WRITE_LIMIT.as_secs() };
                tokio::time::timeout(limit, work).await.unwrap_or(Err(slow))
            }
        };
        let ended = ended.map_err(|error| error.doing(doing));
        self.store.writes.note(began.elapsed(), ended.as_ref().is_err_and(RecordsError::is_trouble));
        match &ended {
            Err(error) if error.is_trouble() => self.trouble_began(error),
            // Who is refused by a constraint has reached the store, but has written nothing.
            Err(_) => {}
            Ok(_) => self.store.trouble.note(None),
        }
        ended
    }

    fn trouble_began(&self, error: &RecordsError) {
        self.store.trouble.note(Some(error.to_string()));
        if !self.store.is_probed.swap(true, Ordering::AcqRel) {
            tracing::error!(records = %self.store.location, %error, "the records cannot be written");
            tokio::spawn(probe(Arc::downgrade(&self.store)));
        }
    }
}

impl Store {
    pub(crate) fn read(&self) -> &AnyPool {
        &self.readers
    }

    /// A transaction that can write, with the events that tell of it.
    pub(crate) async fn begin_told(&self) -> Result<Tx, RecordsError> {
        Ok(Tx::new(self.begin().await?, self.last_event.clone()))
    }

    async fn begin(&self) -> Result<Transaction<'static, Any>, RecordsError> {
        Ok(match self.kind {
            // Taken at once: a reader that becomes a writer later would not be waited for, but refused.
            Kind::Sqlite => self.writers.begin_with("BEGIN IMMEDIATE").await?,
            Kind::Postgres => self.writers.begin().await?,
        })
    }

    /// Writes something, and gives the number of the last event.
    async fn touch(&self) -> Result<i64, RecordsError> {
        let now = self.kind.now();
        let sql = format!(
            "INSERT INTO store (id, created_ms, written_ms) VALUES (1, {now}, {now}) \
             ON CONFLICT (id) DO UPDATE SET written_ms = {now} RETURNING last_event"
        );
        let mut tx = self.begin().await?;
        let last = sqlx::query_scalar(&sql).fetch_one(&mut *tx).await?;
        tx.commit().await?;
        Ok(last)
    }
}

/// Tries a store in trouble until it can be written again.
async fn probe(store: Weak<Store>) {
    loop {
        tokio::time::sleep(PROBE_INTERVAL).await;
        let Some(store) = store.upgrade() else { return };
        let touched = tokio::time::timeout(WRITE_LIMIT, store.touch()).await;
        if let Ok(Ok(_)) = touched {
            tracing::info!(records = %store.location, "the records can be written again");
            store.is_probed.store(false, Ordering::Release);
            store.trouble.note(None);
            return;
        }
        if let Ok(Err(error)) = touched {
            store.trouble.note(Some(error.doing("write").to_string()));
        }
        if store.writers.is_closed() {
            return;
        }
    }
}

async fn pool(location: &Location, kind: Kind, connections: u32) -> Result<AnyPool, RecordsError> {
    let settings = match kind {
        Kind::Sqlite => SQLITE_SETTINGS,
        Kind::Postgres => POSTGRES_SETTINGS,
    };
    // After an error of the disk SQLite has rolled back by itself, and sqlx still counts the transaction: such a
    // connection would begin no other one.
    let is_usable =
        |connection: &mut AnyConnection| <Any as Database>::TransactionManager::get_transaction_depth(connection) == 0;
    let options = AnyPoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(ACQUIRE_LIMIT)
        // Below, with more.
        .test_before_acquire(false)
        .after_connect(move |connection: &mut AnyConnection, _| {
            Box::pin(async move {
                connection.execute(settings).await?;
                Ok(())
            })
        })
        .before_acquire(move |connection, _| {
            Box::pin(async move {
                // A server may have gone away, a file does not.
                if kind == Kind::Postgres {
                    connection.ping().await?;
                }
                Ok(is_usable(connection))
            })
        });
    let opened = options.connect(&location.url()).await;
    opened.map_err(|source| RecordsError::Open { location: location.clone(), source })
}

/// Makes an empty file that only its owner reads, so that SQLite makes no other; its companions get the same mode.
fn make_file(path: &Path) -> Result<(), RecordsError> {
    let mut options = OpenOptions::new();
    // Only a new one: to close a file gives up the locks that SQLite in this process has on it.
    options.create_new(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Err(source) if source.kind() != ErrorKind::AlreadyExists => {
            Err(RecordsError::File { path: path.into(), source })
        }
        _ => Ok(()),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::testing::Postgres;

    #[tokio::test]
    async fn what_a_file_was_told_is_on_disk_before_it_is_acknowledged() {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::open(&Location::File(folder.path().join("validator.db"))).await.unwrap();
        for pool in [&records.store.readers, &records.store.writers] {
            let mode: String = sqlx::query_scalar("PRAGMA journal_mode").fetch_one(pool).await.unwrap();
            let synchronous: i64 = sqlx::query_scalar("PRAGMA synchronous").fetch_one(pool).await.unwrap();
            let foreign_keys: i64 = sqlx::query_scalar("PRAGMA foreign_keys").fetch_one(pool).await.unwrap();
            let busy_ms: i64 = sqlx::query_scalar("PRAGMA busy_timeout").fetch_one(pool).await.unwrap();
            // 2: FULL.
            assert_eq!((mode.as_str(), synchronous, foreign_keys, busy_ms), ("wal", 2, 1, 8000));
        }
    }

    #[tokio::test]
    async fn what_a_server_was_told_is_on_disk_before_it_is_acknowledged() {
        let database = Postgres::shared().database();
        database.sql(&format!("ALTER DATABASE {} SET synchronous_commit = off", database.name));
        assert_eq!(database.sql("SHOW synchronous_commit"), "off");
        let records = Records::open(&database.location()).await.unwrap();
        let setting = sqlx::query_scalar::<_, String>("SHOW synchronous_commit").fetch_one(records.read()).await;
        assert_eq!(setting.unwrap_or_else(|error| panic!("{error}")), "on".to_owned());
    }
}
