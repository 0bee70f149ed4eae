//! The kinds of backends.

use serde::{Deserialize, Serialize};

assay_work::names! {
    /// The backends there are, in the order of preference: of two that have the same hardware, the first is used.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum BackendKind {
        /// NVIDIA's GPUs, through their own driver.
        Cuda = "cuda",
        /// GPUs through Vulkan, Metal or DirectX 12.
        Wgpu = "wgpu",
        Cpu = "cpu",
    }
}

impl BackendKind {
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
