//! The board where devices post their results, and compare them with the others'.
//!
//! Slot u of a pass depends on its key and the slots before it, not on the number of slots after it: passes of one key
//! agree up to the end of the shorter one, on any device, kernel and memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use assay_work::{DeviceId, Digest};
use parking_lot::Mutex;

/// Keys that are kept: the current ones of devices that are not far apart.
const MAX_KEYS: usize = 6;

/// Results by the pass or probe that they belong to.
#[derive(Debug)]
pub struct ResultBoard<K> {
    results: Mutex<BTreeMap<K, Vec<BoardEntry>>>,
}

#[derive(Debug, Clone)]
struct BoardEntry {
    who: ResultOrigin,
    digests: Arc<Vec<Digest>>,
    /// It was shown to be wrong: it is no witness any more.
    is_wrong: bool,
}

/// Whose result: the device, and which of its passes of that key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResultOrigin {
    pub device: DeviceId,
    /// The number of the pass in the round, from 0.
    pub step: u32,
}

/// Results that contradict one another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dispute {
    /// The first digest that differs.
    pub index: u32,
    /// Number of others with this device's digest.
    pub same: usize,
    /// Results with another digest.
    pub others: Vec<ResultOrigin>,
    /// How many digests differ from the first of those.
    pub differ: u32,
}

impl<K> Default for ResultBoard<K> {
    fn default() -> Self {
        Self { results: Mutex::new(BTreeMap::new()) }
    }
}

impl<K: Ord + Copy> ResultBoard<K> {
    /// Puts a result, in place of an earlier one of the same pass.
    pub fn post(&self, key: K, who: ResultOrigin, digests: Arc<Vec<Digest>>) {
        let mut results = self.results.lock();
        let entries = results.entry(key).or_default();
        entries.retain(|entry| entry.who != who);
        entries.push(BoardEntry { who, digests, is_wrong: false });
        while results.len() > MAX_KEYS {
            results.pop_first();
        }
    }

    /// The first place at which others contradict a result that was put.
    pub fn dispute(&self, key: K, who: ResultOrigin) -> Option<Dispute> {
        let results = self.results.lock();
        let entries = results.get(&key)?;
        let own = entries.iter().find(|entry| entry.who == who)?;
        let others = || entries.iter().filter(|entry| entry.who != who && !entry.is_wrong);
        let index = others().filter_map(|other| first_difference(&own.digests, &other.digests)).min()?;
        let has = |entry: &&BoardEntry| entry.digests.len() > index;
        let (same, other): (Vec<_>, Vec<_>) =
            others().filter(has).partition(|entry| entry.digests[index] == own.digests[index]);
        let differ = other.first().map_or(0, |other| differences(&own.digests, &other.digests));
        // CAST: a pass has at most 2²⁰ slots.
        let index = index as u32;
        Some(Dispute { index, same: same.len(), others: other.iter().map(|entry| entry.who).collect(), differ })
    }

    /// Takes a result out of those that count; whether it counted.
    pub fn reject(&self, key: K, who: ResultOrigin) -> bool {
        let mut results = self.results.lock();
        let entry = results.get_mut(&key).and_then(|entries| entries.iter_mut().find(|entry| entry.who == who));
        entry.is_some_and(|entry| !std::mem::replace(&mut entry.is_wrong, true))
    }

    /// How many other results there are to compare one with.
    pub fn witnesses(&self, key: K, who: ResultOrigin) -> usize {
        let results = self.results.lock();
        let others =
            |entries: &Vec<BoardEntry>| entries.iter().filter(|entry| entry.who != who && !entry.is_wrong).count();
        results.get(&key).map_or(0, others)
    }
}

/// The first index at which two lists differ, as far as both go.
pub fn first_difference(a: &[Digest], b: &[Digest]) -> Option<usize> {
    a.iter().zip(b).position(|(a, b)| a != b)
}

/// At how many indices two lists differ, as far as both go.
pub fn differences(a: &[Digest], b: &[Digest]) -> u32 {
    // CAST: at most 2²⁰.
    a.iter().zip(b).filter(|(a, b)| a != b).count() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(device: u8, step: u32) -> ResultOrigin {
        ResultOrigin { device: DeviceId([device; 16]), step }
    }

    fn digests(bytes: &[u8]) -> Arc<Vec<Digest>> {
        Arc::new(bytes.iter().map(|byte| Digest([*byte; 32])).collect())
    }

    #[test]
    fn results_that_agree_as_far_as_both_go_are_no_dispute() {
        let board = ResultBoard::default();
        board.post(1, who(1, 0), digests(&[1, 2, 3]));
        board.post(1, who(2, 0), digests(&[1, 2, 3, 4, 5]));
        board.post(2, who(2, 1), digests(&[9]));
        assert_eq!((board.dispute(1, who(1, 0)), board.dispute(1, who(2, 0))), (None, None));
        assert_eq!((board.witnesses(1, who(1, 0)), board.witnesses(2, who(2, 1))), (1, 0));
    }

    #[test]
    fn the_first_place_is_named_with_those_on_either_side() {
        let board = ResultBoard::default();
        board.post(1, who(1, 0), digests(&[1, 2, 3, 4]));
        board.post(1, who(2, 0), digests(&[1, 7, 8, 9]));
        board.post(1, who(3, 0), digests(&[1, 2, 3, 4]));
        board.post(1, who(3, 1), digests(&[1]));
        let found = board.dispute(1, who(2, 0)).unwrap();
        assert_eq!(found, Dispute { index: 1, same: 0, others: vec![who(1, 0), who(3, 0)], differ: 3 });
        let found = board.dispute(1, who(1, 0)).unwrap();
        assert_eq!((found.index, found.same, found.others), (1, 1, vec![who(2, 0)]));
    }

    #[test]
    fn what_was_rejected_is_no_witness_until_it_is_computed_again() {
        let board = ResultBoard::default();
        board.post(1, who(1, 0), digests(&[1, 2]));
        board.post(1, who(2, 0), digests(&[1, 3]));
        assert!(board.reject(1, who(2, 0)));
        assert!(!board.reject(1, who(2, 0)), "once");
        assert_eq!(board.dispute(1, who(1, 0)), None);
        board.post(1, who(2, 0), digests(&[1, 2]));
        assert_eq!((board.dispute(1, who(1, 0)), board.witnesses(1, who(1, 0))), (None, 1));
    }

    #[test]
    fn old_keys_go() {
        let board = ResultBoard::default();
        (0..20).for_each(|key| board.post(key, who(1, 0), digests(&[1])));
        assert_eq!(board.results.lock().len(), MAX_KEYS);
        assert_eq!(board.witnesses(19, who(2, 0)), 1);
    }
}
