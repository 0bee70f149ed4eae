//! The devices that each key showed: those whose work held in a verdict. A later verdict names the ones that are missing.
//!
//! They live in memory, and come back from the end of the verdict log when the validator starts. Ids come from the
//! miner: a host that gives an old card a new id has one device missing and one new. It cannot make the validator forget
//! a device: what is known of a key changes only by work that held and by the operator, and devices beyond the bound of
//! a key are not learned instead of pushing others out.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::kin::Kin;

use assay_protocol::message::Inventory;
use assay_protocol::verdict::{NamedDevice, ReasonCode, Verdict};
use assay_protocol::wire::limits::MAX_DEVICES;
use assay_work::text::printable;
use assay_work::{DeviceId, PublicKey};
use serde::{Deserialize, Serialize};

/// Devices known of all keys: 64 of 4096 hosts, or one of each of 262,144. The key whose last pass is longest ago makes
/// room.
const MAX_KNOWN: usize = 262_144;
/// Bytes kept of a device's name.
const MAX_KNOWN_NAME_BYTES: usize = 128;

/// What is known of a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownDevice {
    /// The name that the miner gave it: a claim.
    pub name: String,
    /// Bytes of slots that it had at least, by the challenges that it did.
    pub bytes: u64,
}

/// The devices of all keys. The keys of a miner that changed its key have one record.
#[derive(Debug, Default)]
pub struct KnownDevices {
    records: Mutex<Records>,
    kin: Arc<Kin>,
}

#[derive(Debug, Default)]
struct Records {
    clock: u64,
    count: usize,
    by_key: HashMap<PublicKey, Record>,
    /// The keys by when something was learned of them last.
    by_use: BTreeMap<u64, PublicKey>,
}

#[derive(Debug, Default)]
struct Record {
    used: u64,
    devices: BTreeMap<DeviceId, KnownDevice>,
}

/// A challenge, as far as it says which devices could take part.
#[derive(Debug, Clone, Copy)]
pub struct Attendance<'a> {
    /// The devices by the miner's claims.
    pub inventory: &'a Inventory,
    /// Bytes of slots that a device must have to take part.
    pub least_bytes: u64,
}

/// How the devices that took part differ from those that are known.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// Known, and took no part.
    pub missing: Vec<NamedDevice>,
    /// Took part, and not known; empty for a key of which no device is known.
    pub new: Vec<NamedDevice>,
}

impl Difference {
    /// How the devices that took part differ from those that are known.
    #[must_use]
    pub fn of(
        known: &BTreeMap<DeviceId, KnownDevice>,
        took_part: impl Fn(DeviceId) -> bool,
        attendance: Attendance<'_>,
    ) -> Self {
        if known.is_empty() {
            return Self::default();
        }
        let Attendance { inventory, least_bytes } = attendance;
        // A device that is listed, and was left out of a challenge larger than any that it did, is not missing. One that
        // did as large a share before and is left out now has lost memory.
        let was_left_out = |id, known: &KnownDevice| inventory.device(id).is_some() && known.bytes < least_bytes;
        let missing = known.iter().filter(|(id, known)| !took_part(**id) && !was_left_out(**id, known));
        let new = inventory.devices.iter().filter(|d| took_part(d.id) && !known.contains_key(&d.id));
        Self {
            missing: missing.map(|(id, d)| NamedDevice { device_id: *id, name: d.name.clone() }).collect(),
            new: new.map(|d| NamedDevice { device_id: d.id, name: d.name.clone() }).collect(),
        }
    }
}

/// What was read back from a verdict log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReadBack {
    /// Lines that say something of devices.
    pub lines: usize,
    /// Devices known now, of all keys.
    pub devices: usize,
    /// Of so many keys.
    pub keys: usize,
}

impl KnownDevices {
    /// No devices, of miners whose keys are these.
    #[must_use]
    pub fn of(kin: Arc<Kin>) -> Self {
        Self { records: Mutex::default(), kin }
    }

