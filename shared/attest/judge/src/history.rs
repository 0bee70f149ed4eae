//! History of miners between their challenges.
//!
//! Facts that verdicts depend on are in the records; a challenge gets them when it begins ([`MinerHistory`]). Facts
//! that only schedule this process's own work live in its memory, bounded ([`History`]).

pub mod devices;
pub mod past;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use assay_policy::challenge::AbandonedPolicy;
use assay_policy::{DeviceRate, End, MinerMemory};
use assay_protocol::verdict::KindRate;
use assay_protocol::wire::limits::MAX_DEVICES;
use assay_work::probe::Link;
use assay_work::{DeviceId, Precision, PublicKey};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use devices::KnownDevice;
use past::MinerPast;

/// Keys remembered: the most miners that can be connected. The one unused for longest makes room.
const MAX_KEYS: usize = 65_536;
/// Time for which a mismatch that was computed twice confirms the next one of the same miner.
const SECOND_COMPUTATION_INTERVAL: Duration = Duration::from_secs(3600);

/// History of a miner as a challenge of it begins.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MinerHistory {
    /// The miner's place in [`History`]: whichever of its keys it uses; `None`: that of the key.
    pub seat: Option<PublicKey>,
    /// The part that a verdict depends on.
    pub past: MinerPast,
    /// Rates that its devices showed, by which a challenge is sized.
    pub shown: BTreeMap<DeviceId, ShownRates>,
    /// Time of the latest abandoned one of its last challenges: milliseconds since 1970.
    pub abandoned_ms: Option<i64>,
}

/// Abandoned challenges among the last ones of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AbandonedCount {
    pub abandoned: u32,
    /// Challenges considered, the latest included.
    pub of: u32,
}

/// Rates of a device in the last challenges that it passed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ShownRates {
    /// Its rate in the last one of each kind of work.
    pub rates: BTreeMap<Precision, ShownRate>,
    /// Bytes per second read by the last probe.
    pub probe_bytes_per_s: f64,
    /// Bytes per second read by the last linked probe.
    pub linked_bytes_per_s: f64,
}

/// A rate that a device showed in a challenge.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ShownRate {
    /// Multiply-accumulates per second of the kind of work.
    pub per_s: f64,
    /// TOPS, as verdicts state it.
    pub tops: f64,
    /// Sending time of the challenge: seconds since 1970.
    pub unix_seconds: u64,
}

impl ShownRates {
    /// Bytes per second that the last probe of this link read; 0 before there was one.
    pub const fn bytes_per_s(&self, link: Link) -> f64 {
        match link {
            Link::Own => self.probe_bytes_per_s,
            Link::All => self.linked_bytes_per_s,
        }
    }

    /// The rates in the form of a verdict, in order of kind.
    pub fn kind_rates(&self) -> impl Iterator<Item = KindRate> {
        let passed = self.rates.iter().filter(|(_, rate)| rate.tops > 0.0);
        passed.map(|(&precision, &ShownRate { tops, unix_seconds, .. })| KindRate {
            precision,
            tops,
            detour: precision.largest_detour(),
            unix_seconds,
        })
    }

    /// The rate in a kind of work; the highest of the other kinds if unknown; 0 without any rate.
    pub fn rate_per_s(&self, precision: Precision) -> f64 {
        let highest = || self.rates.values().map(|rate| rate.per_s).fold(0.0, f64::max);
        self.rates.get(&precision).map_or_else(highest, |rate| rate.per_s)
    }
}

/// Whether a root that differs may be computed a second time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SecondComputation {
    /// None was done for this miner within the last hour.
    Due,
    /// One was done, and the root differed again: another mismatch needs no confirmation.
    Confirmed,
    /// One was done, and the validator's own device gave two results: another mismatch shows nothing.
    Unreliable,
}

#[derive(Debug, Default)]
struct SeatHistory {
    used: u64,
    /// Last use of each kind of work in a challenge, by the clock of the records.
    judged: BTreeMap<Precision, u64>,
    second_computation: Option<(Instant, SecondComputation)>,
    replayed_at: Option<Instant>,
}

