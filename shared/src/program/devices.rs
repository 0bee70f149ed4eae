//! Settings of this machine's own devices, the same for both programs.

use clap::{Args, ValueEnum};

use super::settings::{Settings, SettingsError};
use super::size::Size;

/// The most devices of a host: what an inventory carries.
pub const MAX_DEVICES: u32 = 64;
/// The most threads of a device: more than any machine has, so that a slip of the finger starts no thousands.
pub const MAX_THREADS: u32 = 1024;
/// The least memory of a device: room for the smallest share and what is around it.
pub const MIN_MEMORY: Size = Size { bytes: 1 << 20 };

/// Which backends give devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Backend {
    /// Every backend that finds a device.
    Auto,
    /// The processor only.
    Cpu,
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
    /// Memory of each processor device, such as 2GiB; auto takes what is free, less a reserve
    #[arg(long, value_name = "SIZE", default_value = "auto")]
    pub cpu_memory: String,
    /// Threads of each processor device; auto takes the cores, split evenly
    #[arg(long, value_name = "COUNT", default_value = "auto")]
    pub cpu_threads: String,
    /// Which instructions processor devices multiply with
    #[arg(long, value_enum, value_name = "KERNEL", default_value = "auto")]
    pub cpu_kernel: CpuKernel,
}

/// Settings of the devices, checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceConfig {
    /// Which backends give devices.
    pub backend: Backend,
    /// As how many devices the processor counts.
    pub cpu_devices: u32,
    /// Memory of each processor device; `None`: what is free.
    pub cpu_memory: Option<Size>,
    /// Threads of each processor device; `None`: the cores, split evenly.
    pub cpu_threads: Option<u32>,
    /// Which instructions processor devices multiply with.
    pub cpu_kernel: CpuKernel,
}

impl DeviceConfig {
    /// Checks what was written.
    ///
    /// # Errors
    /// [`SettingsError::Value`] for the first value out of bounds.
    pub fn check<R: Args>(settings: &Settings<R>, raw: &RawDevices) -> Result<Self, SettingsError> {
        let most_devices = "a host has at most 64 devices";
        let cpu_devices = settings.in_range("cpu_devices", raw.cpu_devices, 1..=MAX_DEVICES, most_devices)?;
        let cpu_memory: Option<Size> = settings.parsed_or_auto("cpu_memory", &raw.cpu_memory)?;
        if cpu_memory.is_some_and(|memory| memory < MIN_MEMORY) {
            let reason =
                format!("must be at least {MIN_MEMORY}: the smallest share of a challenge does not fit in less");
            return Err(settings.wrong("cpu_memory", reason));
        }
        let cpu_threads: Option<u32> = settings.parsed_or_auto("cpu_threads", &raw.cpu_threads)?;
        if let Some(threads) = cpu_threads {
            settings.in_range("cpu_threads", threads, 1..=MAX_THREADS, "no machine runs more at once")?;
        }
        Ok(Self { backend: raw.backend, cpu_devices, cpu_memory, cpu_threads, cpu_kernel: raw.cpu_kernel })
    }
}
