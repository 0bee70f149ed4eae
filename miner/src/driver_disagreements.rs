//! Disagreements between CUDA and NVML about the same machine. Both come with the driver and should agree; where they
//! do not, an operator should look into it.

use std::collections::BTreeSet;
use std::fmt;

use assay_device::DeviceInfo;
use assay_device::backend::BackendKind;
use assay_protocol::claims::{Hardware, HostClaims};
use assay_work::DeviceId;

/// The two may differ by memory / `MEMORY_PART`: NVML counts the memory that the driver reserves, a few hundred MiB of
/// dozens of GiB.
const MEMORY_PART: u64 = 16;

/// One fact that the two report differently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Disagreement {
    /// A device that only CUDA lists.
    OnlyCuda {
        device: DeviceId,
        name: String,
    },
    /// A device that only NVML lists.
    OnlyNvml {
        /// Its UUID, or a text in place of one.
        uuid: String,
        model: String,
    },
    /// A device that NVML lists more than once.
    Twice {
        device: DeviceId,
    },
    Model {
        device: DeviceId,
        cuda: String,
        nvml: String,
    },
    /// Memory sizes that differ by more than the driver reserves.
    Memory {
        device: DeviceId,
        cuda_bytes: u64,
        nvml_bytes: u64,
    },
    /// Different versions of CUDA.
    CudaVersion {
        /// CUDA's version according to CUDA, 1000 · major + 10 · minor.
        cuda: u32,
        nvml: u32,
    },
}

impl Disagreement {
    /// The device that it is about, where CUDA has it.
    pub const fn device(&self) -> Option<DeviceId> {
        match self {
            Self::OnlyCuda { device, .. }
            | Self::Twice { device }
            | Self::Model { device, .. }
            | Self::Memory { device, .. } => Some(*device),
            Self::OnlyNvml { .. } | Self::CudaVersion { .. } => None,
        }
    }
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OnlyCuda { device, name } => {
                write!(f, "CUDA has device {device} ({name}), NVML has not: they may be of two drivers")
            }
            Self::OnlyNvml { uuid, model } => write!(
                f,
                "NVML has {uuid} ({model}), CUDA has not: CUDA_VISIBLE_DEVICES may hide it, and of several partitions \
                 CUDA takes one"
            ),
            Self::Twice { device } => write!(f, "NVML has device {device} more than once: do not trust what it says"),
            Self::Model { device, cuda, nvml } => {
                write!(f, "device {device} is {cuda:?} to CUDA and {nvml:?} to NVML: one of them is not the driver's")
            }
            Self::Memory { device, cuda_bytes, nvml_bytes } => write!(
                f,
                "device {device} has {} MiB to CUDA and {} MiB to NVML: one of them is not the driver's",
                cuda_bytes >> 20,
                nvml_bytes >> 20
            ),
            Self::CudaVersion { cuda, nvml } => write!(
                f,
                "CUDA is of version {} by itself and {} by NVML: a compatibility library may stand before the driver's",
                version(*cuda),
                version(*nvml)
            ),
        }
    }
}

fn version(number: u32) -> String {
    format!("{}.{}", number / 1000, number % 1000 / 10)
}

/// Compares CUDA's facts (its version and its devices; devices of other backends are passed over) with those of the
/// library.
///
/// A fact that one side does not know does not count as a disagreement. A GPU that is partitioned is not a device: its
/// partitions are.
pub fn disagreements(devices: &[DeviceInfo], cuda_version: Option<u32>, facts: &HostClaims) -> Vec<Disagreement> {
    let cuda: Vec<_> = devices.iter().filter(|device| device.backend == BackendKind::Cuda).collect();
    let mut found = Vec::new();
    if let (Some(cuda), Some(nvml)) = (cuda_version, facts.cuda_version)
        && cuda != nvml
    {
        found.push(Disagreement::CudaVersion { cuda, nvml });
    }
    for device in &cuda {
        match facts.of(device.id) {
            Some(hardware) => found.extend(compare(device, hardware)),
            None => found.push(Disagreement::OnlyCuda { device: device.id, name: device.name.clone() }),
        }
    }
    let known: BTreeSet<_> = cuda.iter().map(|device| Some(device.id)).collect();
    let mut seen = BTreeSet::new();
    for hardware in &facts.hardware {
        let device = hardware.device_id();
        if device.is_some_and(|device| !seen.insert(device)) {
            found.extend(device.map(|device| Disagreement::Twice { device }));
        } else if !known.contains(&device) && hardware.counts_as_device() {
            let unknown = || "of no name".to_owned();
            let model = hardware.model.clone().unwrap_or_else(unknown);
            let uuid = hardware.uuid.clone().unwrap_or_else(|| "a device without UUID".to_owned());
            found.push(Disagreement::OnlyNvml { uuid, model });
        }
    }
    found
}

