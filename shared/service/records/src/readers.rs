//! Connections that read: those of sessions, and those of the API, whose statements end at a limit of time.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_stream::try_stream;
use sqlx::any::{AnyQueryResult, AnyRow, AnyStatement, AnyTypeInfo};
use sqlx::sqlite::{SqliteArguments, SqliteConnection, SqlitePool};
use sqlx::{Any, AnyPool, Either, Execute, Executor, SqlStr};
use tokio_stream::{Stream, StreamExt};

use crate::trouble::StoreTrouble;

/// How long a statement of the API may take. The slowest list takes a tenth of a second at a million verdicts.
pub const STATEMENT_LIMIT: Duration = Duration::from_secs(5);
/// How long a row is waited for.
const ROW_LIMIT: Duration = Duration::from_secs(30);
/// Steps of SQLite's machine between two looks at the clock: some tens of microseconds.
const STEPS_PER_CHECK: i32 = 1000;

tokio::task_local! {
    static IS_API: ();
}

/// Reads of the API wait for each other and end at a limit of time; those of sessions do neither.
///
/// All reads of records in this future count as reads of the API; those of tasks that it spawns do not.
pub async fn with_api_limit<F: Future>(work: F) -> F::Output {
    IS_API.scope((), work).await
}

pub(crate) fn is_api() -> bool {
    IS_API.try_with(|()| ()).is_ok()
}

type Answer<'e, T> = Pin<Box<dyn Future<Output = Result<T, sqlx::Error>> + Send + 'e>>;
type Results<'e> = Pin<Box<dyn Stream<Item = Result<Either<AnyQueryResult, AnyRow>, sqlx::Error>> + Send + 'e>>;

/// A pool of connections that read.
pub(crate) enum Readers {
    /// Statements take as long as they give rows, or end at a limit that the server keeps.
    Any(AnyPool, Arc<StoreTrouble>),
    /// A file: statements end at [`STATEMENT_LIMIT`].
    Limited(
        SqlitePool,
        Arc<StoreTrouble>,
        #[cfg_attr(not(test), expect(dead_code, reason = "tests count by it"))] Arc<StatementSteps>,
    ),
    /// Those of a simulation.
    #[cfg(feature = "testing")]
    Simulated(AnyPool, Arc<dyn crate::calls::Calls>),
}

/// Steps that SQLite's machine took for statements with a limit, to [`STEPS_PER_CHECK`].
#[derive(Debug, Default)]
pub(crate) struct StatementSteps(AtomicU64);

impl fmt::Debug for Readers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Any(..) => "Readers",
            Self::Limited(..) => "Readers with a limit of time",
            #[cfg(feature = "testing")]
            Self::Simulated(..) => "Readers of a simulation",
        })
    }
}

impl Readers {
    pub(crate) async fn close(&self) {
        match self {
            Self::Any(pool, _) => pool.close().await,
            Self::Limited(pool, ..) => pool.close().await,
            #[cfg(feature = "testing")]
            Self::Simulated(pool, _) => pool.close().await,
        }
    }
}

impl StatementSteps {
    #[cfg(test)]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Lets a connection work until [`STATEMENT_LIMIT`] from now.
    pub(crate) async fn limit(self: Arc<Self>, connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
        let until = Instant::now() + STATEMENT_LIMIT;
        let within = move || {
            self.0.fetch_add(STEPS_PER_CHECK as u64, Ordering::Relaxed);
            Instant::now() < until
        };
        connection.lock_handle().await?.set_progress_handler(STEPS_PER_CHECK, within);
        Ok(())
    }
}

/// The next row. Without one for a while the server of the connection may have died without closing it.
async fn next_of<T>(found: &mut (impl Stream<Item = T> + Unpin)) -> Result<Option<T>, sqlx::Error> {
    tokio::time::timeout(ROW_LIMIT, found.next()).await.map_err(|_| sqlx::Error::PoolTimedOut)
}

/// Both read alike: a pool of SQLite's own, which alone can have a limit, speaks in sqlx's common types here.
impl<'c> Executor<'c> for &Readers {
    type Database = Any;

    fn fetch_many<'e, 'q: 'e, E>(self, mut query: E) -> Results<'e>
    where
        'c: 'e,
        E: 'q + Execute<'q, Any>,
    {
        let (pool, trouble) = match self {
            Readers::Any(pool, trouble) => {
                let trouble = trouble.clone();
                let mut found = pool.fetch_many(query);
                return Box::pin(try_stream! {
                    while let Some(found) = next_of(&mut found).await? {
                        yield found.inspect_err(|error| trouble.seen(error))?;
                    }
                });
            }
            Readers::Limited(pool, trouble, _) => (pool.clone(), trouble.clone()),
            #[cfg(feature = "testing")]
            Readers::Simulated(pool, calls) => {
                let (pool, calls) = (pool.clone(), calls.clone());
                return Box::pin(try_stream! {
                    let found = async { Ok::<_, sqlx::Error>(pool.fetch_many(query).collect::<Vec<_>>().await) };
                    for found in crate::calls::make(calls, found).await? {
                        yield found?;
                    }
                });
            }
        };
        Box::pin(try_stream! {
            let persistent = query.persistent();
            let arguments = query.take_arguments().map_err(sqlx::Error::Encode)?.unwrap_or_default();
            let arguments = arguments.convert_into::<SqliteArguments>().map_err(sqlx::Error::Encode)?;
            let mut found = pool.fetch_many(sqlx::query_with(query.sql(), arguments).persistent(persistent));
            while let Some(found) = found.next().await {
                yield match found.inspect_err(|error| trouble.seen(error))? {
                    Either::Left(_) => Either::Left(AnyQueryResult::default()),
                    Either::Right(row) => Either::Right(AnyRow::try_from(&row)?),
                };
            }
        })
    }

