//! NVIDIA's management library, NVML, as a source of readings. It comes with the driver and is loaded at run time.
//!
//! Any call may fail: an old driver lacks the function, a device lacks the sensor, or only the whole GPU of a partition
//! has it. Then that one value is unknown. Tested against a stand-in library.

#[allow(unsafe_code)]
mod counters;
#[allow(unsafe_code)]
mod text;
#[cfg_attr(not(target_os = "linux"), path = "no_xid.rs")]
mod xid;

use std::collections::BTreeSet;

use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{Clock, EccCounter, MemoryError, RetirementCause, TemperatureSensor};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};

use self::xid::Xids;
use super::reading::Reading;
use super::sampler::SensorSource;
use super::wear::Wear;
use assay_protocol::claims::{
    ConfidentialComputing, Hardware, HostClaims, MAX_MEMORY_BYTES, MAX_POWER_MW, ThrottleReason,
};
use assay_work::DeviceId;

/// GPUs that are queried: several times what one machine holds.
const MAX_BOARDS: u32 = 64;
/// Lanes and generations of PCIe beyond any that will come soon.
const MAX_LANES: u32 = 64;
const MAX_GENERATION: u32 = 32;
/// Partitions of a GPU that are queried: the hardware has at most seven.
const MAX_PARTITIONS: u32 = 16;

/// The loaded library, and the devices that it had at that moment.
pub struct NvmlSource {
    nvml: &'static Nvml,
    boards: Vec<GpuBoard>,
}

struct GpuBoard {
    device: Device<'static>,
    id: Option<DeviceId>,
    partitions: Vec<Partition>,
    xids: Option<Xids>,
}

/// A partition of a GPU (multi-instance GPU), which is a device of its own.
struct Partition {
    device: Device<'static>,
    id: Option<DeviceId>,
}

impl NvmlSource {
    /// Loads the library and lists its devices.
    ///
    /// # Errors
    /// The reason that it cannot be used, in a sentence.
    pub fn open() -> Result<Self, String> {
        let nvml = Nvml::init().map_err(|error| explain(&error))?;
        // Never unloaded: its handles live as long as the process, and unloading calls into a driver that may hang.
        let nvml: &'static Nvml = Box::leak(Box::new(nvml));
        let count = nvml.device_count().map_err(|error| explain(&error))?.min(MAX_BOARDS);
        let boards = (0..count).filter_map(|index| nvml.device_by_index(index).ok()).map(GpuBoard::new).collect();
        Ok(Self { nvml, boards })
    }
}

/// The error as a sentence with its remedy.
fn explain(error: &NvmlError) -> String {
    match error {
        NvmlError::LibloadingError(_) => "NVML is not installed: it comes with NVIDIA's driver".into(),
        NvmlError::DriverNotLoaded => {
            "NVML finds no driver: load the kernel module, for example with nvidia-smi".into()
        }
        NvmlError::LibRmVersionMismatch => {
            "NVML and the driver have different versions: restart the machine after an update".into()
        }
        NvmlError::NoPermission => "NVML may not open the driver: check the permissions of /dev/nvidiactl".into(),
        error => format!("cannot start NVML: {error}"),
    }
}

impl SensorSource for NvmlSource {
    fn host_claims(&mut self) -> HostClaims {
        let driver_version = text::driver_version(self.nvml);
        let confidential_computing = self.boards.first().and_then(|board| confidential_computing(&board.device));
        let mut hardware = Vec::new();
        for board in &self.boards {
            let mut whole = board.hardware();
            whole.driver_version.clone_from(&driver_version);
            whole.confidential_computing = confidential_computing;
            let parts = board.partitions.iter().map(|partition| partition.hardware(&whole)).collect::<Vec<_>>();
            hardware.push(whole);
            hardware.extend(parts);
        }
        let cuda_version = self.nvml.sys_cuda_driver_version().ok().and_then(|version| u32::try_from(version).ok());
        HostClaims { hardware, cuda_version }
    }

