//! Parameters of the attestation state, as a policy sets them, and causes of inconclusive results.

use std::collections::BTreeMap;

use assay_protocol::verdict::ReasonCode;
use serde::{Deserialize, Serialize};

/// The most results of one cause that a limit may allow: this many times are stored for each cause.
pub const MAX_LIMIT: u32 = 64;

assay_work::names! {
    /// Cause of an inconclusive result, by the miner's doing or without provable fault.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Cause {
        /// The miner declined, was shutting down, or stopped.
        Busy = "busy",
        /// Too little memory, or devices unable to do the work.
        Memory = "memory",
        /// A device that the miner showed before took no part.
        Incomplete = "incomplete",
        /// A device or its program failed.
        Sick = "sick",
        /// The miner broke off after it knew the positions to be checked.
        Evaded = "evaded",
        /// The connection broke, or the miner did not read or answer.
        Network = "network",
        /// The miner was not connected when a challenge was due.
        Absent = "absent",
    }
}

impl Cause {
    /// The cause of an inconclusive verdict's reason; `None` for the validator's own doing.
    pub const fn of(code: ReasonCode) -> Option<Self> {
        use ReasonCode as Code;
        Some(match code {
            Code::MinerBusy | Code::MinerDraining | Code::MinerDeclined | Code::MinerStopped | Code::StaleInventory => {
                Self::Busy
            }
            Code::NotEnoughMemory | Code::NothingToChallenge | Code::MinerUnsupported => Self::Memory,
            Code::DeviceMissing => Self::Incomplete,
            // The miner's program reports its own error: the statement is unverified.
            Code::DeviceSick | Code::MinerInternal => Self::Sick,
            Code::Abandoned => Self::Evaded,
            Code::Disconnected | Code::NotReading | Code::PeerSilent => Self::Network,
            Code::ValidatorDevices
            | Code::ValidatorOverloaded
            | Code::ValidatorDraining
            | Code::Cancelled
            | Code::ValidatorInternal
            | Code::ValidatorLost
            | Code::DeviceDisputed => return None,
            // Reasons that fail occur in no inconclusive verdict. If one did, it must count.
            _ => Self::Evaded,
        })
    }

    /// Whether a miner that repeats it owes as many passes as after a fail: it occurs when the miner could have been
    /// caught.
    pub const fn is_evasion(self) -> bool {
        matches!(self, Self::Evaded | Self::Sick)
    }
}

/// Limits on the results of one cause within the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// Results that make a passing miner suspect.
    pub suspect: u32,
    /// Results that end the attestation.
    pub expire: u32,
}

/// Tolerated inconclusive results.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grace {
    /// Age in seconds from which results no longer count.
    pub window_s: u64,
    /// Limits by cause.
    pub limits: BTreeMap<Cause, Limit>,
    /// Limit over all causes but [`Cause::Busy`] together.
    pub any: Limit,
}

/// Consecutive passes required for an attestation, in ascending order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Return {
    /// For a new miner.
    pub first: u32,
    /// After an attestation expired.
    pub after_expiry: u32,
    /// After a fail, and after an attestation expired by evasion.
    pub after_fail: u32,
    /// Whether only heavy challenges count after a fail.
    pub heavy: bool,
}

/// Conditions and length of a quarantine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quarantine {
    /// Number of fails that start it.
    pub fails: u32,
    /// Window of these fails in seconds.
    pub window_s: u64,
    /// Length in seconds; `None`: until an operator releases the miner.
    pub period_s: Option<u64>,
}

/// Parameters of the attestation state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    /// Validity of an attestation after the last pass, in seconds.
    pub expires_after_s: u64,
    /// Validity after the last pass of a heavy challenge, in seconds; `None`: light ones suffice.
    pub heavy_expires_after_s: Option<u64>,
    /// Tolerated inconclusive results.
    pub grace: Grace,
    /// Passes required to regain the attestation.
    pub returning: Return,
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
    /// Returns the limit of a cause.
    pub fn limit(&self, cause: Cause) -> Limit {
        // A cause without a configured limit has the strictest one.
        self.limits.get(&cause).copied().unwrap_or(Limit { suspect: 1, expire: 1 })
    }
}