#[derive(Debug, Default)]
struct SeatHistories {
    clock: u64,
    by_key: HashMap<PublicKey, SeatHistory>,
    /// Seats by their last use.
    by_use: BTreeMap<u64, PublicKey>,
}

/// This process's own work for miners, by the seat of each: the first of its keys that the records know.
#[derive(Debug, Default)]
pub struct History {
    records: Mutex<SeatHistories>,
}

impl History {
    /// The next kind of work for a miner: of these, which its devices compute, the one judged longest ago; the first
    /// of those never judged.
    pub fn next_kind(&self, key: PublicKey, kinds: impl IntoIterator<Item = Precision>) -> Option<Precision> {
        let records = self.records.lock();
        let record = records.by_key.get(&key);
        let judged = |kind: &Precision| record.and_then(|record| record.judged.get(kind).copied());
        kinds.into_iter().min_by_key(judged)
    }

    /// Records that a miner was judged by a kind of work.
    pub fn judged(&self, key: PublicKey, kind: Precision) {
        let mut records = self.records.lock();
        let record = records.entry(key);
        record.judged.insert(kind, record.used);
    }

    /// Whether a root of this miner that differs may be computed a second time now.
    pub fn second_computation(&self, key: PublicKey, now: Instant) -> SecondComputation {
        match self.records.lock().by_key.get(&key).and_then(|record| record.second_computation) {
            Some((at, found)) if now.saturating_duration_since(at) < SECOND_COMPUTATION_INTERVAL => found,
            _ => SecondComputation::Due,
        }
    }

    /// Records the result of a second computation.
    pub fn computed_again(&self, key: PublicKey, found: SecondComputation, now: Instant) {
        self.records.lock().entry(key).second_computation = Some((now, found));
    }

    /// Start of the last replay for this miner.
    pub fn replayed_at(&self, key: PublicKey) -> Option<Instant> {
        self.records.lock().by_key.get(&key).and_then(|record| record.replayed_at)
    }

    /// Records that a replay for this miner begins.
    pub fn replays(&self, key: PublicKey, now: Instant) {
        self.records.lock().entry(key).replayed_at = Some(now);
    }
}

impl From<MinerMemory> for MinerHistory {
    /// Skips malformed keys and ids.
    fn from(MinerMemory { lineage, ends, mut shown }: MinerMemory) -> Self {
        let mut history = Self {
            abandoned_ms: ends.iter().find(|(end, _)| *end == End::Abandoned).map(|(_, at_ms)| *at_ms),
            ..Self::default()
        };
        history.past.lineage = lineage.iter().filter_map(|key| key.parse().ok()).collect();
        history.past.ends = ends.into_iter().map(|(end, _)| end).collect();
        // The latest entry wins.
        shown.sort_by_key(|shown| shown.at_ms);
        shown.into_iter().for_each(|shown| history.learn(shown));
        let rates = history.shown.iter().map(|(id, shown)| (*id, shown.kind_rates().collect()));
        history.past.rates = rates.collect();
        history
    }
}

impl MinerHistory {
    /// Whether the miner showed work that held.
    pub fn is_known(&self) -> bool {
        !self.shown.is_empty()
    }

    /// Selects the devices to remember: a miner at its limit of devices pushes none out by showing others.
    pub fn remembers(&self, devices: impl IntoIterator<Item = DeviceId>) -> BTreeSet<DeviceId> {
        let mut room = MAX_DEVICES.saturating_sub(self.shown.len());
        let mut has_room = |id: &DeviceId| {
            let is_new = !self.shown.contains_key(id);
            let fits = !is_new || room > 0;
            room -= usize::from(is_new && fits);
            fits
        };
        devices.into_iter().filter(|id| has_room(id)).collect()
    }

