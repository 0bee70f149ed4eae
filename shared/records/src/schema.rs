//! The schema, and how a store comes to it.

use std::borrow::Cow;

use sqlx::AnyPool;
use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};

use crate::store::Kind;
use crate::{Location, RecordsError};

/// Every migration that was ever released, in order; a released one never changes.
const MIGRATIONS: [(i64, &str, &str); 1] = [(1, "records", include_str!("../migrations/0001_records.sql"))];

/// The newest schema that this program knows: the version of the last migration.
pub const SCHEMA_VERSION: i64 = MIGRATIONS[MIGRATIONS.len() - 1].0;

/// Brings a store to the newest schema. Validators that start at once wait for each other on PostgreSQL.
///
/// # Errors
/// [`RecordsError::Newer`] for a store of a newer release, which is not touched.
pub(crate) async fn migrate(pool: &AnyPool, kind: Kind, location: &Location) -> Result<(), RecordsError> {
    let refused = |source| RecordsError::Migrate { location: location.clone(), source };
    let migrator = migrator(kind);
    let mut attempts = MIGRATIONS.len();
    loop {
        match migrator.run(pool).await {
            Ok(()) => return Ok(()),
            Err(MigrateError::VersionMissing(_)) => {
                let newest = "SELECT MAX(version) FROM _sqlx_migrations";
                let theirs: i64 = sqlx::query_scalar(newest).fetch_one(pool).await.map_err(|e| refused(e.into()))?;
                return Err(RecordsError::Newer { location: location.clone(), theirs, ours: SCHEMA_VERSION });
            }
            // On SQLite nothing keeps two processes from one migration: the second one finds it made, and goes on.
            Err(MigrateError::ExecuteMigration(..)) if kind == Kind::Sqlite && attempts > 0 => attempts -= 1,
            // A role that may not change the schema needs none of that: a replay worker's.
            Err(MigrateError::Execute(_)) if is_newest(pool).await => return Ok(()),
            Err(error) => return Err(refused(error)),
        }
    }
}

/// Whether another role has migrated the store to the newest schema, and nothing beyond.
async fn is_newest(pool: &AnyPool) -> bool {
    let applied = "SELECT version FROM _sqlx_migrations WHERE success ORDER BY version";
    let applied: Result<Vec<i64>, _> = sqlx::query_scalar(applied).fetch_all(pool).await;
    applied.is_ok_and(|applied| applied.iter().copied().eq(MIGRATIONS.iter().map(|(version, ..)| *version)))
}

fn migrator(kind: Kind) -> Migrator {
    let migrations = MIGRATIONS.iter().map(|(version, name, sql)| {
        let sql = match kind {
            Kind::Sqlite => Cow::Borrowed(*sql),
            Kind::Postgres => Cow::Owned(sql.replace(" BLOB ", " BYTEA ")),
        };
        Migration::new(*version, Cow::Borrowed(name), MigrationType::Simple, sql, false)
    });
    Migrator { migrations: migrations.collect(), ..Migrator::DEFAULT }
}
