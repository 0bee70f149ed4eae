//! Which keys follow which: a miner that changed its key is the miner that it was.
//!
//! It lives in memory, and comes back from the end of the verdict log when the validator starts.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use assay_work::PublicKey;

/// Keys remembered that follow another one: as many as miners can be connected. The one noted first makes room.
const MAX_FOLLOWERS: usize = 65_536;
/// The most keys of one miner that are looked at: a change a month for five years.
const MAX_CHAIN: usize = 64;

/// The keys that follow others.
#[derive(Debug, Default)]
pub struct Kin(Mutex<Followers>);

#[derive(Debug, Default)]
struct Followers {
    old_keys: HashMap<PublicKey, PublicKey>,
    /// Which was noted first.
    order: VecDeque<PublicKey>,
}

impl Kin {
    /// Notes that a key follows another one; says whether that is new. A key follows the one that was noted first, and
    /// never one that follows it.
    pub fn note(&self, new_key: PublicKey, old_key: PublicKey) -> bool {
        let mut followers = self.lock();
        if followers.old_keys.contains_key(&new_key) || followers.lineage(old_key).contains(&new_key) {
            return false;
        }
        if followers.order.len() >= MAX_FOLLOWERS
            && let Some(first) = followers.order.pop_front()
        {
            followers.old_keys.remove(&first);
        }
        followers.old_keys.insert(new_key, old_key);
        followers.order.push_back(new_key);
        true
    }

    /// The first key of a miner: all of its keys have one record, under this one.
    #[must_use]
    pub fn root(&self, key: PublicKey) -> PublicKey {
        self.lock().lineage(key).last().copied().unwrap_or(key)
    }

    /// A key and those that it follows, nearest first.
    #[must_use]
    pub fn lineage(&self, key: PublicKey) -> Vec<PublicKey> {
        self.lock().lineage(key)
    }

    /// Every key that follows another one, with that one, in the order in which they were noted.
    #[must_use]
    pub fn all(&self) -> Vec<(PublicKey, PublicKey)> {
        let followers = self.lock();
        followers.order.iter().filter_map(|new_key| Some((*new_key, *followers.old_keys.get(new_key)?))).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Followers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Followers {
    fn lineage(&self, key: PublicKey) -> Vec<PublicKey> {
        std::iter::successors(Some(key), |key| self.old_keys.get(key).copied()).take(MAX_CHAIN).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u32) -> PublicKey {
        let mut key = [0; 32];
        key[..4].copy_from_slice(&number.to_le_bytes());
        PublicKey(key)
    }

    #[test]
    fn all_keys_of_a_miner_have_one_root() {
        let kin = Kin::default();
        assert!(kin.note(key(2), key(1)) && kin.note(key(3), key(2)) && kin.note(key(4), key(1)));
        assert_eq!([1, 2, 3, 4, 5].map(|number| kin.root(key(number))), [1, 1, 1, 1, 5].map(key));
        assert_eq!(kin.lineage(key(3)), [key(3), key(2), key(1)]);
        assert_eq!(kin.all(), [(key(2), key(1)), (key(3), key(2)), (key(4), key(1))]);
    }

    #[test]
    fn a_key_changes_its_miner_never() {
        let kin = Kin::default();
        assert!(kin.note(key(2), key(1)));
        assert!(!kin.note(key(2), key(9)) && !kin.note(key(2), key(1)), "it follows one");
        assert!(!kin.note(key(1), key(2)) && !kin.note(key(3), key(3)), "there are no circles");
        assert_eq!([1, 2, 9].map(|number| kin.root(key(number))), [1, 1, 9].map(key));
    }

    #[test]
    fn followers_are_bounded() {
        let kin = Kin::default();
        for number in 0..=MAX_FOLLOWERS as u32 {
            kin.note(key(number + 1), key(0));
        }
        let followers = kin.lock();
        assert_eq!((followers.old_keys.len(), followers.order.len()), (MAX_FOLLOWERS, MAX_FOLLOWERS));
        drop(followers);
        assert_eq!((kin.root(key(1)), kin.root(key(2))), (key(1), key(0)), "the first made room");
    }
}
