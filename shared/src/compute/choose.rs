//! The backends of this build, which may be used, and how each finds and opens its devices.
//!
//! Finding and opening are apart, because they happen in different processes (`compute/worker`): one lists all
//! devices of a backend and ends, then each device is opened in a process of its own. What several backends found is
//! made one host's in `compute/merge.rs`.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::cpu::{self, CpuConfig, CpuOpening};
#[cfg(feature = "cuda")]
use super::cuda::{self, CudaConfig};
use super::device::{Device, DeviceError, DeviceInfo};
use super::host::Host;
use super::merge::take_out_hidden;
use super::place::Place;
#[cfg(feature = "wgpu")]
use super::wgpu::{self, WgpuConfig};
use crate::work::DeviceId;

/// A backend that a build may have, in the order of preference: of two that have the same hardware, the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BackendKind {
    /// NVIDIA's GPUs, through their own driver.
    Cuda,
    /// GPUs through Vulkan, Metal or DirectX 12.
    Wgpu,
    /// The processor.
    Cpu,
}

impl BackendKind {
    /// All there are.
    pub const ALL: [Self; 3] = [Self::Cuda, Self::Wgpu, Self::Cpu];

    /// Its name in settings and inventories, as in [`DeviceInfo::backend`].
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cuda => "cuda",
            Self::Wgpu => "wgpu",
            Self::Cpu => "cpu",
        }
    }

    /// How sentences call it.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Cuda => "CUDA",
            Self::Wgpu => "wgpu",
            Self::Cpu => "CPU",
        }
    }

    /// Whether its devices are GPUs, which `auto` takes before the processor.
    #[must_use]
    pub const fn is_of_gpus(self) -> bool {
        !matches!(self, Self::Cpu)
    }

    /// Whether this build has it.
    #[must_use]
    pub fn is_built(self) -> bool {
        BACKENDS.iter().any(|backend| backend.kind == self)
    }

    /// Why there is nothing of it in a build without it.
    #[must_use]
    pub fn absence(self) -> String {
        format!("this build has no {} backend: take one with the feature `{}`", self.title(), self.name())
    }
}

/// How sentences call the backend of this name.
pub(super) fn title_of(name: &'static str) -> &'static str {
    BackendKind::ALL.into_iter().find(|kind| kind.name() == name).map_or(name, BackendKind::title)
}

/// Which backends may be used.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BackendChoice {
    /// All GPUs, each once; the processor where there is none.
    #[default]
    Auto,
    /// All of these, each of which has to give a device.
    These(BTreeSet<BackendKind>),
}

impl BackendChoice {
    /// One backend alone.
    #[must_use]
    pub fn only(kind: BackendKind) -> Self {
        Self::These(BTreeSet::from([kind]))
    }

    /// Whether a backend may be used.
    #[must_use]
    pub fn allows(&self, kind: BackendKind) -> bool {
        match self {
            Self::Auto => true,
            Self::These(kinds) => kinds.contains(&kind),
        }
    }

    /// Which of `backends` are used together: first those of the first list, and those of the next one when these give
    /// no device.
    ///
    /// # Errors
    /// [`ChooseError`] when one was asked for that is not among them.
    pub fn stages<'a>(&self, backends: &'a [Backend]) -> Result<Vec<Vec<&'a Backend>>, ChooseError> {
        let Self::These(kinds) = self else {
            let (gpus, processor): (Vec<_>, _) = backends.iter().partition(|backend| backend.kind.is_of_gpus());
            return Ok([gpus, processor].into_iter().filter(|stage| !stage.is_empty()).collect());
        };
        let find = |kind: &BackendKind| {
            let found = backends.iter().find(|backend| backend.kind == *kind);
            found.ok_or_else(|| ChooseError::None(format!("{}: {}", kind.name(), kind.absence())))
        };
        Ok(vec![kinds.iter().map(find).collect::<Result<_, _>>()?])
    }

    /// Does without a backend, where that may be.
    ///
    /// # Errors
    /// [`ChooseError`] where that backend was asked for.
    pub fn pass_over(&self, name: &str, why: &str, passed_over: &mut Vec<String>) -> Result<(), ChooseError> {
        let why = format!("{name}: {why}");
        match self {
            Self::Auto => passed_over.push(why),
            Self::These(_) => return Err(ChooseError::None(why)),
        }
        Ok(())
    }
}

