//! The store: its connections, and how everything is read and written through them.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use sqlx::any::{AnyArguments, AnyRow};
use sqlx::query::Query;
use sqlx::{Any, AnyConnection, AnyPool, Connection, Executor, Transaction};
use tokio::sync::watch;

use crate::beats::Beats;
use crate::grouped_write::GroupedWrite;
use crate::kind::DatabaseKind;
use crate::pools::{api_readers, pool};
use crate::readers::{Readers, is_api};
use crate::request_group::RequestGroup;
use crate::token_uses::TokenUses;
use crate::trouble::{SLOW_LIMIT, StoreDefect, StoreTrouble};
use crate::tx::{LastEvent, Tx};
use crate::write_counter::{WriteCounter, Writes};
use crate::{Location, MinerRecord, RecordsError, Result, file, schema};

/// How long a write may take before it counts as failed. Whether it was done is unknown then; writes can be repeated.
const WRITE_LIMIT: Duration = Duration::from_secs(30);
/// How often a server is asked whether it answers.
const ANSWER_INTERVAL: Duration = Duration::from_secs(1);
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

/// The records of a validator; a clone is the same store.
#[derive(Clone)]
pub struct Records {
    pub(crate) store: Arc<Store>,
}

pub(crate) struct Store {
    pub(crate) location: Location,
    pub(crate) kind: DatabaseKind,
    readers: Readers,
    api_readers: Readers,
    writers: AnyPool,
    pub(crate) trouble: Arc<StoreTrouble>,
    /// Which file it is: its device and its inode.
    file: Option<(u64, u64)>,
    /// Whether this process made it.
    is_new: bool,
    is_probed: AtomicBool,
    pub(crate) beats: Beats,
    writes: WriteCounter,
    pub(crate) writing: RequestGroup<GroupedWrite, ()>,
    /// Miners that are looked up, by a key, in queries that several share.
    pub(crate) looking_up: RequestGroup<String, Option<MinerRecord>>,
    /// Whether events of other validators are looked for.
    pub(crate) is_polled: AtomicBool,
    /// The number of the last event that this process knows of.
    pub(crate) last_event: Arc<LastEvent>,
    /// When uses of API tokens were noted last.
    pub(crate) token_uses: TokenUses,
    #[cfg(feature = "testing")]
    calls: Option<Arc<dyn crate::calls::Calls>>,
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
    pub async fn open(location: &Location) -> Result<Self> {
        let store = Store::open(location).await?;
        Self::begun(store).await
    }

    /// Opens a file that the validators of a simulation share, whose calls are made in turn.
    ///
    /// # Errors
    /// As [`Records::open`].
    #[cfg(feature = "testing")]
    pub async fn open_simulated(location: &Location, calls: Arc<dyn crate::calls::Calls>) -> Result<Self> {
        let opened = crate::calls::make(calls.clone(), async {
            let mut store = Store::open(location).await?;
            let readers = pool(location, store.kind, 1).await?;
            store.readers = Readers::Simulated(readers.clone(), calls.clone());
            store.api_readers = Readers::Simulated(readers, calls.clone());
            store.calls = Some(calls.clone());
            Self::begun(store).await
        });
        opened.await
    }

    async fn begun(store: Store) -> Result<Self> {
        let records = Self { store: Arc::new(store) };
        let last = records.write("note the start", records.store.touch()).await?;
        records.store.last_event.note(last);
        Ok(records)
    }

    /// Whether other validators may have the store too: a file is one validator's.
    pub fn is_shared(&self) -> bool {
        self.store.is_shared()
    }

    pub fn location(&self) -> &Location {
        &self.store.location
    }

    /// Whether this process made the store: nothing was known of it before.
    pub fn is_new(&self) -> bool {
        self.store.is_new
    }

    /// Why the store cannot be written now, or is not to be relied on; `None` when all is well.
    pub fn trouble(&self) -> Option<String> {
        self.store.trouble.now()
    }

    /// The same, and each change of it. While there is trouble that can pass, the store is tried again twice a second.
    pub fn troubles(&self) -> watch::Receiver<Option<String>> {
        self.store.trouble.subscribe()
    }

    /// Whether the store is known to be damaged.
    pub fn is_damaged(&self) -> bool {
        self.store.trouble.is_damaged()
    }

    /// Waits until the store is known to be damaged: nothing more is written into it until it is repaired.
    pub async fn damaged(&self) {
        let mut told = self.troubles();
        while !self.is_damaged() {
            // The sender lives as long as the store.
            if told.changed().await.is_err() {
                return;
            }
        }
    }

    /// Notes whether a file is still under its name. Where it is not, all that is written is lost with this process.
    pub fn check_place(&self) {
        let why = self.is_moved().then(|| {
            "the file of the records was removed or replaced while it was in use: all that is written ends with this \
             process. Copy it now (assay-validator backup FILE), stop the validator, and put the copy in its place"
                .to_owned()
        });
        self.store.trouble.lasting(StoreDefect::Moved, why);
    }

