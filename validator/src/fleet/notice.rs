//! What identities say when a miner connects or its devices change: kept as findings, and where a lie is proved, the
//! attestation of whoever it proves it of fails at once.

use std::collections::{BTreeMap, BTreeSet};

use assay_fleet::identity::{IdentityFinding, Presence};
use assay_fleet::{Event, step};
use assay_records::{DeviceEvent, DeviceFilter, FindingFilter, FindingRecord, MinerRecord, RecordsError};
use assay_work::DeviceId;

use super::conclude::transition;
use super::presence::changes;
use super::{Fleet, standing_of};
use crate::clock::{unix_ms, unix_seconds};

/// A finding is not noted again within this time.
const AGAIN_MS: i64 = 3_600_000;
/// Changes of devices that are looked at after a session began.
const MAX_EVENTS: u32 = 512;
/// Findings of a miner that are held against a new one.
const MAX_FINDINGS: u32 = 256;

impl Fleet {
    /// Notes a session that began, or whose devices changed, and what that shows.
    ///
    /// # Errors
    /// The records cannot be read or written.
    pub async fn notice(&self, record: &MinerRecord, mut presence: Presence) -> Result<(), RecordsError> {
        let shown = DeviceFilter { miner: Some(record.id.clone()), ..DeviceFilter::default() };
        for device in self.records.devices(&shown).await? {
            // Since when it is this miner's in work that held, as far as that is known: its first sight before a pass.
            let first = device.last_pass_ms.map(|_| device.first_seen_ms.unsigned_abs());
            if let Ok(id) = device.device_id.parse::<DeviceId>()
                && let Some(known) = presence.devices.get_mut(&id)
            {
                *known = first;
            }
        }
        self.presences.note(&presence);
        let group = self.group_of(record).await?;
        let events = self.records.device_events(Some(&record.id), None, MAX_EVENTS).await?;
        let of_session = |event: &&DeviceEvent| event.session.as_deref() == Some(presence.session.as_str());
        let events: Vec<_> = events.iter().filter(of_session).collect();
        let mut findings = self.presences.findings(&presence.miner, presence.address, &group.identity);
        findings.extend(changes(&presence, before(&presence, record, &events), moved(&events)));
        for finding in findings {
            self.note_finding(finding).await?;
        }
        Ok(())
    }

    /// Keeps a finding, unless it was kept lately, and fails the attestation of the miner that it proves a lie of.
    async fn note_finding(&self, finding: IdentityFinding) -> Result<(), RecordsError> {
        let IdentityFinding { code, miner, other, device_id, detail, enforced } = finding;
        let device_id = device_id.map(|id| id.to_string());
        let filter = FindingFilter {
            miner: Some(miner.clone()),
            code: Some(code.name().to_owned()),
            since_ms: Some(unix_ms() - AGAIN_MS),
            limit: Some(MAX_FINDINGS),
        };
        let known = self.records.findings(&filter).await?;
        let is_same = |known: &FindingRecord| {
            known.device_id == device_id && known.other_miner == other && known.enforced == enforced
        };
        if known.iter().any(|known| is_same(&known.finding)) {
            return Ok(());
        }
        tracing::warn!(miner, other, device = device_id, enforced, finding = %code, "found: {detail}");
        let noted = FindingRecord {
            code: code.name().to_owned(),
            miner: miner.clone(),
            other_miner: other,
            device_id,
            detail,
            enforced,
        };
        self.records.note_findings(&[noted], unix_ms()).await?;
        if enforced {
            self.happened(&miner, &Event::Finding { code, fails: true }).await?;
        }
        Ok(())
    }

    /// Something happened to a miner outside a verdict: its attestation state follows.
    ///
    /// # Errors
    /// The records cannot be read or written.
    pub async fn happened(&self, miner: &str, event: &Event) -> Result<(), RecordsError> {
        let Some(record) = self.records.miner(miner).await? else { return Ok(()) };
        self.happened_to(&record, event).await
    }

    /// As [`Fleet::happened`], to a miner that was just looked up.
    ///
    /// # Errors
    /// The records cannot be written.
    pub async fn happened_to(&self, record: &MinerRecord, event: &Event) -> Result<(), RecordsError> {
        let group = self.group_of(record).await?;
        let before = standing_of(record);
        let (after, change) = step(&before, event, &group.rules, unix_seconds());
        if after == before {
            return Ok(());
        }
        let Ok(standing) = serde_json::to_string(&after) else { return Ok(()) };
        match change {
            Some(change) => {
                tracing::info!(
                    miner = record.key, from = %change.from, to = %change.to, why = change.why.name(),
                    "attestation: {}", change.detail
                );
                self.records.transition(&transition(&record.id, &change), Some(&standing)).await
            }
            None => self.records.set_standing(&record.id, &standing).await,
        }
    }
}

/// The devices that the miner had before this session; `None` for one that had none.
fn before(presence: &Presence, record: &MinerRecord, events: &[&DeviceEvent]) -> Option<BTreeSet<DeviceId>> {
    if u64::try_from(record.first_seen_ms / 1000).unwrap_or(0) >= presence.began_s {
        return None;
    }
    let mut devices: BTreeSet<_> = presence.devices.keys().copied().collect();
    for event in events {
        let Ok(id) = event.device_id.parse::<DeviceId>() else { continue };
        match event.what.as_str() {
            "seen" | "returned" => devices.remove(&id),
            "gone" => devices.insert(id),
            _ => false,
        };
    }
    Some(devices)
}

/// The devices that another miner lists too, or did.
fn moved(events: &[&DeviceEvent]) -> BTreeMap<DeviceId, String> {
    let elsewhere = events.iter().filter(|event| event.what == "elsewhere");
    elsewhere.filter_map(|event| Some((event.device_id.parse().ok()?, event.other_miner.clone()?))).collect()
}
