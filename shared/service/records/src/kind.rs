//! The two databases, and the SQL that differs between them.

use std::borrow::Cow;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DatabaseKind {
    Sqlite,
    Postgres,
}

impl DatabaseKind {
    /// The database's time in milliseconds since 1970, in SQL.
    pub(crate) fn now(self) -> Cow<'static, str> {
        #[cfg(feature = "testing")]
        if let Some(now_ms) = assay_program::clock::testing::database_ms() {
            return now_ms.to_string().into();
        }
        match self {
            Self::Sqlite => "CAST(unixepoch('subsec') * 1000 AS BIGINT)".into(),
            Self::Postgres => "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)".into(),
        }
    }

    /// The function that joins the texts of several rows.
    pub(crate) const fn join(self) -> &'static str {
        match self {
            Self::Sqlite => "group_concat",
            Self::Postgres => "string_agg",
        }
    }

    /// The end of a SELECT whose rows are changed next. SQLite has one writer at a time anyway.
    pub(crate) const fn skip_locked(self) -> &'static str {
        match self {
            Self::Sqlite => "",
            Self::Postgres => "FOR UPDATE SKIP LOCKED",
        }
    }

    /// The end of a SELECT whose rows must not change before the transaction ends.
    pub(crate) const fn for_update(self) -> &'static str {
        match self {
            Self::Sqlite => "",
            Self::Postgres => "FOR UPDATE",
        }
    }
}
