//! Metrics of sessions.

use assay_observe::metrics::show;
use assay_observe::prometheus::IntCounterVec;

use super::Families;
use crate::takeover::EnterError;

/// Counters of sessions. A clone counts in the same place.
#[derive(Clone)]
pub struct SessionCounts(IntCounterVec);

/// A miner that proved its key is entered, as a label.
const ENTERED: &str = "entered";
/// Why it is not.
const REFUSALS: [&str; 8] =
    ["full", "address_full", "too_often", "in_challenge", "not_allowed", "waiting", "too_many_waiting", "no_records"];

impl SessionCounts {
    pub(super) fn of(families: &Families) -> Self {
        show(&families.sessions_total, REFUSALS.into_iter().chain([ENTERED]).map(|outcome| [outcome]));
        Self(families.sessions_total.clone())
    }

    /// A miner that proved its key is entered.
    pub fn entered(&self) {
        self.0.with_label_values(&[ENTERED]).inc();
    }

    /// Counts a miner that proved its key and is not entered.
    pub fn refused(&self, error: &EnterError) {
        self.0.with_label_values(&[cause(error)]).inc();
    }
}

const fn cause(error: &EnterError) -> &'static str {
    match error {
        EnterError::Full => REFUSALS[0],
        EnterError::AddressFull(_) => REFUSALS[1],
        EnterError::TooOften(_) => REFUSALS[2],
        EnterError::InChallenge(_) => REFUSALS[3],
        EnterError::NotAllowed(_) => REFUSALS[4],
        EnterError::Waiting(_) => REFUSALS[5],
        EnterError::TooManyWaiting => REFUSALS[6],
        EnterError::NoRecords => REFUSALS[7],
    }
}
