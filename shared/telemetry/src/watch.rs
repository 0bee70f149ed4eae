//! What the miner asks of whatever watches its devices.

use assay_protocol::claims::Hardware;
use assay_protocol::claims::Telemetry;
use assay_work::DeviceId;

/// Watches devices while they work. No call waits for the hardware: each gives what is known at that moment.
pub trait Watch: Send + Sync {
    /// What a device is made of, where that is known.
    fn hardware(&self, id: DeviceId) -> Option<Hardware>;

    /// Devices start to work: from now on their sensors are read. Whatever was watched before is forgotten.
    fn begin(&self, ids: &[DeviceId]);

    /// What a device's sensors showed since; `None` when they have not been read.
    fn so_far(&self, id: DeviceId) -> Option<Telemetry>;

    /// The devices rest: no more readings. Gives what their sensors showed, in order of id, without those that were
    /// not read.
    fn end(&self) -> Vec<(DeviceId, Telemetry)>;

    /// Why readings are not what they should be, in a sentence, where they are not.
    fn trouble(&self) -> Option<String>;
}

/// Nothing is watched, and nothing known.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unwatched;

impl Watch for Unwatched {
    fn hardware(&self, _id: DeviceId) -> Option<Hardware> {
        None
    }

    fn begin(&self, _ids: &[DeviceId]) {}

    fn so_far(&self, _id: DeviceId) -> Option<Telemetry> {
        None
    }

    fn end(&self) -> Vec<(DeviceId, Telemetry)> {
        Vec::new()
    }

    fn trouble(&self) -> Option<String> {
        None
    }
}
