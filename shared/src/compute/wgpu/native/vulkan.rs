//! Vulkan, on every system but Apple's, where wgpu has Metal alone.

use ::wgpu::Adapter;
use ash::{ext, vk};

use super::{Facts, Memory};

pub(super) fn facts(adapter: &Adapter) -> Option<Facts> {
    // SAFETY: the guard lives to the end of this function, and nothing is destroyed through it.
    let adapter = unsafe { adapter.as_hal::<::wgpu::hal::api::Vulkan>() }?;
    let instance = adapter.shared_instance().raw_instance();
    let device = adapter.raw_physical_device();
    let capabilities = adapter.physical_device_capabilities();
    let has_version = capabilities.properties().api_version >= vk::API_VERSION_1_3;
    let has_dot = has_version || capabilities.supports_extension(ash::khr::shader_integer_dot_product::NAME);

    let mut identity = vk::PhysicalDeviceIDProperties::default();
    let mut dot = vk::PhysicalDeviceShaderIntegerDotProductProperties::default();
    let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut identity);
    if has_dot {
        properties = properties.push_next(&mut dot);
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
    Some(Facts {
        uuid: Some(identity.device_uuid),
        memory: largest_heap(&heaps, has_budget.then_some(&budget)),
        packed_dot: Some(has_dot && dot.integer_dot_product4x8_bit_packed_signed_accelerated != 0),
    })
}

/// The largest heap of the device's own memory, which is where the driver puts large buffers.
fn largest_heap(
    properties: &vk::PhysicalDeviceMemoryProperties,
    budget: Option<&vk::PhysicalDeviceMemoryBudgetPropertiesEXT<'_>>,
) -> Option<Memory> {
    let heaps = properties.memory_heaps_as_slice().iter().enumerate();
    let own = heaps.filter(|(_, heap)| heap.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL));
    let (index, heap) = own.max_by_key(|(_, heap)| heap.size)?;
    let free_bytes = budget.map(|budget| budget.heap_budget[index].saturating_sub(budget.heap_usage[index]));
    let budget_bytes = budget.map(|budget| budget.heap_budget[index]);
    Some(Memory { total_bytes: heap.size, free_bytes, budget_bytes })
}