    /// Whether a device of a key is known under that key itself.
    #[must_use]
    pub fn knows(&self, key: PublicKey) -> bool {
        self.lock().by_key.contains_key(&key)
    }

    /// Learns the devices of a verdict, where their work held; each of them had slots for `least_bytes` at least.
    pub fn learn(&self, verdict: &Verdict, least_bytes: u64) {
        if !verdict.work_held() {
            return;
        }
        let slot_bytes = u64::from(verdict.n) * u64::from(verdict.n);
        let shown = verdict.devices.iter().map(|device| {
            let bytes = device.work.matrices.saturating_mul(slot_bytes).max(least_bytes);
            (device.device_id, KnownDevice { name: device.name.clone(), bytes })
        });
        self.lock().learn(self.kin.root(verdict.miner_key), shown);
    }

    /// The devices known of a key.
    #[must_use]
    pub fn of_key(&self, key: PublicKey) -> BTreeMap<DeviceId, KnownDevice> {
        self.lock().by_key.get(&self.kin.root(key)).map(|record| record.devices.clone()).unwrap_or_default()
    }

    /// The known devices of a key that an inventory does not list.
    #[must_use]
    pub fn missing(&self, key: PublicKey, inventory: &Inventory) -> Vec<NamedDevice> {
        let is_listed = |id| inventory.device(id).is_some();
        Difference::of(&self.of_key(key), is_listed, Attendance { inventory, least_bytes: 0 }).missing
    }

    /// Forgets the devices of a key; gives how many there were.
    pub fn forget(&self, key: PublicKey) -> usize {
        self.lock().remove(self.kin.root(key))
    }

    /// What is known, as lines for a new verdict log: the old one may be gone at the next start.
    #[must_use]
    pub fn notes(&self, unix_seconds: u64) -> Vec<Vec<u8>> {
        let records = self.lock();
        let follows = self.kin.all().into_iter().map(|(new_key, old_key)| follow_note(new_key, old_key, unix_seconds));
        let keys = records.by_use.values().filter_map(|key| Some((*key, records.by_key.get(key)?)));
        follows.chain(keys.map(|(key, record)| note(key, &record.devices, unix_seconds))).collect()
    }

