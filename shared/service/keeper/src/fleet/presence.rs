//! The current sessions with their addresses and devices, for comparing identities.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use assay_policy::identity::{IdentityFinding, Presence, among};
use assay_policy::policy::IdentityPolicy;
use assay_work::DeviceId;
use parking_lot::Mutex;

/// Seconds for which a silent or replaced session is remembered: two hosts with one key replace one another within that
/// time.
const REMEMBERED_S: u64 = 600;
/// The most sessions remembered: the most connected miners, and room for replaced ones.
const MAX_PRESENCES: usize = 131_072;
/// The most replaced sessions remembered of a miner.
const MAX_REPLACED: usize = 4;

/// The sessions of this validator, by their ids.
#[derive(Debug, Default)]
pub struct Presences(Mutex<PresenceIndex>);

#[derive(Debug, Default)]
struct PresenceIndex {
    sessions: BTreeMap<String, Presence>,
    miners: HashMap<String, BTreeSet<String>>,
    devices: HashMap<DeviceId, BTreeSet<String>>,
}

impl PresenceIndex {
    /// Forgets sessions after a long silence.
    fn forget(&mut self, now_s: u64) {
        let is_old = |known: &Presence| known.heard_s.saturating_add(REMEMBERED_S) <= now_s;
        let old = self.sessions.values().filter(|known| is_old(known)).map(|known| known.session.clone());
        for session in old.collect::<Vec<_>>() {
            self.take(&session);
        }
    }

    fn put(&mut self, presence: Presence) {
        self.take(&presence.session);
        for id in presence.devices.keys() {
            self.devices.entry(*id).or_default().insert(presence.session.clone());
        }
        self.miners.entry(presence.miner.clone()).or_default().insert(presence.session.clone());
        self.sessions.insert(presence.session.clone(), presence);
    }

    fn take(&mut self, session: &str) -> Option<Presence> {
        let presence = self.sessions.remove(session)?;
        for id in presence.devices.keys() {
            unlist(&mut self.devices, id, session);
        }
        unlist(&mut self.miners, &presence.miner, session);
        Some(presence)
    }

    /// The sessions of the same miner, and of all that list one of its devices, in order of their ids.
    fn concerned(&self, present: &Presence) -> Vec<Presence> {
        let own = self.miners.get(&present.miner).into_iter().flatten();
        let listed = present.devices.keys().filter_map(|id| self.devices.get(id)).flatten();
        let sessions: BTreeSet<_> = own.chain(listed).collect();
        sessions.into_iter().filter_map(|session| self.sessions.get(session)).cloned().collect()
    }

    /// Keeps the latest replaced sessions of a miner.
    fn bound_replaced(&mut self, miner: &str) {
        let sessions = self.miners.get(miner).into_iter().flatten().filter_map(|session| self.sessions.get(session));
        let mut replaced: Vec<_> = sessions.filter(|known| known.is_replaced).collect();
        replaced.sort_by_key(|known| std::cmp::Reverse(known.heard_s));
        let beyond: Vec<_> = replaced.into_iter().skip(MAX_REPLACED).map(|known| known.session.clone()).collect();
        for session in beyond {
            self.take(&session);
        }
    }
}

/// Removes a session from one of the lists.
fn unlist<K: std::hash::Hash + Eq>(lists: &mut HashMap<K, BTreeSet<String>>, key: &K, session: &str) {
    if let Some(listed) = lists.get_mut(key) {
        listed.remove(session);
        if listed.is_empty() {
            lists.remove(key);
        }
    }
}

impl Presences {
    /// Records a session that begins, or a change of its devices. Sessions under another of the miner's `keys` become
    /// its own: the miner presented the statement that links the keys late.
    pub fn note(&self, presence: &Presence, keys: &[String]) {
        let mut known = self.0.lock();
        known.forget(presence.heard_s);
        for key in keys.iter().filter(|key| **key != presence.miner) {
            for session in known.miners.remove(key).unwrap_or_default() {
                if let Some(other) = known.take(&session) {
                    known.put(Presence { miner: presence.miner.clone(), ..other });
                }
            }
        }
        let mut presence = presence.clone();
        match known.sessions.get(&presence.session) {
            Some(before) => {
                presence.began_s = before.began_s;
                for (id, first) in &mut presence.devices {
                    *first = first.or_else(|| before.devices.get(id).copied().flatten());
                }
            }
            None if known.sessions.len() >= MAX_PRESENCES => return,
            None => {}
        }
        known.put(presence);
    }