    pub(crate) fn is_moved(&self) -> bool {
        matches!(self.location(), Location::File(path) if file::identity(path) != self.store.file)
    }

    /// Polls a server until the records are closed, on a connection of its own, so that its loss is detected before the
    /// next write. Waits for ever with a file, which cannot be lost so.
    pub async fn watch_server(self) {
        let Location::Postgres(url) = self.location() else { return std::future::pending().await };
        let (mut connection, mut answers) = (None, true);
        while !self.store.writers.is_closed() {
            let answer = tokio::time::timeout(SLOW_LIMIT, ask_server(connection.take(), url)).await;
            let error = match answer {
                Ok(Ok(still)) => {
                    connection = Some(still);
                    None
                }
                Ok(Err(error)) => Some(RecordsError::from(error).doing("read")),
                Err(_) => Some(RecordsError::Slow { doing: "read", limit_s: SLOW_LIMIT.as_secs() }),
            };
            // Reported once: whether other connections still work, each finds out on use.
            if let Some(error) = error.as_ref().filter(|_| answers) {
                self.trouble_began(error);
            }
            answers = error.is_none();
            tokio::time::sleep(ANSWER_INTERVAL).await;
        }
    }

    /// Counts and times of writes so far.
    pub fn writes(&self) -> Writes {
        self.store.writes.get()
    }

    /// Closes every connection. A file is one file then, without a log beside it.
    pub async fn close(&self) {
        self.store.api_readers.close().await;
        self.store.readers.close().await;
        self.store.writers.close().await;
    }

    pub(crate) fn read(&self) -> &Readers {
        self.store.read()
    }

    /// A transaction that can write. Nothing of it is there until it is committed.
    pub(crate) async fn begin(&self) -> Result<Tx> {
        self.store.begin_told().await
    }

    /// Reads the rows of a query.
    pub(crate) async fn list<T>(
        &self,
        doing: &'static str,
        query: Query<'_, Any, AnyArguments>,
        of: fn(&AnyRow) -> Result<T>,
    ) -> Result<Vec<T>> {
        let rows = query.fetch_all(self.read()).await.map_err(|e| RecordsError::from(e).doing(doing))?;
        rows.iter().map(of).collect()
    }

    /// Reads the only row of a query, if there is one.
    pub(crate) async fn find_row<T>(
        &self,
        doing: &'static str,
        query: Query<'_, Any, AnyArguments>,
        of: fn(&AnyRow) -> Result<T>,
    ) -> Result<Option<T>> {
        let row = query.fetch_optional(self.read()).await.map_err(|e| RecordsError::from(e).doing(doing))?;
        row.as_ref().map(of).transpose()
    }

    /// Writes by one statement; whether that inserted, changed or deleted a row.
    pub(crate) async fn execute(&self, doing: &'static str, query: Query<'_, Any, AnyArguments>) -> Result<bool> {
        transaction!(self, doing, |tx| {
            let done = query.execute(&mut *tx).await?;
            done.rows_affected() > 0
        })
    }

    /// Waits for a write, and notes whether the store can be written.
    pub(crate) async fn write<T>(&self, doing: &'static str, work: impl Future<Output = Result<T>> + Send) -> Result<T>
    where
        T: Send,
    {
        let (mut work, began) = (pin!(self.store.call(work)), Instant::now());
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
        if let RecordsError::Database { source, .. } = error
            && error.is_damage()
        {
            // No attempt mends it.
            return self.store.trouble.seen(source);
        }
        self.store.trouble.note(Some(error.to_string()));
        if !self.store.is_probed.swap(true, Ordering::AcqRel) {
            let cause = std::error::Error::source(error).map(tracing::field::display);
            tracing::error!(records = %self.store.location, %error, cause, "the records cannot be written");
            tokio::spawn(probe(Arc::downgrade(&self.store)));
        }
    }
}

impl Store {
    async fn open(location: &Location) -> Result<Self> {
        sqlx::any::install_default_drivers();
        let (kind, writers, readers) = match location {
            Location::File(path) => {
                if !file::make(path).await? {
                    file::check(path, location).await?;
                    file::check_mode(path)?;
                }
                (DatabaseKind::Sqlite, 1, FILE_READERS)
            }
            Location::Postgres(_) => (DatabaseKind::Postgres, POSTGRES_CONNECTIONS, 0),
        };
        let writers = pool(location, kind, writers).await?;
        // PostgreSQL has no use for a pool of its own for readers.
        let readers = if readers == 0 { writers.clone() } else { pool(location, kind, readers).await? };
        let trouble = Arc::new(StoreTrouble::new(location.to_string()));
        let (readers, api_readers) = (Readers::Any(readers, trouble.clone()), api_readers(location, kind, &trouble)?);
        schema::migrate(&writers, kind, location).await?;
        if kind == DatabaseKind::Sqlite {
            writers
                .execute(file::MARK)
                .await
                .map_err(|source| RecordsError::Open { location: location.clone(), source })?;
        }
        let file = match location {
            Location::File(path) => file::identity(path),
            Location::Postgres(_) => None,
        };
        let known: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM store").fetch_one(&readers).await?;
        let is_probed = AtomicBool::new(false);
        let (is_polled, groups) =
            (AtomicBool::new(false), if kind == DatabaseKind::Sqlite { 1 } else { POSTGRES_GROUPS });
        let (location, last_event, token_uses) = (location.clone(), Arc::default(), TokenUses::default());
        let writes = WriteCounter::default();
        let (writing, looking_up) = (RequestGroup::new(groups), RequestGroup::new(LOOKUPS));
        Ok(Self {
            location,
            kind,
            readers,
            api_readers,
            writers,
            trouble,
            file,
            is_new: known == 0,
            is_probed,
            beats: Beats::default(),
            writes,
            writing,
            looking_up,
            is_polled,
            last_event,
            token_uses,
            #[cfg(feature = "testing")]
            calls: None,
        })
    }

