//! Rows that one statement inserts, or changes by: a statement costs more than a row.

use std::borrow::Cow;
use std::iter;

use sqlx::any::{AnyArguments, AnyRow};
use sqlx::query::Query;
use sqlx::{Any, AnyConnection};

use crate::Result;

/// Rows of one statement. Both databases allow at least 32,766 parameters.
const MAX_ROWS_AT_ONCE: usize = 64;

/// The value of a column.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ColumnValue {
    Text(Option<String>),
    Integer(Option<i64>),
    Real(f64),
    Bytes(Option<Vec<u8>>),
}

/// Rows with `N` columns, and the statement that takes them.
#[derive(Debug)]
pub(crate) struct Rows<const N: usize> {
    before: Cow<'static, str>,
    after: &'static str,
    rows: Vec<[ColumnValue; N]>,
}

impl<const N: usize> Rows<N> {
    /// A statement that ends in `VALUES`, without its rows and the text behind them.
    pub(crate) fn new(before: impl Into<Cow<'static, str>>, after: &'static str) -> Self {
        Self { before: before.into(), after, rows: Vec::new() }
    }

    pub(crate) fn push(&mut self, row: [ColumnValue; N]) {
        self.rows.push(row);
    }

    /// Executes the statement; how many rows it inserted or changed.
    pub(crate) async fn execute(self, connection: &mut AnyConnection) -> Result<u64> {
        let mut affected = 0;
        for rows in parts(&self.rows) {
            affected += self.query(rows).execute(&mut *connection).await?.rows_affected();
        }
        Ok(affected)
    }

    /// Executes a statement that returns rows.
    pub(crate) async fn fetch(self, connection: &mut AnyConnection) -> Result<Vec<AnyRow>> {
        let mut fetched = Vec::new();
        for rows in parts(&self.rows) {
            fetched.extend(self.query(rows).fetch_all(&mut *connection).await?);
        }
        Ok(fetched)
    }

    fn query(&self, rows: &[[ColumnValue; N]]) -> Query<'static, Any, AnyArguments> {
        let query = sqlx::query(sql!("{}", self.statement(rows.len())));
        rows.iter().flatten().cloned().fold(query, |query, value| match value {
            ColumnValue::Text(text) => query.bind(text),
            ColumnValue::Integer(integer) => query.bind(integer),
            ColumnValue::Real(real) => query.bind(real),
            ColumnValue::Bytes(bytes) => query.bind(bytes),
        })
    }

    fn statement(&self, rows: usize) -> String {
        let mut sql = self.before.clone().into_owned();
        for row in 0..rows {
            sql.push_str(if row == 0 { " (" } else { ", (" });
            sql.push_str(&placeholders(row * N + 1, N));
            sql.push(')');
        }
        sql + self.after
    }
}

/// The placeholders of `count` parameters, from the number `first` on.
pub(crate) fn placeholders(first: usize, count: usize) -> String {
    (first..first + count).map(|number| format!("${number}")).collect::<Vec<_>>().join(", ")
}

/// In parts of few different lengths, since a connection keeps each statement that it prepared.
fn parts<T>(mut rows: &[T]) -> impl Iterator<Item = &[T]> {
    iter::from_fn(move || {
        let length = 1 << rows.len().min(MAX_ROWS_AT_ONCE).checked_ilog2()?;
        let (part, rest) = rows.split_at(length);
        rows = rest;
        Some(part)
    })
}

macro_rules! column_values {
    ($($kind:ty => $value:expr;)+) => { $(
        impl From<$kind> for ColumnValue {
            fn from(value: $kind) -> Self {
                $value(value)
            }
        }
    )+ };
}

column_values! {
    &str => |text: &str| Self::Text(Some(text.to_owned()));
    String => |text| Self::Text(Some(text));
    Option<String> => Self::Text;
    i64 => |integer| Self::Integer(Some(integer));
    Option<i64> => Self::Integer;
    f64 => Self::Real;
    Vec<u8> => |bytes| Self::Bytes(Some(bytes));
    Option<Vec<u8>> => Self::Bytes;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_split_into_few_lengths() {
        for count in 0..=200_usize {
            let rows: Vec<_> = (0..count).collect();
            let parts: Vec<_> = parts(&rows).collect();
            assert_eq!(parts.concat(), rows);
            let is_power = |part: &&[usize]| part.len().is_power_of_two() && part.len() <= MAX_ROWS_AT_ONCE;
            assert!(
                parts.iter().all(is_power),
                "{count}: {:?}",
                parts.iter().map(|part| part.len()).collect::<Vec<_>>()
            );
        }
    }

    #[test]
    fn a_statement_numbers_its_parameters() {
        let rows = Rows::<2>::new("INSERT INTO t (a, b) VALUES", " ON CONFLICT (a) DO NOTHING");
        assert_eq!(rows.statement(2), "INSERT INTO t (a, b) VALUES ($1, $2), ($3, $4) ON CONFLICT (a) DO NOTHING");
    }
}
