//! The miner's interface to telemetry.

use super::reading::Reading;
use super::wear::Wear;
use assay_protocol::claims::{Hardware, Telemetry};
use assay_work::DeviceId;

/// Watches devices while they work. No call waits for the hardware: each returns the state at that moment.
pub trait SensorWatch: Send + Sync {
    /// A device's hardware, where it is known.
    fn hardware(&self, id: DeviceId) -> Option<Hardware>;

    /// Work starts: from now on the sensors of these devices are read. Earlier readings are discarded.
    fn begin(&self, ids: &[DeviceId]);

    /// The summary of a device's readings since then; `None` without a reading.
    fn so_far(&self, id: DeviceId) -> Option<Telemetry>;

    /// Work ends: no more readings. Returns the summaries in order of device, without devices that were not read.
    fn end(&self) -> Vec<(DeviceId, Telemetry)>;

    /// The newest reading of a device that works.
    fn newest(&self, _id: DeviceId) -> Option<Reading> {
        None
    }

    /// The counters of wear of a device that works. The first call asks for them; the answer comes some seconds later.
    fn wear(&self, _id: DeviceId) -> Option<Wear> {
        None
    }

    /// From now on the sensors of these devices are read between challenges too, now and then.
    fn watch_always(&self, _ids: &[DeviceId]) {}

    /// The latest reading of a device that is always watched.
    fn latest(&self, _id: DeviceId) -> Option<Reading> {
        None
    }

    /// A fault of the readings, as a sentence for the operator.
    fn trouble(&self) -> Option<String>;
}

/// A host without telemetry.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoSensors;

impl SensorWatch for NoSensors {
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
