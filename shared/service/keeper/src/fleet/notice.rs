//! Findings about identity when a miner connects or its devices change. They are recorded, and a proved lie fails the
//! attestation of its miner at once.

use std::collections::{BTreeMap, BTreeSet};

use assay_policy::identity::{IdentityFinding, PastDevices, Presence, since};
use assay_policy::{Event, Standing, step};
use assay_program::clock::{unix_ms, unix_seconds};
use assay_records::{
    DeviceEvent, DeviceQuery, DeviceRecord, FindingRecord, MinerRecord, RecordsError, StandingChange, Transition,
};
use assay_work::DeviceId;

use super::conclude::at_last;
use super::{Fleet, standing_change, stored};

/// Time within which a finding is not recorded again, in ms.
const AGAIN_MS: i64 = 3_600_000;
/// The most attempts to compute a change of standing while other events change it.
pub const MAX_TRIES: u32 = 16;
/// The most changes of devices read after a session's start.
const MAX_EVENTS: u32 = 512;
/// The most findings of a look that are recorded: a key without work can list the ids of 64 devices of others.
const MAX_NOTED: usize = 64;

impl Fleet {
    /// Checks a session that began, or whose devices changed, against the other sessions.
    ///
    /// # Errors
    /// The records cannot be read or written.
    pub async fn notice(&self, record: &MinerRecord, presence: &Presence) -> Result<(), RecordsError> {
        let shown = DeviceQuery { miner: Some(record.id.clone()), ..DeviceQuery::default() };
        // The first time of this miner's work that held, as far as known: its first sight before a pass.
        let first = |device: DeviceRecord| {
            device.last_pass_ms?;
            Some((device.device_id.parse().ok()?, device.first_seen_ms.unsigned_abs()))
        };
        let shown = self.records.devices(&shown).await?.into_iter().filter_map(first);
        self.presences.showed(&presence.session, shown);
        let group = self.group_of(record).await?;
        let events = self.records.device_events(Some(&record.id), None, MAX_EVENTS).await?;
        let of_session = |event: &&DeviceEvent| event.session.as_deref() == Some(presence.session.as_str());
        let events: Vec<_> = events.iter().filter(of_session).collect();
        let mut findings = self.presences.findings(&presence.session, [], &group.identity);
        let past = PastDevices { devices: before(presence, &events), last_seen_at: moved(&events) };
        findings.extend(since(presence, &past));
        let left_out = shorten(&mut findings);
        if left_out > 0 {
            tracing::warn!(miner = record.key, "found: {left_out} more, which are not recorded");
        }
        let noted: Vec<_> = findings.iter().map(FindingRecord::from).collect();
        let is_new = self.records.note_new_findings(&noted, AGAIN_MS, unix_ms()).await?;
        for (IdentityFinding { code, miner, other, device_id, detail, enforced, .. }, _) in
            findings.iter().zip(is_new).filter(|(_, is_new)| *is_new)
        {
            let device = device_id.map(|id| id.to_string());
            tracing::warn!(miner, other, device, enforced, finding = %code, "found: {detail}");
            if *enforced {
                // Noted once: an outage of the records must not lose its effect.
                let event = Event::Finding { code: *code, fails: true };
                if let Err(error) = at_last(|| self.happened(miner, &event)).await {
                    tracing::warn!(miner, "a finding has no effect until its miner's next verdict: {error}");
                }
            }
        }
        Ok(())
    }

    /// Applies an event outside a verdict to the attestation state of a miner.
    ///
    /// # Errors
    /// The records cannot be read or written.
    pub async fn happened(&self, miner: &str, event: &Event) -> Result<(), RecordsError> {
        for _ in 0..MAX_TRIES {
            let Some(record) = self.records.miner(miner).await? else { return Ok(()) };
            match self.happened_to(&record, event).await {
                Err(RecordsError::StandingChanged(_)) => {}
                done => return done,
            }
        }
        Err(RecordsError::StandingChanged(miner.to_owned()))
    }

    /// Applies an event, as [`Fleet::happened`], to a miner record just read.
    ///
    /// # Errors
    /// [`RecordsError::StandingChanged`], or the records cannot be read or written.
    pub async fn happened_to(&self, record: &MinerRecord, event: &Event) -> Result<(), RecordsError> {
        if let Some(change) = self.follows(&record.id, Some(record), event).await? {
            self.records.change_standing(&record.id, &change).await?;
            log(&change);
        }
        Ok(())
    }