    /// Records a message of a session.
    pub fn heard(&self, session: &str, now_s: u64) {
        if let Some(presence) = self.0.lock().sessions.get_mut(session) {
            presence.heard_s = presence.heard_s.max(now_s);
        }
    }

    /// Records the end of a session; `is_replaced`: another one of its key took its place.
    pub fn left(&self, session: &str, is_replaced: bool) {
        let mut known = self.0.lock();
        let Some(presence) = known.take(session).filter(|_| is_replaced) else { return };
        let miner = presence.miner.clone();
        known.put(Presence { is_replaced, ..presence });
        known.bound_replaced(&miner);
    }

    /// Records that a session showed these devices in work that held, first at these times. A time known
    /// before stays.
    pub fn showed(&self, session: &str, devices: impl IntoIterator<Item = (DeviceId, u64)>) {
        let mut known = self.0.lock();
        let Some(presence) = known.sessions.get_mut(session) else { return };
        for (id, at_ms) in devices {
            if let Some(first) = presence.devices.get_mut(&id) {
                first.get_or_insert(at_ms);
            }
        }
    }

    /// Findings about a session against the other ones, with the devices of its challenge even where it lists them no
    /// more; empty for a session that has ended.
    pub fn findings<'a>(
        &self,
        session: &str,
        challenged: impl IntoIterator<Item = &'a DeviceId>,
        policy: &IdentityPolicy,
    ) -> Vec<IdentityFinding> {
        let known = self.0.lock();
        let Some(mut present) = known.sessions.get(session).cloned() else { return Vec::new() };
        for id in challenged {
            present.devices.entry(*id).or_default();
        }
        among(&present, &known.concerned(&present), policy)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    fn id(byte: u8) -> DeviceId {
        DeviceId([byte; 16])
    }

    /// A session of a miner at an address, with its start.
    fn presence(miner: &str, session: &str, last: u8, devices: &[u8], began_s: u64) -> Presence {
        Presence {
            miner: miner.to_owned(),
            operator: None,
            session: session.to_owned(),
            address: IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)),
            began_s,
            heard_s: began_s,
            is_replaced: false,
            devices: devices.iter().map(|byte| (id(*byte), None)).collect(),
        }
    }

    /// Runs a session for ten seconds to its end.
    fn session(presences: &Presences, presence: &Presence, is_replaced: bool) {
        presences.note(presence, std::slice::from_ref(&presence.miner));
        presences.heard(&presence.session, presence.began_s + 10);
        presences.left(&presence.session, is_replaced);
    }

    fn concerned(presences: &Presences, of: &Presence) -> Vec<String> {
        presences.0.lock().concerned(of).into_iter().map(|other| other.session).collect()
    }

    fn findings(presences: &Presences, session: &str) -> Vec<IdentityFinding> {
        presences.findings(session, [], &IdentityPolicy::default())
    }

    #[test]
    fn those_with_the_same_key_or_device_are_found_and_no_other() {
        let presences = Presences::default();
        let first = presence("a", "s1", 1, &[1, 2], 100);
        let other = presence("c", "s4", 4, &[4], 100);
        let more = [presence("a", "s2", 2, &[3], 100), presence("b", "s3", 3, &[2, 4], 100)];
        [&first, &other].into_iter().chain(&more).for_each(|it| presences.note(it, &[]));
        assert_eq!(concerned(&presences, &first), ["s1", "s2", "s3"]);
        assert_eq!(concerned(&presences, &other), ["s3", "s4"]);
        // A device that is no longer listed.
        presences.note(&presence("b", "s3", 3, &[4], 101), &[]);
        assert_eq!(concerned(&presences, &first), ["s1", "s2"]);
        presences.left("s2", false);
        assert_eq!(concerned(&presences, &first), ["s1"]);
        // Silent for long: its end was never recorded.
        presences.heard("s1", 500);
        presences.note(&presence("d", "s5", 5, &[1], 100 + REMEMBERED_S), &[]);
        assert_eq!(concerned(&presences, &first), ["s1", "s5"]);
        let known = presences.0.lock();
        assert!(known.devices.values().chain(known.miners.values()).all(|sessions| !sessions.is_empty()), "{known:?}");
        assert_eq!((known.devices.len(), known.miners.len()), (3, 3));
    }

    /// One host under two keys, one after the other, and one key that moved to another host and back.
    #[test]
    fn sessions_that_ended_are_at_the_same_time_as_none() {
        let presences = Presences::default();
        session(&presences, &presence("a", "s1", 1, &[1], 100), false);
        session(&presences, &presence("b", "s2", 1, &[1], 112), false);
        presences.note(&presence("a", "s3", 1, &[1], 124), &[]);
        presences.heard("s3", 134);
        assert_eq!(findings(&presences, "s3"), []);
        let presences = Presences::default();
        session(&presences, &presence("a", "s1", 1, &[1], 100), false);
        session(&presences, &presence("a", "s2", 2, &[2], 112), false);
        presences.note(&presence("a", "s3", 1, &[1], 124), &[]);
        presences.heard("s3", 134);
        assert_eq!(findings(&presences, "s3"), []);
    }

    /// A session that shows another miner's device disputes it while the session lasts.
    #[test]
    fn a_finding_ends_with_the_session_that_it_rests_on() {
        let presences = Presences::default();
        presences.note(&presence("stranger", "s1", 1, &[1], 100), &[]);
        presences.note(&presence("a", "s2", 2, &[1], 101), &[]);
        presences.heard("s1", 110);
        presences.heard("s2", 110);
        let disputed = |session| findings(&presences, session).iter().any(|it| it.miner == "a" && it.disputed);
        assert!(!disputed("s2"), "whoever only lists it");
        presences.showed("s1", [(id(1), 5)]);
        assert!(disputed("s2") && findings(&presences, "s2").iter().all(|it| !it.enforced));
        presences.note(&presence("a", "s2", 2, &[], 102), &[]);
        assert_eq!(findings(&presences, "s2"), []);
        let challenged = presences.findings("s2", [&id(1)], &IdentityPolicy::default());
        assert!(challenged.iter().any(|it| it.disputed), "it was challenged, and is no longer listed");
        presences.left("s1", false);
        assert_eq!(presences.findings("s2", [&id(1)], &IdentityPolicy::default()), []);
    }

    #[test]
    fn two_hosts_that_take_one_keys_session_from_one_another_are_found() {
        let presences = Presences::default();
        session(&presences, &presence("a", "s1", 1, &[1], 100), true);
        session(&presences, &presence("a", "s2", 2, &[2], 110), true);
        presences.note(&presence("a", "s3", 1, &[1], 120), &[]);
        let found = findings(&presences, "s3");
        assert!(found.len() == 1 && found[0].enforced, "{found:?}");
        for number in 0..9 {
            session(&presences, &presence("a", &format!("t{number}"), 2, &[2], 130 + 10 * number), true);
        }
        assert_eq!(presences.0.lock().sessions.len(), 1 + MAX_REPLACED);
    }

    /// A host that proves late that its second key follows the first one counts as one miner from then on.
    #[test]
    fn a_statement_that_comes_late_makes_two_miners_one() {
        let presences = Presences::default();
        presences.note(&presence("a", "s1", 1, &[1], 100), &["a".to_owned()]);
        presences.note(&presence("b", "s2", 1, &[1], 101), &["b".to_owned()]);
        for session in ["s1", "s2"] {
            presences.showed(session, [(id(1), 5)]);
            presences.heard(session, 110);
        }
        assert_eq!(findings(&presences, "s2").len(), 2);
        presences.note(&presence("a", "s3", 1, &[1], 111), &["a".to_owned(), "b".to_owned()]);
        presences.heard("s3", 120);
        assert!(["s1", "s2", "s3"].iter().all(|session| findings(&presences, session).is_empty()));
    }
}
