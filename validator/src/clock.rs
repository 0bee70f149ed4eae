//! The time of day, for what people and files are told. Nothing is decided by it.

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970, as the records have times; 0 when the clock is set before that.
#[must_use]
pub fn unix_millis() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Seconds since 1970; 0 when the clock is set before that.
#[must_use]
pub fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

/// Milliseconds since 1970; 0 when the clock is set before that.
#[must_use]
pub fn unix_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX))
}
