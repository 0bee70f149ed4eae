//! Vulkan, on every system but Apple's, where wgpu has Metal alone.

use ::wgpu::Adapter;
use ash::{ext, vk};

use super::{ApiFacts, MemoryReport};
use assay_device::place::{MAX_PCI_DEVICE, MAX_PCI_FUNCTION, PciAddress};

pub(super) fn facts(adapter: &Adapter) -> Option<ApiFacts> {
    // SAFETY: the guard lives to the end of this function, and nothing is destroyed through it.
    let adapter = unsafe { adapter.as_hal::<::wgpu::hal::api::Vulkan>() }?;
    let instance = adapter.shared_instance().raw_instance();
    let device = adapter.raw_physical_device();
    let capabilities = adapter.physical_device_capabilities();
    let has_version = capabilities.properties().api_version >= vk::API_VERSION_1_3;
    let has_dot = has_version || capabilities.supports_extension(ash::khr::shader_integer_dot_product::NAME);
    let has_bus = capabilities.supports_extension(ext::pci_bus_info::NAME);

    let mut identity = vk::PhysicalDeviceIDProperties::default();
    let mut dot = vk::PhysicalDeviceShaderIntegerDotProductProperties::default();
    let mut bus = vk::PhysicalDevicePCIBusInfoPropertiesEXT::default();
    let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut identity);
    if has_dot {
        properties = properties.push_next(&mut dot);
    }
    if has_bus {
        properties = properties.push_next(&mut bus);
    }
    // SAFETY: the device is the instance's, which wgpu made with Vulkan 1.1 or its extension for such queries; the
    // structures chained are those of versions and extensions that the device has.
    unsafe { instance.get_physical_device_properties2(device, &mut properties) };

    let has_budget = capabilities.supports_extension(ext::memory_budget::NAME);
    let mut budget = vk::PhysicalDeviceMemoryBudgetPropertiesEXT::default();
    let mut memory = vk::PhysicalDeviceMemoryProperties2::default();
    if has_budget {
        memory = memory.push_next(&mut budget);
    }
    // SAFETY: as above.
    unsafe { instance.get_physical_device_memory_properties2(device, &mut memory) };
    let heaps = memory.memory_properties;
    Some(ApiFacts {
        pci_address: pci_address(&bus),
        uuid: Some(identity.device_uuid),
        memory: largest_heap(&heaps, has_budget.then_some(&budget)),
        packed_dot: Some(has_dot && dot.integer_dot_product4x8_bit_packed_signed_accelerated != 0),
    })
}

/// The address, which wgpu drops where bus and device are 0: a hypervisor gives each GPU a domain of its own, as
/// `0001:00:00.0`. No GPU has all zeros: they are a driver's unknown address.
fn pci_address(bus: &vk::PhysicalDevicePCIBusInfoPropertiesEXT<'_>) -> Option<PciAddress> {
    if (bus.pci_domain, bus.pci_bus, bus.pci_device, bus.pci_function) == (0, 0, 0, 0) {
        return None;
    }
    Some(PciAddress {
        domain: bus.pci_domain,
        bus: bus.pci_bus.try_into().ok()?,
        device: u8::try_from(bus.pci_device).ok().filter(|device| *device <= MAX_PCI_DEVICE)?,
        function: u8::try_from(bus.pci_function).ok().filter(|function| *function <= MAX_PCI_FUNCTION)?,
    })
}

/// The largest heap of the device's own memory, which is where the driver puts large buffers.
fn largest_heap(
    properties: &vk::PhysicalDeviceMemoryProperties,
    budget: Option<&vk::PhysicalDeviceMemoryBudgetPropertiesEXT<'_>>,
) -> Option<MemoryReport> {
    let heaps = properties.memory_heaps_as_slice().iter().enumerate();
    let own = heaps.filter(|(_, heap)| heap.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL));
    let (index, heap) = own.max_by_key(|(_, heap)| heap.size)?;
    let free_bytes = budget.map(|budget| budget.heap_budget[index].saturating_sub(budget.heap_usage[index]));
    let budget_bytes = budget.map(|budget| budget.heap_budget[index]);
    Some(MemoryReport { total_bytes: heap.size, free_bytes, budget_bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_known_unless_all_of_it_is_zero() {
        let address = |domain, bus, device, function| {
            let info = vk::PhysicalDevicePCIBusInfoPropertiesEXT::default();
            let info = info.pci_domain(domain).pci_bus(bus).pci_device(device).pci_function(function);
            pci_address(&info).map(|address| address.to_string())
        };
        let known = |text: &str| Some(text.to_owned());
        assert_eq!(address(0, 3, 0, 0), known("0000:03:00.0"));
        assert_eq!(address(1, 0, 0, 0), known("0001:00:00.0"));
        assert_eq!(address(0x10002, 0xAF, 31, 7), known("10002:af:1f.7"));
        assert_eq!(address(0, 0, 0, 1), known("0000:00:00.1"));
        for (domain, bus, device, function) in [(0, 0, 0, 0), (0, 256, 0, 0), (0, 0, 32, 0), (0, 0, 0, 8)] {
            assert_eq!(address(domain, bus, device, function), None);
        }
    }
}
