//! The devices of several backends as those of one host: each piece of hardware once, each id once, and no more than a
//! host may have.

use std::fmt;

use assay_device::backend::{BackendKind, DetectedDevice, MAX_HOST_DEVICES};
use assay_device::place::{NVIDIA, PciAddress};
use assay_work::DeviceId;

/// The variable by which an operator says which of NVIDIA's GPUs a program may use. Only CUDA's driver obeys it.
pub const CUDA_VISIBLE_DEVICES: &str = "CUDA_VISIBLE_DEVICES";

/// The result of a merge: the devices to use, and those left out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MergeResult {
    /// The devices, those of the first backend first.
    pub devices: Vec<DetectedDevice>,
    /// Devices that were found and are not used.
    pub left_out: Vec<ExcludedDevice>,
}

/// A device that is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExcludedDevice {
    pub backend: BackendKind,
    pub name: String,
    /// Its address, where that is known.
    pub pci_address: Option<PciAddress>,
    pub why: ExclusionReason,
}

/// The reason to leave a device out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExclusionReason {
    /// An earlier backend has the same hardware, and it is used through that.
    Twin(BackendKind),
    /// The operator gave it to another program.
    Hidden,
    /// It shares the host's memory, and `auto` has faster devices.
    Integrated,
    /// Another device has its id.
    SameId(DeviceId),
    /// There are as many as a host may have.
    TooMany,
}

impl ExcludedDevice {
    pub(crate) fn new(DetectedDevice { info, place, .. }: &DetectedDevice, why: ExclusionReason) -> Self {
        Self { backend: info.backend, name: info.name.clone(), pci_address: place.pci_address, why }
    }

    /// Whether nothing is wrong with the host.
    pub const fn is_usual(&self) -> bool {
        matches!(self.why, ExclusionReason::Twin(_) | ExclusionReason::Integrated)
    }
}

impl fmt::Display for ExcludedDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use ExclusionReason::{Hidden, Integrated, SameId, TooMany, Twin};
        let Self { backend, name, pci_address, why } = self;
        let backend = backend.title();
        let at = pci_address.map(|address| format!(" at {address}")).unwrap_or_default();
        match why {
            Twin(through) => write!(f, "{name}{at} ({backend}) is used through {}", through.title()),
            Hidden => write!(f, "{name}{at} ({backend}) is hidden by {CUDA_VISIBLE_DEVICES}"),
            Integrated => write!(f, "{name}{at} ({backend}) is integrated: to use it as well, name all GPUs in device"),
            SameId(id) => write!(f, "{name} ({backend}) is not used: another device has its id, {id}"),
            TooMany => write!(f, "{name} ({backend}) is not used: a host has at most {MAX_HOST_DEVICES} devices"),
        }
    }
}

/// Takes NVIDIA's GPUs that CUDA does not list out of the other backends' lists, and drops lists that are empty then:
/// where an operator names the GPUs that a program may use, the others belong to other programs. A GPU that neither an
/// address nor a UUID distinguishes from those is taken out too.
pub fn exclude_hidden(lists: &mut Vec<Vec<DetectedDevice>>) -> Vec<ExcludedDevice> {
    let cuda = |found: &DetectedDevice| found.info.backend == BackendKind::Cuda;
    let visible: Vec<_> = lists.iter().flatten().filter(|found| cuda(found)).map(|found| found.place.clone()).collect();
    let hidden = |found: &DetectedDevice| {
        found.place.vendor == Some(NVIDIA)
            && !cuda(found)
            && !visible.iter().any(|visible| found.place.is_where(visible))
    };
    let mut left_out = Vec::new();
    for list in lists.iter_mut() {
        let hidden = list.extract_if(.., |found| hidden(found));
        left_out.extend(hidden.map(|found| ExcludedDevice::new(&found, ExclusionReason::Hidden)));
    }
    lists.retain(|list| !list.is_empty());
    left_out
}

/// Merges the lists of devices that the backends found, the preferred backend's first.
///
/// Devices of one backend are never taken for one another: it lists its devices itself, and the partitions of a GPU are
/// several at one place.
pub fn merge(lists: &[Vec<DetectedDevice>]) -> MergeResult {
    let mut merged = MergeResult::default();
    for list in lists {
        let earlier = merged.devices.len();
        for found in list {
            match why_not(found, &merged.devices, earlier) {
                None => merged.devices.push(found.clone()),
                Some(excluded) => merged.left_out.push(excluded),
            }
        }
    }
    merged
}

