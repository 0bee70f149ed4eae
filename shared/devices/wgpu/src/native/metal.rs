//! Metal, on Apple's systems.

use ::wgpu::Adapter;
use objc2_metal::MTLDevice;

use super::{ApiFacts, MemoryReport};

/// The device's facts. Its memory is the system's recommendation for the working set: the rest of a unified memory is
/// the host's.
pub(super) fn facts(adapter: &Adapter) -> Option<ApiFacts> {
    // SAFETY: the guard lives to the end of this function, and nothing is destroyed through it.
    let adapter = unsafe { adapter.as_hal::<::wgpu::hal::api::Metal>() }?;
    let device = adapter.raw_device();
    let total_bytes = device.recommendedMaxWorkingSetSize();
    let free_bytes = Some(total_bytes.saturating_sub(device.currentAllocatedSize() as u64));
    let memory = (total_bytes > 0).then_some(MemoryReport { total_bytes, free_bytes, budget_bytes: Some(total_bytes) });
    // Metal has no products of packed bytes.
    Some(ApiFacts { pci_address: None, uuid: None, memory, packed_dot: Some(false) })
}
