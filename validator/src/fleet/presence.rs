//! Who is there, from where and with which devices: what identities are held against.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use assay_fleet::identity::{Before, IdentityFinding, Presence, among, since};
use assay_fleet::policy::IdentityPolicy;
use assay_work::DeviceId;

/// How long a place that a miner spoke from is remembered: a copy of its key elsewhere takes its session over within
/// that.
const REMEMBERED_S: u64 = 600;
/// Places that are remembered: as many as miners may be connected, and some that have left.
const MAX_PRESENCES: usize = 131_072;

/// Where the miners of this validator are and were lately, by miner and address.
#[derive(Debug, Default)]
pub struct Presences(Mutex<BTreeMap<(String, IpAddr), Presence>>);

impl Presences {
    /// Notes a session that begins, or a change of its devices.
    pub fn note(&self, presence: &Presence) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = presence.heard_s;
        known.retain(|_, known| known.heard_s.saturating_add(REMEMBERED_S) > now);
        let place = (presence.miner.clone(), presence.address);
        if known.len() >= MAX_PRESENCES && !known.contains_key(&place) {
            return;
        }
        known
            .entry(place)
            .and_modify(|known| {
                // A miner that comes back to a place was there before: only its devices are new.
                let began_s = known.began_s;
                *known = Presence { began_s, ..presence.clone() };
            })
            .or_insert_with(|| presence.clone());
    }

    /// Something came from a miner at this address.
    pub fn heard(&self, miner: &str, address: IpAddr, now_s: u64) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(presence) = known.get_mut(&(miner.to_owned(), address)) {
            presence.heard_s = presence.heard_s.max(now_s);
        }
    }

    /// A miner at this address showed these devices in work that held: what it showed before counts.
    pub fn showed(&self, miner: &str, address: IpAddr, devices: impl Iterator<Item = DeviceId>, now_ms: u64) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(presence) = known.get_mut(&(miner.to_owned(), address)) else { return };
        for id in devices {
            if let Some(first) = presence.devices.get_mut(&id) {
                first.get_or_insert(now_ms);
            }
        }
    }

    /// What the identities of a miner say beside the others that are there.
    #[must_use]
    pub fn findings(&self, miner: &str, address: IpAddr, policy: &IdentityPolicy) -> Vec<IdentityFinding> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(present) = known.get(&(miner.to_owned(), address)) else { return Vec::new() };
        let concerns = |other: &&Presence| {
            other.miner == present.miner || other.devices.keys().any(|id| present.devices.contains_key(id))
        };
        let others: Vec<_> = known.values().filter(concerns).cloned().collect();
        drop(known);
        let present = present_of(&others, miner, address);
        present.map(|present| among(present, &others, policy)).unwrap_or_default()
    }
}

fn present_of<'a>(presences: &'a [Presence], miner: &str, address: IpAddr) -> Option<&'a Presence> {
    presences.iter().find(|presence| presence.miner == miner && presence.address == address)
}

/// What a session says against what was known before.
#[must_use]
pub fn changes(
    present: &Presence,
    before: Option<BTreeSet<DeviceId>>,
    last_seen_at: BTreeMap<DeviceId, String>,
) -> Vec<IdentityFinding> {
    since(present, &Before { devices: before, last_seen_at })
}
