//! What operators ask of the records and of a running validator: a library that knows neither gRPC nor HTTP.
//!
//! A request is a serde type, an answer a JSON document: the control socket and the commands' `--json` carry the same
//! ones. Who asks comes with every change, and is noted with it.

mod ask;
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

pub use self::ask::{DevicesQuery, HistoryQuery, MinersQuery, Query, ShowQuery, TokensQuery, VerdictsQuery};
pub use self::change::{Change, Enroll, Label, SetStatus, StatusAction};
pub use self::keep::{Backup, Export};
pub use self::labels::{LabelError, parse_label, parse_name};
pub use self::rounds::BeginRound;

/// The most documents of an answer.
pub const MAX_DOCUMENTS: u32 = 10_000;
/// The most documents of an answer where nothing else is asked for.
pub const DEFAULT_DOCUMENTS: u32 = 100;
/// The longest time that a join token can be used: a year.
pub const MAX_TOKEN_S: u64 = 366 * 86_400;

/// A document: what `--json` prints.
pub type Document = serde_json::Value;

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

/// A value of ours as a document.
fn document(value: &impl serde::Serialize) -> Result<Document, OperationError> {
    serde_json::to_value(value).map_err(|error| OperationError::NotPossible(format!("no JSON: {error}")))
}

/// How many documents are given, where so many are asked for; 0 asks for no number.
fn bounded(limit: u32) -> Result<u32, OperationError> {
    match limit {
        0 => Ok(DEFAULT_DOCUMENTS),
        limit if limit <= MAX_DOCUMENTS => Ok(limit),
        limit => Err(OperationError::Invalid(format!("limit: {limit} is more than {MAX_DOCUMENTS}"))),
    }
}
