//! Decisions about miners.

/// A decision about a miner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Lets it in.
    Approve,
    /// Keeps it out until it is resumed; its session ends at once.
    Suspend,
    /// Lets it in again.
    Resume,
    /// Keeps it out permanently; its session ends at once.
    Revoke,
    /// Sets it apart: its passes do not count until it is released.
    Quarantine,
    /// Ends its quarantine.
    Release,
}

impl Decision {
    /// Name in paths and in the records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Suspend => "suspend",
            Self::Resume => "resume",
            Self::Revoke => "revoke",
            Self::Quarantine => "quarantine",
            Self::Release => "release",
        }
    }
}