    pub(crate) fn is_shared(&self) -> bool {
        #[cfg(feature = "testing")]
        if self.calls.is_some() {
            return true;
        }
        self.kind == DatabaseKind::Postgres
    }

    /// Makes a call of the database: in a simulation, in its turn.
    pub(crate) async fn call<T: Send>(&self, work: impl Future<Output = Result<T>> + Send) -> Result<T> {
        #[cfg(feature = "testing")]
        if let Some(calls) = &self.calls {
            return crate::calls::make(calls.clone(), work).await;
        }
        work.await
    }

    /// Does the work of a task for calls that wait for it.
    pub(crate) async fn call_for_others(self: Arc<Self>, work: impl Future<Output = ()> + Send) {
        #[cfg(feature = "testing")]
        if let Some(calls) = &self.calls {
            return calls.clone().run_for_others(Box::pin(work)).await;
        }
        work.await;
    }

    pub(crate) fn read(&self) -> &Readers {
        if is_api() { &self.api_readers } else { &self.readers }
    }

    #[cfg(test)]
    pub(crate) fn writers(&self) -> &AnyPool {
        &self.writers
    }

    #[cfg(test)]
    pub(crate) fn api(&self) -> &Readers {
        &self.api_readers
    }

    /// Connections without a limit of time, for work of more than one statement.
    pub(crate) fn unlimited(&self) -> &AnyPool {
        match &self.readers {
            Readers::Any(pool, _) => pool,
            Readers::Limited(..) => &self.writers,
            #[cfg(feature = "testing")]
            Readers::Simulated(pool, _) => pool,
        }
    }

    /// A transaction that can write, with its events.
    pub(crate) async fn begin_told(&self) -> Result<Tx> {
        Ok(Tx::new(self.begin().await?, self.last_event.clone()))
    }

    async fn begin(&self) -> Result<Transaction<'static, Any>> {
        Ok(match self.kind {
            // Taken at once: a reader that becomes a writer later would not be waited for, but refused.
            DatabaseKind::Sqlite => self.writers.begin_with("BEGIN IMMEDIATE").await?,
            DatabaseKind::Postgres => self.writers.begin().await?,
        })
    }

    /// Writes something, and gives the number of the last event.
    async fn touch(&self) -> Result<i64> {
        let now = self.kind.now();
        let sql = sql!(
            "INSERT INTO store (id, created_ms, written_ms) VALUES (1, {now}, {now}) \
             ON CONFLICT (id) DO UPDATE SET written_ms = {now} RETURNING last_event"
        );
        let mut tx = self.begin().await?;
        let last = sqlx::query_scalar(sql).fetch_one(&mut *tx).await?;
        tx.commit().await?;
        Ok(last)
    }
}

/// Whether a server answers, on this connection or on another one: a connection may be lost where the server is not.
async fn ask_server(connection: Option<AnyConnection>, url: &str) -> Result<AnyConnection, sqlx::Error> {
    if let Some(mut connection) = connection
        && connection.ping().await.is_ok()
    {
        return Ok(connection);
    }
    AnyConnection::connect(url).await
}

/// Tries a store in trouble until it can be written again.
async fn probe(store: Weak<Store>) {
    loop {
        tokio::time::sleep(PROBE_INTERVAL).await;
        let Some(store) = store.upgrade() else { return };
        let touched = tokio::time::timeout(WRITE_LIMIT, store.call(store.touch())).await;
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

/// Gives work up that takes as long as a write may: the server of its connection may have died without closing it.
pub(crate) async fn with_limit<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let slow = RecordsError::Slow { doing: "work", limit_s: WRITE_LIMIT.as_secs() };
    tokio::time::timeout(WRITE_LIMIT, work).await.unwrap_or(Err(slow))
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;
    use crate::testing::Postgres;

    #[tokio::test]
    async fn what_a_file_was_told_is_on_disk_before_it_is_acknowledged() {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::open(&Location::File(folder.path().join("validator.db"))).await.unwrap();
        for pool in [records.store.unlimited(), &records.store.writers] {
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
