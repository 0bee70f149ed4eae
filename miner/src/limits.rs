//! The limits of a miner's operator: the share of memory that is offered, and how long a challenge may take. Both may
//! change while the miner runs.

use std::sync::Arc;
use std::time::Duration;

use assay_protocol::message::{DeviceClaim, MATRIX_SIZES};
use parking_lot::Mutex;

/// The limits, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// How much of a device's free memory is offered, in percent.
    pub max_memory_percent: u32,
    /// How long a challenge may take.
    pub max_challenge: Option<Duration>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_memory_percent: 100, max_challenge: None }
    }
}

impl Limits {
    /// The offer of a device: of its free memory the allowed share, and the slots that fit beside the withheld memory.
    pub fn offered(&self, claim: DeviceClaim) -> DeviceClaim {
        let free_bytes = claim.free_bytes / 100 * u64::from(self.max_memory_percent.min(100))
            + claim.free_bytes % 100 * u64::from(self.max_memory_percent.min(100)) / 100;
        let withheld_bytes = claim.free_bytes - free_bytes;
        let mut slots = claim.slots;
        for (slots, n) in slots.iter_mut().zip(MATRIX_SIZES) {
            let slot_bytes = u64::from(n) * u64::from(n);
            // Whole slots: a device takes memory beside them, which stays as it is.
            let withheld = withheld_bytes.div_ceil(slot_bytes);
            *slots = slots.saturating_sub(u32::try_from(withheld).unwrap_or(u32::MAX));
        }
        DeviceClaim { free_bytes, slots, ..claim }
    }
}

/// The limits in force. Clones show the same ones.
#[derive(Debug, Clone, Default)]
pub struct SharedLimits(Arc<Mutex<ActiveLimits>>);

#[derive(Debug, Default)]
struct ActiveLimits {
    limits: Limits,
    changes: u64,
}

impl SharedLimits {
    /// Puts these limits in force.
    pub fn new(limits: Limits) -> Self {
        Self(Arc::new(Mutex::new(ActiveLimits { limits, changes: 0 })))
    }

    pub fn get(&self) -> Limits {
        self.counted().0
    }

    /// The limits, and how often they had changed before.
    pub fn counted(&self) -> (Limits, u64) {
        let in_force = self.0.lock();
        (in_force.limits.clone(), in_force.changes)
    }

    /// Puts others into force: for the next challenge, and the next inventory.
    pub fn set(&self, limits: Limits) {
        let mut in_force = self.0.lock();
        if in_force.limits != limits {
            *in_force = ActiveLimits { limits, changes: in_force.changes + 1 };
        }
    }

    /// How often they have changed.
    pub fn changes(&self) -> u64 {
        self.0.lock().changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use assay_work::DeviceId;

    fn claim(free_bytes: u64) -> DeviceClaim {
        let slots = DeviceClaim::max_slots(free_bytes).map(|slots| slots.saturating_sub(2));
        DeviceClaim {
            id: DeviceId([1; 16]),
            name: String::new(),
            backend: String::new(),
            detail: String::new(),
            total_bytes: free_bytes,
            free_bytes,
            slots,
            precisions: vec![assay_work::Precision::Int8],
            claimed_hardware: None,
        }
    }

    /// A device's memory beside its slots, here two slots of each size, stays within the offered share.
    #[test]
    fn slots_stay_within_the_share_that_is_offered() {
        for percent in [1, 33, 50, 99] {
            let whole = claim(1_000_000_007);
            let limits = Limits { max_memory_percent: percent, ..Limits::default() };
            let offered = limits.offered(whole.clone());
            assert_eq!(offered.free_bytes, 1_000_000_007 * u64::from(percent) / 100);
            assert_eq!(offered.total_bytes, whole.total_bytes);
            for (slots, n) in offered.slots.iter().zip(MATRIX_SIZES) {
                let bytes = (u64::from(*slots) + 2) * u64::from(n) * u64::from(n);
                assert!(*slots == 0 || bytes <= offered.free_bytes, "{percent} %, n = {n}");
            }
            assert!(offered.slots[0] > 0);
        }
        assert_eq!(Limits::default().offered(claim(4 << 30)), claim(4 << 30));
    }

    #[test]
    fn others_come_into_force_at_once() {
        let shared = SharedLimits::default();
        let clone = shared.clone();
        let limits = Limits { max_memory_percent: 50, ..Limits::default() };
        clone.set(limits.clone());
        clone.set(limits.clone());
        assert_eq!((shared.get(), shared.changes()), (limits, 1));
    }
}
