//! What is remembered of miners between their challenges, by key: how the last ones ended, what the devices showed.
//!
//! It lives in memory and is bounded. Nothing in it is a claim, but for the names of [`devices`].

pub mod devices;
pub mod kin;
pub mod past;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use assay_protocol::verdict::KindRate;
use assay_work::probe::Link;
use assay_work::{DeviceId, Precision, PublicKey};
use serde::{Deserialize, Serialize};

use crate::policy::{AbandonedPolicy, MAX_ABANDONED_WINDOW};
use devices::KnownDevices;
use kin::Kin;
use past::Past;

/// Keys remembered: as many as miners can be connected. The one unused for longest makes room.
const MAX_KEYS: usize = 65_536;
/// Devices remembered of a key: those of the last challenge, and of a host that changes them.
const MAX_DEVICES: usize = 128;
/// How long a mismatch that was computed twice stands for the next one of the same miner.
const SECOND_COMPUTATION_INTERVAL: Duration = Duration::from_secs(3600);

/// How a challenge ended, by the miner's doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// It was judged, or ended by nobody's or the validator's doing.
    Other,
    /// The miner broke it off after positions were named.
    Abandoned,
    /// The miner did not read. The first in the window may be the link's doing.
    NotReading,
}

/// The abandoned ones among the last challenges of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Recent {
    /// Abandoned ones.
    pub abandoned: u32,
    /// Of so many, the latest included.
    pub of: u32,
}

/// What a device showed in the last challenges that it passed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Shown {
    /// Its rate in the last one of each kind of work.
    pub rates: BTreeMap<Precision, ShownRate>,
    /// Bytes per second that the probe of the last one read.
    pub probe_bytes_per_s: f64,
    /// The same of the linked probe of the last one that had one.
    pub linked_bytes_per_s: f64,
}

/// A rate that a device showed in a challenge.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ShownRate {
    /// Multiply-accumulates per second of the kind of work.
    pub per_s: f64,
    /// TOPS, as the verdict says them.
    pub tops: f64,
    /// When the challenge was sent: seconds since 1970.
    pub unix_seconds: u64,
}

/// Bytes per second that the probes of a challenge read on a device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProbeRates {
    /// Of its own slots.
    pub own: f64,
    /// Of the slots of all devices, where there was such a probe.
    pub linked: Option<f64>,
}

impl Shown {
    /// Bytes per second that the last probe of this link read; 0 before there was one.
    #[must_use]
    pub const fn bytes_per_s(&self, link: Link) -> f64 {
        match link {
            Link::Own => self.probe_bytes_per_s,
            Link::All => self.linked_bytes_per_s,
        }
    }

    /// The rates as a verdict says them, in order of kind.
    pub fn kind_rates(&self) -> impl Iterator<Item = KindRate> {
        self.rates.iter().map(|(&precision, &ShownRate { tops, unix_seconds, .. })| KindRate {
            precision,
            tops,
            detour: precision.largest_detour(),
            unix_seconds,
        })
    }

    /// The rate in a kind of work; the highest of the other kinds where none is known; 0 where nothing is.
    #[must_use]
    pub fn rate_per_s(&self, precision: Precision) -> f64 {
        let highest = || self.rates.values().map(|rate| rate.per_s).fold(0.0, f64::max);
        self.rates.get(&precision).map_or_else(highest, |rate| rate.per_s)
    }
}

/// Whether a root that differs may be computed a second time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SecondComputation {
    /// It was not done for this miner within the hour.
    Due,
    /// It was, and the root differed again: another mismatch stands by itself.
    Confirmed,
    /// It was, and the validator's own device gave two results: another mismatch shows nothing.
    Unreliable,
}

#[derive(Debug, Default)]
struct Record {
    used: u64,
    ends: VecDeque<End>,
    abandoned_at: Option<Instant>,
    shown: BTreeMap<DeviceId, Shown>,
    /// When it was asked for a kind of work last, by the clock of the records.
    asked: BTreeMap<Precision, u64>,
    second_computation: Option<(Instant, SecondComputation)>,
    replayed_at: Option<Instant>,
}

