//! The backends of this build: the only place that names them all.

use assay_cpu::CpuConfig;
#[cfg(feature = "bench")]
use assay_device::DeviceError;
use assay_device::backend::{Backend, BackendKind};
#[cfg(feature = "bench")]
use assay_device::backend::{DetectedDevice, StartupObserver};
#[cfg(feature = "bench")]
use assay_device::bench::OpenedBench;
use serde::de::DeserializeOwned;

use crate::choice::{BackendChoice, ChooseError, absence};
use crate::filter::DeviceFilter;
use crate::merge::{ExcludedDevice, ExclusionReason, MergeResult};

/// Makes a backend of its settings.
type BackendLoader = fn(&str) -> Result<Box<dyn Backend>, String>;

/// The backends of this build, in the order of preference.
const BUILT: &[(BackendKind, BackendLoader)] = &[
    #[cfg(feature = "cuda")]
    (BackendKind::Cuda, read::<assay_cuda::CudaConfig>),
    #[cfg(feature = "wgpu")]
    (BackendKind::Wgpu, read::<assay_wgpu::WgpuConfig>),
    (BackendKind::Cpu, read::<CpuConfig>),
];

/// The devices that a program wants: which backends, and the settings of each.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostConfig {
    pub choice: BackendChoice,
    /// The devices to use of those.
    pub filter: DeviceFilter,
    /// Whether `CUDA_VISIBLE_DEVICES` is set. Then `auto` takes no NVIDIA GPU that CUDA does not show, through whatever
    /// backend, and whether or not this build has CUDA: it may be another program's. A choice of backends is obeyed.
    pub gpus_are_hidden: bool,
    pub cpu: CpuConfig,
    #[cfg(feature = "cuda")]
    pub cuda: assay_cuda::CudaConfig,
    #[cfg(feature = "wgpu")]
    pub wgpu: assay_wgpu::WgpuConfig,
}

impl HostConfig {
    /// All backends of this build, in the order of preference.
    pub fn backends(&self) -> Vec<Box<dyn Backend>> {
        vec![
            #[cfg(feature = "cuda")]
            Box::new(self.cuda.clone()),
            #[cfg(feature = "wgpu")]
            Box::new(self.wgpu.clone()),
            Box::new(self.cpu.clone()),
        ]
    }

    /// The devices to use among those of a merge. `auto` takes integrated ones beside others only where the setting
    /// `device` names them.
    ///
    /// # Errors
    /// As [`DeviceFilter::apply`].
    pub fn select(&self, mut merged: MergeResult) -> Result<MergeResult, ChooseError> {
        merged.devices = self.filter.apply(merged.devices)?;
        let is_named = self.choice != BackendChoice::Auto || !self.filter.include.is_empty();
        if !is_named && merged.devices.iter().any(|found| !found.integrated) {
            // A challenge over all would last as long as theirs takes.
            let slow = merged.devices.extract_if(.., |found| found.integrated);
            merged.left_out.extend(slow.map(|found| ExcludedDevice::new(&found, ExclusionReason::Integrated)));
        }
        Ok(merged)
    }

    /// Has CUDA devices take slots by `cuMemAlloc` alone, for a benchmark.
    #[cfg(feature = "bench")]
    pub const fn use_plain_memory(&mut self) {
        #[cfg(feature = "cuda")]
        {
            self.cuda.plain_memory = true;
        }
    }

    /// Has kernels of CUDA devices compute without their self-test, to look at the bits of one that fails it.
    #[cfg(feature = "bench")]
    pub const fn use_untested_kernels(&mut self) {
        #[cfg(feature = "cuda")]
        {
            self.cuda.untested = true;
        }
    }

    /// Has each GPU of CUDA be two devices, for a benchmark of links.
    #[cfg(feature = "bench")]
    pub const fn use_gpus_twice(&mut self) {
        #[cfg(feature = "cuda")]
        {
            self.cuda.twice = true;
        }
    }

    /// Opens a device in this process, for a benchmark.
    ///
    /// # Errors
    /// As [`Backend::open`]; [`DeviceError::Unsupported`] for a backend that this build lacks.
    #[cfg(feature = "bench")]
    pub fn open_bench(&self, found: &DetectedDevice, prepare: StartupObserver<'_>) -> OpenedBench {
        let kind = found.info.backend;
        let backend = self.backends().into_iter().find(|backend| backend.kind() == kind);
        let absent = || DeviceError::Unsupported(absence(kind));
        backend.ok_or_else(absent)?.open_bench(&found.spec, prepare)
    }
}

/// Takes the PTX files of a folder in place of this build's modules of the same names, for a benchmark; gives their names.
///
/// # Errors
/// One sentence: a folder or file that cannot be used, or a build without CUDA.
#[cfg(feature = "bench")]
pub fn replace_ptx(folder: &std::path::Path) -> Result<Vec<&'static str>, String> {
    #[cfg(feature = "cuda")]
    return assay_cuda::replace_modules(folder);
    #[cfg(not(feature = "cuda"))]
    Err(format!("{}: {}", folder.display(), absence(BackendKind::Cuda)))
}

/// Makes a backend of its settings, as [`Backend::settings`] gave them.
///
/// # Errors
/// A backend that this build lacks, or settings of another build.
pub fn load(kind: BackendKind, settings: &str) -> Result<Box<dyn Backend>, String> {
    match BUILT.iter().find(|(built, _)| *built == kind) {
        Some((_, load)) => load(settings),
        None => Err(absence(kind)),
    }
}

fn read<B: Backend + DeserializeOwned + 'static>(settings: &str) -> Result<Box<dyn Backend>, String> {
    let backend: B = serde_json::from_str(settings).map_err(|error| format!("malformed settings: {error}"))?;
    Ok(Box::new(backend))
}

/// The backends of this build, in the order of preference.
pub fn built() -> impl Iterator<Item = BackendKind> {
    BUILT.iter().map(|(kind, _)| *kind)
}

/// Whether this build has a backend.
pub fn is_built(kind: BackendKind) -> bool {
    built().any(|built| built == kind)
}

/// The version of CUDA that the driver speaks, 1000 · major + 10 · minor; `None` where it is not there, or not in this
/// build.
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
        #[allow(unused_mut)] // without a GPU backend there is nothing else to change
        let mut config = HostConfig { cpu, ..HostConfig::default() };
        #[cfg(feature = "cuda")]
        {
            (config.cuda.poison, config.cuda.cache_folder) = (true, Some("/cache".into()));
        }
        #[cfg(feature = "wgpu")]
        {
            (config.wgpu.poison, config.wgpu.software, config.wgpu.seed) = (true, true, vec![7; 32]);
        }
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
        assert!(backends.iter().map(|backend| backend.kind()).eq(built()));
        for kind in BackendKind::ALL {
            assert_eq!(backends.iter().any(|backend| backend.kind() == kind), is_built(kind));
            let absent = load(kind, "").err().is_some_and(|why| why == absence(kind));
            assert_eq!(absent, !is_built(kind));
        }
    }
}
