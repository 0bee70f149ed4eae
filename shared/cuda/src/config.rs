//! Settings of the CUDA backend.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Which family of kernels multiplies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KernelChoice {
    /// The fastest that a device runs.
    #[default]
    Auto,
    /// The plain one, for any GPU.
    Dp4a,
    /// `mma.sync` of Turing.
    MmaSm75,
    /// `mma.sync` of Ampere and later.
    MmaSm80,
    /// `wgmma` of Hopper.
    WgmmaSm90a,
}

impl KernelChoice {
    /// Its name in settings: that of the family, or `auto`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Dp4a => "dp4a",
            Self::MmaSm75 => "mma-sm75",
            Self::MmaSm80 => "mma-sm80",
            Self::WgmmaSm90a => "wgmma-sm90a",
        }
    }
}

impl fmt::Display for KernelChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Settings of the CUDA backend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CudaConfig {
    /// Which family multiplies.
    pub kernel: KernelChoice,
    /// Where the driver keeps what it compiled; without it, it does what it does by itself.
    pub cache_folder: Option<PathBuf>,
    /// Whether all memory is overwritten before each pass, so that reading what was not written shows.
    pub poison: bool,
    /// For how long nothing may get done before a device counts as hung. No launch is meant to take a tenth of a
    /// second; what is left is for a GPU that others use too.
    pub stall_limit: Duration,
}

impl Default for CudaConfig {
    fn default() -> Self {
        Self { kernel: KernelChoice::Auto, cache_folder: None, poison: false, stall_limit: Duration::from_secs(20) }
    }
}