    fn begin(&mut self, _ids: &[DeviceId]) {
        self.boards.iter_mut().filter_map(|board| board.xids.as_mut()).for_each(Xids::forget);
    }

    fn read(&mut self, id: DeviceId) -> Option<Reading> {
        let is_meant = |board: &&mut GpuBoard| board.id == Some(id) || board.partition(id).is_some();
        let board = self.boards.iter_mut().find(is_meant)?;
        let mut reading = board.read();
        if let Some(partition) = board.partition(id) {
            // All other sensors are the whole GPU's.
            reading.memory_used_bytes = memory_used(&partition.device);
        }
        Some(reading)
    }

    fn wear(&mut self, id: DeviceId) -> Option<Wear> {
        let is_meant = |board: &&GpuBoard| board.id == Some(id) || board.partitions.iter().any(|p| p.id == Some(id));
        self.boards.iter().find(is_meant).map(|board| wear(&board.device))
    }
}

/// A device's counters of wear.
fn wear(device: &Device<'_>) -> Wear {
    let causes = [RetirementCause::MultipleSingleBitEccErrors, RetirementCause::DoubleBitEccError];
    let retired = causes.map(|cause| counters::retired_pages(device, &cause));
    let rows = counters::remapped_rows(device);
    let lanes = |lanes: Option<u32>| lanes.filter(|lanes| *lanes <= MAX_LANES);
    let generation = |generation: Option<u32>| generation.filter(|generation| *generation <= MAX_GENERATION);
    Wear {
        pcie_width: lanes(device.current_pcie_link_width().ok()),
        pcie_max_width: lanes(device.max_pcie_link_width().ok()),
        pcie_generation: generation(device.current_pcie_link_gen().ok()),
        pcie_max_generation: generation(device.max_pcie_link_gen().ok()),
        pcie_replays: device.pcie_replay_counter().ok(),
        retired_pages: retired.into_iter().flatten().reduce(|a, b| a + b),
        remapped_corrected: rows.map(|rows| rows.corrected),
        remapped_uncorrected: rows.map(|rows| rows.uncorrected),
        remap_failed: rows.map(|rows| rows.has_failed),
        repair_pending: match (device.are_pages_pending_retired().ok(), rows.map(|rows| rows.is_pending)) {
            (Some(pages), Some(rows)) => Some(pages || rows),
            (pages, rows) => pages.or(rows),
        },
    }
}

impl GpuBoard {
    fn new(device: Device<'static>) -> Self {
        let id = Hardware { uuid: text::uuid(&device), ..Hardware::default() }.device_id();
        let partitions = if mig_enabled(&device) == Some(true) { partitions(&device) } else { Vec::new() };
        let xids = Xids::of(&device);
        Self { device, id, partitions, xids }
    }

    fn partition(&self, id: DeviceId) -> Option<&Partition> {
        self.partitions.iter().find(|partition| partition.id == Some(id))
    }

    /// The claims of the GPU itself, without those of the machine.
    fn hardware(&self) -> Hardware {
        let device = &self.device;
        let limit = device.enforced_power_limit().or_else(|_| device.power_management_limit()).ok();
        Hardware {
            model: text::name(device),
            uuid: text::uuid(device),
            serial: text::serial(device),
            pci_address: text::pci_address(device),
            vbios_version: text::vbios_version(device),
            memory_bytes: memory_total(device),
            power_limit_mw: limit.filter(|limit| *limit <= MAX_POWER_MW),
            mig_enabled: mig_enabled(device),
            ecc_enabled: device.is_ecc_enabled().ok().map(|ecc| ecc.currently_enabled),
            ..Hardware::default()
        }
    }

