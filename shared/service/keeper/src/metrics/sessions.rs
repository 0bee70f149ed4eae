//! Metrics of sessions.

use assay_observe::metrics::show;

use super::Families;
use crate::takeover::EnterError;

/// A miner that proved its key is entered, as a label.
const ENTERED: &str = "entered";
/// Why it is not.
const REFUSALS: [&str; 8] =
    ["full", "address_full", "too_often", "in_challenge", "not_allowed", "waiting", "too_many_waiting", "no_records"];

impl Families {
    pub(super) fn show_sessions(&self) {
        show(&self.sessions_total, REFUSALS.into_iter().chain([ENTERED]).map(|outcome| [outcome]));
    }

    /// A miner that proved its key is entered.
    pub fn entered(&self) {
        self.sessions_total.with_label_values(&[ENTERED]).inc();
    }

    /// Counts a miner that proved its key and is not entered.
    pub fn refused(&self, error: &EnterError) {
        self.sessions_total.with_label_values(&[cause(error)]).inc();
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
