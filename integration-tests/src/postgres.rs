//! A real PostgreSQL server for tests: one for each test binary ([`Postgres::shared`]), a database for each test.

pub use assay_records::testing::{Database, Postgres};
