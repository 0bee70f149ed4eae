//! The history of one miner, as far as a verdict depends on it: a copy, which is kept with the challenge.

use std::collections::BTreeMap;

use assay_policy::End;
use assay_policy::challenge::AbandonedPolicy;
use assay_policy::fields::MAX_ABANDONED_WINDOW;
use assay_protocol::verdict::KindRate;
use assay_work::{DeviceId, PublicKey};
use serde::{Deserialize, Serialize};

use super::AbandonedCount;
use super::devices::{Attendance, Difference, KnownDevice};

/// A miner before a challenge of it began.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MinerPast {
    /// Its key and those that it follows, nearest first.
    pub lineage: Vec<PublicKey>,
    /// Ends of its challenges that named positions, the latest first.
    pub ends: Vec<End>,
    pub devices: BTreeMap<DeviceId, KnownDevice>,
    /// The rates that they showed last, by kind of work.
    #[serde(default)]
    pub rates: BTreeMap<DeviceId, Vec<KindRate>>,
}

impl MinerPast {
    /// Its abandoned challenges among the last ones, with the one that ends now where it counts.
    pub fn recent(&self, end: Option<End>, policy: AbandonedPolicy) -> AbandonedCount {
        let ends = end.into_iter().chain(self.ends.iter().copied()).take(MAX_ABANDONED_WINDOW as usize);
        AbandonedCount::of(ends, policy)
    }

    /// Compares the devices that took part with the shown ones.
    pub fn difference(&self, attendance: Attendance<'_>) -> Difference {
        Difference::of(&self.devices, attendance)
    }
}
