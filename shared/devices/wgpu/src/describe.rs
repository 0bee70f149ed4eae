//! The adapters that the APIs list, each physical one once, without taking memory on them.

use ::wgpu::{
    Adapter, AdapterInfo, Backend, Backends, DeviceType, Instance, InstanceDescriptor, InstanceFlags, Limits,
};

use super::error::WgpuError;
use super::native::{self, ApiFacts};
use super::plan;
use assay_device::machine;
use assay_device::place::PciAddress;
use assay_work::DeviceId;

/// The APIs that are asked, the one whose adapters count first where several show the same.
const APIS: [Backend; 3] = [Backend::Vulkan, Backend::Metal, Backend::Dx12];

/// An adapter, as its API describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct AdapterDescription {
    /// Distinct on this host, and stable over restarts; over drivers too where there is an address. Where there is neither
    /// an address nor a UUID it is a position: when one of several such adapters of a model is lost, those after it
    /// have the ids of those before, and a worker that opens its device again gets another one of that model. So it is
    /// for several cards of a model through DirectX 12 alone or Metal, and for software adapters.
    pub id: DeviceId,
    pub name: String,
    /// The vendor's PCI number, or Khronos's for vendors without one.
    pub vendor: u32,
    pub device: u32,
    /// The API: `Vulkan`, `Metal`, `DirectX 12`.
    pub api: &'static str,
    /// The driver's name and version.
    pub driver: String,
    /// Its address on the bus, where the API gives one that can be trusted: `0000:03:00.0`.
    pub pci_address: Option<String>,
    /// The driver's UUID of the hardware, where the API has such.
    pub uuid: Option<[u8; 16]>,
    pub software: bool,
    pub integrated: bool,
    /// All the memory that buffers can lie in, where the API says so.
    pub memory_bytes: Option<u64>,
    /// Whether products of packed bytes have instructions of their own, where the API says so.
    pub packed_dot: Option<bool>,
    /// The reason that it cannot be used; `None` when it can.
    pub refusal: Option<String>,
}

impl AdapterDescription {
    /// Its name in messages: model, and PCI address where that is known.
    pub fn title(&self) -> String {
        match &self.pci_address {
            Some(address) => format!("{} at {address} ({})", self.name, self.api),
            None => format!("{} ({})", self.name, self.api),
        }
    }

    /// Its properties in one line, for people.
    pub(super) fn detail(&self) -> String {
        let mut detail = format!("{}, driver {}", self.api, self.driver);
        if let Some(address) = &self.pci_address {
            detail.push_str(&format!(", PCI {address}"));
        }
        for (is, what) in [(self.software, ", a software adapter"), (self.integrated, ", integrated")] {
            if is {
                detail.push_str(what);
            }
        }
        detail
    }
}

/// An adapter with its description.
pub(super) struct DescribedAdapter {
    pub(super) adapter: Adapter,
    pub(super) description: AdapterDescription,
}

/// Describes all adapters, those that are refused too. Ids are derived from `seed` where hardware has none.
///
/// # Errors
/// [`WgpuError::NoAdapter`].
pub(super) fn describe_all(seed: &[u8]) -> Result<Vec<DescribedAdapter>, WgpuError> {
    let instance = Instance::new(InstanceDescriptor {
        backends: backends(),
        // No validation layers, whatever the build: they are for graphics debuggers. Nor drivers that do not call
        // themselves conformant (ALLOW_UNDERLYING_NONCOMPLIANT_ADAPTER): Dozen, which is Vulkan over DirectX 12, is one,
        // and would show each GPU of that API another time, without an address.
        flags: InstanceFlags::empty(),
        ..InstanceDescriptor::new_without_display_handle()
    });
    let adapters = pollster::block_on(instance.enumerate_adapters(backends()));
    let mut seen: Vec<_> = adapters.into_iter().map(see).collect();
    seen.sort_by_key(|seen| APIS.iter().position(|api| *api == seen.info.backend));
    let kept = keep_physical(&seen.iter().map(|seen| seen.view.clone()).collect::<Vec<_>>());
    let mut keep = kept.iter();
    seen.retain(|_| keep.next().copied().unwrap_or(false));
    if seen.is_empty() {
        return Err(WgpuError::NoAdapter { apis: api_names(), remedy: remedy() });
    }
    let views: Vec<_> = seen.iter().map(|seen| seen.view.clone()).collect();
    let ids = ids(&views, seed);
    Ok(seen.into_iter().zip(ids).map(|(seen, id)| seen.described(id)).collect())
}