    fn fetch_optional<'e, 'q: 'e, E>(self, query: E) -> Answer<'e, Option<AnyRow>>
    where
        'c: 'e,
        E: 'q + Execute<'q, Any>,
    {
        let mut found = self.fetch_many(query);
        Box::pin(async move {
            while let Some(found) = found.next().await {
                if let Either::Right(row) = found? {
                    return Ok(Some(row));
                }
            }
            Ok(None)
        })
    }

    fn prepare_with<'e>(self, _: SqlStr, _: &'e [AnyTypeInfo]) -> Answer<'e, AnyStatement>
    where
        'c: 'e,
    {
        Box::pin(async { Err(sqlx::Error::AnyDriverError("readers only fetch".into())) })
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use assay_work::Precision;

    use super::*;
    use crate::testing::Postgres;
    use crate::{DeviceQuery, Location, Records, RecordsError, VerdictFilter};

    /// Verdicts of the store whose lists are read: of ten miners with a device each, ten to a round.
    const VERDICTS: u64 = 20_000;
    const FILL: &str = "
        INSERT INTO miners (id, key, status, labels, state, first_seen_ms, last_seen_ms, address, software)
            SELECT 'm' || i, 'm' || i, 'approved', '{}', 'passing', 1, 1, '', '' FROM number WHERE i < 10;
        INSERT INTO miner_keys (key, miner, position, since_ms) SELECT id, id, 0, 1 FROM miners;
        INSERT INTO devices (miner, device_id, name, model, memory_bytes, claims, first_seen_ms, last_seen_ms)
            SELECT id, 'd' || id, 'H200', 'H200', 1, 'null', 1, 1 FROM miners;
        INSERT INTO challenges (id, miner, key, validator, instance, session, grp, kind, asked, round, begun_ms, ended_ms,
            device_ms) SELECT 'c' || i, 'm' || (i % 10), 'm', 'v', '', '', 'default', 'light', 'schedule', 'r' || (i / 10),
            i, i, 1 FROM number;
        INSERT INTO verdicts (challenge, miner, key, validator, at_ms, outcome, n, iterations, iterations_checked,
            bytes_held, tops, seconds, probe_gb_per_s, probe_seconds, operator, document)
            SELECT 'c' || i, 'm' || (i % 10), 'm', 'v', i, CASE i % 7 WHEN 0 THEN 'fail' ELSE 'pass' END, 1, 1, 1, 1, 1.0,
            1.0, 1.0, 1.0, '', '{}' FROM number;
        INSERT INTO reasons (challenge, position, code, class, detail, first_ms)
            SELECT 'c' || i, 0, 'too_slow', 'performance', '', i FROM number;
        INSERT INTO device_results (challenge, device_id, miner, model, operator, at_ms, n, work_held, matrices, bytes_held,
            tops, seconds, probe_bytes, probe_gb_per_s, probe_seconds, hidden_share)
            SELECT 'c' || i, 'dm' || (i % 10), 'm' || (i % 10), 'H200', '', i, 1, 1, 1, 1, 1.0, 1.0, 1, 1.0, 1.0, 0.0
            FROM number;
        INSERT INTO rounds (id, grp, asked, validator, begun_ms, detail)
            SELECT 'r' || i, 'default', 'schedule', 'v', i, '' FROM number WHERE i < 2000;
        INSERT INTO round_members (round, miner, state, challenge, at_ms, detail)
            SELECT 'r' || (i / 10), 'm' || (i % 10), 'judged', 'c' || i, i, '' FROM number;
        INSERT INTO findings (id, miner, at_ms, code, detail, enforced)
            SELECT 'f' || i, 'm' || (i % 10), i, 'too_slow', '', 0 FROM number;
        INSERT INTO device_events (id, miner, device_id, at_ms, what, detail)
            SELECT 'e' || i, 'm' || (i % 10), 'dm' || (i % 10), i, 'renamed', '' FROM number;
        INSERT INTO actions (id, at_ms, actor, action, detail) SELECT 'a' || i, i, 'o', 'label', '' FROM number;
        INSERT INTO receipts (id, challenge, miner, key_id, issued_ms, expires_ms, token)
            SELECT 'x' || i, 'c' || i, 'm' || (i % 10), 'k', i, i, '' FROM number;
        INSERT INTO transitions (id, miner, at_ms, from_state, to_state, why, detail)
            SELECT 't' || i, 'm' || (i % 10), i, 'passing', 'passing', 'verdict', '' FROM number;
        INSERT INTO evidence (challenge, digest, bytes, stored_bytes, why, at_ms)
            SELECT 'c' || i, 'x' || i, 1, 1, 'verdict', i FROM number WHERE i % 7 = 0;
        UPDATE miners SET state = 'failed' WHERE id IN ('m3', 'm4');
        DROP TABLE number";

    async fn filled(folder: &std::path::Path) -> Records {
        let records = Records::open(&Location::File(folder.join("validator.db"))).await.unwrap();
        let mut writer = records.store.writers().acquire().await.unwrap();
        let number = sql!(
            "CREATE TABLE number AS WITH RECURSIVE t(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM t WHERE i < {}) \
             SELECT i FROM t",
            VERDICTS - 1
        );
        writer.execute(number).await.unwrap();
        writer.execute(FILL).await.unwrap();
        records
    }

    #[tokio::test]
    async fn no_list_walks_all_verdicts() {
        let folder = tempfile::tempdir().unwrap();
        let records = filled(folder.path()).await;
        let Readers::Limited(.., steps) = records.store.api() else { panic!("a file has a limit") };
        let all = || VerdictFilter { limit: Some(20), ..VerdictFilter::default() };
        let of = |round: &str| VerdictFilter { round: Some(round.to_owned()), ..all() };
        macro_rules! read {
            ($($what:expr),+ $(,)?) => {$({
                let before = steps.get();
                with_api_limit(async { $what.await.unwrap() }).await;
                let taken = steps.get() - before;
                // To look at a row takes three and more.
                assert!(taken < 2 * VERDICTS, "{}: {taken} steps", stringify!($what));
            })+};
        }
        read![
            records.verdicts(&all()),
            records.verdicts(&of("r77")),
            records.verdicts(&of("none")),
            records.verdicts(&VerdictFilter { code: Some("too_slow".to_owned()), ..all() }),
            records.verdicts(&VerdictFilter { code: Some("none".to_owned()), ..all() }),
            records.verdicts(&VerdictFilter { code: Some("too_slow".to_owned()), ..of("r77") }),
            records.verdicts(&VerdictFilter { outcome: Some("fail".to_owned()), ..all() }),
            records.verdicts(&VerdictFilter { miner: Some("m3".to_owned()), ..all() }),
            records.rounds(None, 12),
            records.round_members(&["r1", "r2", "r3"]),
            records.samples("H200", Precision::Int8, 0, 8),
            records.findings(None, 20),
            records.findings(Some("m3"), 20),
            records.device_events(None, Some("dm3"), 20),
            records.device_events(Some("m3"), None, 20),
            records.devices(&DeviceQuery { limit: Some(20), ..DeviceQuery::default() }),
            records.actions(Some("m3"), 0, 20),
            records.actions(None, 0, 20),
            records.history("m3", None, 20),
            records.series("m3", 0, 20),
            records.duty("m3", 19_000),
            records.orphans(20),
            records.find("c77"),
            records.miner_counts(),
            records.model_counts(20),
            records.needed_evidence(),
        ];
        assert_eq!(records.needed_evidence().await.unwrap(), ["x19943", "x19964"], "of the last fail of m3 and m4");
    }

    /// The API runs queries without end: its statements end at the limit, and sessions do not wait for them.
    async fn api_keeps_nobody_waiting(location: &Location) {
        const ENDLESS: &str =
            "WITH RECURSIVE t(i) AS (SELECT 1 UNION ALL SELECT 1 FROM t) SELECT COUNT(*) FROM t WHERE i = 0";
        let records = Records::open(location).await.unwrap();
        let asked: Vec<_> = (0..2)
            .map(|_| {
                let records = records.clone();
                tokio::spawn(with_api_limit(async move {
                    let endless = sqlx::query_scalar::<_, i64>(ENDLESS).fetch_one(records.read()).await;
                    RecordsError::from(endless.unwrap_err())
                }))
            })
            .collect();
        let lookup = tokio::spawn({
            let records = records.clone();
            async move { records.last_event().await }
        });
        assert_eq!(lookup.await.unwrap().unwrap(), 0);
        for endless in asked {
            let error = endless.await.unwrap();
            assert!(matches!(error, RecordsError::Slow { limit_s: 5, .. }), "{error}");
        }
        // The connections are as good as before.
        assert_eq!(with_api_limit(records.last_event()).await.unwrap(), 0);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_api_keeps_nobody_waiting_for_a_file() {
        let folder = tempfile::tempdir().unwrap();
        api_keeps_nobody_waiting(&Location::File(folder.path().join("validator.db"))).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_api_keeps_nobody_waiting_for_a_server() {
        api_keeps_nobody_waiting(&Postgres::shared().database().location()).await;
    }
}