    fn read(&mut self) -> Reading {
        let device = &self.device;
        let utilisation = device.utilization_rates().ok();
        let errors = |kind| device.total_ecc_errors(kind, EccCounter::Volatile).ok();
        Reading {
            temperature_c: device.temperature(TemperatureSensor::Gpu).ok(),
            power_mw: device.power_usage().ok(),
            sm_clock_mhz: device.clock_info(Clock::SM).ok(),
            memory_clock_mhz: device.clock_info(Clock::Memory).ok(),
            gpu_utilisation_percent: utilisation.as_ref().map(|utilisation| utilisation.gpu),
            memory_utilisation_percent: utilisation.as_ref().map(|utilisation| utilisation.memory),
            memory_used_bytes: memory_used(device),
            throttle_reasons: device.current_throttle_reasons().map(throttle_reasons).unwrap_or_default(),
            ecc_corrected: errors(MemoryError::Corrected),
            ecc_uncorrected: errors(MemoryError::Uncorrected),
            xids: self.xids.as_mut().map(Xids::since_begin).unwrap_or_default(),
        }
    }
}

impl Partition {
    /// The partition's own claims, and the rest from the whole GPU.
    fn hardware(&self, whole: &Hardware) -> Hardware {
        Hardware {
            model: text::name(&self.device).or_else(|| whole.model.clone()),
            uuid: text::uuid(&self.device),
            memory_bytes: memory_total(&self.device),
            ..whole.clone()
        }
    }
}

fn partitions(device: &Device<'static>) -> Vec<Partition> {
    let places = device.mig_device_count().unwrap_or(0).min(MAX_PARTITIONS);
    let partition = |place| {
        let device = device.mig_device_by_index(place).ok()?;
        let id = Hardware { uuid: text::uuid(&device), ..Hardware::default() }.device_id();
        Some(Partition { device, id })
    };
    (0..places).filter_map(partition).collect()
}

/// Whether the GPU is partitioned now; an undefined mode is unknown.
fn mig_enabled(device: &Device<'_>) -> Option<bool> {
    match device.mig_mode().ok()?.current {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

/// The machine's mode, which every device reports.
fn confidential_computing(device: &Device<'_>) -> Option<ConfidentialComputing> {
    let dev_tools = || device.is_cc_dev_mode_enabled().unwrap_or(false);
    Some(match device.is_cc_enabled().ok()? {
        false => ConfidentialComputing::Off,
        true if dev_tools() => ConfidentialComputing::DevTools,
        true => ConfidentialComputing::On,
    })
}

fn memory_used(device: &Device<'_>) -> Option<u64> {
    device.memory_info().ok().map(|memory| memory.used)
}

fn memory_total(device: &Device<'_>) -> Option<u64> {
    device.memory_info().ok().map(|memory| memory.total).filter(|total| *total <= MAX_MEMORY_BYTES)
}

/// The reasons of the library's bits; unknown bits are skipped.
fn throttle_reasons(bits: ThrottleReasons) -> BTreeSet<ThrottleReason> {
    let names = [
        (ThrottleReasons::GPU_IDLE, ThrottleReason::GpuIdle),
        (ThrottleReasons::APPLICATIONS_CLOCKS_SETTING, ThrottleReason::ApplicationsClocks),
        (ThrottleReasons::SW_POWER_CAP, ThrottleReason::SwPowerCap),
        (ThrottleReasons::HW_SLOWDOWN, ThrottleReason::HwSlowdown),
        (ThrottleReasons::SYNC_BOOST, ThrottleReason::SyncBoost),
        (ThrottleReasons::SW_THERMAL_SLOWDOWN, ThrottleReason::SwThermal),
        (ThrottleReasons::HW_THERMAL_SLOWDOWN, ThrottleReason::HwThermal),
        (ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN, ThrottleReason::HwPowerBrake),
        (ThrottleReasons::DISPLAY_CLOCK_SETTING, ThrottleReason::DisplayClocks),
    ];
    names.into_iter().filter(|(bit, _)| bits.contains(*bit)).map(|(_, reason)| reason).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_its_bit() {
        assert_eq!(throttle_reasons(ThrottleReasons::all()).into_iter().collect::<Vec<_>>(), ThrottleReason::ALL);
        assert_eq!(throttle_reasons(ThrottleReasons::NONE), [].into());
        let hot = ThrottleReasons::from_bits_truncate(0x40 | 1 << 40);
        assert_eq!(throttle_reasons(hot), [ThrottleReason::HwThermal].into());
    }
}
