//! The numbers that the attestation state follows, as a policy sets them, and the causes of inconclusive results.

use std::collections::BTreeMap;

use assay_protocol::verdict::ReasonCode;
use serde::{Deserialize, Serialize};

/// The most results of one cause that a limit may allow: so many times are kept of each cause.
pub const MAX_LIMIT: u32 = 64;

/// Why a result was inconclusive by the miner's doing, or by nobody's that can be proved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// It declined, was shutting down, or stopped.
    Busy,
    /// It had too little memory, or devices that cannot do what was asked.
    Memory,
    /// A device that it showed before took no part.
    Incomplete,
    /// A device or its program failed.
    Sick,
    /// It broke off after it knew what would be checked.
    Evaded,
    /// The connection broke, or it did not read or answer.
    Network,
    /// It was not there when a challenge was due.
    Absent,
}

impl Cause {
    /// Every cause.
    pub const ALL: [Self; 7] =
        [Self::Busy, Self::Memory, Self::Incomplete, Self::Sick, Self::Evaded, Self::Network, Self::Absent];

    /// The stable name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Busy => "busy",
            Self::Memory => "memory",
            Self::Incomplete => "incomplete",
            Self::Sick => "sick",
            Self::Evaded => "evaded",
            Self::Network => "network",
            Self::Absent => "absent",
        }
    }

    /// The cause that a reason of an inconclusive verdict counts as; `None` where it is the validator's own doing.
    #[must_use]
    pub const fn of(code: ReasonCode) -> Option<Self> {
        use ReasonCode as Code;
        Some(match code {
            Code::MinerBusy | Code::MinerDraining | Code::MinerDeclined | Code::MinerStopped => Self::Busy,
            Code::NotEnoughMemory | Code::NothingToChallenge | Code::StaleInventory | Code::MinerUnsupported => {
                Self::Memory
            }
            Code::DeviceMissing => Self::Incomplete,
            // An error of the miner's program is the miner's word.
            Code::DeviceSick | Code::MinerInternal => Self::Sick,
            Code::Abandoned => Self::Evaded,
            Code::Disconnected | Code::NotReading | Code::PeerSilent => Self::Network,
            Code::ValidatorDevices
            | Code::ValidatorOverloaded
            | Code::ValidatorDraining
            | Code::Cancelled
            | Code::ValidatorInternal => return None,
            // Reasons that fail stand in no inconclusive verdict. Were one to, it must not be free.
            _ => Self::Evaded,
        })
    }

    /// Whether a miner that repeats it owes as many passes as after a fail: it did so when it could have been caught.
    #[must_use]
    pub const fn is_evasion(self) -> bool {
        matches!(self, Self::Evaded | Self::Sick)
    }
}

/// So many results of one cause within the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// These make a passing miner suspect.
    pub suspect: u32,
    /// These end the attestation.
    pub expire: u32,
}

/// What is allowed of inconclusive results.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grace {
    /// Results older than this no longer count.
    pub window_s: u64,
    /// For each cause.
    pub limits: BTreeMap<Cause, Limit>,
    /// Over all causes but [`Cause::Busy`] together.
    pub any: Limit,
}

/// Passes in a row by which a miner gets an attestation: none of them more than the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Return {
    /// Of a new miner.
    pub first: u32,
    /// After an attestation that expired.
    pub after_expiry: u32,
    /// After a fail, and after an attestation that expired by evasion.
    pub after_fail: u32,
    /// Whether only heavy challenges count after a fail.
    pub heavy: bool,
}

/// When a miner that failed is set apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quarantine {
    /// So many fails.
    pub fails: u32,
    /// Within so long.
    pub window_s: u64,
    /// For how long; `None`: until an operator releases it.
    pub period_s: Option<u64>,
}

/// The numbers that the attestation state follows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    /// An attestation ends so long after the last pass.
    pub expires_after_s: u64,
    /// And so long after the last pass of a heavy challenge; `None`: light ones suffice.
    pub heavy_expires_after_s: Option<u64>,
    /// What is allowed of inconclusive results.
    pub grace: Grace,
    /// How a miner gets its attestation back.
    pub returning: Return,
    /// When a miner that failed is set apart.
    pub quarantine: Quarantine,
}

const DAY_S: u64 = 86_400;

impl Default for Grace {
    fn default() -> Self {
        let limit = |cause| {
            let (suspect, expire) = match cause {
                Cause::Evaded => (1, 2),
                Cause::Sick | Cause::Incomplete => (2, 4),
                Cause::Memory | Cause::Network | Cause::Absent => (3, 6),
                Cause::Busy => (6, 12),
            };
            (cause, Limit { suspect, expire })
        };
        Self {
            window_s: DAY_S,
            limits: Cause::ALL.into_iter().map(limit).collect(),
            any: Limit { suspect: 8, expire: 16 },
        }
    }
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            expires_after_s: DAY_S,
            heavy_expires_after_s: None,
            grace: Grace::default(),
            returning: Return { first: 1, after_expiry: 1, after_fail: 3, heavy: true },
            quarantine: Quarantine { fails: 3, window_s: 7 * DAY_S, period_s: Some(DAY_S) },
        }
    }
}

impl Grace {
    /// The limit of a cause.
    #[must_use]
    pub fn limit(&self, cause: Cause) -> Limit {
        // A cause without a limit has the strictest one.
        self.limits.get(&cause).copied().unwrap_or(Limit { suspect: 1, expire: 1 })
    }
}