/// One device that both have.
fn compare(device: &DeviceInfo, hardware: &Hardware) -> impl Iterator<Item = Disagreement> {
    let id = device.id;
    let other_model = hardware.model.as_deref().filter(|model| model.trim() != device.name.trim());
    let model =
        other_model.map(|nvml| Disagreement::Model { device: id, cuda: device.name.clone(), nvml: nvml.to_owned() });
    let (cuda_bytes, nvml_bytes) = (device.total_bytes, hardware.memory_bytes.unwrap_or(device.total_bytes));
    let differ = cuda_bytes.abs_diff(nvml_bytes) > cuda_bytes.max(nvml_bytes) / MEMORY_PART;
    let memory = differ.then_some(Disagreement::Memory { device: id, cuda_bytes, nvml_bytes });
    model.into_iter().chain(memory)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn cuda(id: u8) -> DeviceInfo {
        DeviceInfo {
            id: DeviceId([id; 16]),
            name: "NVIDIA H200".into(),
            backend: BackendKind::Cuda,
            detail: String::new(),
            precisions: vec![assay_work::Precision::Int8],
            units: Vec::new(),
            total_bytes: 139 * GIB,
            free_bytes: 138 * GIB,
        }
    }

    fn uuid(prefix: &str, id: u8) -> String {
        let hex = |bytes: usize| format!("{id:02x}").repeat(bytes);
        format!("{prefix}-{}-{}-{}-{}-{}", hex(4), hex(2), hex(2), hex(2), hex(6))
    }

    fn nvml(id: u8) -> Hardware {
        Hardware {
            model: Some("NVIDIA H200".into()),
            uuid: Some(uuid("GPU", id)),
            memory_bytes: Some(140 * GIB),
            mig_enabled: Some(false),
            ..Hardware::default()
        }
    }

    fn facts(hardware: Vec<Hardware>) -> HostClaims {
        HostClaims { hardware, cuda_version: Some(13_000) }
    }

    #[test]
    fn a_sound_machine_agrees() {
        // The order does not matter, and a processor is passed over.
        let processor = DeviceInfo { backend: BackendKind::Cpu, ..cuda(7) };
        let devices = [cuda(1), cuda(2), processor];
        assert_eq!(disagreements(&devices, Some(13_000), &facts(vec![nvml(2), nvml(1)])), []);
        assert_eq!(disagreements(&[], None, &HostClaims::default()), []);
    }

    #[test]
    fn what_is_not_known_is_no_disagreement() {
        let bare = Hardware { uuid: Some(uuid("GPU", 1)), ..Hardware::default() };
        let unknown = HostClaims { hardware: vec![bare], cuda_version: None };
        assert_eq!(disagreements(&[cuda(1)], Some(13_000), &unknown), []);
        assert_eq!(disagreements(&[cuda(1)], None, &facts(vec![nvml(1)])), []);
    }

    #[test]
    fn a_device_that_only_one_has() {
        let found = disagreements(&[cuda(1), cuda(2)], None, &facts(vec![nvml(2), nvml(3)]));
        let only_cuda = Disagreement::OnlyCuda { device: DeviceId([1; 16]), name: "NVIDIA H200".into() };
        let only_nvml = Disagreement::OnlyNvml { uuid: uuid("GPU", 3), model: "NVIDIA H200".into() };
        assert_eq!(found, [only_cuda, only_nvml]);
        assert_eq!((found[0].device(), found[1].device()), (Some(DeviceId([1; 16])), None));
        assert!(found[1].to_string().contains("CUDA_VISIBLE_DEVICES"), "{}", found[1]);
        // Nothing to recognise it by.
        let nameless = disagreements(&[], None, &facts(vec![Hardware::default()]));
        assert!(matches!(&nameless[..], [Disagreement::OnlyNvml { .. }]), "{nameless:?}");
    }

    #[test]
    fn a_partitioned_gpu_counts_as_its_partitions() {
        let whole = Hardware { mig_enabled: Some(true), ..nvml(1) };
        let partition = |id| Hardware { uuid: Some(uuid("MIG", id)), ..whole.clone() };
        let taken = facts(vec![whole.clone(), partition(5)]);
        assert_eq!(disagreements(&[cuda(5)], None, &taken), []);
        let left = facts(vec![whole.clone(), partition(5), partition(6)]);
        let only_nvml = Disagreement::OnlyNvml { uuid: uuid("MIG", 6), model: "NVIDIA H200".into() };
        assert_eq!(disagreements(&[cuda(5)], None, &left), [only_nvml]);
    }

    #[test]
    fn models_and_memory_that_differ() {
        let other = Hardware { model: Some("NVIDIA H100".into()), memory_bytes: Some(80 * GIB), ..nvml(1) };
        let found = disagreements(&[cuda(1)], None, &facts(vec![other]));
        let device = DeviceId([1; 16]);
        let model = Disagreement::Model { device, cuda: "NVIDIA H200".into(), nvml: "NVIDIA H100".into() };
        let memory = Disagreement::Memory { device, cuda_bytes: 139 * GIB, nvml_bytes: 80 * GIB };
        assert_eq!(found, [model, memory]);
        // A sixteenth is the driver's own; more is not.
        for (nvml_bytes, agrees) in [(160, true), (161, false), (150, true), (141, true), (140, false)] {
            let device =
                DeviceInfo { precisions: vec![assay_work::Precision::Int8], total_bytes: 150 * GIB, ..cuda(1) };
            let hardware = Hardware { memory_bytes: Some(nvml_bytes * GIB), ..nvml(1) };
            let found = disagreements(&[device], None, &facts(vec![hardware]));
            assert_eq!(found.is_empty(), agrees, "{nvml_bytes} GiB: {found:?}");
        }
    }

    #[test]
    fn versions_that_differ() {
        let found = disagreements(&[cuda(1)], Some(12_080), &facts(vec![nvml(1)]));
        assert_eq!(found, [Disagreement::CudaVersion { cuda: 12_080, nvml: 13_000 }]);
        assert!(found[0].to_string().contains("12.8 by itself and 13.0 by NVML"), "{}", found[0]);
    }

    #[test]
    fn a_library_that_has_a_device_twice() {
        let found = disagreements(&[cuda(1)], None, &facts(vec![nvml(1), nvml(1)]));
        assert_eq!(found, [Disagreement::Twice { device: DeviceId([1; 16]) }]);
    }
}
