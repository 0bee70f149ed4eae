//! The kinds of backends.

use serde::{Deserialize, Serialize};

/// The backends there are, in the order of preference: of two that have the same hardware, the first is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BackendKind {
    /// NVIDIA's GPUs, through their own driver.
    Cuda,
    /// GPUs through Vulkan, Metal or DirectX 12.
    Wgpu,
    Cpu,
}

impl BackendKind {
    /// All backends, in the order of preference.
    pub const ALL: [Self; 3] = [Self::Cuda, Self::Wgpu, Self::Cpu];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Cuda => "cuda",
            Self::Wgpu => "wgpu",
            Self::Cpu => "cpu",
        }
    }

    pub const fn title(self) -> &'static str {
        match self {
            Self::Cuda => "CUDA",
            Self::Wgpu => "wgpu",
            Self::Cpu => "CPU",
        }
    }

    /// Whether its devices are GPUs, which `auto` takes before the processor.
    pub const fn has_gpus(self) -> bool {
        !matches!(self, Self::Cpu)
    }
}

impl std::fmt::Display for BackendKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}
