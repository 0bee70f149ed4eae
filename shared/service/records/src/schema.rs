//! The schema, how a store comes to it, and which programs can use a newer one.

use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};
use sqlx::postgres::PgConnection;
use sqlx::{Any, AnyPool, Executor, SqlSafeStr};

use crate::kind::DatabaseKind;
use crate::pools;
use crate::{Location, RecordsError, Result};

/// Every migration that was ever released, in order; a released one never changes. One that only adds keeps the oldest
/// schema of the one before it, so that two adjacent releases can share a store during an upgrade.
const MIGRATIONS: &[MigrationStep] = &[
    (1, "records", include_str!("../migrations/0001_records.sql"), 1),
    (2, "events", include_str!("../migrations/0002_events.sql"), 2),
    (3, "kinds", include_str!("../migrations/0003_kinds.sql"), 3),
    (4, "memory", include_str!("../migrations/0004_memory.sql"), 4),
    (5, "bounds", include_str!("../migrations/0005_bounds.sql"), 5),
    (6, "webhooks", include_str!("../migrations/0006_webhooks.sql"), 6),
    (7, "open", include_str!("../migrations/0007_open.sql"), 7),
    (8, "log", include_str!("../migrations/0008_log.sql"), 8),
    (COMPATIBILITY, "compatibility", include_str!("../migrations/0009_compatibility.sql"), COMPATIBILITY),
    (10, "indexes", include_str!("../migrations/0010_indexes.sql"), COMPATIBILITY),
];

/// A migration: its version, its name, its statements, and the oldest schema whose programs can use its result.
type MigrationStep = (i64, &'static str, &'static str, i64);

/// The schema from which on a store says which programs can use it.
const COMPATIBILITY: i64 = 9;

/// The newest schema that this program knows: the version of the last migration.
pub const SCHEMA_VERSION: i64 = MIGRATIONS[MIGRATIONS.len() - 1].0;

/// Brings a store to the newest schema. Validators that start at once wait for each other on PostgreSQL. A newer store
/// that programs of this schema can use stays as it is.
///
/// # Errors
/// [`RecordsError::Newer`] for a store of a newer release that this one cannot use, which is not touched;
/// [`RecordsError::InUse`] where programs use the store that could not use it afterwards.
pub(crate) async fn migrate(pool: &AnyPool, kind: DatabaseKind, location: &Location) -> Result<()> {
    migrate_by(MIGRATIONS, pool, kind, location).await
}

async fn migrate_by(steps: &[MigrationStep], pool: &AnyPool, kind: DatabaseKind, location: &Location) -> Result<()> {
    let refused = |source| RecordsError::Migrate { location: location.clone(), source };
    let (mut migrator, ours, mut attempts) = (migrator(steps, kind), newest_of(steps), steps.len());
    match applied(pool).await {
        Some(theirs) if theirs > ours => {
            refuse_newer(ours, theirs, pool, location).await?;
            // Only the migrations that both know are compared then.
            migrator.set_ignore_missing(true);
        }
        // A file has one user.
        Some(theirs) if kind == DatabaseKind::Postgres && theirs >= COMPATIBILITY => {
            refuse_users(steps, theirs, pool, location).await?;
        }
        _ => {}
    }
    // A connection of its own: one on which a migration fails keeps the lock of migrations.
    let own = match kind {
        DatabaseKind::Postgres => pools::pool(location, kind, 1).await?,
        DatabaseKind::Sqlite => pool.clone(),
    };
    let migrated = loop {
        let Err(error) = migrator.run(&own).await else { break Ok(()) };
        match error {
            // A newer release came first.
            MigrateError::VersionMissing(theirs) => {
                break Err(RecordsError::Newer { location: location.clone(), theirs, ours });
            }
            // On SQLite nothing keeps two processes from one migration: the second one finds it made, and goes on.
            MigrateError::ExecuteMigration(..) if kind == DatabaseKind::Sqlite && attempts > 0 => attempts -= 1,
            MigrateError::Execute(sqlx::Error::Database(error))
                if kind == DatabaseKind::Sqlite && error.is_unique_violation() && attempts > 0 =>
            {
                attempts -= 1;
            }
            // A role that may not change the schema needs none of that: a replay worker's.
            MigrateError::Execute(_) if is_usable(steps, pool).await => break Ok(()),
            error => break Err(refused(error)),
        }
    };
    if kind == DatabaseKind::Postgres {
        own.close().await;
    }
    migrated
}

/// Makes the schema in an empty database of PostgreSQL, within the transaction of a connection.
pub(crate) async fn make(connection: &mut PgConnection, location: &Location) -> Result<()> {
    let made = migrator(MIGRATIONS, DatabaseKind::Postgres).run_direct(None, connection, false).await;
    made.map_err(|source| RecordsError::Migrate { location: location.clone(), source })
}