#[derive(Debug, Default)]
struct Records {
    clock: u64,
    by_key: HashMap<PublicKey, Record>,
    /// The keys by when they were used last.
    by_use: BTreeMap<u64, PublicKey>,
}

/// The history of all miners. The keys of a miner that changed its key have one record.
#[derive(Debug)]
pub struct History {
    records: Mutex<Records>,
    /// Which keys are one miner's.
    pub kin: Arc<Kin>,
    /// The devices that each key showed.
    pub devices: KnownDevices,
}

impl Default for History {
    fn default() -> Self {
        let kin = Arc::<Kin>::default();
        Self { records: Mutex::default(), devices: KnownDevices::of(kin.clone()), kin }
    }
}

impl History {
    /// Notes that a key follows another one, whose record becomes that of both. A key that has a record of its own
    /// keeps it. Says whether it is new.
    pub fn follow(&self, new_key: PublicKey, old_key: PublicKey) -> bool {
        let is_known = self.lock().by_key.contains_key(&new_key) || self.devices.knows(new_key);
        !is_known && self.kin.note(new_key, old_key)
    }

    /// What is remembered of a miner.
    #[must_use]
    pub fn past(&self, key: PublicKey) -> Past {
        let (ends, shown) = match self.lock().by_key.get(&self.kin.root(key)) {
            Some(record) => (record.ends.iter().copied().collect(), record.shown.clone()),
            None => Default::default(),
        };
        let rates = shown.into_iter().map(|(id, shown)| (id, shown.kind_rates().collect())).collect();
        let (lineage, devices) = (self.kin.lineage(key), self.devices.of_key(key));
        Past { lineage, ends, devices, rates }
    }

    /// Notes how a challenge of a miner ended.
    pub fn ended(&self, key: PublicKey, end: End) {
        let mut records = self.lock();
        let record = records.entry(self.kin.root(key));
        record.ends.push_front(end);
        record.ends.truncate(MAX_ABANDONED_WINDOW as usize);
    }

    /// Notes when a challenge was abandoned.
    pub fn abandoned(&self, key: PublicKey, now: Instant) {
        self.lock().entry(self.kin.root(key)).abandoned_at = Some(now);
    }

    /// When a miner last abandoned a challenge.
    #[must_use]
    pub fn abandoned_at(&self, key: PublicKey) -> Option<Instant> {
        self.lock().by_key.get(&self.kin.root(key)).and_then(|record| record.abandoned_at)
    }

    /// The kind of work that a miner is asked for next: of these, which its devices compute, the one that it was asked for
    /// longest ago; the first of those that it was never asked for.
    #[must_use]
    pub fn next_kind(&self, key: PublicKey, kinds: impl IntoIterator<Item = Precision>) -> Option<Precision> {
        let records = self.lock();
        let record = records.by_key.get(&self.kin.root(key));
        let asked = |kind: &Precision| record.and_then(|record| record.asked.get(kind).copied());
        kinds.into_iter().min_by_key(asked)
    }

    /// Notes that a miner was asked for a kind of work.
    pub fn asked(&self, key: PublicKey, kind: Precision) {
        let mut records = self.lock();
        let record = records.entry(self.kin.root(key));
        record.asked.insert(kind, record.used);
    }

    /// Notes what a device showed in a challenge of a kind of work.
    pub fn showed(&self, key: PublicKey, device_id: DeviceId, kind: Precision, rate: ShownRate, probes: ProbeRates) {
        let mut records = self.lock();
        let devices = &mut records.entry(self.kin.root(key)).shown;
        if devices.len() >= MAX_DEVICES && !devices.contains_key(&device_id) {
            devices.clear();
        }
        let device = devices.entry(device_id).or_default();
        device.rates.insert(kind, rate);
        device.probe_bytes_per_s = probes.own;
        device.linked_bytes_per_s = probes.linked.unwrap_or(device.linked_bytes_per_s);
    }

    /// What a miner's devices showed last.
    #[must_use]
    pub fn shown(&self, key: PublicKey) -> BTreeMap<DeviceId, Shown> {
        self.lock().by_key.get(&self.kin.root(key)).map(|record| record.shown.clone()).unwrap_or_default()
    }

