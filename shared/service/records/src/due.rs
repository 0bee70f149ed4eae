//! When a miner is challenged next.

use sqlx::any::AnyRow;

use crate::Due;
use crate::RecordsError;
use crate::column::get;

/// From a row of `miners`.
pub(crate) fn due_of(row: &AnyRow) -> Result<Option<Due>, RecordsError> {
    let (at_ms, kind): (Option<i64>, Option<String>) = (get(row, "due_ms")?, get(row, "due_kind")?);
    Ok(at_ms.map(|at_ms| Due { at_ms, kind: kind.unwrap_or_default() }))
}
