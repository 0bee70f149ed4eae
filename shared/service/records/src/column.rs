//! Columns of rows that were read.

use sqlx::any::AnyRow;
use sqlx::{Any, Decode, Row, Type};

use crate::RecordsError;

pub(crate) fn get<'r, T>(row: &'r AnyRow, column: &str) -> Result<T, RecordsError>
where
    T: Decode<'r, Any> + Type<Any>,
{
    Ok(row.try_get(column)?)
}
