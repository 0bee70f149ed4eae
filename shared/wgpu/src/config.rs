//! Settings of the wgpu backend.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How products multiply packed bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DotChoice {
    /// Packed where the driver says that the device has instructions for it; whichever is faster where it says nothing.
    #[default]
    Auto,
    /// Whichever is faster, by trying.
    Fastest,
    /// `dot4I8Packed`, whatever the driver makes of it.
    Packed,
    /// Plain integer code.
    Plain,
}

/// Settings of the wgpu backend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WgpuConfig {
    /// The most memory that each adapter may use; without it, what its API says is free.
    pub memory_bytes: Option<u64>,
    /// The most bytes of one buffer, where the driver's own limit is too much for it.
    pub buffer_bytes: Option<u64>,
    /// How products multiply.
    pub dot: DotChoice,
    /// Where compiled pipelines are kept; without it, they are not.
    pub cache_folder: Option<PathBuf>,
    /// Whether all memory is overwritten before each pass, so that reading what was not written shows.
    pub poison: bool,
    /// For how long nothing may get done before a device counts as hung. No submission is meant to take a tenth of a
    /// second; what is left is for a GPU that others use too.
    pub stall_limit: Duration,
    /// Whether software adapters are used where there is no other: for everyone else the processor's own devices are
    /// faster.
    pub software: bool,
    /// What device ids are derived from where hardware has none: the daemon's public key, say.
    #[serde(with = "hex::serde")]
    pub seed: Vec<u8>,
}

impl Default for WgpuConfig {
    fn default() -> Self {
        Self {
            memory_bytes: None,
            buffer_bytes: None,
            dot: DotChoice::Auto,
            cache_folder: None,
            poison: false,
            stall_limit: Duration::from_secs(20),
            software: false,
            seed: Vec::new(),
        }
    }
}