fn newest_of(steps: &[MigrationStep]) -> i64 {
    steps.last().map_or(0, |step| step.0)
}

/// The newest migration of the store; `None` for an empty one.
async fn applied(pool: &AnyPool) -> Option<i64> {
    sqlx::query_scalar("SELECT MAX(version) FROM _sqlx_migrations").fetch_one(pool).await.ok()
}

/// The oldest schema whose programs can use the store; `None` before stores said so.
async fn least_schema(store: impl Executor<'_, Database = Any>) -> Option<i64> {
    sqlx::query_scalar("SELECT least_schema FROM compatibility").fetch_one(store).await.ok()
}

/// Refuses a store of any newer schema: a copy by this program would lack some of its columns.
pub(crate) async fn refuse_any_newer(pool: &AnyPool, location: &Location) -> Result<()> {
    let ours = SCHEMA_VERSION;
    match applied(pool).await {
        Some(theirs) if theirs > ours => Err(RecordsError::Newer { location: location.clone(), theirs, ours }),
        _ => Ok(()),
    }
}

/// Refuses a store of a newer schema than `ours`, unless programs of ours can use it.
async fn refuse_newer(ours: i64, theirs: i64, pool: &AnyPool, location: &Location) -> Result<()> {
    if least_schema(pool).await.is_none_or(|least| least > ours) {
        return Err(RecordsError::Newer { location: location.clone(), theirs, ours });
    }
    tracing::warn!(%location, theirs, ours, "a newer release has migrated the records, which this one can use: update it");
    Ok(())
}

/// Refuses a migration after which programs that use a server now could not go on.
async fn refuse_users(steps: &[MigrationStep], applied: i64, pool: &AnyPool, location: &Location) -> Result<()> {
    let Some(least) = steps.iter().filter(|step| step.0 > applied).map(|step| step.3).max() else { return Ok(()) };
    let now = DatabaseKind::Postgres.now();
    let sql = sql!(
        "SELECT address FROM validators WHERE expires_ms > {now} AND schema_version < $1 \
         UNION ALL SELECT address FROM workers WHERE expires_ms > {now} AND schema_version < $1"
    );
    let users: Vec<String> = sqlx::query_scalar(sql).bind(least).fetch_all(pool).await?;
    if users.is_empty() {
        return Ok(());
    }
    Err(RecordsError::InUse { location: location.clone(), users: users.join(", "), ours: newest_of(steps) })
}

/// Fails once a newer release has migrated the store so that this program cannot use it any more.
pub(crate) async fn check_schema(store: impl Executor<'_, Database = Any>, location: &Location) -> Result<()> {
    match least_schema(store).await {
        Some(theirs) if theirs > SCHEMA_VERSION => {
            Err(RecordsError::Newer { location: location.clone(), theirs, ours: SCHEMA_VERSION })
        }
        _ => Ok(()),
    }
}

/// Whether another role has migrated the store to the newest schema, or to one that this program can use.
async fn is_usable(steps: &[MigrationStep], pool: &AnyPool) -> bool {
    let applied = "SELECT version FROM _sqlx_migrations WHERE success ORDER BY version";
    let applied: Result<Vec<i64>, _> = sqlx::query_scalar(applied).fetch_all(pool).await;
    let ours: Vec<_> = steps.iter().map(|step| step.0).collect();
    match applied {
        Ok(applied) if applied == ours => true,
        Ok(applied) if applied.starts_with(&ours) => {
            least_schema(pool).await.is_some_and(|least| least <= newest_of(steps))
        }
        _ => false,
    }
}

