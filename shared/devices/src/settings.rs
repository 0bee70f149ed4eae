//! Settings of this machine's own devices, the same for both programs.

use std::collections::BTreeSet;
use std::env;
use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum};

use assay_device::backend::{BackendKind, MAX_HOST_DEVICES};
#[cfg(any(feature = "cuda", feature = "wgpu"))]
use assay_program::paths;
use assay_program::settings::{Settings, SettingsError};
use assay_program::size::Size;

use crate::choice::{BackendChoice, ChooseError};
use crate::merge::CUDA_VISIBLE_DEVICES;
use crate::preparing::Preparations;
use crate::registry::{HostConfig, absence, is_built};
use crate::start::{Chosen, start};
use assay_cpu::{CpuConfig, KernelKind};
#[cfg(feature = "cuda")]
use assay_cuda::{CudaConfig, KernelChoice};
#[cfg(feature = "wgpu")]
use assay_wgpu::{DotChoice, WgpuConfig};
use assay_work::PublicKey;
use assay_worker::WorkerConfig;

/// The most devices of a host: what an inventory carries.
pub const MAX_DEVICES: u32 = MAX_HOST_DEVICES as u32;
/// The backends of this build, for the long form of `--version`.
pub const LONG_VERSION: &str = match (cfg!(feature = "cuda"), cfg!(feature = "wgpu")) {
    (true, true) => concat!(env!("CARGO_PKG_VERSION"), "\nbackends: cuda, wgpu, cpu"),
    (true, false) => concat!(env!("CARGO_PKG_VERSION"), "\nbackends: cuda, cpu"),
    (false, true) => concat!(env!("CARGO_PKG_VERSION"), "\nbackends: wgpu, cpu"),
    (false, false) => concat!(env!("CARGO_PKG_VERSION"), "\nbackends: cpu"),
};
/// The most threads of a device: what the CPU backend can bound its memory for.
pub const MAX_THREADS: u32 = 256;
/// The least memory of a device: room for the smallest share and what is around it.
pub const MIN_MEMORY: Size = Size { bytes: 8 << 20 };
/// The least of one buffer: a slot of the smallest matrix.
#[cfg(feature = "wgpu")]
const MIN_BUFFER: Size = Size { bytes: 256 * 256 };
/// What stands for no value of one's own.
const AUTO: &str = "auto";
/// The longest silence of a worker, in seconds: a device that hangs is of no use for as long.
const MAX_SILENCE_S: u64 = 600;

/// Which backends give devices. A build that lacks one knows its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Backend {
    /// Every GPU, each once; the processor where there is none. Alone only.
    Auto,
    /// NVIDIA GPUs, through their own driver.
    Cuda,
    /// GPUs through Vulkan, Metal or DirectX 12; software adapters where there is no other.
    Wgpu,
    /// The processor.
    Cpu,
}

/// Which family of kernels CUDA devices multiply with.
#[cfg(feature = "cuda")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CudaKernel {
    /// The fastest that each device runs.
    Auto,
    /// Plain, for any GPU.
    Dp4a,
    /// The tensor cores of Turing.
    #[value(name = "mma-sm75")]
    MmaSm75,
    /// The tensor cores of Ampere and later.
    #[value(name = "mma-sm80")]
    MmaSm80,
    /// The tensor cores of Hopper.
    #[value(name = "wgmma-sm90a")]
    WgmmaSm90a,
}

/// How wgpu devices multiply.
#[cfg(feature = "wgpu")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum WgpuDot {
    /// Packed bytes where the driver says that there are instructions for them, else whichever is faster.
    Auto,
    /// Whichever is faster, by trying.
    Fastest,
    /// Packed bytes, whatever the driver makes of it.
    Packed,
    /// Plain integers.
    Plain,
}

/// Which instructions the processor's devices multiply with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CpuKernel {
    /// The fastest that this processor has.
    Auto,
    /// AVX-512 with VNNI.
    Avx512Vnni,
    /// AVX-VNNI.
    AvxVnni,
    /// AVX2.
    Avx2,
    /// NEON with the dot product.
    NeonDot,
    /// Plain Rust, for any processor.
    Portable,
}

