//! Findings from comparing the identities of devices and miners.
//!
//! Device ids are claims, and any user of a device can read its id. So two miners that show one id in work that held
//! prove that one of them lies, but not which. Both fail where both belong to one operator, whose lie it is either way;
//! otherwise the device is disputed until both miners are challenged in one round. Keys are proved: statements of one
//! key in two places at once come from its holder.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use assay_work::DeviceId;
use serde::{Deserialize, Serialize};

use crate::finding::FindingCode;
use crate::policy::{Enforcement, IdentityPolicy};
use crate::text::counted;

/// A session of a miner: its identity, address, time and devices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Presence {
    /// The miner: the first key of its lineage.
    pub miner: String,
    /// Operator of the miner, by its label.
    pub operator: Option<String>,
    pub session: String,
    pub address: IpAddr,
    /// Start of the session.
    pub began_s: u64,
    /// Time of the last message received in it.
    pub heard_s: u64,
    /// Whether another session of its key replaced it.
    pub is_replaced: bool,
    /// The devices of its inventory, each with the time at which the miner first showed it in work that held.
    pub devices: BTreeMap<DeviceId, Option<u64>>,
}

impl Presence {
    /// Whether both sessions received messages while the other one existed. A broken session that was not detected yet
    /// does not count.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.heard_s > other.began_s && other.heard_s > self.began_s
    }

    fn shares_address(&self, other: &Self) -> bool {
        self.address.to_canonical() == other.address.to_canonical()
    }

    /// Whether two hosts replaced one another, this one last, and neither had left: a key has one session at a time.
    /// `all` are the sessions of the key.
    fn takes_turns(&self, other: &Self, all: &[&Self]) -> bool {
        let was_here =
            |before: &&&Self| before.is_replaced && before.shares_address(self) && before.began_s <= other.began_s;
        other.is_replaced && !other.shares_address(self) && all.iter().any(|before| was_here(&before))
    }
}

/// Earlier knowledge of a miner's devices.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PastDevices {
    /// The devices of its last session; `None` before its first.
    pub devices: Option<BTreeSet<DeviceId>>,
    /// Miners that showed a device of the inventory last, where it was another miner.
    pub last_seen_at: BTreeMap<DeviceId, String>,
}

/// A finding about a miner's identity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdentityFinding {
    pub code: FindingCode,
    /// Key of the miner that the finding is about.
    pub miner: String,
    /// Key of the other miner in the comparison.
    pub other: Option<String>,
    pub device_id: Option<DeviceId>,
    /// The circumstances.
    pub detail: String,
    /// Whether it proves a lie of this miner and the policy enforces it; otherwise it is a warning.
    pub enforced: bool,
    /// Whether it is unknown which miner lies: a pass of this miner proves nothing, outside a round with the other.
    #[serde(default)]
    pub disputed: bool,
}

/// Findings about a session against the other current sessions, and the recently replaced ones of its key.
pub fn among(present: &Presence, others: &[Presence], policy: &IdentityPolicy) -> Vec<IdentityFinding> {
    let others = others.iter().filter(|other| other.session != present.session);
    let (same, different): (Vec<_>, Vec<_>) = others.partition(|other| other.miner == present.miner);
    let is_there = |other: &Presence| !other.is_replaced && present.overlaps(other);
    let at_once = same.iter().filter(|other| is_there(other) || present.takes_turns(other, &same));
    let mut findings: Vec<_> = at_once.filter_map(|other| one_key(present, other, policy)).collect();
    findings
        .extend(different.iter().filter(|other| is_there(other)).flat_map(|other| one_device(present, other, policy)));
    findings
}

/// One key in two sessions. Another address may be a second path to one host; other devices mean another host.
fn one_key(present: &Presence, other: &Presence, policy: &IdentityPolicy) -> Option<IdentityFinding> {
    let is_elsewhere = !present.shares_address(other);
    let shares_devices = present.devices.keys().any(|id| other.devices.contains_key(id));
    let has_devices = !present.devices.is_empty() && !other.devices.is_empty();
    if !is_elsewhere {
        return None;
    }
    let is_two_hosts = has_devices && !shares_devices;
    let detail = match is_two_hosts {
        true => format!("it spoke from {} and {} at the same time, with other devices", present.address, other.address),
        false => format!("it spoke from {} and {} at the same time", present.address, other.address),
    };
    Some(IdentityFinding {
        code: FindingCode::KeyAtTwoAddresses,
        miner: present.miner.clone(),
        other: None,
        device_id: None,
        detail,
        enforced: is_two_hosts && policy.key_at_two_addresses != Enforcement::Record,
        disputed: false,
    })
}

/// Devices that two miners show at once: a finding about each where it is a lie, else about the one that lists devices
/// of the other one's work that held. A listed id can be copied by any number of keys, and says nothing.
fn one_device(present: &Presence, other: &Presence, policy: &IdentityPolicy) -> Vec<IdentityFinding> {
    let both = present.devices.iter().filter_map(|(id, first)| Some((*id, *first, *other.devices.get(id)?)));
    let is_one_operator = present.operator.is_some() && present.operator == other.operator;
    let is_lie = match policy.device_at_two_miners {
        Enforcement::Record => false,
        Enforcement::Proved => is_one_operator,
        Enforcement::Both => true,
    };
    let finding = |miner: &Presence, beside: &Presence, device_id: DeviceId, is_shown: bool| {
        (is_lie || is_shown).then(|| IdentityFinding {
            code: FindingCode::DeviceAtTwoMiners,
            miner: miner.miner.clone(),
            other: Some(beside.miner.clone()),
            device_id: Some(device_id),
            detail: format!("the miner {} shows it at the same time", beside.miner),
            enforced: is_lie,
            disputed: !is_lie && policy.device_at_two_miners != Enforcement::Record,
        })
    };
    let pair = |(device_id, first, other_first): (DeviceId, Option<u64>, Option<u64>)| {
        [finding(present, other, device_id, other_first.is_some()), finding(other, present, device_id, first.is_some())]
            .into_iter()
            .flatten()
    };
    both.flat_map(pair).collect()
}

/// Findings about a session against earlier knowledge: warnings, since hosts are repaired and cards move.
pub fn since(present: &Presence, before: &PastDevices) -> Vec<IdentityFinding> {
    let warning = |code, other: Option<&String>, device_id, detail| IdentityFinding {
        code,
        miner: present.miner.clone(),
        other: other.cloned(),
        device_id,
        detail,
        enforced: false,
        disputed: false,
    };
    let moved =
        before.last_seen_at.iter().filter(|(id, miner)| present.devices.contains_key(id) && **miner != present.miner);
    let moved = moved.map(|(id, miner)| {
        let detail = format!("the miner {miner} showed it last");
        warning(FindingCode::DeviceMoved, Some(miner), Some(*id), detail)
    });
    let mut findings: Vec<_> = moved.collect();
    if let Some(devices) = before.devices.as_ref().filter(|devices| devices.len() != present.devices.len()) {
        let detail = format!("{}, {} before", counted(present.devices.len() as u64, "device"), devices.len());
        findings.push(warning(FindingCode::DeviceCountChanged, None, None, detail));
    }
    findings
}

#[cfg(test)]
mod tests;
