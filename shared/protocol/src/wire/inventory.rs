//! The devices of a host.

use super::error::{Problem, WireError};
use super::limits::{MAX_BACKEND_BYTES, MAX_DEVICE_DETAIL_BYTES, MAX_DEVICES, MAX_NAME_BYTES, SLOT_ENTRIES};
use super::{field, v1};
use crate::message::{DeviceClaim, Inventory};

impl TryFrom<v1::Inventory> for Inventory {
    type Error = WireError;

    fn try_from(inventory: v1::Inventory) -> Result<Self, WireError> {
        let v1::Inventory { sequence, devices } = inventory;
        let devices: Vec<DeviceClaim> = field::list("Inventory.devices", MAX_DEVICES, devices)?;
        field::ascending("Inventory.devices", devices.iter().map(|d| d.id))?;
        Ok(Self { sequence, devices })
    }
}

impl From<Inventory> for v1::Inventory {
    fn from(inventory: Inventory) -> Self {
        let Inventory { sequence, devices } = inventory;
        Self { sequence, devices: devices.into_iter().map(Into::into).collect() }
    }
}

impl TryFrom<v1::Device> for DeviceClaim {
    type Error = WireError;

    fn try_from(device: v1::Device) -> Result<Self, WireError> {
        let v1::Device { device_id, name, backend, detail, total_bytes, free_bytes, slots, claimed_hardware } = device;
        if free_bytes > total_bytes {
            return Err(WireError::new("Device.free_bytes", Problem::MoreThan("total_bytes")));
        }
        let count = Problem::Count { expected: SLOT_ENTRIES, found: slots.len() };
        Ok(Self {
            id: field::fixed("Device.device_id", &device_id)?,
            name: field::text("Device.name", MAX_NAME_BYTES, name)?,
            backend: field::text("Device.backend", MAX_BACKEND_BYTES, backend)?,
            detail: field::text("Device.detail", MAX_DEVICE_DETAIL_BYTES, detail)?,
            total_bytes,
            free_bytes,
            slots: slots.try_into().map_err(|_| WireError::new("Device.slots", count))?,
            claimed_hardware: claimed_hardware.map(|hardware| (*hardware).try_into()).transpose()?,
        })
    }
}

impl From<DeviceClaim> for v1::Device {
    fn from(device: DeviceClaim) -> Self {
        let DeviceClaim { id, name, backend, detail, total_bytes, free_bytes, slots, claimed_hardware } = device;
        Self {
            device_id: id.0.to_vec(),
            name: field::printable(&name, MAX_NAME_BYTES),
            backend: field::printable(&backend, MAX_BACKEND_BYTES),
            detail: field::printable(&detail, MAX_DEVICE_DETAIL_BYTES),
            total_bytes,
            // Drivers that count the two at different moments must not lock a host out.
            free_bytes: free_bytes.min(total_bytes),
            slots: slots.to_vec(),
            claimed_hardware: claimed_hardware.map(|hardware| Box::new(hardware.into())),
        }
    }
}
