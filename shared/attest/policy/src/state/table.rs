//! The states of a miner, and the table of their transitions.

use serde::{Deserialize, Serialize};

assay_work::names! {
    /// Attestation state of a miner.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum State {
        /// New: it owes its first passes.
        #[default]
        Enrolled = "enrolled",
        Passing = "passing",
        /// Attested, with inconclusive results near the limit.
        Suspect = "suspect",
        /// Failed, with passes owed.
        Failed = "failed",
        /// Its attestation ended without a fail, and it owes passes.
        Expired = "expired",
        /// Failed repeatedly, or set apart by an operator: passes do not count until the quarantine is over.
        Quarantined = "quarantined",
        /// Suspended by an operator.
        Suspended = "suspended",
        /// Revoked by an operator.
        Revoked = "revoked",
    }
}

impl State {
    /// Its meaning, as pages and commands say it.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Enrolled => "Nothing is attested yet: it owes its first passes.",
            Self::Passing => "Attested.",
            Self::Suspect => "Attested still, while results that show nothing add up.",
            Self::Failed => "Not attested: it failed, and owes passes in a row.",
            Self::Expired => "Not attested any more: its last pass is too old, or too many results showed nothing.",
            Self::Quarantined => "Not attested: passes do not count until its quarantine is over.",
            Self::Suspended => "Not challenged: an operator suspended it.",
            Self::Revoked => "Not let in: an operator revoked it.",
        }
    }

    /// Every state, in order of concern: states without a pass first, states set by operators last.
    pub const BY_CONCERN: [Self; 8] = [
        Self::Quarantined,
        Self::Failed,
        Self::Expired,
        Self::Suspect,
        Self::Enrolled,
        Self::Passing,
        Self::Suspended,
        Self::Revoked,
    ];

    /// Whether a miner in this state is challenged but not passing.
    pub const fn is_concern(self) -> bool {
        self.is_challenged() && !matches!(self, Self::Passing)
    }

    pub const fn is_attested(self) -> bool {
        matches!(self, Self::Passing | Self::Suspect)
    }

    /// Its place where the stricter of two states stands.
    pub(super) const fn strictness(self) -> u8 {
        if matches!(self, Self::Expired) { 2 * Self::Failed as u8 - 1 } else { 2 * self as u8 }
    }

    pub const fn is_challenged(self) -> bool {
        !matches!(self, Self::Suspended | Self::Revoked)
    }
}

/// Effect of an event: a column of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// A pass, with more owed.
    Passed,
    /// A pass that pays the debt.
    Cleared,
    /// A pass that pays the debt, with inconclusive results over the limit.
    ClearedInDoubt,
    /// An inconclusive result within the limits.
    Unclear,
    /// Results of one cause, or of all together, reached the limit of suspicion.
    Doubted,
    /// Results of one cause, or of all together, reached the limit that ends an attestation.
    Exhausted,
    Outdated,
    Failed,
    /// Enough fails for a quarantine, or an operator's quarantine.
    Barred,
    Served,
    /// Suspended by an operator.
    Suspended,
    /// Revoked by an operator.
    Revoked,
    /// Resumed or reinstated by an operator, without a debt for a fail.
    ResumedClean,
    /// Resumed or reinstated, with a debt for a fail.
    ResumedOwing,
    /// Resumed or reinstated during a quarantine.
    ResumedBarred,
}

/// Returns the next state.
#[rustfmt::skip]
pub const fn next(state: State, input: Input) -> State {
    use Input as I;
    use State::{Enrolled, Expired, Failed, Passing, Quarantined, Revoked, Suspect, Suspended};
    match (state, input) {
        // An operator's decision overrides all others, a revocation a suspension.
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

        // All other inputs leave the state as it is.
        (Enrolled, _) => Enrolled,
        (Passing, _) => Passing,
        (Suspect, _) => Suspect,
        (Failed, _) => Failed,
        (Expired, _) => Expired,
    }
}
