//! Whether the store can be written now: an operation that fails or hangs is trouble until one succeeds.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

/// How long an operation may take before the store counts as not writable: a disk that hangs gives no error.
pub(crate) const SLOW_LIMIT: Duration = Duration::from_secs(5);

/// What keeps the store from being written.
#[derive(Debug)]
pub(crate) struct Trouble {
    causes: Mutex<Causes>,
    told: watch::Sender<Option<String>>,
}

#[derive(Debug, Default)]
struct Causes {
    /// The last attempt failed: what the database said.
    error: Option<String>,
    /// Operations that wait for longer than [`SLOW_LIMIT`].
    slow: usize,
}

impl Causes {
    fn sentence(&self) -> Option<String> {
        match self {
            Self { error: Some(error), .. } => Some(error.clone()),
            Self { slow: 0, .. } => None,
            Self { slow, .. } => Some(format!("{slow} operations have waited for longer than {SLOW_LIMIT:?}")),
        }
    }
}

impl Trouble {
    pub(crate) fn new() -> Self {
        Self { causes: Mutex::default(), told: watch::Sender::new(None) }
    }

    pub(crate) fn now(&self) -> Option<String> {
        self.told.borrow().clone()
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Option<String>> {
        self.told.subscribe()
    }

    /// Notes how the last attempt ended.
    pub(crate) fn note(&self, error: Option<String>) {
        self.change(|causes| causes.error = error);
    }

    /// Notes an operation that waits for long, for as long as what is returned lives.
    pub(crate) fn slow(&self) -> impl Drop + use<'_> {
        self.change(|causes| causes.slow += 1);
        Slow(self)
    }

    fn change(&self, change: impl FnOnce(&mut Causes)) {
        let mut causes = self.causes.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut causes);
        let now = causes.sentence();
        // Under the lock, so that the last change is what is told last.
        self.told.send_if_modified(|told| {
            let is_other = *told != now;
            *told = now;
            is_other
        });
    }
}

struct Slow<'a>(&'a Trouble);

impl Drop for Slow<'_> {
    fn drop(&mut self) {
        self.0.change(|causes| causes.slow -= 1);
    }
}