fn migrator(steps: &[MigrationStep], kind: DatabaseKind) -> Migrator {
    let migrations = steps.iter().map(|&(version, name, sql, least)| {
        let sql = match kind {
            DatabaseKind::Sqlite => sql.to_owned(),
            DatabaseKind::Postgres => sql.replace(" BLOB ", " BYTEA "),
        };
        let says = if version > COMPATIBILITY {
            format!("\nUPDATE compatibility SET least_schema = {least};\n")
        } else {
            String::new()
        };
        Migration::new(version, name.into(), MigrationType::Simple, sql!("{sql}{says}").into_sql_str(), false)
    });
    Migrator::with_migrations(migrations.collect())
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::testing::Postgres;
    use crate::{Approval, HealthEvent, Records};

    /// The migration that a release after this one adds, whose result this one can use.
    const NEXT: MigrationStep = (
        SCHEMA_VERSION + 1,
        "next",
        "ALTER TABLE miners ADD COLUMN mood TEXT NOT NULL DEFAULT 'fine'; CREATE TABLE more (x BLOB );",
        SCHEMA_VERSION,
    );
    /// One whose result only its own release can use.
    const BREAKING: MigrationStep = (NEXT.0 + 1, "breaking", "DROP TABLE more;", NEXT.0 + 1);

    /// A program that opens the store and ends: until its end it holds a lock of a store that it refuses.
    async fn open(steps: &[MigrationStep], location: &Location, kind: DatabaseKind) -> Result<()> {
        if let Location::File(path) = location {
            // An empty file is an empty database; no connection makes one.
            std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
        }
        let pool = AnyPool::connect(&location.url()).await.unwrap();
        let migrated = migrate_by(steps, &pool, kind, location).await;
        pool.close().await;
        migrated
    }

    async fn goes_forward_and_never_back(location: Location, kind: DatabaseKind) {
        sqlx::any::install_default_drivers();
        open(MIGRATIONS, &location, kind).await.unwrap();
        let pool = AnyPool::connect(&location.url()).await.unwrap();
        let insert = "INSERT INTO miners (id, key, status, labels, state, first_seen_ms, last_seen_ms, address, software) \
             VALUES ('a', 'a', 'approved', '{}', 'enrolled', 1, 1, '', '')";
        sqlx::query(insert).execute(&pool).await.unwrap();
        // A second run changes nothing; the next release adds its step.
        open(MIGRATIONS, &location, kind).await.unwrap();
        let next = [MIGRATIONS, &[NEXT]].concat();
        open(&next, &location, kind).await.unwrap();
        let mood: String = sqlx::query_scalar("SELECT mood FROM miners").fetch_one(&pool).await.unwrap();
        assert_eq!(mood, "fine");
        // A released migration never changes.
        let modified = (1, "records", "CREATE TABLE other (x TEXT);", 1);
        for changed in [[&[modified], &next[1..]].concat(), [&[modified], &MIGRATIONS[1..]].concat()] {
            let refused = open(&changed, &location, kind).await.unwrap_err().to_string();
            assert!(refused.contains("migration 1 was previously applied but has been modified"), "{refused}");
        }
        // One that fails leaves nothing.
        let half = (NEXT.0 + 1, "broken", "CREATE TABLE half (x TEXT); SELECT nothing FROM nowhere;", NEXT.0 + 1);
        let broken = [&next[..], &[half]].concat();
        assert!(open(&broken, &location, kind).await.is_err());
        assert!(sqlx::query("SELECT * FROM half").execute(&pool).await.is_err(), "not even in part");
        open(&next, &location, kind).await.unwrap();
    }

    /// An upgrade by a release that only adds, beside this one, and then by one that this one cannot follow.
    async fn is_shared_with_the_next_release(location: Location, kind: DatabaseKind) {
        sqlx::any::install_default_drivers();
        let records = Records::open(&location).await.unwrap();
        let beat = async || records.heartbeat("k", "run-1", "10.0.0.1:7", Duration::from_secs(60)).await;
        beat().await.unwrap();
        records.worker_heartbeat("w", "10.0.0.2", "{}", Duration::from_secs(60)).await.unwrap();
        let next = [MIGRATIONS, &[NEXT]].concat();
        open(&next, &location, kind).await.unwrap();
        beat().await.unwrap();
        // A start of this release finds a newer store that it can use.
        Records::open(&location).await.unwrap();
        let pool = AnyPool::connect(&location.url()).await.unwrap();
        assert!(is_usable(MIGRATIONS, &pool).await, "for a role that may not migrate");
        let breaking = [&next[..], &[BREAKING]].concat();
        if kind == DatabaseKind::Postgres {
            let refused = open(&breaking, &location, kind).await.unwrap_err();
            let RecordsError::InUse { users, ours, .. } = &refused else { panic!("{refused}") };
            assert_eq!((&**users, *ours), ("10.0.0.1:7, 10.0.0.2", BREAKING.0));
            records.retire("k", "run-1").await.unwrap();
            records.worker_heartbeat("w", "10.0.0.2", "{}", Duration::ZERO).await.unwrap();
        }
        open(&breaking, &location, kind).await.unwrap();
        let refused = Records::open(&location).await.unwrap_err();
        let RecordsError::Newer { theirs, ours, .. } = refused else { panic!("{refused}") };
        assert_eq!((theirs, ours), (BREAKING.0, SCHEMA_VERSION));
        assert!(!is_usable(MIGRATIONS, &pool).await);
        // A process that slept meanwhile finds out at its next heartbeat.
        let refused = beat().await.unwrap_err();
        assert!(matches!(refused, RecordsError::Newer { .. }), "{refused}");
        assert_eq!(least_schema(&pool).await, Some(BREAKING.0));
    }

    #[tokio::test]
    async fn a_file_is_shared_with_the_next_release() {
        let folder = tempfile::tempdir().unwrap();
        is_shared_with_the_next_release(Location::File(folder.path().join("validator.db")), DatabaseKind::Sqlite).await;
    }

    #[tokio::test]
    async fn postgresql_is_shared_with_the_next_release() {
        is_shared_with_the_next_release(Postgres::shared().database().location(), DatabaseKind::Postgres).await;
    }

    /// A store of the first schema, with rows that its release wrote.
    async fn keeps_what_an_older_release_wrote(location: Location, kind: DatabaseKind) {
        sqlx::any::install_default_drivers();
        open(&MIGRATIONS[..1], &location, kind).await.unwrap();
        let pool = AnyPool::connect(&location.url()).await.unwrap();
        for sql in [
            "INSERT INTO store (id, created_ms, written_ms) VALUES (1, 5, 6)",
            "INSERT INTO miners (id, key, status, labels, state, first_seen_ms, last_seen_ms, address, software) \
             VALUES ('a', 'a', 'approved', '{\"rack\":\"7\"}', 'passing', 1, 1, '', '')",
            "INSERT INTO miner_keys (key, miner, position, since_ms) VALUES ('a', 'a', 0, 1)",
            "INSERT INTO challenges (id, miner, key, validator, instance, session, grp, kind, asked, begun_ms, device_ms) \
             VALUES ('c', 'a', 'a', 'v', 'i', 's', 'default', 'light', 'schedule', 1, 2)",
            "INSERT INTO verdicts (challenge, miner, key, validator, at_ms, outcome, n, iterations, iterations_checked, \
             bytes_held, tops, seconds, probe_gb_per_s, probe_seconds, operator, document) \
             VALUES ('c', 'a', 'a', 'v', 1, 'pass', 1, 1, 1, 1, 1.5, 1.0, 1.0, 1.0, '', '{\"n\":1}')",
        ] {
            sqlx::query(sql).execute(&pool).await.unwrap();
        }
        open(&MIGRATIONS[..5], &location, kind).await.unwrap();
        for sql in [
            "INSERT INTO webhooks (id, source, target, url, secret, kinds, created_ms, created_by) \
             VALUES ('o', 'operator', '', '', '', '[]', 1, ''), ('s', 'settings', '', '', '', '[]', 1, '')",
            "INSERT INTO deliveries (webhook, last_event, delivered, skipped, attempts) \
             VALUES ('o', 0, 0, 0, 0), ('s', 0, 0, 0, 0)",
        ] {
            sqlx::query(sql).execute(&pool).await.unwrap();
        }
        pool.close().await;
        let records = Records::open(&location).await.unwrap();
        let miner = records.miner("a").await.unwrap().unwrap();
        assert_eq!((miner.status, &*miner.state, &*miner.labels["rack"]), (Approval::Approved, "passing", "7"));
        assert_eq!(records.verdict("c").await.unwrap().unwrap().record.verdict.get(), "{\"n\":1}");
        let precision = sqlx::query_scalar("SELECT precision FROM verdicts").fetch_one(records.read());
        let precision: i64 = precision.await.unwrap();
        assert_eq!(precision, 1, "INT8 was all there was");
        let webhooks = records.webhooks().await.unwrap();
        assert_eq!(webhooks.iter().map(|webhook| &*webhook.id).collect::<Vec<_>>(), ["o"], "that of a setting is gone");
        // Earlier changes have no events; those from now on have.
        assert_eq!(records.last_event().await.unwrap(), 0);
        let health = HealthEvent { validator: "v".to_owned(), serving: true, why: String::new() };
        records.note_health(health, 9).await.unwrap();
        assert_eq!(records.events(0, 9).await.unwrap()[0].seq, 1);
        let created: i64 = sqlx::query_scalar("SELECT created_ms FROM store").fetch_one(records.read()).await.unwrap();
        assert_eq!(created, 5);
    }

    #[tokio::test]
    async fn a_file_keeps_what_an_older_release_wrote() {
        let folder = tempfile::tempdir().unwrap();
        keeps_what_an_older_release_wrote(Location::File(folder.path().join("validator.db")), DatabaseKind::Sqlite)
            .await;
    }

    #[tokio::test]
    async fn postgresql_keeps_what_an_older_release_wrote() {
        keeps_what_an_older_release_wrote(Postgres::shared().database().location(), DatabaseKind::Postgres).await;
    }

    #[tokio::test]
    async fn a_file_goes_forward_and_never_back() {
        let folder = tempfile::tempdir().unwrap();
        goes_forward_and_never_back(Location::File(folder.path().join("validator.db")), DatabaseKind::Sqlite).await;
    }

    #[tokio::test]
    async fn postgresql_goes_forward_and_never_back() {
        goes_forward_and_never_back(Postgres::shared().database().location(), DatabaseKind::Postgres).await;
    }
}
