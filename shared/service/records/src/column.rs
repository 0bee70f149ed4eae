//! Columns of rows.

use std::time::Duration;

use sqlx::any::AnyRow;
use sqlx::{Any, Decode, Row, Type};

use crate::Result;

pub(crate) fn get<'r, T>(row: &'r AnyRow, column: &str) -> Result<T>
where
    T: Decode<'r, Any> + Type<Any>,
{
    Ok(row.try_get(column)?)
}

/// Reads a record from a row: the fields before the semicolon from the columns of their names.
macro_rules! read {
    ($row:expr => $record:ident { $($column:ident),+ $(; $($other:tt)*)? }) => {
        $record { $($column: $crate::column::get($row, stringify!($column))?,)+ $($($other)*)? }
    };
}
pub(crate) use read;

/// A time to live in milliseconds.
pub(crate) fn ttl_ms(ttl: Duration) -> i64 {
    i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX / 4).min(i64::MAX / 4)
}
