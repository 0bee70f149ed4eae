//! Keys that wait for an operator: a bound on the records of strangers.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use assay_transport::origin::origin;
use assay_work::PublicKey;
use parking_lot::Mutex;

use crate::allow::KeyDecisions;

/// The most waiting keys recorded since the start: more than anyone reads through.
pub const MAX_WAITING_KEYS: usize = 4096;
/// The most of these of one address (IPv6: one /64 network): a rack behind one address has fewer machines.
pub const MAX_ADDRESS_WAITING_KEYS: usize = 256;

/// Waiting keys recorded since the start: a bound on the records of strangers.
#[derive(Debug, Default)]
pub struct WaitingKeys(Mutex<HashMap<Option<IpAddr>, HashSet<PublicKey>>>);

impl WaitingKeys {
    /// Counts a key; false when the limit is reached.
    pub fn note(&self, key: PublicKey, address: Option<IpAddr>) -> bool {
        let mut waiting = self.0.lock();
        let all: usize = waiting.values().map(HashSet::len).sum();
        let (address, is_full) = (address.map(origin), all >= MAX_WAITING_KEYS);
        if is_full && !waiting.contains_key(&address) {
            return false;
        }
        let own = waiting.entry(address).or_default();
        own.contains(&key) || !is_full && own.len() < MAX_ADDRESS_WAITING_KEYS && own.insert(key)
    }

    /// Releases the places of keys with a decision.
    pub fn settle(&self, decided: &KeyDecisions) {
        let mut waiting = self.0.lock();
        waiting.values_mut().for_each(|keys| keys.retain(|key| !decided.contains_key(key)));
        waiting.retain(|_, keys| !keys.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use assay_records::{Approval, KeyDecision};

    use super::*;

    #[test]
    fn strangers_that_wait_take_a_bounded_room() {
        let waiting = WaitingKeys::default();
        let key = |number: u32| {
            let mut bytes = [0; 32];
            bytes[..4].copy_from_slice(&number.to_le_bytes());
            PublicKey(bytes)
        };
        let address = |host: u32| Some(IpAddr::from(host.to_be_bytes()));
        let noted = (0..1000).filter(|number| waiting.note(key(*number), address(1))).count();
        assert_eq!(noted, MAX_ADDRESS_WAITING_KEYS);
        assert!(waiting.note(key(0), address(1)), "one that is noted already");
        let noted = (0..10_000).filter(|number| waiting.note(key(1000 + number), address(2 + number / 100))).count();
        assert_eq!(noted + MAX_ADDRESS_WAITING_KEYS, MAX_WAITING_KEYS);
        assert!(!waiting.note(key(100_000), address(9999)));
        assert!(!waiting.0.lock().contains_key(&address(9999)), "one that is refused takes no room");
        let decision = |status| KeyDecision { status, is_superseded: false };
        waiting.settle(&[(key(0), decision(Approval::Approved)), (key(1), decision(Approval::Revoked))].into());
        assert!(waiting.note(key(100_000), address(9999)) && waiting.note(key(100_001), None));
    }
}
