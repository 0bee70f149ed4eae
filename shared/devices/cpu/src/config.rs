//! From settings to CPU devices.

use std::fmt::Display;
use std::str::FromStr;

use clap::Args;
use serde::{Deserialize, Serialize};

use super::device::CpuDevice;
use super::kernel::KernelKind;
use assay_device::backend::{MAX_HOST_DEVICES, MIN_DEVICE_BYTES};
use assay_device::machine;
use assay_program::render::units::counted;
use assay_program::settings::{AUTO, Settings, SettingsError};
use assay_work::DeviceId;
use assay_work::size::Size;

/// The most threads of one device: the memory limit is computed for these, for every n.
pub const MAX_THREADS: usize = 256;
/// Numerator and denominator of the share of the available memory that devices take by default.
const DEFAULT_SHARE: (u64, u64) = (3, 4);

/// Settings of CPU devices, as written.
#[derive(Debug, Clone, Args)]
pub struct CpuArgs {
    /// Number of CPU devices; cores and memory are split evenly
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    pub cpu_devices: usize,
    /// Memory of each CPU device, such as 2GiB, or a comma-separated list; auto: three quarters of the free memory,
    /// split evenly
    #[arg(long, value_name = "SIZE", default_value = AUTO)]
    pub cpu_memory: String,
    /// Threads of each CPU device, or a comma-separated list; auto: all cores, split evenly
    #[arg(long, value_name = "COUNT", default_value = AUTO)]
    pub cpu_threads: String,
    /// Instruction set for products on CPU devices; results are the same
    #[arg(long, value_enum, value_name = "KERNEL", default_value = AUTO)]
    pub cpu_kernel: KernelKind,
}

impl CpuArgs {
    /// Checks the settings as written. The seed of device ids is left empty.
    ///
    /// # Errors
    /// [`SettingsError::Value`] for the first value out of bounds.
    pub fn check<R: Args>(&self, settings: &Settings<R>) -> Result<CpuConfig, SettingsError> {
        let reason = format!("a host has at most {MAX_HOST_DEVICES} devices");
        let devices = settings.in_range("cpu_devices", self.cpu_devices, 1..=MAX_HOST_DEVICES, &reason)?;
        let memory: Vec<Size> = values(settings, "cpu_memory", &self.cpu_memory, devices)?;
        let least = Size { bytes: MIN_DEVICE_BYTES };
        if memory.iter().any(|memory| *memory < least) {
            let reason = format!("must be at least {least}: the smallest share of a challenge does not fit in less");
            return Err(settings.wrong("cpu_memory", reason));
        }
        check_fits(settings, &memory, devices)?;
        if !self.cpu_kernel.is_available() {
            let available: Vec<_> = KernelKind::available().map(|kind| kind.to_string()).collect();
            let reason = format!("this CPU does not support it: use one of {}", available.join(", "));
            return Err(settings.wrong("cpu_kernel", reason));
        }
        let threads: Vec<usize> = values(settings, "cpu_threads", &self.cpu_threads, devices)?;
        for threads in &threads {
            settings.in_range("cpu_threads", *threads, 1..=MAX_THREADS, "the memory limit holds for no more")?;
        }
        let memory_bytes = memory.iter().map(|size| size.bytes).collect();
        Ok(CpuConfig { devices, memory_bytes, threads, kernel: self.cpu_kernel, seed: Vec::new() })
    }
}

/// Refuses more memory, over all devices, than the machine has: a challenge that filled it would swap or be killed.
fn check_fits<R: Args>(settings: &Settings<R>, memory: &[Size], devices: usize) -> Result<(), SettingsError> {
    let total = Size { bytes: machine::total_bytes() };
    let all = memory.iter().fold(0, |sum: u64, size| sum.saturating_add(size.bytes));
    let all = if memory.len() == 1 { all.saturating_mul(devices as u64) } else { all };
    if total.bytes == 0 || all <= total.bytes {
        return Ok(());
    }
    let mib = |bytes: u64| format!("{} MiB", bytes >> 20);
    let reason = format!(
        "{} would take {}, but this machine (or its container) has {}: give less, or auto",
        counted(devices as u64, "device"),
        mib(all),
        mib(total.bytes)
    );
    Err(settings.wrong("cpu_memory", reason))
}

