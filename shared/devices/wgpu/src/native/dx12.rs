//! DirectX 12, on Windows.

use ::wgpu::Adapter;
use windows::Win32::Graphics::Dxgi::DXGI_MEMORY_SEGMENT_GROUP_LOCAL;

use super::{ApiFacts, MemoryReport};

/// The memory of the adapter's own segment; on one without memory of its own, that is a share of the host's.
pub(super) fn facts(adapter: &Adapter) -> Option<ApiFacts> {
    // SAFETY: the guard lives to the end of this function, and nothing is destroyed through it.
    let adapter = unsafe { adapter.as_hal::<::wgpu::hal::api::Dx12>() }?;
    let adapter = adapter.raw_adapter();
    let budget = adapter.query_video_memory_info(DXGI_MEMORY_SEGMENT_GROUP_LOCAL).ok();
    // SAFETY: the adapter lives as long as the guard.
    let own_bytes = unsafe { adapter.GetDesc1() }.map_or(0, |description| description.DedicatedVideoMemory as u64);
    let memory = budget.map(|budget| MemoryReport {
        total_bytes: own_bytes.max(budget.Budget),
        free_bytes: Some(budget.Budget.saturating_sub(budget.CurrentUsage)),
        budget_bytes: Some(budget.Budget),
    });
    // No call here reports the compiler's shader model, and so whether it has the instruction.
    Some(ApiFacts { pci_address: None, uuid: None, memory, packed_dot: None })
}
