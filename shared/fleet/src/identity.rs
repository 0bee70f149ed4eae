//! What the identities of devices and miners say when they are held against each other.
//!
//! Device ids are claims: whoever knows one can claim it. So two miners that show one id prove that one of them lies, and
//! not which. Both fail where both are one operator's, whose lie it is either way; otherwise the later one, since
//! whoever claims the device of another would fail that one by it. Keys are proved: what one key says in two places at
//! once is said by whoever holds it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use assay_work::DeviceId;
use serde::{Deserialize, Serialize};

use crate::finding::FindingCode;
use crate::policy::{Enforce, IdentityPolicy};

/// A session of a miner, as far as it says who and what is where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Presence {
    /// The miner: the first of its keys where they follow one another.
    pub miner: String,
    /// Whose it is, by its label.
    pub operator: Option<String>,
    /// The session.
    pub session: String,
    /// Where it connects from.
    pub address: IpAddr,
    /// When the session began.
    pub began_s: u64,
    /// When something last came from it.
    pub heard_s: u64,
    /// The devices of its inventory, each with the time at which the miner first showed it in work that held.
    pub devices: BTreeMap<DeviceId, Option<u64>>,
}

impl Presence {
    /// Whether both sessions spoke while the other one was there. One that was only not yet known to be broken did not.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.heard_s > other.began_s && other.heard_s > self.began_s
    }
}

/// What was known of a miner's devices before.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Before {
    /// The devices of its last session; `None` for a miner that never had one.
    pub devices: Option<BTreeSet<DeviceId>>,
    /// For devices of the inventory that another miner showed last: that miner.
    pub last_seen_at: BTreeMap<DeviceId, String>,
}

/// Something that identities say about a miner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdentityFinding {
    /// What.
    pub code: FindingCode,
    /// About this miner.
    pub miner: String,
    /// The other one that it is held against.
    pub other: Option<String>,
    /// The device.
    pub device_id: Option<DeviceId>,
    /// The circumstances.
    pub detail: String,
    /// Whether it proves a lie of this miner and the policy enforces it; otherwise it is a warning.
    pub enforced: bool,
}

/// What a session says beside the others that are there.
#[must_use]
pub fn among(present: &Presence, others: &[Presence], policy: &IdentityPolicy) -> Vec<IdentityFinding> {
    let at_once = others.iter().filter(|other| other.session != present.session && present.overlaps(other));
    let (same, different): (Vec<_>, Vec<_>) = at_once.partition(|other| other.miner == present.miner);
    let mut findings: Vec<_> = same.iter().filter_map(|other| one_key(present, other, policy)).collect();
    findings.extend(different.iter().flat_map(|other| one_device(present, other, policy)));
    findings
}

/// One key in two sessions. Another address may be another way of one host; other devices are another host.
fn one_key(present: &Presence, other: &Presence, policy: &IdentityPolicy) -> Option<IdentityFinding> {
    let is_elsewhere = present.address.to_canonical() != other.address.to_canonical();
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
        enforced: is_two_hosts && policy.key_at_two_addresses != Enforce::Record,
    })
}

/// Devices that two miners show at once: a finding about each of the two.
fn one_device(present: &Presence, other: &Presence, policy: &IdentityPolicy) -> Vec<IdentityFinding> {
    let both = present.devices.iter().filter_map(|(id, first)| Some((*id, *first, *other.devices.get(id)?)));
    let is_one_operator = present.operator.is_some() && present.operator == other.operator;
    let finding = |miner: &Presence, beside: &Presence, device_id: DeviceId, fails: bool| IdentityFinding {
        code: FindingCode::DeviceAtTwoMiners,
        miner: miner.miner.clone(),
        other: Some(beside.miner.clone()),
        device_id: Some(device_id),
        detail: format!("the miner {} shows it at the same time", beside.miner),
        enforced: fails,
    };
    let pair = |(device_id, first, other_first): (DeviceId, Option<u64>, Option<u64>)| {
        // Who showed it first in work that held; else who came first.
        let rank = |first: Option<u64>, began: u64| (first.is_none(), first.unwrap_or(began));
        let (own, others) = (rank(first, present.began_s), rank(other_first, other.began_s));
        let (fails, other_fails) = match policy.device_at_two_miners {
            Enforce::Record => (false, false),
            // At the same second it is not known who came later: nobody fails.
            Enforce::Proved => (is_one_operator || own > others, is_one_operator || others > own),
            Enforce::Both => (true, true),
        };
        [finding(present, other, device_id, fails), finding(other, present, device_id, other_fails)]
    };
    both.flat_map(pair).collect()
}

/// What a session says against what was known before: warnings, since hosts are repaired and cards move.
#[must_use]
pub fn since(present: &Presence, before: &Before) -> Vec<IdentityFinding> {
    let warning = |code, other: Option<&String>, device_id, detail| IdentityFinding {
        code,
        miner: present.miner.clone(),
        other: other.cloned(),
        device_id,
        detail,
        enforced: false,
    };
    let moved =
        before.last_seen_at.iter().filter(|(id, miner)| present.devices.contains_key(id) && **miner != present.miner);
    let moved = moved.map(|(id, miner)| {
        let detail = format!("the miner {miner} showed it last");
        warning(FindingCode::DeviceMoved, Some(miner), Some(*id), detail)
    });
    let mut findings: Vec<_> = moved.collect();
    if let Some(devices) = before.devices.as_ref().filter(|devices| devices.len() != present.devices.len()) {
        let detail = format!("{} devices, {} before", present.devices.len(), devices.len());
        findings.push(warning(FindingCode::DeviceCountChanged, None, None, detail));
    }
    findings
}

#[cfg(test)]
mod tests;
