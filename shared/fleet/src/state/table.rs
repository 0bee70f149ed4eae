//! The states of a miner and their table: which follows which.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What is attested of a miner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Nothing yet: it owes its first passes.
    #[default]
    Enrolled,
    /// Attested.
    Passing,
    /// Attested still, while results that show nothing add up.
    Suspect,
    /// It failed, and owes passes.
    Failed,
    /// Its attestation ended without a fail, and it owes passes.
    Expired,
    /// It failed repeatedly, or an operator set it apart: passes do not count until the quarantine is over.
    Quarantined,
    /// An operator suspended it.
    Suspended,
    /// An operator revoked it.
    Revoked,
}

impl State {
    /// Every state.
    pub const ALL: [Self; 8] = [
        Self::Enrolled,
        Self::Passing,
        Self::Suspect,
        Self::Failed,
        Self::Expired,
        Self::Quarantined,
        Self::Suspended,
        Self::Revoked,
    ];

    /// The stable name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Enrolled => "enrolled",
            Self::Passing => "passing",
            Self::Suspect => "suspect",
            Self::Failed => "failed",
            Self::Expired => "expired",
            Self::Quarantined => "quarantined",
            Self::Suspended => "suspended",
            Self::Revoked => "revoked",
        }
    }

    /// The state of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }

    /// Whether the miner is attested in this state.
    #[must_use]
    pub const fn is_attested(self) -> bool {
        matches!(self, Self::Passing | Self::Suspect)
    }

    /// Whether the miner is challenged in this state.
    #[must_use]
    pub const fn is_challenged(self) -> bool {
        !matches!(self, Self::Suspended | Self::Revoked)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What an event comes to once it is counted: a column of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// A pass, while more are owed.
    Passed,
    /// A pass, and nothing more is owed.
    Cleared,
    /// The same, while results that show nothing are too many.
    ClearedInDoubt,
    /// A result that shows nothing, within the limits.
    Unclear,
    /// One cause, or all together, reached the limit of suspicion.
    Doubted,
    /// One cause, or all together, reached the limit at which an attestation ends.
    Exhausted,
    /// The last pass is too old.
    Outdated,
    /// A fail.
    Failed,
    /// So many fails that a quarantine begins, or an operator's word.
    Barred,
    /// The quarantine is over.
    Served,
    /// An operator suspends.
    Suspended,
    /// An operator revokes.
    Revoked,
    /// An operator resumes or reinstates a miner that owes nothing for a fail.
    ResumedClean,
    /// One that does.
    ResumedOwing,
    /// One whose quarantine is not over.
    ResumedBarred,
}

impl Input {
    /// Every input, in the order of the table's columns.
    pub const ALL: [Self; 15] = [
        Self::Passed,
        Self::Cleared,
        Self::ClearedInDoubt,
        Self::Unclear,
        Self::Doubted,
        Self::Exhausted,
        Self::Outdated,
        Self::Failed,
        Self::Barred,
        Self::Served,
        Self::Suspended,
        Self::Revoked,
        Self::ResumedClean,
        Self::ResumedOwing,
        Self::ResumedBarred,
    ];
}

/// The table: the state that follows.
#[must_use]
#[rustfmt::skip]
pub const fn next(state: State, input: Input) -> State {
    use Input as I;
    use State::{Enrolled, Expired, Failed, Passing, Quarantined, Revoked, Suspect, Suspended};
    match (state, input) {
        // An operator's word stands above all else, a revocation above a suspension.
        (Suspended | Revoked, I::ResumedClean) => Enrolled,
        (Suspended | Revoked, I::ResumedOwing) => Failed,
        (Suspended | Revoked, I::ResumedBarred) => Quarantined,
        (_, I::Revoked) | (Revoked, _) => Revoked,
        (_, I::Suspended) | (Suspended, _) => Suspended,

        (_, I::Barred) => Quarantined,
        (Quarantined, I::Served) => Failed,
        (Quarantined, _) => Quarantined,

        (_, I::Failed) => Failed,
        (_, I::Cleared) => Passing,
        (_, I::ClearedInDoubt) => Suspect,

        (Enrolled | Passing | Suspect, I::Exhausted) => Expired,
        (Passing | Suspect, I::Outdated) => Expired,
        (Passing, I::Doubted) => Suspect,

        // What is left changes nothing.
        (Enrolled, _) => Enrolled,
        (Passing, _) => Passing,
        (Suspect, _) => Suspect,
        (Failed, _) => Failed,
        (Expired, _) => Expired,
    }
}
