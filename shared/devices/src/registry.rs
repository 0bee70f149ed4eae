//! The backends of this build: the only place that names them all.

use assay_cpu::CpuConfig;
#[cfg(feature = "cuda")]
use assay_cuda::CudaConfig;
#[cfg(all(feature = "bench", not(all(feature = "cuda", feature = "wgpu"))))]
use assay_device::DeviceError;
use assay_device::backend::{Backend, BackendKind};
#[cfg(feature = "bench")]
use assay_device::{
    backend::{Found, Prepare},
    bench::OpenedBench,
};
#[cfg(feature = "wgpu")]
use assay_wgpu::WgpuConfig;

use crate::choice::BackendChoice;

/// The devices that a program wants: which backends, and the settings of each.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostConfig {
    /// Which backends may be used.
    pub choice: BackendChoice,
    /// Whether `CUDA_VISIBLE_DEVICES` is set. Then `auto` takes no NVIDIA GPU that CUDA does not show, through whatever
    /// backend, and whether or not this build has CUDA: it may be another program's. A choice of backends is obeyed.
    pub gpus_are_hidden: bool,
    /// The processor's devices.
    pub cpu: CpuConfig,
    /// NVIDIA's GPUs.
    #[cfg(feature = "cuda")]
    pub cuda: CudaConfig,
    /// GPUs through Vulkan, Metal or DirectX 12.
    #[cfg(feature = "wgpu")]
    pub wgpu: WgpuConfig,
}

impl HostConfig {
    /// All backends of this build, in the order of preference.
    #[must_use]
    pub fn backends(&self) -> Vec<Box<dyn Backend>> {
        vec![
            #[cfg(feature = "cuda")]
            Box::new(self.cuda.clone()),
            #[cfg(feature = "wgpu")]
            Box::new(self.wgpu.clone()),
            Box::new(self.cpu.clone()),
        ]
    }

    /// Opens a device in this process, for a benchmark.
    ///
    /// # Errors
    /// As [`Backend::open`]; [`DeviceError::Unsupported`] for a backend that this build lacks.
    #[cfg(feature = "bench")]
    pub fn open_bench(&self, found: &Found, prepare: Prepare<'_>) -> OpenedBench {
        match found.info.backend {
            #[cfg(feature = "cuda")]
            BackendKind::Cuda => self.cuda.open_bench(&found.spec, prepare),
            #[cfg(feature = "wgpu")]
            BackendKind::Wgpu => self.wgpu.open_bench(&found.spec, prepare),
            BackendKind::Cpu => self.cpu.open_bench(&found.spec, prepare),
            #[cfg(not(all(feature = "cuda", feature = "wgpu")))]
            absent => Err(DeviceError::Unsupported(absence(absent))),
        }
    }
}

/// Makes a backend of its settings, as [`Backend::settings`] gave them.
///
/// # Errors
/// A backend that this build lacks, or settings of another build.
pub fn load(kind: BackendKind, settings: &str) -> Result<Box<dyn Backend>, String> {
    fn read<B: Backend + serde::de::DeserializeOwned + 'static>(settings: &str) -> Result<Box<dyn Backend>, String> {
        let backend: B = serde_json::from_str(settings).map_err(|error| format!("malformed settings: {error}"))?;
        Ok(Box::new(backend))
    }
    match kind {
        #[cfg(feature = "cuda")]
        BackendKind::Cuda => read::<CudaConfig>(settings),
        #[cfg(feature = "wgpu")]
        BackendKind::Wgpu => read::<WgpuConfig>(settings),
        BackendKind::Cpu => read::<CpuConfig>(settings),
        #[cfg(not(all(feature = "cuda", feature = "wgpu")))]
        absent => Err(absence(absent)),
    }
}

/// Whether this build has a backend.
#[must_use]
pub const fn is_built(kind: BackendKind) -> bool {
    match kind {
        BackendKind::Cuda => cfg!(feature = "cuda"),
        BackendKind::Wgpu => cfg!(feature = "wgpu"),
        BackendKind::Cpu => true,
    }
}

/// Why there is nothing of a backend in a build without it.
#[must_use]
pub fn absence(kind: BackendKind) -> String {
    format!("this build has no {} backend: take one with the feature `{kind}`", kind.title())
}

/// The version of CUDA that the driver speaks, 1000 · major + 10 · minor; `None` where it is not there, or not in this
/// build.
#[must_use]
pub fn cuda_version() -> Option<u32> {
    #[cfg(feature = "cuda")]
    return assay_cuda::driver_version();
    #[cfg(not(feature = "cuda"))]
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_arrive_as_they_were() {
        let cpu = CpuConfig { devices: 2, threads: vec![1, 2], seed: vec![7; 32], ..CpuConfig::default() };
        let config = HostConfig {
            cpu,
            #[cfg(feature = "cuda")]
            cuda: CudaConfig { poison: true, cache_folder: Some("/cache".into()), ..CudaConfig::default() },
            #[cfg(feature = "wgpu")]
            wgpu: WgpuConfig { poison: true, software: true, seed: vec![7; 32], ..WgpuConfig::default() },
            ..HostConfig::default()
        };
        for backend in config.backends() {
            let loaded = load(backend.kind(), &backend.settings()).unwrap();
            assert_eq!((loaded.kind(), loaded.settings()), (backend.kind(), backend.settings()));
        }
        assert!(load(BackendKind::Cpu, "{}").is_err_and(|why| why.contains("malformed settings")));
    }

    #[test]
    fn a_build_says_which_backends_it_has() {
        let backends = HostConfig::default().backends();
        assert!(backends.is_sorted_by_key(|backend| backend.kind()), "the preferred one first");
        for kind in BackendKind::ALL {
            assert_eq!(backends.iter().any(|backend| backend.kind() == kind), is_built(kind));
            let absent = load(kind, "").err().is_some_and(|why| why == absence(kind));
            assert_eq!(absent, !is_built(kind));
        }
    }
}