/// Why a device is not taken beside those taken, of which the first `earlier` are of earlier backends.
fn why_not(found: &DetectedDevice, taken: &[DetectedDevice], earlier: usize) -> Option<ExcludedDevice> {
    if let Some(twin) = taken[..earlier].iter().find(|taken| found.place.is_known_as(&taken.place)) {
        let excluded = ExcludedDevice::new(found, ExclusionReason::Twin(twin.info.backend));
        return Some(ExcludedDevice { pci_address: excluded.pci_address.or(twin.place.pci_address), ..excluded });
    }
    if taken.iter().any(|taken| taken.info.id == found.info.id) {
        return Some(ExcludedDevice::new(found, ExclusionReason::SameId(found.info.id)));
    }
    (taken.len() >= MAX_HOST_DEVICES).then(|| ExcludedDevice::new(found, ExclusionReason::TooMany))
}

#[cfg(test)]
mod tests {
    use super::*;
    use assay_device::DeviceInfo;
    use assay_device::place::DevicePlace;

    const AMD: u32 = 0x1002;

    fn found(backend: BackendKind, id: u8, place: DevicePlace) -> DetectedDevice {
        let (id, name) = (DeviceId([id; 16]), format!("card {id}"));
        let info = DeviceInfo {
            id,
            name,
            backend,
            detail: String::new(),
            precisions: vec![assay_work::Precision::Int8],
            units: Vec::new(),
            total_bytes: 1,
            free_bytes: 1,
        };
        DetectedDevice { info, place, integrated: false, refusal: None, forbidden: false, spec: String::new() }
    }

    fn at(address: &str, vendor: u32) -> DevicePlace {
        DevicePlace { pci_address: Some(address.parse().unwrap()), uuid: None, vendor: Some(vendor) }
    }

    fn ids(merged: &MergeResult) -> Vec<(BackendKind, u8)> {
        merged.devices.iter().map(|found| (found.info.backend, found.info.id.0[0])).collect()
    }

    #[test]
    fn one_gpu_of_two_backends_counts_once() {
        let cuda = vec![found(BackendKind::Cuda, 1, at("00000000:02:00.0", NVIDIA))];
        let wgpu = vec![
            found(BackendKind::Wgpu, 2, at("0000:02:00.0", NVIDIA)),
            found(BackendKind::Wgpu, 3, at("0000:03:00.0", AMD)),
        ];
        let merged = merge(&[cuda.clone(), wgpu.clone()]);
        assert_eq!(ids(&merged), [(BackendKind::Cuda, 1), (BackendKind::Wgpu, 3)]);
        assert_eq!(merged.left_out[0].to_string(), "card 2 at 0000:02:00.0 (wgpu) is used through CUDA");
        // Alone, a backend keeps all that it has.
        assert_eq!(ids(&merge(&[wgpu])), [(BackendKind::Wgpu, 2), (BackendKind::Wgpu, 3)]);
        assert_eq!(merge(&[cuda]).left_out, []);
    }

    /// The partitions of a GPU share its address; neither they nor the GPU are found again.
    #[test]
    fn a_partitioned_gpu_is_its_partitions() {
        let partition = |id| DevicePlace { uuid: Some([id; 16]), ..at("0000:02:00.0", NVIDIA) };
        let cuda = vec![found(BackendKind::Cuda, 1, partition(1)), found(BackendKind::Cuda, 2, partition(2))];
        let wgpu = vec![found(BackendKind::Wgpu, 3, partition(9))];
        assert_eq!(ids(&merge(&[cuda, wgpu])), [(BackendKind::Cuda, 1), (BackendKind::Cuda, 2)]);
    }

    /// A GPU that CUDA refuses (one before Turing) is not among its devices, and another backend may have it.
    #[test]
    fn a_gpu_that_an_earlier_backend_does_not_give_is_taken() {
        let old = found(BackendKind::Wgpu, 2, at("0000:03:00.0", NVIDIA));
        let cuda = vec![found(BackendKind::Cuda, 1, at("0000:02:00.0", NVIDIA))];
        assert_eq!(ids(&merge(&[cuda.clone(), vec![old.clone()]])), [(BackendKind::Cuda, 1), (BackendKind::Wgpu, 2)]);
        assert_eq!(ids(&merge(&[vec![], vec![old]])), [(BackendKind::Wgpu, 2)]);
        // A GPU that cannot be distinguished from CUDA's is CUDA's.
        let nameless = found(BackendKind::Wgpu, 2, DevicePlace { vendor: Some(NVIDIA), ..DevicePlace::default() });
        let merged = merge(&[cuda, vec![nameless]]);
        assert_eq!(ids(&merged), [(BackendKind::Cuda, 1)]);
        assert_eq!(merged.left_out[0].to_string(), "card 2 at 0000:02:00.0 (wgpu) is used through CUDA");
    }