    /// Forgets the devices that a miner showed; says how many they were.
    pub fn forget(&self, key: PublicKey) -> usize {
        let mut records = self.lock();
        records.by_key.get_mut(&self.kin.root(key)).map_or(0, |record| std::mem::take(&mut record.shown).len())
    }

    /// Whether a root of this miner that differs may be computed a second time now.
    #[must_use]
    pub fn second_computation(&self, key: PublicKey, now: Instant) -> SecondComputation {
        match self.lock().by_key.get(&self.kin.root(key)).and_then(|record| record.second_computation) {
            Some((at, found)) if now.saturating_duration_since(at) < SECOND_COMPUTATION_INTERVAL => found,
            _ => SecondComputation::Due,
        }
    }

    /// Notes what a second computation gave.
    pub fn computed_again(&self, key: PublicKey, found: SecondComputation, now: Instant) {
        self.lock().entry(self.kin.root(key)).second_computation = Some((now, found));
    }

    /// When a replay for this miner began last.
    #[must_use]
    pub fn replayed_at(&self, key: PublicKey) -> Option<Instant> {
        self.lock().by_key.get(&self.kin.root(key)).and_then(|record| record.replayed_at)
    }

    /// Notes that a replay for this miner begins.
    pub fn replays(&self, key: PublicKey, now: Instant) {
        self.lock().entry(self.kin.root(key)).replayed_at = Some(now);
    }

