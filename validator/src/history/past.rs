//! What is remembered of one miner, as far as a verdict follows from it: a copy, which is kept with the challenge.

use std::collections::BTreeMap;

use assay_protocol::verdict::KindRate;
use assay_work::{DeviceId, PublicKey};
use serde::{Deserialize, Serialize};

use super::devices::{Attendance, Difference, KnownDevice};
use super::{End, Recent};
use crate::policy::{AbandonedPolicy, MAX_ABANDONED_WINDOW};

/// A miner before a challenge ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Past {
    /// Its key and those that it follows, nearest first.
    pub lineage: Vec<PublicKey>,
    /// How its challenges ended, the latest first.
    pub ends: Vec<End>,
    /// The devices that it showed.
    pub devices: BTreeMap<DeviceId, KnownDevice>,
    /// The rates that they showed last, by kind of work.
    #[serde(default)]
    pub rates: BTreeMap<DeviceId, Vec<KindRate>>,
}

impl Past {
    /// The abandoned ones of its last challenges, with the one that ends now.
    #[must_use]
    pub fn recent(&self, end: End, policy: AbandonedPolicy) -> Recent {
        let ends = std::iter::once(end).chain(self.ends.iter().copied()).take(MAX_ABANDONED_WINDOW as usize);
        Recent::of(ends, policy)
    }

    /// How the devices that took part differ from those that it showed.
    #[must_use]
    pub fn difference(&self, took_part: impl Fn(DeviceId) -> bool, attendance: Attendance<'_>) -> Difference {
        Difference::of(&self.devices, took_part, attendance)
    }
}
