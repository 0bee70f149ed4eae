//! What is found about a miner beside its work: stable names, and the reasons that they are in a verdict once enforced.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingCode {
    /// The work took longer than that model takes.
    TooSlow,
    /// The work was faster than that model can be: more hardware than is claimed.
    TooFast,
    /// Less memory was shown than that model has.
    MemoryBelowClaim,
    /// The probe read slower than that model reads.
    BandwidthBelowClaim,
    /// The speed is that of another model.
    ModelMismatch,
    /// Two miners show one device id at the same time.
    DeviceAtTwoMiners,
    /// A device id that another miner showed before.
    DeviceMoved,
    /// Another number of devices than before.
    DeviceCountChanged,
    /// One key speaks for two hosts at the same time.
    KeyAtTwoAddresses,
}

impl FindingCode {
    /// Every code.
    pub const ALL: [Self; 9] = [
        Self::TooSlow,
        Self::TooFast,
        Self::MemoryBelowClaim,
        Self::BandwidthBelowClaim,
        Self::ModelMismatch,
        Self::DeviceAtTwoMiners,
        Self::DeviceMoved,
        Self::DeviceCountChanged,
        Self::KeyAtTwoAddresses,
    ];

    /// The stable name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TooSlow => "too_slow",
            Self::TooFast => "too_fast",
            Self::MemoryBelowClaim => "memory_below_claim",
            Self::BandwidthBelowClaim => "bandwidth_below_claim",
            Self::ModelMismatch => "model_mismatch",
            Self::DeviceAtTwoMiners => "device_at_two_miners",
            Self::DeviceMoved => "device_moved",
            Self::DeviceCountChanged => "device_count_changed",
            Self::KeyAtTwoAddresses => "key_at_two_addresses",
        }
    }
}

impl fmt::Display for FindingCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
