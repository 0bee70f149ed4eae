//! Settings of this machine's own devices, the same for both programs.

use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::preparing::Preparations;
use super::settings::{Settings, SettingsError};
use super::size::Size;
use crate::compute::choose::{BackendChoice, ChooseError, Chosen, HostConfig};
use crate::compute::cpu::{CpuConfig, KernelKind};
use crate::compute::cuda::{CudaConfig, KernelChoice, cache};
use crate::compute::worker::{self, WorkerConfig};
use crate::work::PublicKey;

/// The most devices of a host: what an inventory carries.
pub const MAX_DEVICES: u32 = 64;
/// The most threads of a device: what the CPU backend can bound its memory for.
pub const MAX_THREADS: u32 = 256;
/// The least memory of a device: room for the smallest share and what is around it.
pub const MIN_MEMORY: Size = Size { bytes: 8 << 20 };
/// The longest silence of a worker, in seconds: a device that hangs is of no use for as long.
const MAX_SILENCE_S: u64 = 600;

/// Which backends give devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Backend {
    /// The fastest backend that finds a device.
    Auto,
    /// NVIDIA GPUs only.
    Cuda,
    /// The processor only.
    Cpu,
}

/// Which family of kernels CUDA devices multiply with.
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
    /// Which devices to use
    #[arg(long, value_enum, default_value = "auto")]
    pub backend: Backend,
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
    #[arg(long, value_enum, value_name = "KERNEL", default_value = "auto")]
    pub kernel: CudaKernel,
    /// Where the NVIDIA driver keeps the kernels that it compiled, so that only the first start takes long; auto is
    /// assay/cuda in the user's cache. CUDA_CACHE_PATH, where it is set, goes before
    #[arg(long, value_name = "FOLDER", default_value = "auto")]
    pub cuda_cache: PathBuf,
    /// Overwrite all memory of CUDA devices before each pass: shows kernels that read what they did not write
    #[arg(long)]
    pub cuda_poison: bool,
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
    pub backend: Backend,
    /// As how many devices the processor counts.
    pub cpu_devices: u32,
    /// Memory of each processor device: one for all, one for each, or none, which is what is free, split evenly.
    pub cpu_memory: Vec<Size>,
    /// Threads of each processor device: one for all, one for each, or none, which is the cores, split evenly.
    pub cpu_threads: Vec<u32>,
    /// Which instructions processor devices multiply with.
    pub cpu_kernel: CpuKernel,
    /// CUDA devices.
    pub cuda: CudaConfig,
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
        let (backend, cpu_kernel) = (raw.backend, raw.cpu_kernel);
        let is_auto = raw.cuda_cache.as_os_str() == "auto";
        let cache_folder = if is_auto { cache::default_folder() } else { Some(raw.cuda_cache.clone()) };
        let (kernel, poison) = (raw.kernel.into(), raw.cuda_poison);
        let cuda = CudaConfig { kernel, cache_folder, poison, ..CudaConfig::default() };
        Ok(Self { backend, cpu_devices, cpu_memory, cpu_threads, cpu_kernel, cuda, workers })
    }
}

impl DeviceConfig {
    /// What the devices are made from. Ids of devices that have none of their own are derived from `key`.
    #[must_use]
    pub fn host(&self, key: &PublicKey) -> HostConfig {
        HostConfig {
            choice: match self.backend {
                Backend::Auto => BackendChoice::Auto,
                Backend::Cuda => BackendChoice::Cuda,
                Backend::Cpu => BackendChoice::Cpu,
            },
            cuda: self.cuda.clone(),
            cpu: CpuConfig {
                devices: self.cpu_devices as usize,
                memory_bytes: self.cpu_memory.iter().map(|size| size.bytes).collect(),
                threads: self.cpu_threads.iter().map(|threads| *threads as usize).collect(),
                kernel: self.cpu_kernel.into(),
            },
            seed: key.0.to_vec(),
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
        worker::choose(&self.host(key), &self.workers, &mut |info, preparing| preparations.show(info, preparing))
    }
}

/// One value for all devices, or one for each; `auto` is none.
fn each<R: Args, T: FromStr<Err: Display>>(
    settings: &Settings<R>,
    key: &str,
    text: &str,
    devices: u32,
) -> Result<Vec<T>, SettingsError> {
    if text == "auto" {
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
