//! Facts of an adapter that wgpu does not give, from the API below it: identity, memory, packed dot products.
//!
//! Each API has its own way; where no API answers, a fact is unknown and [`describe`](super::describe) goes on without.

#[cfg(windows)]
#[allow(unsafe_code)]
mod dx12;
#[cfg(target_vendor = "apple")]
#[allow(unsafe_code)]
mod metal;
#[cfg(not(target_vendor = "apple"))]
#[allow(unsafe_code)]
mod vulkan;

use ::wgpu::Adapter;

use assay_device::place::PciAddress;

/// An adapter's facts as the API below wgpu reports them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ApiFacts {
    pub(super) pci_address: Option<PciAddress>,
    pub(super) uuid: Option<[u8; 16]>,
    /// The memory that buffers lie in.
    pub(super) memory: Option<MemoryReport>,
    /// Whether products of packed bytes have instructions of their own.
    pub(super) packed_dot: Option<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MemoryReport {
    pub(super) total_bytes: u64,
    /// Bytes that this process could still take, where the API says so.
    pub(super) free_bytes: Option<u64>,
    /// Bytes that this process may hold altogether, where the API says so.
    pub(super) budget_bytes: Option<u64>,
}

/// Queries the API below wgpu.
pub(super) fn facts(adapter: &Adapter) -> ApiFacts {
    #[cfg(target_vendor = "apple")]
    let facts = metal::facts(adapter);
    #[cfg(not(target_vendor = "apple"))]
    let facts = vulkan::facts(adapter);
    #[cfg(windows)]
    let facts = facts.or_else(|| dx12::facts(adapter));
    facts.unwrap_or_default()
}

/// The memory as it is now.
pub(super) fn memory(adapter: &Adapter) -> Option<MemoryReport> {
    facts(adapter).memory
}