/// Settings of the devices, as written.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Devices")]
pub struct RawDevices {
    /// Which devices to use: auto is every GPU, each once, and the processor where there is none; or one or several of
    /// the others with commas between, each of which then has to give a device
    #[arg(
        long,
        value_enum,
        value_name = "BACKENDS",
        action = clap::ArgAction::Append,
        value_delimiter = ',',
        default_value = "auto"
    )]
    pub backend: Vec<Backend>,
    /// As how many devices the processor counts, its cores and memory split evenly between them
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    pub cpu_devices: u32,
    /// Memory of each processor device, such as 2GiB, or one for each with commas between; auto takes three quarters
    /// of what is free, split evenly
    #[arg(long, value_name = "SIZE", default_value = "auto")]
    pub cpu_memory: String,
    /// Threads of each processor device, or one for each with commas between; auto takes the cores, split evenly
    #[arg(long, value_name = "COUNT", default_value = "auto")]
    pub cpu_threads: String,
    /// Which instructions processor devices multiply with
    #[arg(long, value_enum, value_name = "KERNEL", default_value = "auto")]
    pub cpu_kernel: CpuKernel,
    /// Which kernels CUDA devices multiply with; the results are the same
    #[cfg(feature = "cuda")]
    #[arg(long, value_enum, value_name = "KERNEL", default_value = "auto")]
    pub kernel: CudaKernel,
    /// Where the NVIDIA driver keeps the kernels that it compiled, so that only the first start takes long; auto is
    /// assay/cuda in the user's cache. CUDA_CACHE_PATH, where it is set, goes before
    #[cfg(feature = "cuda")]
    #[arg(long, value_name = "FOLDER", default_value = "auto")]
    pub cuda_cache: PathBuf,
    /// Overwrite all memory of CUDA devices before each pass: shows kernels that read what they did not write
    #[cfg(feature = "cuda")]
    #[arg(
        long,
        value_name = "BOOL",
        action = clap::ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_value = "false",
        default_missing_value = "true"
    )]
    pub cuda_poison: bool,
    /// The most memory that each wgpu adapter may use, such as 8GiB; auto is what its driver says is free
    #[cfg(feature = "wgpu")]
    #[arg(long, value_name = "SIZE", default_value = "auto")]
    pub wgpu_memory: String,
    /// The most bytes of one buffer of a wgpu adapter, where a driver promises more than it can do; auto is what it
    /// promises
    #[cfg(feature = "wgpu")]
    #[arg(long, value_name = "SIZE", default_value = "auto")]
    pub wgpu_buffer: String,
    /// How wgpu adapters multiply; the results are the same
    #[cfg(feature = "wgpu")]
    #[arg(long, value_enum, value_name = "DOT", default_value = "auto")]
    pub wgpu_dot: WgpuDot,
    /// Where compiled pipelines of wgpu adapters are kept, where their API lets them be; auto is assay/wgpu in the
    /// user's cache
    #[cfg(feature = "wgpu")]
    #[arg(long, value_name = "FOLDER", default_value = "auto")]
    pub wgpu_cache: PathBuf,
    /// Overwrite all memory of wgpu adapters before each pass: shows kernels that read what they did not write
    #[cfg(feature = "wgpu")]
    #[arg(
        long,
        value_name = "BOOL",
        action = clap::ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_value = "false",
        default_missing_value = "true"
    )]
    pub wgpu_poison: bool,
    /// How long the process that drives a device may give no sign of life before it is killed and started again, in
    /// seconds. It gives four a second; a machine that swaps heavily may need longer
    #[arg(long, value_name = "S", default_value_t = WorkerConfig::SILENCE.as_secs())]
    pub worker_silence_s: u64,
    /// The program whose `worker` command drives a device, in place of this one: a script, say, that starts this one
    /// with `exec` under a tool that watches it
    #[arg(long, value_name = "FILE")]
    pub worker_program: Option<PathBuf>,
}

