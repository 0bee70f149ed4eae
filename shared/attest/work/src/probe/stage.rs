//! The three probes of a challenge as one type, in their order.

use super::super::bytes::ProbeSeed;
use super::{Link, Probe, Sweep};

crate::names! {
    /// The probes of a challenge, in their order: each at most once.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum ProbeStage {
        /// Each device walks over its own slots.
        Own = "probe",
        /// Each device walks over the slots of all devices.
        Linked = "linked probe",
        /// Each device sums over its own slots.
        Sweep = "sweep",
    }
}

impl ProbeStage {
    /// Begins the checksum of an answer.
    pub(super) const fn checksum_name(self) -> &'static [u8] {
        match self {
            Self::Own | Self::Linked => b"assay v1 probe checksum",
            Self::Sweep => b"assay v1 sweep checksum",
        }
    }

    /// Begins the message that is signed with an answer.
    pub(super) const fn message_name(self) -> &'static [u8] {
        match self {
            Self::Own => b"assay v1 probe",
            Self::Linked => b"assay v1 linked probe",
            Self::Sweep => b"assay v1 sweep",
        }
    }
}

/// A probe of any stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryProbe {
    /// The residency probe or the linked probe.
    Walks(Probe),
    /// The sweep.
    Sweep(Sweep),
}

impl MemoryProbe {
    /// Its place among the probes of a challenge.
    pub const fn stage(&self) -> ProbeStage {
        match self {
            Self::Walks(probe) => match probe.link() {
                Link::Own => ProbeStage::Own,
                Link::All => ProbeStage::Linked,
            },
            Self::Sweep(_) => ProbeStage::Sweep,
        }
    }

    /// The probe of walks; `None` for a sweep.
    pub const fn walks(&self) -> Option<&Probe> {
        match self {
            Self::Walks(probe) => Some(probe),
            Self::Sweep(_) => None,
        }
    }

    /// The sweep; `None` for a probe of walks.
    pub const fn sweep(&self) -> Option<&Sweep> {
        match self {
            Self::Walks(_) => None,
            Self::Sweep(sweep) => Some(sweep),
        }
    }

    /// From the operating system's random source, never used twice.
    pub const fn seed(&self) -> &ProbeSeed {
        match self {
            Self::Walks(probe) => probe.seed(),
            Self::Sweep(sweep) => sweep.seed(),
        }
    }

    /// How many rounds follow one another: 1 … 65536.
    pub const fn rounds(&self) -> u32 {
        match self {
            Self::Walks(probe) => probe.rounds(),
            Self::Sweep(sweep) => sweep.rounds(),
        }
    }

    /// The numbers that are signed with an answer, beside the seed.
    pub(super) fn signed_numbers(&self) -> Vec<u8> {
        match self {
            Self::Walks(probe) => [probe.walks(), probe.steps(), probe.rounds()].map(u32::to_le_bytes).concat(),
            Self::Sweep(sweep) => sweep.rounds().to_le_bytes().to_vec(),
        }
    }
}

impl From<Probe> for MemoryProbe {
    fn from(probe: Probe) -> Self {
        Self::Walks(probe)
    }
}

impl From<Sweep> for MemoryProbe {
    fn from(sweep: Sweep) -> Self {
        Self::Sweep(sweep)
    }
}

impl From<&Probe> for MemoryProbe {
    fn from(probe: &Probe) -> Self {
        Self::Walks(*probe)
    }
}

impl From<&Sweep> for MemoryProbe {
    fn from(sweep: &Sweep) -> Self {
        Self::Sweep(*sweep)
    }
}

impl From<&Self> for MemoryProbe {
    fn from(probe: &Self) -> Self {
        *probe
    }
}