    fn learn(&mut self, shown: DeviceRate) {
        let Ok(id) = shown.device_id.parse::<DeviceId>() else { return };
        let device = self.shown.entry(id).or_default();
        let unix_seconds = u64::try_from(shown.at_ms / 1000).unwrap_or(0);
        let rate = ShownRate { per_s: shown.macs_per_s, tops: shown.tops, unix_seconds };
        device.rates.insert(shown.precision, rate);
        device.probe_bytes_per_s = shown.probe_bytes_per_s;
        if shown.linked_bytes_per_s > 0.0 {
            device.linked_bytes_per_s = shown.linked_bytes_per_s;
        }
        let bytes = u64::try_from(shown.bytes).unwrap_or(0);
        if bytes > 0 {
            let new = || KnownDevice { name: String::new(), bytes, kinds: Vec::new() };
            let known = self.past.devices.entry(id).or_insert_with(new);
            (known.name, known.bytes) = (shown.name, known.bytes.max(bytes));
            known.kinds.push(shown.precision);
            known.kinds.sort_unstable();
        }
    }
}

impl AbandonedCount {
    fn of(ends: impl Iterator<Item = End>, policy: AbandonedPolicy) -> Self {
        let ends: Vec<_> = ends.take(policy.window as usize).collect();
        let count = |end| ends.iter().filter(|e| **e == end).count() as u32;
        let abandoned = count(End::Abandoned) + count(End::NotReading).saturating_sub(1);
        Self { abandoned, of: ends.len() as u32 }
    }
}