/// Settings of the devices, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceConfig {
    /// Which backends give devices.
    pub backend: BackendChoice,
    /// As how many devices the processor counts.
    pub cpu_devices: u32,
    /// Memory of each processor device: one for all, one for each, or none, which is what is free, split evenly.
    pub cpu_memory: Vec<Size>,
    /// Threads of each processor device: one for all, one for each, or none, which is the cores, split evenly.
    pub cpu_threads: Vec<u32>,
    /// Which instructions processor devices multiply with.
    pub cpu_kernel: CpuKernel,
    /// CUDA devices.
    #[cfg(feature = "cuda")]
    pub cuda: CudaConfig,
    /// wgpu adapters.
    #[cfg(feature = "wgpu")]
    pub wgpu: WgpuConfig,
    /// The processes that drive devices.
    pub workers: WorkerConfig,
}

impl DeviceConfig {
    /// Checks what was written.
    ///
    /// # Errors
    /// [`SettingsError::Value`] for the first value out of bounds.
    pub fn check<R: Args>(settings: &Settings<R>, raw: &RawDevices) -> Result<Self, SettingsError> {
        let most_devices = "a host has at most 64 devices";
        let cpu_devices = settings.in_range("cpu_devices", raw.cpu_devices, 1..=MAX_DEVICES, most_devices)?;
        let cpu_memory: Vec<Size> = each(settings, "cpu_memory", &raw.cpu_memory, cpu_devices)?;
        if cpu_memory.iter().any(|memory| *memory < MIN_MEMORY) {
            let reason =
                format!("must be at least {MIN_MEMORY}: the smallest share of a challenge does not fit in less");
            return Err(settings.wrong("cpu_memory", reason));
        }
        let cpu_threads: Vec<u32> = each(settings, "cpu_threads", &raw.cpu_threads, cpu_devices)?;
        for threads in &cpu_threads {
            settings.in_range("cpu_threads", *threads, 1..=MAX_THREADS, "with more, its memory has no bound")?;
        }
        let reason = "less is mistaken for a hang on a busy machine, more leaves a hang unseen";
        let silence = settings.in_range("worker_silence_s", raw.worker_silence_s, 1..=MAX_SILENCE_S, reason)?;
        let workers = WorkerConfig { program: raw.worker_program.clone(), silence: Duration::from_secs(silence) };
        Ok(Self {
            backend: choice(settings, &raw.backend)?,
            cpu_devices,
            cpu_memory,
            cpu_threads,
            cpu_kernel: raw.cpu_kernel,
            #[cfg(feature = "cuda")]
            cuda: cuda(raw),
            #[cfg(feature = "wgpu")]
            wgpu: wgpu(settings, raw)?,
            workers,
        })
    }
}

/// Which backends: each once, in the order of preference.
fn choice<R: Args>(settings: &Settings<R>, backends: &[Backend]) -> Result<BackendChoice, SettingsError> {
    let kind = |backend: &Backend| match backend {
        Backend::Auto => None,
        Backend::Cuda => Some(BackendKind::Cuda),
        Backend::Wgpu => Some(BackendKind::Wgpu),
        Backend::Cpu => Some(BackendKind::Cpu),
    };
    let kinds: BTreeSet<_> = backends.iter().filter_map(kind).collect();
    if let Some(absent) = kinds.iter().find(|kind| !is_built(**kind)) {
        return Err(settings.wrong("backend", absence(*absent)));
    }
    if kinds.is_empty() {
        return Ok(BackendChoice::Auto);
    }
    if backends.contains(&Backend::Auto) {
        return Err(settings.wrong("backend", "auto takes what there is by itself: name it alone, or leave it out"));
    }
    Ok(BackendChoice::These(kinds))
}

#[cfg(feature = "cuda")]
fn cuda(raw: &RawDevices) -> CudaConfig {
    let is_auto = raw.cuda_cache.as_os_str() == AUTO;
    let cache_folder = if is_auto { paths::cache_folder("cuda") } else { Some(raw.cuda_cache.clone()) };
    CudaConfig { kernel: raw.kernel.into(), cache_folder, poison: raw.cuda_poison, ..CudaConfig::default() }
}