/// What each backend of a stage finds, for [`merge()`](super::merge::merge); `list` asks one. Why others find nothing,
/// and what is hidden, comes into `passed_over`.
///
/// # Errors
/// [`ChooseError`] when one finds nothing that was asked for.
pub fn look(
    host: &HostConfig,
    stage: &[&Backend],
    list: impl Fn(&Backend) -> Result<Vec<Found>, String>,
    passed_over: &mut Vec<String>,
) -> Result<Vec<Vec<Found>>, ChooseError> {
    let mut lists = Vec::with_capacity(stage.len());
    for backend in stage {
        match list(backend) {
            Ok(found) if !found.is_empty() => lists.push(found),
            said => {
                // Over a pipe, no device and no reason are the same.
                let why = said.err().filter(|why| !why.is_empty()).unwrap_or_else(|| "it has no device".into());
                host.choice.pass_over(backend.name(), &why, passed_over)?;
            }
        }
    }
    if host.gpus_are_hidden && host.choice == BackendChoice::Auto {
        passed_over.extend(take_out_hidden(&mut lists).iter().map(ToString::to_string));
    }
    Ok(lists)
}

/// What every backend is asked with.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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
    /// What device ids are derived from where hardware has none: the daemon's public key, say.
    pub seed: Vec<u8>,
}

/// The devices found, and how they were chosen.
pub struct Chosen {
    /// The devices, each on its thread.
    pub host: Host,
    /// Where each device is, as its backend found it.
    pub places: BTreeMap<DeviceId, Place>,
    /// The backends that they are of: `cuda`, or `cuda, wgpu`.
    pub backend: String,
    /// Why these, in one sentence.
    pub why: String,
}

/// Why there are no devices.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChooseError {
    /// No backend gives a device: what each one says.
    #[error("no device: {0}")]
    None(String),
}

/// A device that a backend found; it holds no memory of the device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// What it is.
    pub info: DeviceInfo,
    /// Where it is.
    pub place: Place,
    /// What [`Backend::open`] needs to open this device and no other, in the backend's own form: all that was decided
    /// while looking at the host as a whole.
    pub opening: String,
}

/// What is done while a device is opened, where that takes long.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Preparing {
    /// What is done now: "compiling kernels".
    pub what: String,
    /// How much of it is done.
    pub done: u64,
    /// How much of it there is; 0 when that is not known.
    pub total: u64,
}

/// Takes the progress of opening a device.
pub type Prepare<'a> = &'a (dyn Fn(Preparing) + Sync);

/// A device that was opened, or why not.
pub type Opened = Result<Box<dyn Device>, DeviceError>;

/// One backend. Both functions run in a process that may end with a broken driver.
#[derive(Debug)]
pub struct Backend {
    /// Which it is.
    pub kind: BackendKind,
    /// Finds its devices, in any order, without taking memory of any; why there is none, in one sentence with the
    /// remedy.
    pub detect: fn(&HostConfig) -> Result<Vec<Found>, String>,
    /// Opens one device by what `detect` said of it.
    pub open: fn(&str, Prepare<'_>) -> Opened,
}

impl Backend {
    /// Its name, as in [`DeviceInfo::backend`].
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.kind.name()
    }
}

/// All backends of this build, in the order of preference.
pub const BACKENDS: &[Backend] = &[
    #[cfg(feature = "cuda")]
    Backend { kind: BackendKind::Cuda, detect: detect_cuda, open: cuda::open_found },
    #[cfg(feature = "wgpu")]
    Backend { kind: BackendKind::Wgpu, detect: detect_wgpu, open: wgpu::open_found },
    Backend { kind: BackendKind::Cpu, detect: detect_cpu, open: open_cpu },
];

#[cfg(feature = "cuda")]
fn detect_cuda(config: &HostConfig) -> Result<Vec<Found>, String> {
    cuda::find(&config.cuda).map_err(|error| error.to_string())
}