    /// Computes the effect of an event on the attestation of a miner, connected or not; `None`: no change.
    ///
    /// # Errors
    /// The records cannot be read.
    pub async fn follows(
        &self,
        miner: &str,
        record: Option<&MinerRecord>,
        event: &Event,
    ) -> Result<Option<StandingChange>, RecordsError> {
        let group = self.group_of(record).await?;
        let before = record.map_or_else(|| Standing::enrolled(unix_seconds()), MinerRecord::standing);
        let (after, change) = step(&before, event, &group.rules, unix_seconds());
        if after == before {
            return Ok(None);
        }
        Ok(standing_change(miner, record.map(stored).unwrap_or_default(), &after, change.as_ref()))
    }
}

/// Keeps the findings that are recorded, proved lies first; returns the number of the others.
fn shorten(findings: &mut Vec<IdentityFinding>) -> usize {
    findings.sort_by_key(|finding| !finding.enforced);
    findings.split_off(findings.len().min(MAX_NOTED)).len()
}

/// Logs a change of state outside a verdict.
pub fn log(change: &StandingChange) {
    if let Some(Transition { miner, from, to, why, detail, .. }) = &change.transition {
        tracing::info!(miner, from, to, why, "attestation: {detail}");
    }
}

/// The miner's devices before this session; `None` without any.
fn before(presence: &Presence, events: &[&DeviceEvent]) -> Option<BTreeSet<DeviceId>> {
    let mut devices: BTreeSet<_> = presence.devices.keys().copied().collect();
    for event in events {
        let Ok(id) = event.device_id.parse::<DeviceId>() else { continue };
        match event.what.as_str() {
            "seen" | "returned" => devices.remove(&id),
            "gone" => devices.insert(id),
            _ => false,
        };
    }
    (!devices.is_empty()).then_some(devices)
}

/// Devices that another miner lists or listed.
fn moved(events: &[&DeviceEvent]) -> BTreeMap<DeviceId, String> {
    let elsewhere = events.iter().filter(|event| event.what == "elsewhere");
    elsewhere.filter_map(|event| Some((event.device_id.parse().ok()?, event.other_miner.clone()?))).collect()
}

#[cfg(test)]
mod tests {
    use assay_policy::FindingCode;
    use assay_policy::FleetRules;
    use assay_policy::state::Word;
    use assay_receipts::Signer;
    use assay_records::{Actor, Location, MinerChange, Records};

    use super::*;

    fn finding(enforced: bool) -> IdentityFinding {
        IdentityFinding {
            code: FindingCode::KeyAtTwoAddresses,
            miner: "ab".repeat(32),
            other: None,
            device_id: None,
            detail: String::new(),
            enforced,
            disputed: false,
        }
    }

    #[test]
    fn a_proved_lie_is_recorded_before_warnings() {
        let mut findings = vec![finding(false); MAX_NOTED];
        findings.push(finding(true));
        assert_eq!(shorten(&mut findings), 1);
        assert!(findings.len() == MAX_NOTED && findings[0].enforced && !findings[1].enforced);
        assert_eq!(shorten(&mut findings), 0);
    }

    /// A change that follows from an earlier standing is not written over a decision of an operator.
    #[tokio::test]
    async fn a_change_rests_on_the_standing_that_it_was_computed_from() {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::open(&Location::File(folder.path().join("validator.db"))).await.unwrap();
        let fleet = Fleet::new(
            records.clone(),
            FleetRules::default(),
            Signer::open(&folder.path().join("key"), "test").unwrap(),
        );
        let (miner, actor) = ("ab".repeat(32), Actor { name: "ada".to_owned(), uid: None });
        records
            .change_miner(&miner, &MinerChange { action: "allow", status: None, standing: None }, &actor)
            .await
            .unwrap();
        let record = records.miner(&miner).await.unwrap().unwrap();
        let event = Event::Finding { code: FindingCode::KeyAtTwoAddresses, fails: true };
        let change = fleet.follows(&miner, Some(&record), &event).await.unwrap().unwrap();
        fleet.happened(&miner, &Event::Operator(Word::Suspend)).await.unwrap();
        let refused = records.change_standing(&miner, &change).await;
        assert!(matches!(refused, Err(RecordsError::StandingChanged(_))), "{refused:?}");
        let state = records.miner(&miner).await.unwrap().unwrap().state;
        assert_eq!(state, "suspended");
        let change = fleet.happened_to(&record, &event).await;
        assert!(matches!(change, Err(RecordsError::StandingChanged(_))), "{change:?}");
    }
}