/// One value for all devices, or one for each; empty for `auto`.
fn values<R: Args, T: FromStr<Err: Display>>(
    settings: &Settings<R>,
    key: &str,
    text: &str,
    devices: usize,
) -> Result<Vec<T>, SettingsError> {
    if text == AUTO {
        return Ok(Vec::new());
    }
    let wrong = |error: T::Err| settings.wrong(key, format!("expected auto, or values: {error}"));
    let values = text.split(',').map(|value| value.trim().parse().map_err(wrong)).collect::<Result<Vec<_>, _>>()?;
    if values.len() != 1 && values.len() != devices {
        let (found, devices) = (counted(values.len() as u64, "value"), counted(devices as u64, "device"));
        let reason = format!("has {found} for {devices}: give one for all, or one for each");
        return Err(settings.wrong(key, reason));
    }
    Ok(values)
}

/// Checked settings of CPU devices. The default has no device.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CpuConfig {
    pub devices: usize,
    /// Bytes of memory of each device; one value for all, one for each, or none: three quarters of the host's available
    /// memory, in equal parts.
    pub memory_bytes: Vec<u64>,
    /// Threads of each device; one value for all, one for each, or none: those of the host in equal parts,
    /// at least one.
    pub threads: Vec<usize>,
    pub kernel: KernelKind,
    /// The origin of device ids, beside the host and the index, such as the daemon's public key.
    #[serde(with = "hex::serde")]
    pub seed: Vec<u8>,
}

/// A configuration that gives no devices.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CpuConfigError {
    /// More devices than a process may have.
    #[error("{0} CPU devices are too many: at most {MAX_HOST_DEVICES}")]
    Devices(usize),
    /// Neither one value, nor one for each device.
    #[error(
        "{} for {setting} of {}: give one for all, or one for each",
        counted(*found as u64, "value"),
        counted(*devices as u64, "CPU device")
    )]
    Values {
        /// The setting's name.
        setting: &'static str,
        found: usize,
        devices: usize,
    },
    /// No thread, or more than `MAX_THREADS`.
    #[error("{0} threads for a CPU device: from 1 to {MAX_THREADS}")]
    Threads(usize),
    /// Zero bytes of memory.
    #[error("no memory for a CPU device: give it some bytes, or leave the setting out")]
    Memory,
    /// The processor lacks the kernel's instructions.
    #[error("this CPU does not support the kernel {0}: use auto")]
    Kernel(KernelKind),
}

/// One device with every setting decided: a setting left open is a part of the whole host's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CpuSpec {
    id: DeviceId,
    /// Its name, for people.
    name: String,
    /// The most bytes that it takes.
    memory_bytes: u64,
    /// Its threads, from 1 to 256.
    threads: usize,
    kernel: KernelKind,
}

impl CpuSpec {
    /// The device. It takes no memory yet.
    ///
    /// # Errors
    /// [`CpuConfigError::Kernel`] when this processor does not run the kernel, [`CpuConfigError::Threads`].
    pub fn open(&self) -> Result<CpuDevice, CpuConfigError> {
        if self.threads == 0 || self.threads > MAX_THREADS {
            return Err(CpuConfigError::Threads(self.threads));
        }
        CpuDevice::new(self.id, self.name.clone(), self.memory_bytes, self.threads, self.kernel)
            .ok_or(CpuConfigError::Kernel(self.kernel))
    }
}

/// The CPU devices of a host, in this process. No memory is taken yet.
///
/// # Errors
/// [`CpuConfigError`] for a configuration that the processor or the bounds refuse.
pub fn devices(config: &CpuConfig) -> Result<Vec<CpuDevice>, CpuConfigError> {
    specs(config)?.iter().map(CpuSpec::open).collect()
}

/// The decided settings of each CPU device of a host. Ids are the same after a restart, and derived from the host's
/// machine id, the seed and the index.
///
/// # Errors
/// [`CpuConfigError`] for a configuration that the bounds refuse.
pub fn specs(config: &CpuConfig) -> Result<Vec<CpuSpec>, CpuConfigError> {
    let devices = config.devices;
    if devices > MAX_HOST_DEVICES {
        return Err(CpuConfigError::Devices(devices));
    }
    let memory = for_each("memory", &config.memory_bytes, devices, || {
        machine::available_bytes() / DEFAULT_SHARE.1 * DEFAULT_SHARE.0 / devices as u64
    })?;
    let threads = for_each("threads", &config.threads, devices, || share_of(machine::parallelism(), devices))?;
    if let Some(&wrong) = threads.iter().find(|&&threads| threads == 0 || threads > MAX_THREADS) {
        return Err(CpuConfigError::Threads(wrong));
    }
    if memory.contains(&0) {
        return Err(CpuConfigError::Memory);
    }
    let processor = machine::processor_name();
    let make = |(index, (memory_bytes, threads))| {
        let id = device_id(&config.seed, index as u32);
        CpuSpec { id, name: format!("{processor}, CPU device {index}"), memory_bytes, threads, kernel: config.kernel }
    };
    Ok(memory.into_iter().zip(threads).enumerate().map(make).collect())
}

