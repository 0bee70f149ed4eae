//! The devices of a host.

use super::field::{BoundedText, BoxedOnWire, ByteString, DeviceList, NumberArray, Optional, PartOf};
use super::limits::{MAX_BACKEND_BYTES, MAX_DEVICE_DETAIL_BYTES, MAX_DEVICES, MAX_NAME_BYTES};
use crate::message::{DeviceClaim, Inventory};

/// A driver may count the two at different moments: a sender cuts the free bytes to the total.
const FREE_OF_TOTAL: PartOf = PartOf { part: "Device.free_bytes", whole: "Device.total_bytes", max_whole: u64::MAX };

messages! {
    v1::Inventory = Inventory {
        sequence,
        devices: DeviceList(MAX_DEVICES, |device: &DeviceClaim| device.id),
    }
    v1::Device = DeviceClaim {
        device_id as id: ByteString,
        name: BoundedText(MAX_NAME_BYTES),
        backend: BoundedText(MAX_BACKEND_BYTES),
        detail: BoundedText(MAX_DEVICE_DETAIL_BYTES),
        free_bytes & total_bytes: FREE_OF_TOTAL,
        slots: NumberArray,
        claimed_hardware: Optional(BoxedOnWire),
    }
}
