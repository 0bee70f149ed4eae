//! How long writing takes, for operators.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Writes since the store was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Writes {
    /// How many ended, one way or the other.
    pub count: u64,
    /// How many of them the store was at fault for.
    pub errors: u64,
    /// How long all of them took.
    pub took: Duration,
}

/// Counts writes and their errors.
#[derive(Debug, Default)]
pub(crate) struct WriteCounter {
    count: AtomicU64,
    errors: AtomicU64,
    nanoseconds: AtomicU64,
}

impl WriteCounter {
    pub(crate) fn note(&self, took: Duration, is_error: bool) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.errors.fetch_add(is_error.into(), Ordering::Relaxed);
        // Some hundred years fit.
        self.nanoseconds.fetch_add(took.as_nanos() as u64, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> Writes {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let took = Duration::from_nanos(get(&self.nanoseconds));
        Writes { count: get(&self.count), errors: get(&self.errors), took }
    }
}
