//! Where a test's records are.

use assay_records::testing::{Database, Postgres};
use assay_records::{Location, Records};
use sqlx::any::{AnyPoolOptions, AnyRow};
use sqlx::{AssertSqlSafe, Row};
use tempfile::TempDir;

/// An empty store, of one database or the other.
pub enum TestStore {
    Sqlite(TempDir),
    Postgres(Database<'static>),
}

impl TestStore {
    pub fn sqlite() -> Self {
        Self::Sqlite(tempfile::tempdir().unwrap())
    }

    pub fn postgres() -> Self {
        Self::Postgres(Postgres::shared().database())
    }

    pub fn location(&self) -> Location {
        match self {
            Self::Sqlite(folder) => Location::File(folder.path().join("validator.db")),
            Self::Postgres(database) => database.location(),
        }
    }

    /// Connections of their own, as another process has them.
    pub async fn open(&self) -> Records {
        Records::open(&self.location()).await.unwrap()
    }

    /// Runs a statement past the library, and gives its rows.
    pub async fn sql(&self, statement: &str) -> Vec<AnyRow> {
        let url = match self {
            Self::Sqlite(folder) => format!("sqlite://{}", folder.path().join("validator.db").display()),
            Self::Postgres(database) => database.url(),
        };
        let pool = AnyPoolOptions::new().max_connections(1).connect(&url).await.unwrap();
        let rows =
            sqlx::query(AssertSqlSafe(statement)).fetch_all(&pool).await.unwrap_or_else(|e| panic!("{statement}: {e}"));
        pool.close().await;
        rows
    }

    /// How many rows a table has, past the library.
    pub async fn rows_of(&self, table: &str) -> i64 {
        self.sql(&format!("SELECT COUNT(*) FROM {table}")).await[0].get(0)
    }
}
