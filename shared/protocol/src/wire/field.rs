//! Single fields, read and written: what the conversions of all messages share.

use std::time::Duration;

use assay_work::text::is_printable;
pub use assay_work::text::printable;

use super::error::{Problem, WireError};

/// A message that has to be there.
///
/// # Errors
/// [`Problem::Missing`].
pub fn required<T>(field: &'static str, value: Option<T>) -> Result<T, WireError> {
    value.ok_or(WireError::new(field, Problem::Missing))
}

/// A byte string of fixed length.
///
/// # Errors
/// [`Problem::Length`].
pub fn fixed<const N: usize, T: From<[u8; N]>>(field: &'static str, bytes: &[u8]) -> Result<T, WireError> {
    let problem = Problem::Length { expected: N, found: bytes.len() };
    <[u8; N]>::try_from(bytes).map(T::from).map_err(|_| WireError::new(field, problem))
}

/// Byte strings of fixed length, one after the other, at most `max` of them.
///
/// # Errors
/// [`Problem::CutOff`], [`Problem::TooMany`].
pub fn sequence<const N: usize, T: From<[u8; N]>>(
    field: &'static str,
    bytes: &[u8],
    max: usize,
) -> Result<Vec<T>, WireError> {
    let (values, rest) = bytes.as_chunks::<N>();
    if !rest.is_empty() {
        return Err(WireError::new(field, Problem::CutOff { unit: N, found: bytes.len() }));
    }
    at_most(field, max, values.len())?;
    Ok(values.iter().map(|value| T::from(*value)).collect())
}

/// Byte strings, one after the other.
#[must_use]
pub fn concat<T: AsRef<[u8]>>(values: &[T]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(values.iter().map(|v| v.as_ref().len()).sum());
    for value in values {
        bytes.extend_from_slice(value.as_ref());
    }
    bytes
}

/// Checks how many entries a list has.
///
/// # Errors
/// [`Problem::TooMany`].
pub const fn at_most(field: &'static str, max: usize, found: usize) -> Result<(), WireError> {
    if found > max { Err(WireError::new(field, Problem::TooMany { max, found })) } else { Ok(()) }
}

/// Checks that a number is in its range.
///
/// # Errors
/// [`Problem::OutOfRange`].
pub const fn in_range(field: &'static str, min: u64, max: u64, found: u64) -> Result<(), WireError> {
    if min <= found && found <= max {
        Ok(())
    } else {
        Err(WireError::new(field, Problem::OutOfRange { min, max, found }))
    }
}

/// Checks that ids come in strictly ascending order.
///
/// # Errors
/// [`Problem::NotAscending`], with the place of the first that does not.
pub fn ascending<T: Ord>(field: &'static str, ids: impl IntoIterator<Item = T>) -> Result<(), WireError> {
    let mut before: Option<T> = None;
    for (i, id) in ids.into_iter().enumerate() {
        if before.is_some_and(|before| before >= id) {
            return Err(WireError::new(field, Problem::NotAscending(i)));
        }
        before = Some(id);
    }
    Ok(())
}

/// A list whose entries are messages, at most `max` of them.
///
/// # Errors
/// [`Problem::TooMany`], or the error of the first entry that has one.
pub fn list<T, U: TryFrom<T, Error = WireError>>(
    field: &'static str,
    max: usize,
    values: Vec<T>,
) -> Result<Vec<U>, WireError> {
    at_most(field, max, values.len())?;
    values.into_iter().map(U::try_from).collect()
}

/// A text of at most `max` bytes that can be printed as it is.
///
/// # Errors
/// [`Problem::TooLong`], [`Problem::ControlCharacter`].
pub fn text(field: &'static str, max: usize, text: String) -> Result<String, WireError> {
    if text.len() > max {
        return Err(WireError::new(field, Problem::TooLong { max, found: text.len() }));
    }
    if !is_printable(&text) {
        return Err(WireError::new(field, Problem::ControlCharacter));
    }
    Ok(text)
}

/// A number that is neither infinite nor undefined.
///
/// # Errors
/// [`Problem::NotFinite`].
pub const fn finite(field: &'static str, number: f64) -> Result<f64, WireError> {
    if number.is_finite() { Ok(number) } else { Err(WireError::new(field, Problem::NotFinite)) }
}

/// The nearest finite number; 0 for one that is undefined. The logarithm of a probability of 0 needs it.
#[must_use]
pub const fn nearest_finite(number: f64) -> f64 {
    if number.is_nan() { 0.0 } else { number.clamp(f64::MIN, f64::MAX) }
}

/// A duration in milliseconds, `min_ms` to `max_ms`.
///
/// # Errors
/// [`Problem::OutOfRange`].
pub fn duration(field: &'static str, min_ms: u64, max_ms: u64, ms: u64) -> Result<Duration, WireError> {
    in_range(field, min_ms, max_ms, ms)?;
    Ok(Duration::from_millis(ms))
}

/// The whole milliseconds of a duration, brought into the range.
#[must_use]
pub fn milliseconds(duration: Duration, min_ms: u64, max_ms: u64) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX).clamp(min_ms, max_ms)
}

/// As [`milliseconds`], for a field of 32 bits.
#[must_use]
pub fn milliseconds_u32(duration: Duration, min_ms: u64, max_ms: u64) -> u32 {
    u32::try_from(milliseconds(duration, min_ms, max_ms)).unwrap_or(u32::MAX)
}