    fn lock(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Recent {
    /// The abandoned ones among these, the latest first.
    fn of(ends: impl Iterator<Item = End>, policy: AbandonedPolicy) -> Self {
        let ends: Vec<_> = ends.take(policy.window as usize).collect();
        let count = |end| ends.iter().filter(|e| **e == end).count() as u32;
        let abandoned = count(End::Abandoned) + count(End::NotReading).saturating_sub(1);
        Self { abandoned, of: ends.len() as u32 }
    }
}

impl Records {
    /// A key's record, made when there is none; it is the one used last from now on.
    fn entry(&mut self, key: PublicKey) -> &mut Record {
        if !self.by_key.contains_key(&key)
            && self.by_key.len() >= MAX_KEYS
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.by_key.remove(&oldest);
        }
        self.clock += 1;
        let record = self.by_key.entry(key).or_default();
        self.by_use.remove(&record.used);
        self.by_use.insert(self.clock, key);
        record.used = self.clock;
        record
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: AbandonedPolicy = AbandonedPolicy { limit: 3, window: 4 };

    /// Ends a challenge as a run does.
    fn end(history: &History, key: PublicKey, end: End) -> Recent {
        let recent = history.past(key).recent(end, POLICY);
        history.ended(key, end);
        recent
    }

    fn key(number: u32) -> PublicKey {
        let mut key = [0; 32];
        key[..4].copy_from_slice(&number.to_le_bytes());
        PublicKey(key)
    }

    #[test]
    fn abandoned_challenges_are_counted_over_the_last_ones() {
        let history = History::default();
        let ends = [End::Abandoned, End::Other, End::Abandoned, End::Other, End::Other];
        let counts = ends.map(|ended| end(&history, key(1), ended));
        assert_eq!(counts.map(|recent| recent.abandoned), [1, 1, 2, 2, 1]);
        assert_eq!(counts.map(|recent| recent.of), [1, 2, 3, 4, 4]);
        assert_eq!(end(&history, key(2), End::Other), Recent { abandoned: 0, of: 1 });
    }

    #[test]
    fn not_reading_counts_when_repeated() {
        let history = History::default();
        let ends = [End::NotReading, End::Abandoned, End::NotReading];
        assert_eq!(ends.map(|ended| end(&history, key(1), ended).abandoned), [0, 1, 2]);
    }

    #[test]
    fn the_key_unused_for_longest_is_forgotten() {
        let history = History::default();
        for number in 0..MAX_KEYS as u32 {
            end(&history, key(number), End::Abandoned);
        }
        end(&history, key(0), End::Abandoned);
        end(&history, key(u32::MAX), End::Abandoned);
        assert_eq!(end(&history, key(0), End::Other).abandoned, 2);
        assert_eq!(end(&history, key(1), End::Other).abandoned, 0, "the oldest made room");
        let records = history.lock();
        assert_eq!((records.by_key.len(), records.by_use.len()), (MAX_KEYS, MAX_KEYS));
    }

    #[test]
    fn a_key_that_follows_another_one_has_its_record() {
        let history = History::default();
        for _ in 0..2 {
            end(&history, key(1), End::Abandoned);
        }
        assert!(history.follow(key(2), key(1)) && history.follow(key(3), key(1)));
        assert_eq!(end(&history, key(2), End::Abandoned).abandoned, 3);
        assert_eq!(end(&history, key(3), End::Other).abandoned, 3, "two heirs share what there is");
        assert_eq!(end(&history, key(1), End::Other).abandoned, 2, "nothing is shed by going back");
        end(&history, key(4), End::Abandoned);
        assert!(!history.follow(key(4), key(1)), "a key with a record keeps it");
        assert_eq!(end(&history, key(4), End::Other), Recent { abandoned: 1, of: 2 });
    }

    #[test]
    fn kinds_of_work_come_in_turn() {
        use Precision::{F16, Fp4, Fp8, Int8};
        let history = History::default();
        let next = |kinds: &[Precision]| {
            let kind = history.next_kind(key(1), kinds.iter().copied()).unwrap();
            history.asked(key(1), kind);
            kind
        };
        assert_eq!([(); 5].map(|()| next(&[Fp8, Int8, F16])), [Fp8, Int8, F16, Fp8, Int8], "in the order written");
        assert_eq!(next(&[Fp8, Int8, Fp4]), Fp4, "one that it was never asked for comes first");
        assert_eq!(next(&[Int8, F16]), F16);
        assert_eq!(next(&[Int8]), Int8);
        assert_eq!(history.next_kind(key(1), []), None);
        assert_eq!(history.next_kind(key(2), [F16, Int8]), Some(F16), "each miner has its own turn");
    }

    #[test]
    fn rates_are_kept_by_kind_of_work() {
        let (history, id) = (History::default(), DeviceId([7; 16]));
        let rate = |per_s| ShownRate { per_s, tops: per_s / 0.5e12, unix_seconds: 9 };
        assert_eq!(Shown::default().rate_per_s(Precision::Int8), 0.0);
        history.showed(key(1), id, Precision::Int8, rate(1e12), ProbeRates { own: 5.0, linked: Some(2.0) });
        history.showed(key(1), id, Precision::Fp4, rate(4e12), ProbeRates { own: 6.0, linked: None });
        let shown = history.shown(key(1)).remove(&id).unwrap();
        assert_eq!((shown.rate_per_s(Precision::Int8), shown.rate_per_s(Precision::Fp4)), (1e12, 4e12));
        assert_eq!((shown.rate_per_s(Precision::F16), shown.bytes_per_s(Link::Own)), (4e12, 6.0));
        // A challenge without a linked probe shows nothing of that one.
        assert_eq!(shown.bytes_per_s(Link::All), 2.0);
        assert_eq!(history.past(key(1)).rates[&id], shown.kind_rates().collect::<Vec<_>>());
        assert!(
            shown
                .kind_rates()
                .map(|rate| (rate.precision, rate.tops))
                .eq([(Precision::Int8, 2.0), (Precision::Fp4, 8.0)])
        );
    }

    #[test]
    fn a_second_computation_is_due_once_an_hour() {
        let (history, start) = (History::default(), Instant::now());
        assert_eq!(history.second_computation(key(1), start), SecondComputation::Due);
        history.computed_again(key(1), SecondComputation::Confirmed, start);
        let later = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(history.second_computation(key(1), later(3599)), SecondComputation::Confirmed);
        assert_eq!(history.second_computation(key(1), later(3600)), SecondComputation::Due);
        assert_eq!(history.second_computation(key(2), start), SecondComputation::Due);
    }
}