fn backends() -> Backends {
    APIS.iter().fold(Backends::empty(), |all, api| all | Backends::from(*api))
}

/// The identity of an adapter.
#[derive(Debug, Clone, PartialEq, Eq)]
struct AdapterIdentity {
    api: Backend,
    vendor: u32,
    device: u32,
    software: bool,
    pci_address: Option<PciAddress>,
    uuid: Option<[u8; 16]>,
}

struct SeenAdapter {
    adapter: Adapter,
    info: AdapterInfo,
    limits: Limits,
    facts: ApiFacts,
    view: AdapterIdentity,
}

fn see(adapter: Adapter) -> SeenAdapter {
    let (info, limits, facts) = (adapter.get_info(), adapter.limits(), native::facts(&adapter));
    let view = AdapterIdentity {
        api: info.backend,
        vendor: pci_vendor(info.vendor),
        device: info.device,
        software: info.device_type == DeviceType::Cpu,
        pci_address: facts.pci_address,
        uuid: facts.uuid.filter(|uuid| *uuid != [0; 16]),
    };
    SeenAdapter { adapter, info, limits, facts, view }
}

/// PCI's number of a vendor whom DirectX knows by its name in ACPI, `QCOM`; Vulkan's driver has PCI's. The numbers of
/// models agree.
const fn pci_vendor(vendor: u32) -> u32 {
    match vendor {
        0x4D4F_4351 => 0x5143,
        vendor => vendor,
    }
}

impl SeenAdapter {
    fn described(self, id: DeviceId) -> DescribedAdapter {
        let Self { adapter, info, limits, facts, view } = self;
        let driver = [info.driver.trim(), info.driver_info.trim()].join(" ").trim().to_owned();
        let description = AdapterDescription {
            id,
            name: info.name.trim().to_owned(),
            vendor: view.vendor,
            device: view.device,
            api: api_name(info.backend),
            driver: if driver.is_empty() { "unknown".into() } else { driver },
            pci_address: view.pci_address.map(|address| address.to_string()),
            uuid: view.uuid,
            software: view.software,
            integrated: info.device_type == DeviceType::IntegratedGpu,
            memory_bytes: facts.memory.map(|memory| memory.total_bytes),
            packed_dot: facts.packed_dot,
            refusal: plan::refusal(&limits),
        };
        DescribedAdapter { adapter, description }
    }
}

/// Which of the adapters are kept, so that each physical one counts once: of two that are one, the first.
fn keep_physical(views: &[AdapterIdentity]) -> Vec<bool> {
    let mut kept: Vec<bool> = Vec::with_capacity(views.len());
    // Adapters of another API by which one of this API was counted already.
    let mut used = vec![false; views.len()];
    for (index, view) in views.iter().enumerate() {
        let twin = (0..index).find(|&earlier| kept[earlier] && !used[earlier] && is_same(&views[earlier], view));
        if let Some(twin) = twin {
            used[twin] = views[twin].api != view.api && view.pci_address.is_none();
        }
        kept.push(twin.is_none());
    }
    kept
}

/// Whether two adapters are the same hardware, as far as their APIs show. Within one API only an address or a UUID
/// decides; between two, the model does, since neither shows an adapter twice.
fn is_same(a: &AdapterIdentity, b: &AdapterIdentity) -> bool {
    if a.software || b.software {
        return false;
    }
    match (a.pci_address, b.pci_address, a.uuid, b.uuid) {
        (Some(a), Some(b), _, _) => a == b,
        (_, _, Some(a), Some(b)) => a == b,
        _ => a.api != b.api && (a.vendor, a.device) == (b.vendor, b.device),
    }
}

