//! Faults planted into a simulation, which its invariants must find.

/// A fault that is planted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Planted {
    /// A miner is told its verdict twice.
    VerdictTwice,
    /// A verdict is told that is not the recorded one.
    OtherVerdict,
    /// A lease lasts for ever: nobody schedules the miners of a lost validator.
    EndlessLease,
    /// Validators schedule without leases.
    NoLease,
    /// A validator that starts again draws what it drew before.
    SameNonces,
    /// Abandoned challenges are forgotten when a validator starts.
    ForgottenAbandonment,
    /// Devices are forgotten when a validator starts.
    ForgottenDevice,
    /// Challenges of a lost validator are concluded by nobody.
    UnconcludedOrphan,
    /// A miner fails that the ledger has for an honest one.
    FailedHonest,
    /// A miner passes that the ledger has for a late one.
    PassedLate,
}

impl Planted {
    pub const ALL: [Self; 10] = [
        Self::VerdictTwice,
        Self::OtherVerdict,
        Self::EndlessLease,
        Self::NoLease,
        Self::SameNonces,
        Self::ForgottenAbandonment,
        Self::ForgottenDevice,
        Self::UnconcludedOrphan,
        Self::FailedHonest,
        Self::PassedLate,
    ];

    /// The first word of the invariant that it breaks.
    pub const fn breaks(self) -> &'static str {
        match self {
            Self::VerdictTwice => "twice",
            Self::OtherVerdict | Self::UnconcludedOrphan => "lost",
            Self::EndlessLease => "unsettled",
            Self::NoLease => "budget",
            Self::SameNonces => "nonce",
            Self::ForgottenAbandonment | Self::ForgottenDevice => "forgotten",
            Self::FailedHonest => "blamed",
            Self::PassedLate => "passed",
        }
    }
}