/// The id of CPU device `index`: the same after a restart, distinct on this host, and between hosts and daemons that
/// have another machine id or `seed`.
fn device_id(seed: &[u8], index: u32) -> DeviceId {
    machine::derive_id("assay v1 cpu device id", seed, &index.to_le_bytes())
}

/// The threads of each of several devices that share `threads` of the host.
fn share_of(threads: usize, devices: usize) -> usize {
    (threads / devices).clamp(1, MAX_THREADS)
}

/// A setting's value for each device.
fn for_each<T: Copy>(
    setting: &'static str,
    values: &[T],
    devices: usize,
    default: impl FnOnce() -> T,
) -> Result<Vec<T>, CpuConfigError> {
    match values {
        _ if devices == 0 => Ok(Vec::new()),
        [] => Ok(vec![default(); devices]),
        [all] => Ok(vec![*all; devices]),
        each if each.len() == devices => Ok(each.to_vec()),
        other => Err(CpuConfigError::Values { setting, found: other.len(), devices }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use assay_device::Device;

    #[test]
    fn devices_share_the_host_and_have_ids_that_stay() {
        let config = CpuConfig { devices: 2, ..CpuConfig::default() };
        let ids = |seed: &[u8]| {
            devices(&CpuConfig { seed: seed.into(), ..config.clone() })
                .unwrap()
                .iter()
                .map(|d| d.info().id)
                .collect::<Vec<_>>()
        };
        assert_eq!(ids(b"a"), ids(b"a"));
        assert_ne!(ids(b"a"), ids(b"b"));
        assert_ne!(ids(b"a")[0], ids(b"a")[1]);
    }

    /// Regression test: a host with more threads than a device may have got none.
    #[test]
    fn devices_share_the_threads_of_the_host() {
        assert_eq!([(384, 1), (384, 2), (2, 3)].map(|(threads, devices)| share_of(threads, devices)), [256, 192, 1]);
    }

    #[test]
    fn settings_are_one_for_all_or_one_for_each() {
        let config = CpuConfig { devices: 2, memory_bytes: vec![1 << 30], threads: vec![1, 3], ..CpuConfig::default() };
        let devices = devices(&config).unwrap();
        assert!(devices.iter().all(|d| d.info().total_bytes == 1 << 30));
        assert!(devices[1].info().detail.ends_with("threads 3"));
    }

    #[test]
    fn each_wrong_setting_is_named() {
        let good = CpuConfig { devices: 2, ..CpuConfig::default() };
        let refused = |config: CpuConfig| devices(&config).unwrap_err();
        assert_eq!(refused(CpuConfig { devices: 65, ..good.clone() }), CpuConfigError::Devices(65));
        assert_eq!(refused(CpuConfig { threads: vec![0], ..good.clone() }), CpuConfigError::Threads(0));
        assert_eq!(refused(CpuConfig { memory_bytes: vec![0], ..good.clone() }), CpuConfigError::Memory);
        let three = CpuConfigError::Values { setting: "threads", found: 3, devices: 2 };
        assert_eq!(refused(CpuConfig { threads: vec![1, 1, 1], ..good.clone() }), three);
        let missing = KernelKind::ALL.into_iter().find(|kind| !kind.is_available());
        if let Some(kernel) = missing {
            assert_eq!(refused(CpuConfig { kernel, ..good }), CpuConfigError::Kernel(kernel));
        }
    }

    #[test]
    fn no_devices_are_no_error() {
        assert!(devices(&CpuConfig::default()).unwrap().is_empty());
    }

    /// The host's memory and threads are shared out once; opening a device looks at neither.
    #[test]
    fn a_device_is_opened_with_what_was_decided_for_it() {
        let config = CpuConfig { devices: 2, ..CpuConfig::default() };
        for spec in specs(&config).unwrap() {
            let info = spec.open().unwrap().info();
            assert_eq!((info.id, info.total_bytes), (spec.id, spec.memory_bytes));
            assert!(info.detail.ends_with(&format!("threads {}", spec.threads)));
            let none = CpuSpec { threads: 0, ..spec };
            assert_eq!(none.open().err(), Some(CpuConfigError::Threads(0)));
        }
    }
}
