//! Operations on the records and on a running validator: a library independent of HTTP.
//!
//! Answers are documents of the crate `api`: the HTTP API and the commands' `--json` share them. Every change has its
//! caller as an argument, and records it.

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

pub use self::change::{decide, enroll, label};
pub use self::keep::{backup, export};

/// Default number of documents on a page.
pub const DEFAULT_DOCUMENTS: u32 = 100;
/// The longest validity of a join token: a year.
pub const MAX_TOKEN_S: u64 = 366 * 86_400;

/// The result of an operation.
pub type Result<T, E = OperationError> = std::result::Result<T, E>;

/// Reasons why an operation was not done.
#[derive(Debug, thiserror::Error)]
pub enum OperationError {
    /// No item has the id, or begins with the digits.
    #[error("{0}")]
    NotFound(String),
    /// The request is invalid: a value is out of bounds, or an id is ambiguous.
    #[error("{0}")]
    Invalid(String),
    /// The current state does not allow it.
    #[error("{0}")]
    NotPossible(String),
    /// Refused with this code, and these words.
    #[error("{1}")]
    Refused(ProblemCode, String),
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
