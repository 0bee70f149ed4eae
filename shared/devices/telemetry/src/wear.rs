//! Wear and wrong wiring: counters and widths that a burn-in reads and no challenge.

use serde::Serialize;

/// Counters of a device since it was made or its driver was loaded, and its bus; `None` where a value is not known.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Wear {
    /// Lanes of PCIe in use.
    pub pcie_width: Option<u32>,
    /// The most lanes that the device and its slot have.
    pub pcie_max_width: Option<u32>,
    /// The generation of PCIe in use: a device that idles lowers it.
    pub pcie_generation: Option<u32>,
    /// The newest generation that the device and its slot have.
    pub pcie_max_generation: Option<u32>,
    /// PCIe packets that were sent again.
    pub pcie_replays: Option<u32>,
    /// Pages of memory retired for errors.
    pub retired_pages: Option<u32>,
    /// Rows of memory replaced by spare ones for errors that were corrected.
    pub remapped_corrected: Option<u32>,
    /// Rows of memory replaced by spare ones for errors that were not corrected.
    pub remapped_uncorrected: Option<u32>,
    /// Whether a row could not be replaced: no spare one is left.
    pub remap_failed: Option<bool>,
    /// Whether pages or rows wait for a reset to be retired or replaced.
    pub repair_pending: Option<bool>,
}
