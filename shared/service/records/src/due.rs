//! When a miner is challenged next.

use sqlx::any::AnyRow;

use crate::NextChallenge;
use crate::Result;
use crate::column::get;

/// From a row of `miners`.
pub(crate) fn due_of(row: &AnyRow) -> Result<Option<NextChallenge>> {
    let (at_ms, kind): (Option<i64>, Option<String>) = (get(row, "due_ms")?, get(row, "due_kind")?);
    Ok(at_ms.map(|at_ms| NextChallenge { at_ms, kind: kind.unwrap_or_default() }))
}