/// Software adapters count only for whoever names this backend: for everyone else the processor's own devices are
/// faster.
#[cfg(feature = "wgpu")]
fn detect_wgpu(config: &HostConfig) -> Result<Vec<Found>, String> {
    let software = config.choice != BackendChoice::Auto;
    wgpu::find(&config.wgpu, &config.seed, software).map_err(|error| error.to_string())
}

fn detect_cpu(config: &HostConfig) -> Result<Vec<Found>, String> {
    let openings = cpu::openings(&config.cpu, &config.seed).map_err(|error| error.to_string())?;
    if openings.is_empty() {
        return Err("no device is asked for: set cpu_devices to 1 or more".into());
    }
    let found = |opening: &CpuOpening| {
        let info = opening.open().map_err(|error| error.to_string())?.info();
        let opening = serde_json::to_string(opening).map_err(|error| error.to_string())?;
        Ok(Found { info, place: Place::default(), opening })
    };
    openings.iter().map(found).collect()
}

fn open_cpu(opening: &str, _prepare: Prepare<'_>) -> Opened {
    let unsupported = |error: &dyn std::error::Error| DeviceError::Unsupported(format!("no CPU device: {error}"));
    let opening: CpuOpening = serde_json::from_str(opening).map_err(|error| unsupported(&error))?;
    Ok(Box::new(opening.open().map_err(|error| unsupported(&error))?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compute::place::NVIDIA;

    #[test]
    fn what_is_found_opens_as_it_was_found() {
        let cpu = CpuConfig { devices: 2, memory_bytes: vec![1 << 24, 1 << 25], ..CpuConfig::default() };
        let config = HostConfig { cpu, ..HostConfig::default() };
        for backend in BACKENDS.iter().filter(|backend| backend.kind == BackendKind::Cpu) {
            let found = (backend.detect)(&config).unwrap();
            assert_eq!(found.len(), 2);
            for found in found {
                let info = (backend.open)(&found.opening, &|_| ()).unwrap().info();
                assert_eq!((info.id, info.backend), (found.info.id, backend.name()));
                assert_eq!((info.name, info.total_bytes), (found.info.name, found.info.total_bytes));
                assert_eq!(info.detail, found.info.detail);
            }
        }
    }

    #[test]
    fn what_was_not_found_does_not_open() {
        for opening in ["", "{}", "null", r#"{"id":"00"}"#] {
            assert!(matches!(open_cpu(opening, &|_| ()), Err(DeviceError::Unsupported(_))), "{opening}");
        }
        assert!(detect_cpu(&HostConfig::default()).unwrap_err().contains("cpu_devices"));
    }

    #[test]
    fn settings_arrive_as_they_were() {
        let cpu = CpuConfig { devices: 2, memory_bytes: vec![1 << 24], threads: vec![1, 2], ..CpuConfig::default() };
        let choice = BackendChoice::These(BTreeSet::from([BackendKind::Cpu, BackendKind::Wgpu]));
        let config = HostConfig {
            cpu,
            choice,
            gpus_are_hidden: true,
            seed: vec![7; 32],
            #[cfg(feature = "cuda")]
            cuda: CudaConfig { poison: true, cache_folder: Some("/cache".into()), ..CudaConfig::default() },
            #[cfg(feature = "wgpu")]
            wgpu: WgpuConfig { poison: true, memory_bytes: Some(1 << 30), ..WgpuConfig::default() },
        };
        let text = serde_json::to_string(&config).unwrap();
        assert_eq!(serde_json::from_str::<HostConfig>(&text).unwrap(), config);
        let auto = serde_json::to_string(&HostConfig::default()).unwrap();
        assert_eq!(serde_json::from_str::<HostConfig>(&auto).unwrap().choice, BackendChoice::Auto);
    }

    fn no_device(_: &HostConfig) -> Result<Vec<Found>, String> {
        Err("none".into())
    }

    const ALL: &[Backend] = &[
        Backend { kind: BackendKind::Cuda, detect: no_device, open: open_cpu },
        Backend { kind: BackendKind::Wgpu, detect: no_device, open: open_cpu },
        Backend { kind: BackendKind::Cpu, detect: no_device, open: open_cpu },
    ];

    fn stages(choice: &BackendChoice, backends: &[Backend]) -> Result<Vec<Vec<&'static str>>, ChooseError> {
        let names = |stage: Vec<&Backend>| stage.into_iter().map(Backend::name).collect();
        Ok(choice.stages(backends)?.into_iter().map(names).collect())
    }

    #[test]
    fn auto_takes_all_gpus_and_the_processor_where_there_is_none() {
        let auto = BackendChoice::Auto;
        assert_eq!(stages(&auto, ALL), Ok(vec![vec!["cuda", "wgpu"], vec!["cpu"]]));
        assert_eq!(stages(&auto, &ALL[1..]), Ok(vec![vec!["wgpu"], vec!["cpu"]]));
        assert_eq!(stages(&auto, &ALL[2..]), Ok(vec![vec!["cpu"]]));
        assert!(BackendKind::ALL.into_iter().all(|kind| auto.allows(kind)));
    }

    #[test]
    fn what_is_asked_for_is_used_together_in_the_order_of_preference() {
        let both = BackendChoice::These(BTreeSet::from([BackendKind::Cpu, BackendKind::Cuda]));
        assert_eq!(stages(&both, ALL), Ok(vec![vec!["cuda", "cpu"]]));
        assert!(both.allows(BackendKind::Cpu) && !both.allows(BackendKind::Wgpu));
        let Err(ChooseError::None(said)) = stages(&both, &ALL[1..]) else { panic!("there is no CUDA") };
        assert_eq!(said, "cuda: this build has no CUDA backend: take one with the feature `cuda`");
    }

    #[test]
    fn only_auto_does_without_a_backend() {
        let list = |backend: &Backend| (backend.detect)(&HostConfig::default());
        let mut passed_over = Vec::new();
        let auto = HostConfig::default();
        assert_eq!(look(&auto, &[&ALL[0], &ALL[1]], list, &mut passed_over), Ok(vec![]));
        assert_eq!(passed_over, ["cuda: none", "wgpu: none"]);
        let empty = |_: &Backend| Ok(Vec::new());
        let asked = HostConfig { choice: BackendChoice::only(BackendKind::Wgpu), ..HostConfig::default() };
        let error = look(&asked, &[&ALL[1]], empty, &mut Vec::new()).unwrap_err();
        assert_eq!(error, ChooseError::None("wgpu: it has no device".into()));
    }

    /// The variable hides GPUs from `auto` alone, and only where it is set.
    #[test]
    fn auto_takes_no_gpu_that_is_hidden() {
        let id = DeviceId([1; 16]);
        let name = "card".to_owned();
        let info = DeviceInfo { id, name, backend: "wgpu", detail: String::new(), total_bytes: 1, free_bytes: 1 };
        let place = Place { pci_address: "0000:03:00.0".parse().ok(), uuid: None, vendor: Some(NVIDIA) };
        let found = vec![Found { info, place, opening: String::new() }];
        let looked = |gpus_are_hidden, choice| {
            let host = HostConfig { gpus_are_hidden, choice, ..HostConfig::default() };
            let mut passed_over = Vec::new();
            let lists = look(&host, &[&ALL[1]], |_| Ok(found.clone()), &mut passed_over).unwrap();
            (lists, passed_over)
        };
        let (taken, nothing) = (vec![found.clone()], Vec::<String>::new());
        assert_eq!(looked(false, BackendChoice::Auto), (taken.clone(), nothing.clone()));
        let said = "card at 0000:03:00.0 (wgpu) is hidden by CUDA_VISIBLE_DEVICES".to_owned();
        assert_eq!(looked(true, BackendChoice::Auto), (vec![], vec![said]));
        assert_eq!(looked(true, BackendChoice::only(BackendKind::Wgpu)), (taken, nothing));
    }

    #[test]
    fn a_build_says_which_backends_it_has() {
        assert_eq!(BackendKind::Cuda.is_built(), cfg!(feature = "cuda"));
        assert_eq!(BackendKind::Wgpu.is_built(), cfg!(feature = "wgpu"));
        assert!(BackendKind::Cpu.is_built());
        assert!(BACKENDS.is_sorted_by_key(|backend| backend.kind), "the preferred one first");
    }
}