    /// Two miners on one machine, each with its own GPU in `CUDA_VISIBLE_DEVICES`: neither takes the other's.
    #[test]
    fn what_cuda_does_not_show_is_hidden() {
        let by_uuid = DevicePlace { pci_address: None, uuid: Some([5; 16]), vendor: Some(NVIDIA) };
        let nameless = DevicePlace { vendor: Some(NVIDIA), ..DevicePlace::default() };
        let cuda = vec![found(BackendKind::Cuda, 1, DevicePlace { uuid: Some([5; 16]), ..at("0000:02:00.0", NVIDIA) })];
        let shown =
            [found(BackendKind::Wgpu, 2, at("0000:02:00.0", NVIDIA)), found(BackendKind::Wgpu, 3, by_uuid.clone())];
        let others =
            [found(BackendKind::Wgpu, 6, at("0000:02:00.1", AMD)), found(BackendKind::Wgpu, 7, DevicePlace::default())];
        let own = [found(BackendKind::Wgpu, 4, at("0000:03:00.0", NVIDIA)), found(BackendKind::Wgpu, 5, nameless)];
        let wgpu = [&shown[..], &own[..], &others[..]].concat();

        let mut lists = vec![cuda.clone(), wgpu.clone()];
        let said: Vec<_> = exclude_hidden(&mut lists).iter().map(ToString::to_string).collect();
        assert_eq!(
            said,
            [
                "card 4 at 0000:03:00.0 (wgpu) is hidden by CUDA_VISIBLE_DEVICES",
                "card 5 (wgpu) is hidden by CUDA_VISIBLE_DEVICES"
            ]
        );
        assert_eq!(lists, [cuda, [&shown[..], &others[..]].concat()], "CUDA's own stay, for when it opens none");

        // All are hidden, or the build has no CUDA.
        let mut lists = vec![wgpu];
        assert_eq!(exclude_hidden(&mut lists).len(), 4);
        assert_eq!(lists, [others]);
        let mut lists = vec![own.to_vec(), vec![found(BackendKind::Cpu, 8, DevicePlace::default())]];
        exclude_hidden(&mut lists);
        assert_eq!(ids(&merge(&lists)), [(BackendKind::Cpu, 8)]);
        assert_eq!(lists.len(), 1, "a backend without a device is none");
    }

    #[test]
    fn a_processor_and_a_program_on_it_are_two_devices() {
        let lavapipe = found(
            BackendKind::Wgpu,
            1,
            DevicePlace { uuid: Some([4; 16]), vendor: Some(0x1_0005), ..DevicePlace::default() },
        );
        let merged = merge(&[vec![lavapipe], vec![found(BackendKind::Cpu, 2, DevicePlace::default())]]);
        assert_eq!(ids(&merged), [(BackendKind::Wgpu, 1), (BackendKind::Cpu, 2)]);
    }

    #[test]
    fn an_id_that_is_there_twice_is_used_once() {
        let merged = merge(&[
            vec![found(BackendKind::Cuda, 1, DevicePlace::default())],
            vec![found(BackendKind::Cpu, 1, DevicePlace::default())],
        ]);
        assert_eq!(ids(&merged), [(BackendKind::Cuda, 1)]);
        assert!(merged.left_out[0].to_string().contains("another device has its id, 0101"), "{}", merged.left_out[0]);
    }

    #[test]
    fn a_host_has_no_more_devices_than_an_inventory() {
        let cpu = (1..=64).map(|id| found(BackendKind::Cpu, id, DevicePlace::default())).collect();
        let merged = merge(&[vec![found(BackendKind::Wgpu, 99, at("0000:03:00.0", AMD))], cpu]);
        assert_eq!((merged.devices.len(), merged.left_out.len()), (MAX_HOST_DEVICES, 1));
        assert_eq!(merged.left_out[0].why, ExclusionReason::TooMany);
        assert_eq!(merged.left_out[0].name, "card 64");
    }
}