/// An id for each: by its address where there is one, else by its UUID, else by its model and its place among those of
/// that model which have neither.
fn ids(views: &[AdapterIdentity], seed: &[u8]) -> Vec<DeviceId> {
    let own: Vec<_> = views.iter().map(|view| own_name(view, views)).collect();
    let name = |(index, view): (usize, &AdapterIdentity)| {
        let model = format!("{} {:04x}:{:04x}", api_name(view.api), view.vendor, view.device);
        let same = |earlier: &usize| {
            let other = &views[*earlier];
            own[*earlier].is_none() && (other.api, other.vendor, other.device) == (view.api, view.vendor, view.device)
        };
        own[index].clone().unwrap_or_else(|| format!("{model} {}", (0..index).filter(same).count()))
    };
    let derive = |name: String| machine::derive_id("assay v1 wgpu device id", seed, name.as_bytes());
    views.iter().enumerate().map(name).map(derive).collect()
}

/// A name that no other hardware has, whatever else is there; `None` for programs, which have no address, and whose
/// UUID is their version's.
fn own_name(view: &AdapterIdentity, views: &[AdapterIdentity]) -> Option<String> {
    if let Some(address) = view.pci_address {
        return Some(format!("pci {address}"));
    }
    let uuid = view.uuid.filter(|_| !view.software)?;
    let is_unique = views.iter().filter(|other| other.uuid == Some(uuid)).count() == 1;
    is_unique.then(|| format!("uuid {}", hex::encode(uuid)))
}

const fn api_name(api: Backend) -> &'static str {
    match api {
        Backend::Vulkan => "Vulkan",
        Backend::Metal => "Metal",
        Backend::Dx12 => "DirectX 12",
        Backend::Gl => "OpenGL",
        Backend::BrowserWebGpu => "WebGPU",
        Backend::Noop => "no API",
    }
}

/// The names of this system's APIs.
fn api_names() -> String {
    if cfg!(windows) {
        "Vulkan and DirectX 12".into()
    } else if cfg!(target_vendor = "apple") {
        "Metal".into()
    } else {
        "Vulkan".into()
    }
}

