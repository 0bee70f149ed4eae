//! The devices that a miner showed: those whose work held in a verdict. A later verdict names the ones that are
//! missing.
//!
//! Ids come from the miner: a host that gives an old card a new id has one device missing and one new. It cannot make
//! the validator forget a device: a miner's record changes only by work that held and by the operator, and devices
//! beyond the bound of a miner are not learned instead of pushing others out.

use std::collections::BTreeMap;

use assay_protocol::message::{DeviceClaim, Inventory};
use assay_protocol::verdict::NamedDevice;
use assay_work::{DeviceId, Precision};
use serde::{Deserialize, Serialize};

/// A device that the miner's work has shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownDevice {
    /// Name given by the miner: a claim.
    pub name: String,
    /// Bytes of the largest share of slots that it held in a challenge.
    pub bytes: u64,
    /// The kinds of work that it showed.
    #[serde(default)]
    pub kinds: Vec<Precision>,
}

/// A challenge's inputs to the question which devices could take part.
#[derive(Debug, Clone, Copy)]
pub struct Attendance<'a> {
    /// The devices by the miner's claims.
    pub inventory: &'a Inventory,
    /// The devices that took part, with the bytes of their shares.
    pub shares: &'a [(DeviceId, u64)],
    /// Bytes of slots that the policy asks of a device that takes part.
    pub policy_bytes: u64,
    /// Bytes of slots that a device must have had to take part: more where others are much larger.
    pub least_bytes: u64,
    /// The kind of work that is asked for.
    pub precision: Precision,
    /// The kinds that the policy asks for in turn.
    pub kinds: &'a [Precision],
}

impl Attendance<'_> {
    fn took_part(&self, id: DeviceId) -> bool {
        self.shares.iter().any(|(other, _)| *other == id)
    }

    /// Whether the kind of work, or the size of the challenge, keeps a device out that is listed.
    fn leaves_out(&self, (id, known): (DeviceId, &KnownDevice), all: &BTreeMap<DeviceId, KnownDevice>) -> bool {
        let Some(listed) = self.inventory.device(id) else { return false };
        // A device that held as large a share before and is left out now has lost memory.
        known.bytes < self.policy_bytes
            || (known.bytes < self.least_bytes && self.is_dwarfed(known, all))
            || (!self.should_compute(listed, known) && self.are_asked_together(listed))
    }

    /// Whether a challenge leaves a device out beside the others, by their shown bytes: by a claim of one of them a miner
    /// would keep all others out.
    fn is_dwarfed(&self, known: &KnownDevice, all: &BTreeMap<DeviceId, KnownDevice>) -> bool {
        let shared = self.shares.iter().map(|(id, held)| all.get(id).map_or(*held, |known| known.bytes.max(*held)));
        let is_beside = |(id, other): &(&DeviceId, &KnownDevice)| {
            !self.took_part(**id) && other.bytes >= known.bytes && self.inventory.device(**id).is_some()
        };
        let beside = all.iter().filter(is_beside).map(|(_, other)| other.bytes);
        let (count, sum) =
            shared.chain(beside).fold((0, 0), |(count, sum), bytes| (count + 1, sum + u128::from(bytes)));
        is_too_small(known.bytes, sum, count)
    }

    /// Whether a device claims the kind of work, or showed it before.
    fn should_compute(&self, listed: &DeviceClaim, known: &KnownDevice) -> bool {
        listed.precisions.contains(&self.precision) || known.kinds.contains(&self.precision)
    }

    /// Whether another kind of the policy asks a device together with those that take part: two names of one device
    /// would else never be asked at once.
    fn are_asked_together(&self, listed: &DeviceClaim) -> bool {
        let asked = |device: &&DeviceClaim| device.id == listed.id || self.took_part(device.id);
        let together =
            |kind| self.inventory.devices.iter().filter(asked).all(|device| device.precisions.contains(kind));
        self.kinds.iter().any(together)
    }
}

/// Whether the smallest of so many devices, which hold `sum` in all, is too small for a share of its own in a challenge
/// with few slots: half of their mean, or more, is not.
pub(crate) const fn is_too_small(least: u64, sum: u128, devices: usize) -> bool {
    2 * devices as u128 * (least as u128) < sum
}

/// Differences between the devices that took part and the known ones.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// Known devices that took no part.
    pub missing: Vec<NamedDevice>,
    /// Devices that took part and are not known; empty for a miner without known devices.
    pub new: Vec<NamedDevice>,
}

impl Difference {
    /// Compares the devices that took part with the known ones. A device that is listed, and was left out of a
    /// challenge larger than any that it did or of a kind that it does not compute, is not missing.
    pub fn of(known: &BTreeMap<DeviceId, KnownDevice>, attendance: Attendance<'_>) -> Self {
        if known.is_empty() {
            return Self::default();
        }
        let took_part = |id| attendance.took_part(id);
        let is_missing = |(id, device): &(&DeviceId, &KnownDevice)| {
            !took_part(**id) && !attendance.leaves_out((**id, device), known)
        };
        let missing = known.iter().filter(is_missing);
        let new = attendance.inventory.devices.iter().filter(|d| took_part(d.id) && !known.contains_key(&d.id));
        Self {
            missing: missing.map(|(id, d)| NamedDevice { device_id: *id, name: d.name.clone() }).collect(),
            new: new.map(|d| NamedDevice { device_id: d.id, name: d.name.clone() }).collect(),
        }
    }

    /// The known devices that an inventory does not list.
    pub fn unlisted(known: &BTreeMap<DeviceId, KnownDevice>, inventory: &Inventory) -> Vec<NamedDevice> {
        let unlisted = known.iter().filter(|(id, _)| inventory.device(**id).is_none());
        unlisted.map(|(id, d)| NamedDevice { device_id: *id, name: d.name.clone() }).collect()
    }
}

#[cfg(test)]
mod tests;
