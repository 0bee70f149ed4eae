//! The schema, and how a store comes to it.

use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};
use sqlx::{AnyPool, SqlSafeStr};

use crate::kind::DatabaseKind;
use crate::{Location, RecordsError};

/// Every migration that was ever released, in order; a released one never changes.
const MIGRATIONS: &[MigrationStep] = &[
    (1, "records", include_str!("../migrations/0001_records.sql")),
    (2, "events", include_str!("../migrations/0002_events.sql")),
    (3, "kinds", include_str!("../migrations/0003_kinds.sql")),
    (4, "memory", include_str!("../migrations/0004_memory.sql")),
    (5, "bounds", include_str!("../migrations/0005_bounds.sql")),
    (6, "webhooks", include_str!("../migrations/0006_webhooks.sql")),
    (7, "open", include_str!("../migrations/0007_open.sql")),
    (8, "log", include_str!("../migrations/0008_log.sql")),
];

/// A migration: its version, its name, its statements.
type MigrationStep = (i64, &'static str, &'static str);

/// The newest schema that this program knows: the version of the last migration.
pub const SCHEMA_VERSION: i64 = MIGRATIONS[MIGRATIONS.len() - 1].0;

/// Brings a store to the newest schema. Validators that start at once wait for each other on PostgreSQL.
///
/// # Errors
/// [`RecordsError::Newer`] for a store of a newer release, which is not touched.
pub(crate) async fn migrate(pool: &AnyPool, kind: DatabaseKind, location: &Location) -> Result<(), RecordsError> {
    migrate_by(MIGRATIONS, pool, kind, location).await
}

async fn migrate_by(
    steps: &[MigrationStep],
    pool: &AnyPool,
    kind: DatabaseKind,
    location: &Location,
) -> Result<(), RecordsError> {
    let refused = |source| RecordsError::Migrate { location: location.clone(), source };
    let migrator = migrator(steps, kind);
    let mut attempts = steps.len();
    loop {
        match migrator.run(pool).await {
            Ok(()) => return Ok(()),
            Err(MigrateError::VersionMissing(_)) => {
                let newest = "SELECT MAX(version) FROM _sqlx_migrations";
                let theirs: i64 = sqlx::query_scalar(newest).fetch_one(pool).await.map_err(|e| refused(e.into()))?;
                return Err(RecordsError::Newer {
                    location: location.clone(),
                    theirs,
                    ours: steps.last().map_or(0, |step| step.0),
                });
            }
            // On SQLite nothing keeps two processes from one migration: the second one finds it made, and goes on.
            Err(MigrateError::ExecuteMigration(..)) if kind == DatabaseKind::Sqlite && attempts > 0 => attempts -= 1,
            // A role that may not change the schema needs none of that: a replay worker's.
            Err(MigrateError::Execute(_)) if is_newest(steps, pool).await => return Ok(()),
            Err(error) => return Err(refused(error)),
        }
    }
}

/// Whether another role has migrated the store to the newest schema, and nothing beyond.
async fn is_newest(steps: &[MigrationStep], pool: &AnyPool) -> bool {
    let applied = "SELECT version FROM _sqlx_migrations WHERE success ORDER BY version";
    let applied: Result<Vec<i64>, _> = sqlx::query_scalar(applied).fetch_all(pool).await;
    applied.is_ok_and(|applied| applied.iter().copied().eq(steps.iter().map(|(version, ..)| *version)))
}

fn migrator(steps: &[MigrationStep], kind: DatabaseKind) -> Migrator {
    let migrations = steps.iter().map(|(version, name, sql)| {
        let sql = match kind {
            DatabaseKind::Sqlite => sql.into_sql_str(),
            DatabaseKind::Postgres => sql!("{}", sql.replace(" BLOB ", " BYTEA ")).into_sql_str(),
        };
        Migration::new(*version, (*name).into(), MigrationType::Simple, sql, false)
    });
    Migrator::with_migrations(migrations.collect())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::testing::Postgres;
    use crate::{Approval, Records};

    /// The migration that a release after this one adds.
    const NEXT: MigrationStep = (
        SCHEMA_VERSION + 1,
        "next",
        "ALTER TABLE miners ADD COLUMN mood TEXT NOT NULL DEFAULT 'fine'; CREATE TABLE more (x BLOB );",
    );

    /// A program that opens the store and ends: until its end it holds a lock of a store that it refuses.
    async fn open(steps: &[MigrationStep], location: &Location, kind: DatabaseKind) -> Result<(), RecordsError> {
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
        let refused = open(MIGRATIONS, &location, kind).await.unwrap_err();
        let RecordsError::Newer { theirs, ours, .. } = refused else { panic!("{refused}") };
        assert_eq!((theirs, ours), (NEXT.0, SCHEMA_VERSION));
        // A released migration never changes.
        let changed = [&[(1, "records", "CREATE TABLE other (x TEXT);")], &next[1..]].concat();
        let refused = open(&changed, &location, kind).await.unwrap_err();
        assert!(refused.to_string().contains("migration 1 was previously applied but has been modified"), "{refused}");
        // One that fails leaves nothing.
        let half = (NEXT.0 + 1, "broken", "CREATE TABLE half (x TEXT); SELECT nothing FROM nowhere;");
        let broken = [&next[..], &[half]].concat();
        assert!(open(&broken, &location, kind).await.is_err());
        assert!(sqlx::query("SELECT * FROM half").execute(&pool).await.is_err(), "not even in part");
        open(&next, &location, kind).await.unwrap();
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
        records.abandon_challenge("c", 9).await.unwrap();
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
