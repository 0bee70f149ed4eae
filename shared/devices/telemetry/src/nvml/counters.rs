//! Counters of worn memory that the wrapper does not have, or for which it reads every counted page.

use std::ffi::c_uint;

use nvml_wrapper::Device;
use nvml_wrapper::enum_wrappers::device::RetirementCause;

/// `NVML_SUCCESS` and `NVML_ERROR_INSUFFICIENT_SIZE`.
const SUCCESS: c_uint = 0;
const INSUFFICIENT_SIZE: c_uint = 7;
/// More pages or rows than any device can retire.
const MAX_COUNT: c_uint = 1 << 16;

/// Rows of memory that were replaced by spare ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RemappedRows {
    /// For errors that were corrected.
    pub(super) corrected: u32,
    /// For errors that were not.
    pub(super) uncorrected: u32,
    /// Whether rows wait to be replaced at the next reset.
    pub(super) is_pending: bool,
    /// Whether a row could not be replaced.
    pub(super) has_failed: bool,
}

/// Pages retired for one cause: how many, without a list of them.
pub(super) fn retired_pages(device: &Device<'_>, cause: &RetirementCause) -> Option<u32> {
    let call = device.nvml().lib().nvmlDeviceGetRetiredPages.as_ref().ok()?;
    let (mut count, mut address) = (0, 0);
    // SAFETY: the function has this signature by the library's header. With a count of 0 it writes the count alone; the
    // handle is the library's own, which is never unloaded while a device is alive.
    let result = unsafe { call(device.handle(), cause.as_c(), &raw mut count, &raw mut address) };
    (result == SUCCESS || result == INSUFFICIENT_SIZE).then_some(count).filter(|count| *count <= MAX_COUNT)
}

pub(super) fn remapped_rows(device: &Device<'_>) -> Option<RemappedRows> {
    let call = device.nvml().lib().nvmlDeviceGetRemappedRows.as_ref().ok()?;
    let (mut corrected, mut uncorrected, mut pending, mut failed) = (0, 0, 0, 0);
    // SAFETY: the function has this signature by the library's header, and writes the four numbers; the handle is as above.
    let result =
        unsafe { call(device.handle(), &raw mut corrected, &raw mut uncorrected, &raw mut pending, &raw mut failed) };
    let is_possible = result == SUCCESS && corrected.max(uncorrected) <= MAX_COUNT && pending.max(failed) <= 1;
    is_possible.then_some(RemappedRows { corrected, uncorrected, is_pending: pending == 1, has_failed: failed == 1 })
}