#[cfg(feature = "wgpu")]
fn wgpu<R: Args>(settings: &Settings<R>, raw: &RawDevices) -> Result<WgpuConfig, SettingsError> {
    let at_least = |key: &str, text: &str, least: Size, reason: &str| match text {
        AUTO => Ok(None),
        text => {
            let size: Size = settings.parsed(key, text)?;
            let wrong = || settings.wrong(key, format!("must be auto, or at least {least}: {reason}"));
            (size >= least).then_some(Some(size.bytes)).ok_or_else(wrong)
        }
    };
    let no_share = "the smallest share of a challenge does not fit in less";
    let no_matrix = "the smallest matrix does not fit in less";
    let cache_folder = match raw.wgpu_cache.as_os_str() == AUTO {
        true => paths::cache_folder("wgpu"),
        false => Some(raw.wgpu_cache.clone()),
    };
    Ok(WgpuConfig {
        memory_bytes: at_least("wgpu_memory", &raw.wgpu_memory, MIN_MEMORY, no_share)?,
        buffer_bytes: at_least("wgpu_buffer", &raw.wgpu_buffer, MIN_BUFFER, no_matrix)?,
        dot: raw.wgpu_dot.into(),
        cache_folder,
        poison: raw.wgpu_poison,
        ..WgpuConfig::default()
    })
}

impl DeviceConfig {
    /// What the devices are made from. Ids of devices that have none of their own are derived from `key`.
    #[must_use]
    pub fn host(&self, key: &PublicKey) -> HostConfig {
        let seed = key.0.to_vec();
        HostConfig {
            choice: self.backend.clone(),
            gpus_are_hidden: env::var_os(CUDA_VISIBLE_DEVICES).is_some(),
            #[cfg(feature = "cuda")]
            cuda: self.cuda.clone(),
            #[cfg(feature = "wgpu")]
            wgpu: WgpuConfig { seed: seed.clone(), software: self.backend != BackendChoice::Auto, ..self.wgpu.clone() },
            cpu: CpuConfig {
                devices: self.cpu_devices as usize,
                memory_bytes: self.cpu_memory.iter().map(|size| size.bytes).collect(),
                threads: self.cpu_threads.iter().map(|threads| *threads as usize).collect(),
                kernel: self.cpu_kernel.into(),
                seed,
            },
        }
    }
}

impl DeviceConfig {
    /// Opens the devices, each in its worker, and shows what takes long. Ids are as in [`DeviceConfig::host`].
    ///
    /// # Errors
    /// [`ChooseError`]: why there is none.
    pub fn open(&self, key: &PublicKey) -> Result<Chosen, ChooseError> {
        let mut preparations = Preparations::default();
        start(&self.host(key), &self.workers, &mut |info, preparing| preparations.show(info, preparing))
    }
}

/// Why a key is unknown in this build, where a build with another backend knows it.
#[must_use]
pub fn absent_key(key: &str) -> Option<String> {
    absent_backend(key).map(absence)
}

/// The backend whose settings a key would be among, in a build that has it; `None` for keys of this build, and unknown
/// ones.
fn absent_backend(key: &str) -> Option<BackendKind> {
    let kind = match key {
        "kernel" => BackendKind::Cuda,
        key if key.starts_with("cuda_") => BackendKind::Cuda,
        key if key.starts_with("wgpu_") => BackendKind::Wgpu,
        _ => return None,
    };
    (!is_built(kind)).then_some(kind)
}

/// One value for all devices, or one for each; `auto` is none.
fn each<R: Args, T: FromStr<Err: Display>>(
    settings: &Settings<R>,
    key: &str,
    text: &str,
    devices: u32,
) -> Result<Vec<T>, SettingsError> {
    if text == AUTO {
        return Ok(Vec::new());
    }
    let wrong = |error: T::Err| settings.wrong(key, format!("expected auto, or values: {error}"));
    let values = text.split(',').map(|value| value.trim().parse().map_err(wrong)).collect::<Result<Vec<_>, _>>()?;
    if values.len() != 1 && values.len() != devices as usize {
        let reason = format!("has {} values for {devices} devices: give one for all, or one for each", values.len());
        return Err(settings.wrong(key, reason));
    }
    Ok(values)
}

