//! Who is there, from where and with which devices: what identities are held against.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Mutex, PoisonError};

use assay_fleet::identity::{Before, IdentityFinding, Presence, among, since};
use assay_fleet::policy::IdentityPolicy;
use assay_work::DeviceId;

/// How long a place that a miner spoke from is remembered: a copy of its key elsewhere takes its session over within
/// that.
const REMEMBERED_S: u64 = 600;
/// Places that are remembered: as many as miners may be connected, and some that have left.
const MAX_PRESENCES: usize = 131_072;

/// A miner and where it speaks from.
type Place = (String, IpAddr);

/// Where the miners of this validator are and were lately.
#[derive(Debug, Default)]
pub struct Presences(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    places: BTreeMap<Place, Presence>,
    /// Where each device is listed.
    devices: HashMap<DeviceId, BTreeSet<Place>>,
}

impl Known {
    /// Forgets who was not heard of for long.
    fn forget(&mut self, now_s: u64) {
        let is_old = |known: &Presence| known.heard_s.saturating_add(REMEMBERED_S) <= now_s;
        let old: Vec<_> =
            self.places.iter().filter(|(_, known)| is_old(known)).map(|(place, _)| place.clone()).collect();
        for place in &old {
            self.unlist(place);
            self.places.remove(place);
        }
    }

    fn put(&mut self, place: Place, presence: Presence) {
        self.unlist(&place);
        for id in presence.devices.keys() {
            self.devices.entry(*id).or_default().insert(place.clone());
        }
        self.places.insert(place, presence);
    }

    /// Takes a place off the lists of its devices.
    fn unlist(&mut self, place: &Place) {
        let Some(presence) = self.places.get(place) else { return };
        for id in presence.devices.keys() {
            if let Entry::Occupied(mut listed) = self.devices.entry(*id) {
                listed.get_mut().remove(place);
                if listed.get().is_empty() {
                    listed.remove();
                }
            }
        }
    }

    /// The places of the same miner, and of all that list one of its devices, in their order.
    fn concerned(&self, present: &Presence) -> Vec<Presence> {
        let from = (present.miner.clone(), IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        let own = self.places.range(from..).map(|(place, _)| place).take_while(|(miner, _)| *miner == present.miner);
        let listed = present.devices.keys().filter_map(|id| self.devices.get(id)).flatten();
        let places: BTreeSet<_> = own.chain(listed).collect();
        places.into_iter().filter_map(|place| self.places.get(place)).cloned().collect()
    }
}

impl Presences {
    /// Notes a session that begins, or a change of its devices.
    pub fn note(&self, presence: &Presence) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.forget(presence.heard_s);
        let place = (presence.miner.clone(), presence.address);
        let before = known.places.get(&place);
        if before.is_none() && known.places.len() >= MAX_PRESENCES {
            return;
        }
        // A miner that comes back to a place was there before: only its devices are new.
        let began_s = before.map_or(presence.began_s, |before| before.began_s);
        known.put(place, Presence { began_s, ..presence.clone() });
    }

    /// Something came from a miner at this address.
    pub fn heard(&self, miner: &str, address: IpAddr, now_s: u64) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(presence) = known.places.get_mut(&(miner.to_owned(), address)) {
            presence.heard_s = presence.heard_s.max(now_s);
        }
    }

    /// A miner at this address showed these devices in work that held: what it showed before counts.
    pub fn showed(&self, miner: &str, address: IpAddr, devices: impl Iterator<Item = DeviceId>, now_ms: u64) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(presence) = known.places.get_mut(&(miner.to_owned(), address)) else { return };
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
        let Some(present) = known.places.get(&(miner.to_owned(), address)) else { return Vec::new() };
        let others = known.concerned(present);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn presence(miner: &str, last: u8, devices: &[u8], heard_s: u64) -> Presence {
        let id = |byte: &u8| (DeviceId([*byte; 16]), None);
        Presence {
            miner: miner.to_owned(),
            operator: None,
            session: String::new(),
            address: IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)),
            began_s: heard_s,
            heard_s,
            devices: devices.iter().map(id).collect(),
        }
    }

    fn concerned(presences: &Presences, of: &Presence) -> Vec<(String, IpAddr)> {
        let known = presences.0.lock().unwrap();
        known.concerned(of).into_iter().map(|other| (other.miner, other.address)).collect()
    }

    #[test]
    fn those_with_the_same_key_or_device_are_found_and_no_other() {
        let presences = Presences::default();
        let place = |presence: &Presence| (presence.miner.clone(), presence.address);
        let first = presence("a", 1, &[1, 2], 100);
        let elsewhere = presence("a", 2, &[3], 100);
        let same_device = presence("b", 3, &[2, 4], 100);
        let other = presence("c", 4, &[4], 100);
        [&first, &elsewhere, &same_device, &other].into_iter().for_each(|it| presences.note(it));
        assert_eq!(concerned(&presences, &first), [place(&first), place(&elsewhere), place(&same_device)]);
        assert_eq!(concerned(&presences, &other), [place(&same_device), place(&other)]);
        // A device that is listed no more.
        presences.note(&presence("b", 3, &[4], 101));
        assert_eq!(concerned(&presences, &first), [place(&first), place(&elsewhere)]);
        // Who was not heard of for long is there no more.
        presences.heard("a", first.address, 500);
        presences.note(&presence("d", 5, &[1], 100 + REMEMBERED_S));
        let late = ("d".to_owned(), presence("d", 5, &[], 0).address);
        assert_eq!(concerned(&presences, &first), [place(&first), late]);
        let known = presences.0.lock().unwrap();
        assert!(known.devices.values().all(|places| !places.is_empty()) && known.devices.len() == 3, "{known:?}");
    }
}
