//! Errors of the records.

use std::io;
use std::path::PathBuf;

use crate::Location;
use crate::readers::STATEMENT_LIMIT;
use crate::trouble::{is_damage, without_paths};

/// The databases' codes for a statement that ended at its limit of time: SQLITE_INTERRUPT, query_canceled.
const STATEMENT_IS_OVER: [&str; 2] = ["9", "57014"];

/// How PostgreSQL's codes for a value that it does not take begin: class 22, data_exception.
const WRONG_VALUE: &str = "22";

/// The result of a read or a write.
pub type Result<T, E = RecordsError> = std::result::Result<T, E>;

/// Why records cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RecordsError {
    /// The store cannot be opened.
    #[error("cannot open the records {location}: {source}")]
    Open {
        location: Location,
        /// The database's error.
        source: sqlx::Error,
    },
    /// The folder or the file cannot be made.
    #[error("cannot use the file {path}: {source}")]
    File {
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file is there, and is not a store of ours.
    #[error("{path} has no records of assay ({what}): move it away, or restore a backup")]
    Foreign {
        path: PathBuf,
        /// The actual kind of file.
        what: String,
    },
    /// The file cannot be read as it was written.
    #[error(
        "the records {path} are damaged, or their disk cannot be read ({what}): mend the disk, or restore a backup"
    )]
    Damaged {
        path: PathBuf,
        /// The database's error.
        what: String,
    },
    /// Others can change the file.
    #[error("the records {path} can be changed by others (mode {mode:03o}): chmod 600 them")]
    Exposed {
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// A newer release has migrated the store.
    #[error(
        "the records {location} are of a newer release (schema {theirs}; this program knows up to {ours}): run that \
         release, or restore a backup from before the upgrade"
    )]
    Newer {
        location: Location,
        /// The version of its schema.
        theirs: i64,
        /// The newest schema of this program.
        ours: i64,
    },
    /// Programs of an older release use the store, and could not after the migration.
    #[error(
        "an older release uses the records {location} (at {users}) and cannot after their migration to schema {ours}: \
         stop it, wait 10 s, and start this one again"
    )]
    InUse {
        location: Location,
        /// The addresses of validators and replay workers.
        users: String,
        /// The newest schema of this program.
        ours: i64,
    },
    /// A migration failed, or was changed after it was applied.
    #[error("cannot migrate the records {location}: {source}")]
    Migrate {
        location: Location,
        /// The migration's error.
        source: sqlx::migrate::MigrateError,
    },
    /// A statement failed. Its text goes to clients: the source alone has paths.
    #[error("cannot {doing} in the records: {}", without_paths(.source))]
    Database {
        /// The operation.
        doing: &'static str,
        /// The database's error.
        source: sqlx::Error,
    },
    /// No answer came in time.
    #[error("cannot {doing} in the records: no answer within {limit_s} s")]
    Slow {
        /// The operation.
        doing: &'static str,
        /// How long it was waited for.
        limit_s: u64,
    },
    /// The challenge has another verdict already: another validator concluded it.
    #[error("the challenge {challenge} has another verdict in the records already")]
    ConcludedBefore {
        /// Its id.
        challenge: String,
    },
    /// The basis of the miner's attestation has changed meanwhile: its next state follows from the new one.
    #[error("the attestation state of miner {0} changed meanwhile")]
    StandingChanged(String),
    /// The miner is unknown.
    #[error("no miner {0} in the records")]
    NoSuchMiner(String),
    /// A document of the store does not have the form that this program writes.
    #[error("a document in the records is malformed ({what}): {source}")]
    Malformed {
        /// The kind of document.
        what: &'static str,
        /// The parser's error.
        source: serde_json::Error,
    },
    /// A value is larger than its bound.
    #[error("{what} has {len} bytes, of at most {max}")]
    TooLarge {
        /// The kind of document.
        what: &'static str,
        len: usize,
        max: usize,
    },
    /// There are as many as there may be.
    #[error("there are {max} {what} already: remove one first")]
    TooMany {
        /// The counted objects.
        what: &'static str,
        max: i64,
    },
    /// The webhook is unknown.
    #[error("no webhook {0} in the records")]
    NoSuchWebhook(String),
    /// An export cannot be written.
    #[error("cannot export the records: {0}")]
    Export(String),
    /// A store is copied into an empty database alone.
    #[error("{location} is not empty, since it has {what}: name an empty database")]
    NotEmpty {
        location: Location,
        /// One of its tables, or another relation.
        what: String,
    },
    /// A store cannot be copied into a database.
    #[error("cannot copy the records into {location}, which stays empty: {source}")]
    Copy {
        location: Location,
        /// The database's error.
        source: sqlx::Error,
    },
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

/// Errors of statements carry the operation from `doing` on.
impl From<sqlx::Error> for RecordsError {
    fn from(source: sqlx::Error) -> Self {
        let is_over = |code: &str| STATEMENT_IS_OVER.contains(&code);
        if source.as_database_error().and_then(|error| error.code()).is_some_and(|code| is_over(&code)) {
            return Self::Slow { doing: "work", limit_s: STATEMENT_LIMIT.as_secs() };
        }
        Self::Database { doing: "work", source }
    }
}

impl RecordsError {
    /// The same error, with the operation.
    pub(crate) fn doing(self, what: &'static str) -> Self {
        match self {
            Self::Database { source, .. } => Self::Database { doing: what, source },
            Self::Slow { limit_s, .. } => Self::Slow { doing: what, limit_s },
            other => other,
        }
    }

    /// Whether the database found its own files damaged: to try again does not help.
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Database { source, .. } if is_damage(source))
    }

    /// Whether the store could not do it now, so that trying again later can help.
    pub fn is_trouble(&self) -> bool {
        match self {
            Self::Slow { .. } => true,
            Self::Database { source, .. } => match source {
                sqlx::Error::Database(error) => {
                    let is_value = error.code().is_some_and(|code| code.len() == 5 && code.starts_with(WRONG_VALUE));
                    matches!(error.kind(), sqlx::error::ErrorKind::Other) && !is_value
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
