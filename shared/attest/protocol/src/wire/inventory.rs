//! The devices of a host.

use super::error::{FieldProblem, WireError};
use super::field::{self, BoundedText, BoxedOnWire, ByteString, DeviceList, FieldKind, NumberArray, Optional, PartOf};
use super::limits::{MAX_BACKEND_BYTES, MAX_DEVICE_DETAIL_BYTES, MAX_DEVICES, MAX_NAME_BYTES, MAX_PRECISIONS};
use crate::message::{DeviceClaim, Inventory, MATRIX_SIZES};
use assay_work::Precision;
use assay_work::probe::Link;

const SLOTS: &str = "Device.slots";

/// A driver may count the two at different moments: a sender cuts the free bytes to the total.
const FREE_OF_TOTAL: PartOf = PartOf { part: "Device.free_bytes", whole: "Device.total_bytes", max_whole: u64::MAX };

messages! {
    v1::Inventory = Inventory {
        sequence,
        devices: DeviceList(MAX_DEVICES, |device: &DeviceClaim| device.id),
        max_link: HighestLink,
        sweeps,
    }
    v1::Device = DeviceClaim {
        device_id as id: ByteString,
        name: BoundedText(MAX_NAME_BYTES),
        backend: BoundedText(MAX_BACKEND_BYTES),
        detail: BoundedText(MAX_DEVICE_DETAIL_BYTES),
        free_bytes & total_bytes & slots: MemoryFields,
        claimed_hardware: Optional(BoxedOnWire),
        precisions: Precisions,
    }
}

/// The number of the furthest link; one above those known is the furthest known.
struct HighestLink;

impl FieldKind<u32, Link> for HighestLink {
    fn read(&self, _field: &'static str, code: u32) -> Result<Link, WireError> {
        Ok(Link::from_code(code).unwrap_or(Link::All))
    }

    fn write(&self, link: Link) -> u32 {
        link.code()
    }
}

/// The kinds of work that a device computes: an empty list on the wire is INT8 alone, and an unknown number is passed
/// over. A device of unknown kinds alone is written with [`NO_KIND`].
struct Precisions;

/// No kind's number, now or later.
const NO_KIND: u32 = 0;

impl FieldKind<Vec<u32>, Vec<Precision>> for Precisions {
    fn read(&self, field: &'static str, codes: Vec<u32>) -> Result<Vec<Precision>, WireError> {
        field::at_most(field, MAX_PRECISIONS, codes.len())?;
        field::ascending(field, codes.iter().copied())?;
        if codes.is_empty() {
            return Ok(vec![Precision::Int8]);
        }
        Ok(codes.into_iter().filter_map(Precision::from_code).collect())
    }

    fn write(&self, precisions: Vec<Precision>) -> Vec<u32> {
        match *precisions {
            [] => vec![NO_KIND],
            [Precision::Int8] => Vec::new(),
            _ => precisions.into_iter().map(Precision::code).collect(),
        }
    }
}

/// Free and total bytes, and the slots that fit into the free ones: more slots are [`FieldProblem::Contradicts`]. A
/// sender cuts them as [`DeviceClaim::consistent`] does.
struct MemoryFields;

type Slots = [u32; MATRIX_SIZES.len()];

impl FieldKind<(u64, u64, Vec<u32>), (u64, u64, Slots)> for MemoryFields {
    fn read(&self, fields: &'static str, memory: (u64, u64, Vec<u32>)) -> Result<(u64, u64, Slots), WireError> {
        let (free_bytes, total_bytes, slots) = memory;
        let (free_bytes, total_bytes) = FREE_OF_TOTAL.read(fields, (free_bytes, total_bytes))?;
        let slots: Slots = NumberArray.read(SLOTS, slots)?;
        if slots.iter().zip(DeviceClaim::max_slots(free_bytes)).any(|(slots, most)| *slots > most) {
            return Err(WireError::new(SLOTS, FieldProblem::Contradicts("free_bytes")));
        }
        Ok((free_bytes, total_bytes, slots))
    }

    fn write(&self, (free_bytes, total_bytes, slots): (u64, u64, Slots)) -> (u64, u64, Vec<u32>) {
        let (free_bytes, total_bytes) = FREE_OF_TOTAL.write((free_bytes, total_bytes));
        let most = DeviceClaim::max_slots(free_bytes);
        (free_bytes, total_bytes, slots.into_iter().zip(most).map(|(slots, most)| slots.min(most)).collect())
    }
}