impl SeatHistories {
    /// Returns a key's record, made when missing, and marks it as the one used last.
    fn entry(&mut self, key: PublicKey) -> &mut SeatHistory {
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

    fn end(past: &mut MinerPast, end: Option<End>) -> AbandonedCount {
        let recent = past.recent(end, POLICY);
        past.ends.splice(0..0, end);
        recent
    }

    fn key(number: u32) -> PublicKey {
        let mut key = [0; 32];
        key[..4].copy_from_slice(&number.to_le_bytes());
        PublicKey(key)
    }

    #[test]
    fn abandoned_challenges_are_counted_over_the_last_ones() {
        let mut past = MinerPast::default();
        let ends = [End::Abandoned, End::Other, End::Abandoned, End::Other, End::Other];
        let counts = ends.map(|ended| end(&mut past, Some(ended)));
        assert_eq!(counts.map(|recent| recent.abandoned), [1, 1, 2, 2, 1]);
        assert_eq!(counts.map(|recent| recent.of), [1, 2, 3, 4, 4]);
    }

    #[test]
    fn a_challenge_that_named_no_positions_pushes_none_out() {
        let mut past = MinerPast::default();
        for _ in 0..2 {
            end(&mut past, Some(End::Abandoned));
        }
        for _ in 0..40 {
            assert_eq!(end(&mut past, None), AbandonedCount { abandoned: 2, of: 2 });
        }
        assert_eq!(end(&mut past, Some(End::Abandoned)), AbandonedCount { abandoned: 3, of: 3 });
    }

    #[test]
    fn not_reading_counts_when_repeated() {
        let mut past = MinerPast::default();
        let ends = [End::NotReading, End::Abandoned, End::NotReading];
        assert_eq!(ends.map(|ended| end(&mut past, Some(ended)).abandoned), [0, 1, 2]);
    }

    #[test]
    fn the_key_unused_for_longest_is_forgotten() {
        let (history, now) = (History::default(), Instant::now());
        for number in (0..MAX_KEYS as u32).chain([0, u32::MAX]) {
            history.replays(key(number), now);
        }
        assert_eq!(history.replayed_at(key(0)), Some(now));
        assert_eq!(history.replayed_at(key(1)), None, "the oldest made room");
        let records = history.records.lock();
        assert_eq!((records.by_key.len(), records.by_use.len()), (MAX_KEYS, MAX_KEYS));
    }

    #[test]
    fn kinds_of_work_come_in_turn() {
        use Precision::{F16, Fp4, Fp8, Int8};
        let history = History::default();
        let next = |kinds: &[Precision]| {
            let kind = history.next_kind(key(1), kinds.iter().copied()).unwrap();
            history.judged(key(1), kind);
            kind
        };
        assert_eq!([(); 5].map(|()| next(&[Fp8, Int8, F16])), [Fp8, Int8, F16, Fp8, Int8], "in the order written");
        assert_eq!(next(&[Fp8, Int8, Fp4]), Fp4, "one that it was never judged by comes first");
        assert_eq!(next(&[Int8, F16]), F16);
        assert_eq!(next(&[Int8]), Int8);
        assert_eq!(history.next_kind(key(1), []), None);
        assert_eq!(history.next_kind(key(2), [F16, Int8]), Some(F16), "each miner has its own turn");
    }

    #[test]
    fn what_the_records_remember_is_kept_by_kind_of_work() {
        let id = DeviceId([7; 16]);
        let shown = |precision, tops: f64, bytes, at_ms| DeviceRate {
            device_id: id.to_string(),
            precision,
            name: format!("at {at_ms}"),
            bytes,
            macs_per_s: tops * 0.5e12,
            tops,
            probe_bytes_per_s: tops,
            linked_bytes_per_s: if precision == Precision::Int8 { 2.0 } else { 0.0 },
            at_ms,
        };
        assert_eq!(ShownRates::default().rate_per_s(Precision::Int8), 0.0);
        let memory = MinerMemory {
            lineage: vec![key(2).to_string(), key(1).to_string(), "no key".to_owned()],
            ends: vec![(End::Other, 9), (End::Abandoned, 8), (End::Abandoned, 7)],
            shown: vec![
                shown(Precision::Int8, 2.0, 30, 1000),
                shown(Precision::Fp4, 8.0, 20, 2000),
                DeviceRate { device_id: DeviceId([8; 16]).to_string(), ..shown(Precision::Int8, 1.0, 0, 1000) },
            ],
        };
        let failed = MinerMemory { shown: vec![shown(Precision::Int8, 0.0, 30, 3000)], ..MinerMemory::default() };
        let failed = MinerHistory::from(failed);
        let MinerHistory { past, shown, abandoned_ms, .. } = memory.into();
        assert_eq!((past.lineage, abandoned_ms), (vec![key(2), key(1)], Some(8)));
        assert_eq!(past.ends, [End::Other, End::Abandoned, End::Abandoned]);
        let kinds = vec![Precision::Int8, Precision::Fp4];
        let known = KnownDevice { name: "at 2000".to_owned(), bytes: 30, kinds };
        assert_eq!(past.devices, BTreeMap::from([(id, known)]), "what never held is not known");
        let device = &shown[&id];
        assert_eq!((device.rate_per_s(Precision::Int8), device.rate_per_s(Precision::Fp4)), (1e12, 4e12));
        assert_eq!((device.rate_per_s(Precision::F16), device.bytes_per_s(Link::Own)), (4e12, 8.0));
        // A challenge without a linked probe leaves the linked rate as it was.
        assert_eq!(device.bytes_per_s(Link::All), 2.0);
        assert_eq!(past.rates[&id], device.kind_rates().collect::<Vec<_>>());
        let rates = device.kind_rates().map(|rate| (rate.precision, rate.tops, rate.unix_seconds));
        assert!(rates.eq([(Precision::Int8, 2.0, 1), (Precision::Fp4, 8.0, 2)]));
        assert!(failed.shown[&id].kind_rates().next().is_none(), "no rate of a challenge that was not passed");
        assert_eq!(failed.past.devices.len(), 1, "but its work held");
    }

    /// A host cannot push a device out by showing many others.
    #[test]
    fn a_miner_with_as_many_devices_as_may_be_shows_no_others() {
        let id = |byte: usize| DeviceId([u8::try_from(byte).unwrap(); 16]);
        let shown = (1..MAX_DEVICES).map(|byte| (id(byte), ShownRates::default())).collect();
        let history = MinerHistory { shown, ..MinerHistory::default() };
        let asked = [1, 200, 201, MAX_DEVICES - 1].map(id);
        assert_eq!(history.remembers(asked), [1, 200, MAX_DEVICES - 1].map(id).into());
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
