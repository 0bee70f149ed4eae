//! The attestation state of a miner: [`next`] is its whole table, [`step`] counts events and looks them up.
//!
//! Only [`State::Passing`] and [`State::Suspect`] are attested. Three rules hold for any behaviour of a miner; the
//! tests below check them against random sequences:
//!
//! - An attestation ends when its last pass is too old. Only a pass renews it.
//! - Inconclusive results are counted by cause, and passes between them do not reset the counts.
//! - After a fail a miner owes a stated number of passes in a row. Time, silence and operators do not pay them.

mod standing;
mod table;

use assay_protocol::verdict::{Outcome, ReasonCode};
use serde::{Deserialize, Serialize};

pub use self::standing::{Debt, MAX_FAILS, QuarantineEnd, Standing, Totals};
pub use self::table::{Input, State, next};
use crate::finding::FindingCode;
use crate::rules::Rules;

/// An event of a miner, or the passing of time.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A challenge ended.
    Verdict {
        outcome: Outcome,
        codes: Vec<ReasonCode>,
        /// Whether the challenge was heavy.
        heavy: bool,
        /// Seconds since it was judged: a pass counts from there.
        age_s: u64,
        /// The least time between results that count as busy: a due challenge is asked for again each minute.
        busy_every_s: u64,
    },
    /// A challenge was due while the miner was not connected.
    Missed,
    Tick,
    /// An operator's decision.
    Operator(Word),
    /// A finding about the miner outside a verdict.
    Finding {
        code: FindingCode,
        /// Whether the policy enforces it and it proves a lie of this miner.
        fails: bool,
    },
}

/// An operator's decision about a miner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    /// No challenges and no attestation until it is resumed.
    Suspend,
    /// No challenges and no attestation until it is reinstated.
    Revoke,
    /// A suspended or revoked miner takes part again. It keeps its debt, with at least the first passes.
    Resume,
    /// Quarantine until it is released.
    Quarantine,
    /// End of its quarantine. Owed passes stay owed.
    Release,
}

assay_work::names! {
    /// Reason of a change of state.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum StateReason {
        /// The owed passes are complete.
        Passed = "passed",
        /// Too many results of one cause, or of all together.
        Inconclusive = "inconclusive",
        /// The last pass is too old.
        Outdated = "outdated",
        Failed = "failed",
        /// A finding proves a lie.
        Finding = "finding",
        /// The miner failed too often.
        FailedOften = "failed_often",
        QuarantineOver = "quarantine_over",
        Operator = "operator",
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    pub from: State,
    pub to: State,
    pub why: StateReason,
    /// Details, with figures.
    pub detail: String,
}

/// Returns the standing after an event, and the change of state where there is one.
///
/// Changes by time alone are applied before the event, and checked again after it: an event replaces a tick.
pub fn step(standing: &Standing, event: &Event, rules: &Rules, now_s: u64) -> (Standing, Option<Change>) {
    let mut after = standing.clone();
    after.turn_back(now_s);
    let before = after.age(rules, now_s);
    let applied = after.apply(event, rules, now_s);
    let last = after.age(rules, now_s).or(applied).or(before);
    let Some((why, detail)) = last else { return (after, None) };
    after.since_s = now_s;
    let change = Change { from: standing.state, to: after.state, why, detail };
    (after, Some(change).filter(|change| change.from != change.to))
}

#[cfg(test)]
mod tests;
