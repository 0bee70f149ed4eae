//! When a miner is challenged next.

use serde::{Deserialize, Serialize};
use sqlx::any::AnyRow;

use crate::RecordsError;
use crate::column::get;

/// The next challenge of a miner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Due {
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    /// The kind of challenge.
    pub kind: String,
}

impl Due {
    /// From a row of `miners`.
    pub(crate) fn of(row: &AnyRow) -> Result<Option<Self>, RecordsError> {
        let (at_ms, kind): (Option<i64>, Option<String>) = (get(row, "due_ms")?, get(row, "due_kind")?);
        Ok(at_ms.map(|at_ms| Self { at_ms, kind: kind.unwrap_or_default() }))
    }
}