const fn remedy() -> &'static str {
    if cfg!(target_vendor = "apple") {
        "it comes with the system"
    } else if cfg!(windows) {
        "it comes with the system, or from the GPU's vendor; one for Vulkan that does not call itself conformant is not used"
    } else {
        "on Debian mesa-vulkan-drivers for AMD and Intel, the vendor's own for NVIDIA; one that does not call itself \
         conformant, with conformanceVersion 0.0.0.0 in vulkaninfo --summary, is not used"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use assay_device::place::vendor_name;

    fn view(api: Backend, pci_address: Option<&str>, uuid: Option<u8>) -> AdapterIdentity {
        let (pci_address, uuid) = (pci_address.map(|address| address.parse().unwrap()), uuid.map(|byte| [byte; 16]));
        AdapterIdentity { api, vendor: 0x1002, device: 0x744C, software: false, pci_address, uuid }
    }

    #[test]
    fn one_gpu_under_two_drivers_counts_once() {
        let (vulkan, a, b) = (Backend::Vulkan, Some("0000:03:00.0"), Some("0000:04:00.0"));
        // Two drivers of one card have UUIDs of their own; two cards have addresses of their own.
        assert_eq!(keep_physical(&[view(vulkan, a, Some(1)), view(vulkan, a, Some(2))]), [true, false]);
        assert_eq!(keep_physical(&[view(vulkan, a, Some(1)), view(vulkan, b, Some(1))]), [true, true]);
        // Without addresses, the UUID decides; without either, each counts.
        assert_eq!(keep_physical(&[view(vulkan, None, Some(1)), view(vulkan, None, Some(1))]), [true, false]);
        assert_eq!(keep_physical(&[view(vulkan, None, None), view(vulkan, None, None)]), [true, true]);
    }

    #[test]
    fn one_gpu_seen_through_two_apis_counts_once() {
        let (a, b) = (view(Backend::Vulkan, Some("0000:03:00.0"), Some(1)), view(Backend::Vulkan, None, Some(2)));
        let other = view(Backend::Dx12, None, None);
        assert_eq!(keep_physical(&[a.clone(), other.clone()]), [true, false]);
        // Two identical cards, each seen twice; and a third that only one API shows.
        let views = [a.clone(), b, other.clone(), other.clone(), other.clone()];
        assert_eq!(keep_physical(&views), [true, true, false, false, true]);
        let another_model = AdapterIdentity { device: 1, ..other };
        assert_eq!(keep_physical(&[a, another_model]), [true, true]);
    }

    #[test]
    fn a_vendor_has_one_number() {
        let qualcomm =
            |api, vendor| AdapterIdentity { vendor: pci_vendor(vendor), device: 0x3633_4330, ..view(api, None, None) };
        let views = [qualcomm(Backend::Vulkan, 0x5143), qualcomm(Backend::Dx12, u32::from_le_bytes(*b"QCOM"))];
        assert_eq!(keep_physical(&views), [true, false]);
        assert_eq!(vendor_name(views[1].vendor), "Qualcomm");
        assert_eq!(pci_vendor(0x10DE), 0x10DE);
    }

    #[test]
    fn software_adapters_are_no_hardware_twice() {
        let software = AdapterIdentity { software: true, ..view(Backend::Vulkan, None, Some(1)) };
        assert_eq!(keep_physical(&[software.clone(), software]), [true, true]);
    }

    #[test]
    fn ids_are_distinct_and_follow_the_address() {
        let (a, b) = (Some("0000:03:00.0"), Some("0000:04:00.0"));
        let vulkan = |address| view(Backend::Vulkan, address, None);
        let both = ids(&[vulkan(a), vulkan(b)], b"seed");
        let turned = ids(&[vulkan(b), vulkan(a)], b"seed");
        assert_eq!((both[0], both[1]), (turned[1], turned[0]));
        assert_ne!(both[0], both[1]);
        assert_ne!(ids(&[vulkan(a)], b"other")[0], both[0]);
        let elsewhere = [vulkan(Some("0001:00:00.0")), vulkan(Some("0002:00:00.0"))];
        assert_eq!(ids(&elsewhere, b"seed")[1], ids(&elsewhere[1..], b"seed")[0]);
        let unplaced = ids(&[vulkan(None), vulkan(None), view(Backend::Dx12, None, None)], b"seed");
        assert!(unplaced[0] != unplaced[1] && unplaced[0] != unplaced[2]);
        assert_eq!(ids(&[vulkan(None)], b"seed")[0], unplaced[0], "an adapter more changes no other's id");
        assert_eq!(ids(&[vulkan(a), vulkan(None)], b"seed")[1], unplaced[0], "nor does one with an address");
    }

    /// When a card falls off the bus, another one must not have its id.
    #[test]
    fn ids_follow_the_uuid_where_there_is_no_address() {
        let card = |uuid| view(Backend::Vulkan, None, uuid);
        let (a, b, c) = (card(Some(1)), card(Some(2)), card(None));
        let all = ids(&[a.clone(), b.clone(), c.clone()], b"seed");
        assert!(all[0] != all[1] && all[1] != all[2] && all[0] != all[2]);
        assert_eq!(ids(&[b.clone(), a.clone()], b"seed"), [all[1], all[0]]);
        assert_eq!(ids(&[b], b"seed"), all[1..2]);
        assert_eq!(ids(&[c], b"seed"), all[2..], "those that are numbered do not count it");
        // The address comes first: two drivers of a card have UUIDs of their own.
        let placed = |uuid| ids(&[view(Backend::Vulkan, Some("0000:03:00.0"), uuid)], b"seed");
        assert_eq!(placed(Some(1)), placed(Some(2)));
        // A UUID that is not unique is not a name; neither is one that stands for a version of a program.
        let twice = ids(&[a.clone(), a.clone()], b"seed");
        assert!(twice[0] != twice[1] && twice[0] != all[0]);
        let program = |uuid| ids(&[AdapterIdentity { software: true, ..card(Some(uuid)) }], b"seed");
        assert_eq!(program(1), program(2));
    }
}
