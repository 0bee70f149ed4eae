//! What operators ask of the records and of a running validator: a library that knows nothing of HTTP.
//!
//! Answers are documents of the crate `api`: the HTTP API and the commands' `--json` carry the same ones. Who asks comes
//! with every change, and is noted with it.

mod change;
mod find;
mod keep;
mod labels;
pub mod read;
pub mod rounds;
pub mod running;
pub mod series;
pub mod tokens;
pub mod webhooks;
mod why;

use assay_api::ProblemCode;
use assay_records::RecordsError;

pub use self::change::{Enroll, Label, SetStatus, StatusAction};
pub use self::keep::{Backup, Export};
pub use self::labels::{LabelError, parse_label, parse_name};

/// The most documents that a command lists.
pub const MAX_DOCUMENTS: u32 = 10_000;
/// Documents of a page where no other number is asked for.
pub const DEFAULT_DOCUMENTS: u32 = 100;
/// The longest time that a join token can be used: a year.
pub const MAX_TOKEN_S: u64 = 366 * 86_400;

/// Why an operation was not done.
#[derive(Debug, thiserror::Error)]
pub enum OperationError {
    /// Nothing has the id, or the beginning of one.
    #[error("{0}")]
    NotFound(String),
    /// The request cannot be meant so: something is out of bounds, or an id is of several things.
    #[error("{0}")]
    Invalid(String),
    /// It cannot be done as things are.
    #[error("{0}")]
    NotPossible(String),
    /// It is refused for this reason, in these words.
    #[error("{1}")]
    Refused(ProblemCode, String),
    /// The records cannot be read or written.
    #[error(transparent)]
    Records(RecordsError),
}

impl From<RecordsError> for OperationError {
    fn from(error: RecordsError) -> Self {
        match error {
            RecordsError::NoSuchMiner(_) | RecordsError::NoSuchWebhook(_) => Self::NotFound(error.to_string()),
            RecordsError::TooMany { .. } | RecordsError::TooLarge { .. } => Self::NotPossible(error.to_string()),
            error => Self::Records(error),
        }
    }
}
