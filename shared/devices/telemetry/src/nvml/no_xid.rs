//! No XIDs: NVML reports the driver's error codes as events, and on Linux only.

use nvml_wrapper::Device;

/// As on Linux, but without values: no GPU has events here.
pub(super) enum Xids {}

impl Xids {
    /// Always `None`.
    pub(super) const fn of(_device: &Device<'static>) -> Option<Self> {
        None
    }

    /// Work begins: discards earlier codes.
    pub(super) const fn forget(&mut self) {
        match *self {}
    }

    /// Every distinct code since the work began.
    pub(super) const fn since_begin(&mut self) -> Vec<u64> {
        match *self {}
    }
}
