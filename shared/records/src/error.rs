//! What can go wrong with records.

use std::io;
use std::path::PathBuf;

use crate::Location;

/// Why records cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RecordsError {
    /// The store cannot be opened.
    #[error("cannot open the records {location}: {source}")]
    Open {
        /// The store.
        location: Location,
        /// What the database said.
        source: sqlx::Error,
    },
    /// The folder or the file cannot be made.
    #[error("cannot use the file {path} for records: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A newer release has migrated the store.
    #[error(
        "the records {location} are of a newer release (schema {theirs}; this program knows up to {ours}): run that \
         release, or restore a backup from before the upgrade"
    )]
    Newer {
        /// The store.
        location: Location,
        /// Its schema.
        theirs: i64,
        /// The newest schema of this program.
        ours: i64,
    },
    /// A migration failed, or was changed after it was applied.
    #[error("cannot migrate the records {location}: {source}")]
    Migrate {
        /// The store.
        location: Location,
        /// What failed.
        source: sqlx::migrate::MigrateError,
    },
    /// A statement failed.
    #[error("cannot {doing} in the records: {source}")]
    Database {
        /// What was tried.
        doing: &'static str,
        /// What the database said.
        source: sqlx::Error,
    },
    /// No answer came in time.
    #[error("cannot {doing} in the records: no answer within {limit_s} s")]
    Slow {
        /// What was tried.
        doing: &'static str,
        /// How long it was waited for.
        limit_s: u64,
    },
    /// The challenge has another verdict already: another validator concluded it.
    #[error("the challenge {challenge} has another verdict in the records already")]
    ConcludedBefore {
        /// The challenge.
        challenge: String,
    },
    /// Nobody knows this miner.
    #[error("no miner {0} in the records")]
    NoSuchMiner(String),
    /// A document of the store is not what this program writes.
    #[error("a document in the records is malformed ({what}): {source}")]
    Malformed {
        /// Which.
        what: &'static str,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// A value is larger than its bound.
    #[error("{what} has {len} bytes, of at most {max}")]
    TooLarge {
        /// What.
        what: &'static str,
        /// Its size.
        len: usize,
        /// The bound.
        max: usize,
    },
    /// There are as many as there may be.
    #[error("there are {max} {what} already: remove one first")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// The bound.
        max: i64,
    },
    /// Nobody knows this webhook.
    #[error("no webhook {0} in the records")]
    NoSuchWebhook(String),
    /// An export cannot be written.
    #[error("cannot export the records: {0}")]
    Export(String),
    /// Only a store in a file is copied by us.
    #[error(
        "records in PostgreSQL are backed up by its own tools: run pg_dump --format=custom, which is consistent while \
         validators run, or archive its write-ahead log"
    )]
    NotForPostgres,
    /// The system gave no random bytes.
    #[error("the system gave no random bytes: {0}")]
    Random(getrandom::Error),
}

/// Errors of statements carry what was tried from `doing` on.
impl From<sqlx::Error> for RecordsError {
    fn from(source: sqlx::Error) -> Self {
        Self::Database { doing: "work", source }
    }
}

impl RecordsError {
    /// The same error, with what was tried.
    pub(crate) fn doing(self, what: &'static str) -> Self {
        match self {
            Self::Database { source, .. } => Self::Database { doing: what, source },
            Self::Slow { limit_s, .. } => Self::Slow { doing: what, limit_s },
            other => other,
        }
    }

    /// Whether the store could not do it now, so that trying again later can help.
    #[must_use]
    pub fn is_trouble(&self) -> bool {
        match self {
            Self::Slow { .. } => true,
            Self::Database { source, .. } => match source {
                sqlx::Error::Database(error) => {
                    matches!(error.kind(), sqlx::error::ErrorKind::Other)
                }
                sqlx::Error::Io(_)
                | sqlx::Error::Tls(_)
                | sqlx::Error::Protocol(_)
                | sqlx::Error::PoolTimedOut
                | sqlx::Error::PoolClosed
                | sqlx::Error::WorkerCrashed => true,
                _ => false,
            },
            _ => false,
        }
    }
}
