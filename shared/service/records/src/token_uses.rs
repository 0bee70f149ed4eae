//! When uses of tokens of the API were noted last, so that each is noted at most once a minute.

use parking_lot::Mutex;
use std::collections::HashMap;

/// How long until a use is noted again.
const NOTE_INTERVAL_MS: i64 = 60_000;

/// When uses of tokens were noted last, by their ids.
#[derive(Debug, Default)]
pub(crate) struct TokenUses(Mutex<HashMap<String, i64>>);

impl TokenUses {
    /// Whether a use is to be noted now: of many that come at once, one.
    pub(crate) fn is_due(&self, token: &str, last_used_ms: Option<i64>, now_ms: i64) -> bool {
        let mut uses = self.0.lock();
        uses.retain(|_, at_ms| now_ms - *at_ms < NOTE_INTERVAL_MS);
        let is_due = last_used_ms.is_none_or(|at_ms| now_ms - at_ms >= NOTE_INTERVAL_MS);
        is_due && uses.insert(token.to_owned(), now_ms).is_none()
    }
}
