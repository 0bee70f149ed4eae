//! The attestation state of a miner: [`next`] is its whole table, [`step`] counts what happens and looks it up.
//!
//! Only [`State::Passing`] and [`State::Suspect`] are attested. Three rules hold whatever a miner does; the tests below
//! try them against random sequences:
//!
//! - An attestation ends when its last pass is too old. Nothing but a pass makes that younger.
//! - Results that show nothing are counted by cause, and passes between them do not reset the counts.
//! - After a fail a miner owes a stated number of passes in a row. Time, silence and operators do not pay them.

mod standing;
mod table;

use assay_protocol::verdict::{Outcome, ReasonCode};
use serde::{Deserialize, Serialize};

pub use self::standing::{Debt, MAX_FAILS, Standing, Totals, Until};
pub use self::table::{Input, State, next};
use crate::finding::FindingCode;
use crate::rules::Rules;

/// Something that happened to a miner, or that time passed.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A challenge ended.
    Verdict {
        /// In this.
        outcome: Outcome,
        /// For these reasons.
        codes: Vec<ReasonCode>,
        /// Whether it was a heavy challenge.
        heavy: bool,
    },
    /// A challenge was due, and the miner was not there.
    Missed,
    /// Time passed.
    Tick,
    /// An operator said so.
    Operator(Word),
    /// Something was found about the miner outside a verdict.
    Finding {
        /// This.
        code: FindingCode,
        /// Whether the policy enforces it, and it proves a lie of this miner.
        fails: bool,
    },
}

/// What an operator says of a miner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    /// No challenges, no attestation, until it is resumed.
    Suspend,
    /// Never again, until it is reinstated.
    Revoke,
    /// A suspended or revoked miner takes part again. It owes what it owed, and at least the first passes.
    Resume,
    /// Set it apart until it is released.
    Quarantine,
    /// Its quarantine is over. The passes that it owes stay owed.
    Release,
}

/// Why a state changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// The passes that it owed are there.
    Passed,
    /// Results of one cause, or of all together, are too many.
    Inconclusive,
    /// Its last pass is too old.
    Outdated,
    /// It failed a challenge.
    Failed,
    /// What was found about it proves a lie.
    Finding,
    /// It failed too often.
    FailedOften,
    /// Its quarantine is over.
    QuarantineOver,
    /// An operator said so.
    Operator,
}

impl Why {
    /// The stable name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Inconclusive => "inconclusive",
            Self::Outdated => "outdated",
            Self::Failed => "failed",
            Self::Finding => "finding",
            Self::FailedOften => "failed_often",
            Self::QuarantineOver => "quarantine_over",
            Self::Operator => "operator",
        }
    }
}

/// A change of state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Before.
    pub from: State,
    /// After.
    pub to: State,
    /// Why.
    pub why: Why,
    /// The circumstances, with figures.
    pub detail: String,
}

/// The standing after an event, and the change of state where there is one.
///
/// What time alone ends has ended before the event, and is looked at after it too: nothing can come instead of a tick.
#[must_use]
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