    /// Reads back what lines of a verdict log say. A line that is neither a verdict nor a note is passed over: it may be
    /// another version's.
    pub fn read_back(&self, lines: &[u8]) -> ReadBack {
        let mut records = self.lock();
        let read = lines.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice::<Line>(line).ok());
        let lines = read.filter(|line| records.read(line, &self.kin)).count();
        ReadBack { lines, devices: records.count, keys: records.by_key.len() }
    }

    fn lock(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The line of a verdict log that says which devices are known of a key from there on.
#[must_use]
pub fn note(key: PublicKey, devices: &BTreeMap<DeviceId, KnownDevice>, unix_seconds: u64) -> Vec<u8> {
    let device = |(id, known): (&DeviceId, &KnownDevice)| NotedDevice {
        device_id: *id,
        name: known.name.clone(),
        bytes: known.bytes,
    };
    let known_devices = devices.iter().map(device).collect();
    let note = Note { miner_key: key, known_devices, unix_seconds };
    // Maps with texts as keys, texts and numbers always become JSON.
    let mut line = serde_json::to_vec(&note).unwrap_or_default();
    line.push(b'\n');
    line
}

/// The line of a verdict log that says that a key follows another one.
#[must_use]
pub fn follow_note(miner_key: PublicKey, follows: PublicKey, unix_seconds: u64) -> Vec<u8> {
    let mut line = serde_json::to_vec(&FollowNote { miner_key, follows, unix_seconds }).unwrap_or_default();
    line.push(b'\n');
    line
}

#[derive(Serialize)]
struct FollowNote {
    miner_key: PublicKey,
    follows: PublicKey,
    unix_seconds: u64,
}

#[derive(Serialize)]
struct Note {
    miner_key: PublicKey,
    known_devices: Vec<NotedDevice>,
    unix_seconds: u64,
}

#[derive(Serialize, Deserialize)]
struct NotedDevice {
    device_id: DeviceId,
    name: String,
    bytes: u64,
}

/// A line of a verdict log, a verdict or a note, as far as it says something of devices.
#[derive(Deserialize)]
struct Line {
    miner_key: PublicKey,
    follows: Option<PublicKey>,
    known_devices: Option<Vec<NotedDevice>>,
    outcome: Option<String>,
    #[serde(default)]
    reasons: Vec<LineReason>,
    #[serde(default)]
    n: u32,
    #[serde(default)]
    devices: Vec<LineDevice>,
}

impl Line {
    /// Whether it is a verdict whose work held.
    fn holds(&self) -> bool {
        let stands = |reason: &LineReason| {
            ReasonCode::ALL.iter().any(|code| code.name() == reason.code && code.leaves_work_standing())
        };
        match self.outcome.as_deref() {
            Some("pass") => true,
            Some(_) => !self.reasons.is_empty() && self.reasons.iter().all(stands),
            None => false,
        }
    }
}

#[derive(Deserialize)]
struct LineReason {
    code: String,
}

#[derive(Deserialize)]
struct LineDevice {
    device_id: DeviceId,
    name: String,
    matrices: u64,
}

impl Records {
    /// Learns devices of a key, as far as there is room for them.
    fn learn(&mut self, key: PublicKey, shown: impl IntoIterator<Item = (DeviceId, KnownDevice)>) {
        let mut shown = shown.into_iter().peekable();
        if shown.peek().is_none() {
            return;
        }
        self.clock += 1;
        let record = self.by_key.entry(key).or_default();
        self.by_use.remove(&record.used);
        record.used = self.clock;
        self.by_use.insert(self.clock, key);
        for (id, shown) in shown {
            let is_full = record.devices.len() >= MAX_DEVICES;
            match record.devices.entry(id) {
                Entry::Occupied(mut known) => {
                    let bytes = known.get().bytes.max(shown.bytes);
                    known.insert(KnownDevice { bytes, ..shown });
                }
                Entry::Vacant(place) if !is_full => {
                    place.insert(shown);
                    self.count += 1;
                }
                Entry::Vacant(_) => {}
            }
        }
        while self.count > MAX_KNOWN
            && let Some((_, oldest)) = self.by_use.first_key_value()
        {
            let oldest = *oldest;
            self.remove(oldest);
        }
    }

    fn remove(&mut self, key: PublicKey) -> usize {
        let Some(record) = self.by_key.remove(&key) else { return 0 };
        self.by_use.remove(&record.used);
        self.count -= record.devices.len();
        record.devices.len()
    }

    /// Whether a line says something of devices: that is known from now on.
    fn read(&mut self, line: &Line, kin: &Kin) -> bool {
        if let Some(old_key) = line.follows {
            return !self.by_key.contains_key(&line.miner_key) && kin.note(line.miner_key, old_key);
        }
        let key = kin.root(line.miner_key);
        let known = |name: &str, bytes| KnownDevice { name: printable(name, MAX_KNOWN_NAME_BYTES), bytes };
        if let Some(noted) = &line.known_devices {
            self.remove(key);
            self.learn(key, noted.iter().map(|d| (d.device_id, known(&d.name, d.bytes))));
            return true;
        }
        let slot_bytes = u64::from(line.n) * u64::from(line.n);
        let shown = line.devices.iter().map(|d| (d.device_id, known(&d.name, d.matrices.saturating_mul(slot_bytes))));
        let holds = line.holds();
        if holds {
            self.learn(key, shown);
        }
        holds
    }
}

#[cfg(test)]
mod tests;
