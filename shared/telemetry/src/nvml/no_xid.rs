//! The driver's error codes (XIDs) come as events, which NVML has on Linux alone: elsewhere none is known.

use nvml_wrapper::Device;

/// The codes of one GPU since its work began; there is no value of it.
pub(super) enum Xids {}

impl Xids {
    /// Starts to listen: nothing can be heard here.
    pub(super) const fn of(_device: &Device<'static>) -> Option<Self> {
        None
    }

    /// Work begins: what came before is not its.
    pub(super) const fn forget(&mut self) {
        match *self {}
    }

    /// Every code since then, each once.
    pub(super) const fn since_begin(&mut self) -> Vec<u64> {
        match *self {}
    }
}