#[cfg(feature = "cuda")]
impl From<CudaKernel> for KernelChoice {
    fn from(kernel: CudaKernel) -> Self {
        match kernel {
            CudaKernel::Auto => Self::Auto,
            CudaKernel::Dp4a => Self::Dp4a,
            CudaKernel::MmaSm75 => Self::MmaSm75,
            CudaKernel::MmaSm80 => Self::MmaSm80,
            CudaKernel::WgmmaSm90a => Self::WgmmaSm90a,
        }
    }
}

#[cfg(feature = "wgpu")]
impl From<WgpuDot> for DotChoice {
    fn from(dot: WgpuDot) -> Self {
        match dot {
            WgpuDot::Auto => Self::Auto,
            WgpuDot::Fastest => Self::Fastest,
            WgpuDot::Packed => Self::Packed,
            WgpuDot::Plain => Self::Plain,
        }
    }
}

impl From<CpuKernel> for KernelKind {
    fn from(kernel: CpuKernel) -> Self {
        match kernel {
            CpuKernel::Auto => Self::Auto,
            CpuKernel::Avx512Vnni => Self::Avx512Vnni,
            CpuKernel::AvxVnni => Self::AvxVnni,
            CpuKernel::Avx2 => Self::Avx2,
            CpuKernel::NeonDot => Self::NeonDot,
            CpuKernel::Portable => Self::Portable,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use assay_program::settings::{Environment, Flags};
    use clap::FromArgMatches;

    fn settings(flags: &[&str]) -> Settings<RawDevices> {
        let command = Flags::<RawDevices>::augment_args(clap::Command::new("test"));
        let matches = command.try_get_matches_from(["test"].iter().chain(flags)).unwrap();
        Settings::resolve(&Flags::<RawDevices>::from_arg_matches(&matches).unwrap(), &Environment::default()).unwrap()
    }

    fn check(flags: &[&str]) -> Result<DeviceConfig, String> {
        let settings = settings(flags);
        DeviceConfig::check(&settings, &settings.raw).map_err(|error| error.to_string())
    }

    fn these(kinds: &[BackendKind]) -> BackendChoice {
        BackendChoice::These(kinds.iter().copied().collect())
    }

    #[test]
    fn backends_are_auto_or_a_list() {
        assert_eq!(check(&[]).unwrap().backend, BackendChoice::Auto);
        assert_eq!(check(&["--backend=auto"]).unwrap().backend, BackendChoice::Auto);
        assert_eq!(check(&["--backend=auto,auto"]).unwrap().backend, BackendChoice::Auto);
        for twice in ["--backend=cpu", "--backend=cpu,cpu"] {
            assert_eq!(check(&[twice]).unwrap().backend, these(&[BackendKind::Cpu]));
        }
        for mixed in ["--backend=auto,cpu", "--backend=cpu,auto"] {
            let error = check(&[mixed]).unwrap_err();
            assert!(error.contains("name it alone") && error.contains("(flag --backend)"), "{error}");
        }
    }

    #[test]
    fn a_list_has_any_order_and_every_form() {
        let both = these(&[BackendKind::Wgpu, BackendKind::Cpu]);
        let of = |settings: Settings<RawDevices>| DeviceConfig::check(&settings, &settings.raw);
        for flags in [&["--backend=cpu,wgpu"][..], &["--backend=wgpu,cpu"], &["--backend=wgpu", "--backend=cpu"]] {
            match of(settings(flags)) {
                Ok(config) => assert_eq!(config.backend, both),
                Err(error) => {
                    assert!(!cfg!(feature = "wgpu") && error.to_string().contains("no wgpu backend"), "{error}")
                }
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("settings.toml");
        for text in ["backend = [\"wgpu\", \"cpu\"]", "backend = \"cpu,wgpu\""] {
            std::fs::write(&file, text).unwrap();
            let from_file = settings(&["--config", file.to_str().unwrap()]);
            assert_eq!(from_file.raw.backend.len(), 2, "{text}");
        }
        let variables = [("TEST_BACKEND".to_owned(), "cpu,wgpu".to_owned())];
        let flags = Flags::<RawDevices>::from_arg_matches(
            &Flags::<RawDevices>::augment_args(clap::Command::new("test")).get_matches_from(["test"]),
        );
        let from_environment =
            Settings::<RawDevices>::resolve(&flags.unwrap(), &Environment::new("TEST_", variables)).unwrap();
        assert_eq!(from_environment.raw.backend, [Backend::Cpu, Backend::Wgpu]);
    }

    #[test]
    fn a_backend_that_this_build_lacks_is_refused_by_name() {
        for (kind, flag) in [(BackendKind::Cuda, "--backend=cuda"), (BackendKind::Wgpu, "--backend=wgpu,cpu")] {
            match check(&[flag]) {
                Ok(config) => assert!(is_built(kind) && config.backend.allows(kind)),
                Err(error) => {
                    assert!(!is_built(kind), "{error}");
                    assert!(error.contains(&format!("this build has no {} backend", kind.title())), "{error}");
                }
            }
        }
    }

    #[test]
    fn settings_of_a_backend_that_this_build_lacks_are_known() {
        let absent = |kind: BackendKind| (!is_built(kind)).then_some(kind);
        for key in ["kernel", "cuda_cache", "cuda_poison"] {
            assert_eq!(absent_backend(key), absent(BackendKind::Cuda), "{key}");
        }
        assert_eq!(absent_backend("wgpu_memory"), absent(BackendKind::Wgpu));
        assert_eq!(absent_backend("cpu_memory"), None);
        // What has such a name belongs to that backend.
        for setting in settings(&[]).settings() {
            assert_eq!(absent_backend(&setting.key), None, "{}", setting.key);
        }
    }

    #[test]
    fn the_version_tells_of_the_backends() {
        let backends = HostConfig::default().backends();
        let names: Vec<_> = backends.iter().map(|backend| backend.kind().name()).collect();
        assert!(LONG_VERSION.ends_with(&format!("\nbackends: {}", names.join(", "))), "{LONG_VERSION}");
    }

    #[cfg(feature = "wgpu")]
    #[test]
    fn wgpu_settings_are_what_is_meant() {
        let wgpu = check(&[]).unwrap().wgpu;
        let folder = paths::cache_folder("wgpu");
        assert_eq!(wgpu, WgpuConfig { cache_folder: folder, ..WgpuConfig::default() });
        let written =
            ["--wgpu-memory=2GiB", "--wgpu-buffer=64KiB", "--wgpu-dot=plain", "--wgpu-cache=/c", "--wgpu-poison"];
        let wgpu = check(&written).unwrap().wgpu;
        assert_eq!((wgpu.memory_bytes, wgpu.buffer_bytes), (Some(2 << 30), Some(65_536)));
        assert_eq!((wgpu.dot, wgpu.cache_folder, wgpu.poison), (DotChoice::Plain, Some("/c".into()), true));
        assert_eq!(check(&["--wgpu-dot=packed"]).unwrap().wgpu.dot, DotChoice::Packed);
    }

    #[cfg(feature = "wgpu")]
    #[test]
    fn wgpu_settings_have_bounds() {
        for (flag, part) in [
            ("--wgpu-memory=8MB", "at least 8MiB: the smallest share"),
            ("--wgpu-memory=2", "expected a whole number and a unit"),
            ("--wgpu-memory=1GiB,2GiB", "expected a whole number and a unit"),
            ("--wgpu-buffer=65535B", "at least 64KiB: the smallest matrix"),
            ("--wgpu-buffer=large", "expected a whole number and a unit"),
        ] {
            let error = check(&[flag]).unwrap_err();
            let (name, _) = flag.split_once('=').unwrap();
            assert!(error.contains(part) && error.contains(&format!("(flag {name})")), "{flag}: {error}");
        }
        check(&["--wgpu-memory=8MiB", "--wgpu-buffer=64KiB"]).unwrap();
    }

    #[cfg(feature = "cuda")]
    #[test]
    fn compiled_kernels_lie_in_the_users_cache_unless_told_otherwise() {
        assert_eq!(check(&[]).unwrap().cuda.cache_folder, paths::cache_folder("cuda"));
        assert_eq!(check(&["--cuda-cache=/c"]).unwrap().cuda.cache_folder, Some("/c".into()));
    }
}
