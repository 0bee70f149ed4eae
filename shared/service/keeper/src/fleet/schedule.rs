//! Time and kind of a miner's challenges by the policy: decided when a challenge is due, from the records.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use assay_policy::Group;
use assay_policy::Policy;
use assay_policy::schedule::{budget, draw_kind, draw_wait, fits, longest_wait};
use assay_program::render::units::figures;
use assay_records::{MinerRecord, NextChallenge, RecordsError};
use assay_work::PublicKey;
use assay_work::challenge::{MAX_TOTAL, MIN_N};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Fleet;
use crate::order::{Order, OrderOrigin};
use assay_judge::entropy::Entropy;
use assay_judge::history::MinerHistory;
use assay_program::clock::{unix_ms, unix_seconds};

/// Wait before a challenge is considered again that another validator schedules, or that exceeds a budget.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
/// Wait before a challenge is considered again that the records cannot be asked about, or cannot take the verdict of.
pub const RECORDS_PAUSE: Duration = Duration::from_secs(10);
/// The period in ms over which device time is counted: a day.
const DAY_MS: i64 = 86_400_000;
/// After an abandoned challenge, the time without a challenge on connecting, where the policy has no interval.
const ABANDONED_PAUSE: Duration = Duration::from_secs(600);
/// The most challenges by connecting again in the mean time between challenges.
const CONNECTS_PER_MEAN: u32 = 10;
/// Slots with 4 MiB of digests, which the validator holds until all have come.
const SLOTS_PER_PLACE: u64 = 1 << 17;

/// A challenge's place among the concurrent ones.
#[derive(Debug)]
pub struct ChallengePlaces {
    _all: OwnedSemaphorePermit,
    _group: Option<OwnedSemaphorePermit>,
    _unattested: [Option<OwnedSemaphorePermit>; 3],
    /// The bytes that the miner may claim when it begins.
    pub most_bytes: u64,
}

impl ChallengePlaces {
    /// A place outside any group's limit.
    pub const fn of(place: OwnedSemaphorePermit) -> Self {
        Self { _all: place, _group: None, _unattested: [None, None, None], most_bytes: u64::MAX }
    }
}

/// Decision on a due challenge.
#[derive(Debug)]
pub enum ScheduleDecision {
    /// It starts now.
    Ready(Box<Order>, ChallengePlaces),
    /// It is considered again after this time.
    Later(Duration),
    /// The policy has no challenges for this miner.
    Never,
}

#[derive(Debug, Clone)]
pub struct DueChallenge {
    pub miner: PublicKey,
    pub models: Vec<String>,
    /// Bytes that it may fill, by its claims.
    pub claimed_bytes: u64,
    /// Whether the miner has just connected.
    pub is_first: bool,
    /// Whether it is due earlier than the records state: by a new policy, or again after a larger claim.
    pub is_moved: bool,
    /// One permit for each concurrent challenge, of `max_challenges`.
    pub challenges: Arc<Semaphore>,
    pub max_challenges: u32,
}

/// Permits for the concurrent challenges of each group, and of miners without an attestation, which cost nothing and may
/// stall: half of the places, and as many times the digests of `SLOTS_PER_PLACE`.
#[derive(Debug, Default)]
pub struct GroupPlaces(Mutex<HashMap<String, (u32, Arc<Semaphore>)>>);

/// The places of miners without an attestation, their digests, and their turns in a group: no group has these names.
const UNATTESTED: &str = "";
const UNATTESTED_DIGESTS: &str = "digests ";
const UNATTESTED_TURNS: &str = "turns of ";

impl GroupPlaces {
    /// Waits for some permits of a group with this limit, if it has one. A changed limit applies from the next challenge on.
    async fn acquire(&self, group: &str, limit: Option<u32>, permits: u32) -> Option<OwnedSemaphorePermit> {
        let limit = limit?;
        let fresh = || (limit, Arc::new(Semaphore::new(limit as usize)));
        let semaphore = {
            let mut places = self.0.lock();
            let entry = places.entry(group.to_owned()).or_insert_with(fresh);
            if entry.0 != limit {
                *entry = fresh();
            }
            entry.1.clone()
        };
        semaphore.acquire_many_owned(permits).await.ok()
    }

    /// Waits for the part of a miner without an attestation. One that may send many digests waits for others like it first.
    async fn acquire_unattested(
        &self,
        due: &DueChallenge,
        group: &Group,
        policy: &Policy,
    ) -> [Option<OwnedSemaphorePermit>; 3] {
        let half = due.max_challenges.div_ceil(2);
        // No more of a group than may run at once: others of it would take the places of other groups while they wait.
        let turns = group.concurrency.map(|limit| limit.min(half.div_ceil(2)));
        let turn = self.acquire(&format!("{UNATTESTED_TURNS}{}", group.name), turns, 1).await;
        let least_n = policy.kinds.iter().map(|kind| policy.sizes(*kind, 0.0).1).min().unwrap_or(MIN_N);
        let most = MAX_TOTAL.min(policy.max_matrices.into());
        let slots = (due.claimed_bytes / u64::from(least_n).pow(2)).min(most);
        let permits = (slots / SLOTS_PER_PLACE).min(half.into()) as u32;
        let digests = self.acquire(UNATTESTED_DIGESTS, Some(half), permits).await;
        [turn, digests, self.acquire(UNATTESTED, Some(half), 1).await]
    }
}

/// Draws a number from 0 to 1.
pub fn uniform(entropy: &mut dyn Entropy) -> f64 {
    // 53 bits, the precision of an f64. Without a random source no challenge can be made either.
    const BITS: u64 = 1 << 53;
    entropy.below(BITS).map_or(0.5, |drawn| drawn as f64 / BITS as f64)
}

/// The mean wait between a miner's challenges; `None`: on demand only.
pub fn mean_wait(group: &Group, policy: &Policy) -> Option<Duration> {
    group.cadence.mean.or(policy.challenge_interval)
}

/// Draws the wait for the next challenge; `None`: on demand only.
pub fn next_wait(group: &Group, policy: &Policy, entropy: &mut dyn Entropy) -> Option<Duration> {
    Some(draw_wait(&group.cadence, mean_wait(group, policy)?, uniform(entropy)))
}

/// The time until the recorded challenge of a miner is due; `None` without one.
fn until_due(record: &MinerRecord, group: &Group, policy: &Policy) -> Option<Duration> {
    record.due.as_ref().map(|due| until_time(due.at_ms, group, policy))
}

/// The time until a challenge that was due at this time in milliseconds since 1970.
pub fn until_time(due_ms: i64, group: &Group, policy: &Policy) -> Duration {
    let longest = mean_wait(group, policy)
        .map(|mean| longest_wait(&group.cadence, mean).max(policy.busy_pause(u32::MAX).unwrap_or_default()));
    until(due_ms, unix_ms(), longest)
}

/// The time until `due_ms`. One that is further away than the longest wait was noted by a clock that was ahead of this
/// one: it is due now.
fn until(due_ms: i64, now_ms: i64, longest: Option<Duration>) -> Duration {
    let wait = Duration::from_millis(u64::try_from(due_ms.saturating_sub(now_ms)).unwrap_or(0));
    if longest.is_some_and(|longest| wait > longest) { Duration::ZERO } else { wait }
}

impl Fleet {
    /// Decides on a due challenge, and waits for its place.
    pub async fn prepare(&self, policy: &Policy, due: DueChallenge) -> ScheduleDecision {
        match self.try_prepare(policy, due).await {
            Ok(prepared) => prepared,
            Err(error) => {
                // The outage of the store is logged elsewhere; challenges continue after it.
                tracing::debug!(%error, "a challenge that is due waits for the records");
                ScheduleDecision::Later(RECORDS_PAUSE)
            }
        }
    }

    async fn try_prepare(&self, policy: &Policy, due: DueChallenge) -> Result<ScheduleDecision, RecordsError> {
        let key = due.miner.to_string();
        let Some(record) = self.records.miner(&key).await? else { return Ok(ScheduleDecision::Later(LOOK_AGAIN)) };
        let rules = self.rules();
        let group = rules.policy.group_of(&record.labels, &due.models);
        if due.is_first {
            let abandoned_ms = MinerHistory::from(self.records.memory(&key).await?).abandoned_ms;
            let ago = abandoned_ms.map(|at_ms| Duration::from_millis(u64::try_from(unix_ms() - at_ms).unwrap_or(0)));
            if let Some(prepared) = self.on_connecting(group, policy, &record, ago).await? {
                return Ok(prepared);
            }
        }
        // Due times are in the records: a validator that takes over another one's miners does not challenge all at
        // once.
        let early = until_due(&record, group, policy).unwrap_or_default();
        if !due.is_first && !due.is_moved && !early.is_zero() {
            return Ok(ScheduleDecision::Later(early.min(LOOK_AGAIN)));
        }
        let standing = record.standing();
        if !standing.state.is_challenged() {
            return Ok(ScheduleDecision::Later(LOOK_AGAIN));
        }
        if self.over_budget(group, &record, due.models.len()).await?.is_some() {
            return Ok(ScheduleDecision::Later(LOOK_AGAIN));
        }
        let (kind, _) = draw_kind(group, &standing, unix_seconds(), uniform(&mut self.entropy.clone()));
        let mut order = Order::of(OrderOrigin::Schedule, group, kind, policy);
        // Else a host that connects again right after each pause would choose the times of all its challenges.
        order.kept_due_ms = record.due.as_ref().filter(|_| !early.is_zero() && !due.is_moved).map(|due| due.at_ms);
        // In this order: what waits for places of its own keeps none of those of others.
        let (unattested, most_bytes) = match standing.state.is_attested() {
            true => (Default::default(), u64::MAX),
            false => {
                let places = self.group_places.acquire_unattested(&due, group, &order.policy).await;
                (places, due.claimed_bytes.saturating_mul(2))
            }
        };
        let of_group = self.group_places.acquire(&group.name, group.concurrency, 1).await;
        let all = due.challenges.acquire_owned().await;
        // The places are never closed.
        let Ok(all) = all else { return Ok(ScheduleDecision::Never) };
        let places = ChallengePlaces { _all: all, _group: of_group, _unattested: unattested, most_bytes };
        Ok(ScheduleDecision::Ready(Box::new(order), places))
    }

    /// The decision on a miner that has just connected; `None`: challenge it. Reconnecting must neither yield another
    /// draw nor postpone a challenge, nor bring one soon after the last.
    async fn on_connecting(
        &self,
        group: &Group,
        policy: &Policy,
        record: &MinerRecord,
        abandoned: Option<Duration>,
    ) -> Result<Option<ScheduleDecision>, RecordsError> {
        let pause = policy.challenge_interval.unwrap_or(ABANDONED_PAUSE);
        let at_connect = group.cadence.at_connect.unwrap_or(policy.challenge_on_connect);
        let least = group.cadence.least.max(group.cadence.mean.unwrap_or(pause) / CONNECTS_PER_MEAN);
        let ago = |at_ms: i64| Duration::from_millis(u64::try_from(unix_ms() - at_ms).unwrap_or(u64::MAX));
        let judged = record.last_verdict.as_ref().filter(|_| at_connect).map(|last| ago(last.at_ms));
        let rest = |ago: Option<Duration>, pause: Duration| pause.checked_sub(ago?).filter(|rest| !rest.is_zero());
        let due = until_due(record, group, policy);
        let wait = match (rest(abandoned, pause), rest(judged, least)) {
            (None, None) if at_connect => return Ok(None),
            (None, Some(rest)) => Some(due.unwrap_or(rest).min(rest)),
            (rest, _) => due.or(rest),
        };
        let wait = match wait {
            Some(wait) => Some(wait),
            None => self.draw_due(record, group, policy).await?,
        };
        Ok(Some(wait.map_or(ScheduleDecision::Never, ScheduleDecision::Later)))
    }

    /// Draws the wait for a miner's next challenge, and records it.
    ///
    /// # Errors
    /// The records cannot be written.
    pub async fn draw_due(
        &self,
        record: &MinerRecord,
        group: &Group,
        policy: &Policy,
    ) -> Result<Option<Duration>, RecordsError> {
        let wait = next_wait(group, policy, &mut self.entropy.clone());
        let due = wait.map(|wait| NextChallenge { at_ms: unix_ms() + wait.as_millis() as i64, kind: String::new() });
        if due != record.due {
            self.records.set_due(&record.id, due.as_ref()).await?;
        }
        Ok(wait)
    }

    /// Describes the exhausted daily budget of the host's device time; `None` within the budget. Devices that the host
    /// showed count as well as `devices` listed ones: by listing fewer a miner would choose its days.
    ///
    /// # Errors
    /// The records cannot be read.
    pub async fn over_budget(
        &self,
        group: &Group,
        record: &MinerRecord,
        devices: usize,
    ) -> Result<Option<String>, RecordsError> {
        let Some(percent) = group.duty_percent else { return Ok(None) };
        let duty = self.records.duty(&record.id, unix_ms() - DAY_MS).await?;
        // The mean of the last ones; a kind without a history is tried.
        let expected = if duty.challenges > 0 { duty.device_ms / duty.challenges } else { 0 };
        let time = |ms: i64| Duration::from_millis(u64::try_from(ms).unwrap_or(0));
        let shown = MinerHistory::from(self.records.memory(&record.key).await?).past.devices.len();
        let devices = u32::try_from(devices.max(shown).max(1)).unwrap_or(u32::MAX);
        let (used, expected, most) = (time(duty.device_ms), time(expected), budget(percent).saturating_mul(devices));
        let seconds = |time: Duration| figures(time.as_secs_f64());
        let said = || {
            format!(
                "duty_percent = {percent} of group {} allows {} s of device time in 24 hours; {} s are used, and a \
                 challenge takes about {} s",
                group.name,
                seconds(most),
                seconds(used),
                seconds(expected)
            )
        };
        Ok((!fits(used, expected, most)).then(said))
    }
}

#[cfg(test)]
mod tests {
    use assay_policy::state::{Standing, State};
    use assay_policy::{DeviceRate, FleetRules};
    use assay_receipts::Signer;
    use assay_records::{Actor, ChallengeStart, LastVerdict, Location, MinerChange, Records, StandingChange};
    use assay_work::{ChallengeId, DeviceId, Precision};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_challenge_noted_by_a_clock_that_went_back_since_is_due() {
        let longest = Some(Duration::from_secs(600));
        assert_eq!(until(601_000, 1000, longest), Duration::from_secs(600));
        assert_eq!(until(601_001, 1000, longest), Duration::ZERO);
        assert_eq!(until(86_400_000, 1000, longest), Duration::ZERO, "it stepped back by a day");
        assert_eq!(until(86_401_000, 1000, None), Duration::from_secs(86_400), "on demand only");
        assert_eq!(until(1000, 1001, longest), Duration::ZERO);
    }

    #[tokio::test]
    async fn a_budget_that_is_used_up_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::open(&Location::File(folder.path().join("validator.db"))).await.unwrap();
        let text = "[[group]]\nname = \"default\"\nduty_percent = 0.01\n";
        let rules = FleetRules::parse(text, "p.toml", None).unwrap();
        let fleet = Fleet::new(records.clone(), rules, Signer::open(&folder.path().join("key"), "test").unwrap());
        let begun = ChallengeStart {
            challenge: "cd".repeat(16),
            miner: "ab".repeat(32),
            validator: "ee".repeat(32),
            instance: "run".to_owned(),
            session: "1".to_owned(),
            group: "default".to_owned(),
            kind: "light".to_owned(),
            asked: "schedule".to_owned(),
            round: None,
            begun_ms: unix_ms(),
            device_ms: 5000,
        };
        records.begin_challenge(&begun).await.unwrap();
        let record = records.miner(&begun.miner).await.unwrap().unwrap();
        let group = fleet.group_of(&record).await.unwrap();
        let said = "duty_percent = 0.01 of group default allows 8.64 s of device time in 24 hours; 5.00 s are used, and a \
             challenge takes about 5.00 s";
        assert_eq!(fleet.over_budget(&group, &record, 1).await.unwrap().as_deref(), Some(said));
        assert_eq!(fleet.over_budget(&group, &record, 2).await.unwrap(), None, "each device has its share");
        let due = |models: usize| DueChallenge {
            miner: PublicKey([0xab; 32]),
            models: vec![String::new(); models],
            claimed_bytes: 0,
            is_first: false,
            is_moved: true,
            challenges: Arc::new(Semaphore::new(1)),
            max_challenges: 1,
        };
        let waits = fleet.prepare(&Policy::default(), due(1)).await;
        assert!(matches!(waits, ScheduleDecision::Later(LOOK_AGAIN)), "{waits:?}");
        let begins = fleet.prepare(&Policy::default(), due(2)).await;
        assert!(matches!(begins, ScheduleDecision::Ready(..)), "{begins:?}");
        let [miner, validator] = [0xab, 0xee].map(|key| PublicKey([key; 32]));
        let mut concluded = crate::tests::conclusion(ChallengeId([0xcd; 16]), miner, validator, 1);
        let shown = |id: u8| DeviceRate {
            device_id: DeviceId([id; 16]).to_string(),
            precision: Precision::Int8,
            name: String::new(),
            bytes: 1,
            macs_per_s: 1.0,
            tops: 1.0,
            probe_bytes_per_s: 1.0,
            linked_bytes_per_s: 0.0,
            at_ms: 1,
        };
        (concluded.shown, concluded.device_ms) = ([1, 2].map(shown).into(), 5000);
        records.conclude(&concluded).await.unwrap();
        assert_eq!(fleet.over_budget(&group, &record, 1).await.unwrap(), None, "also one that is not listed any more");
    }

    /// A fleet with these rules, with a miner that was let in, and the miner's challenge that is due.
    async fn fleet(folder: &std::path::Path, text: &str) -> (Fleet, DueChallenge) {
        let records = Records::open(&Location::File(folder.join("validator.db"))).await.unwrap();
        let rules = FleetRules::parse(text, "p.toml", None).unwrap();
        let fleet = Fleet::new(records, rules, Signer::open(&folder.join("key"), "test").unwrap());
        let allow = MinerChange { action: "allow", status: None, standing: None };
        let (miner, actor) = (PublicKey([0xab; 32]), Actor { name: "ada".to_owned(), uid: None });
        fleet.records.change_miner(&miner.to_string(), &allow, &actor).await.unwrap();
        let (models, challenges) = (Vec::new(), Arc::new(Semaphore::new(8)));
        let (claimed_bytes, is_first, is_moved, max_challenges) = (0, true, false, 8);
        (fleet, DueChallenge { miner, models, claimed_bytes, is_first, is_moved, challenges, max_challenges })
    }

    async fn later(fleet: &Fleet, policy: &Policy, due: &DueChallenge) -> Duration {
        match fleet.prepare(policy, due.clone()).await {
            ScheduleDecision::Later(wait) => wait,
            other => panic!("{other:?}"),
        }
    }

    /// Regression test: of a miner without a due challenge each connection drew another one.
    #[tokio::test]
    async fn to_connect_again_neither_draws_again_nor_puts_off() {
        let folder = tempfile::tempdir().unwrap();
        let text =
            "[[group]]\nname = \"default\"\n[group.cadence]\nmean = \"2h\"\nleast = \"1h\"\nat_connect = false\n";
        let (fleet, due) = fleet(folder.path(), text).await;
        let policy = Policy::default();
        let first = later(&fleet, &policy, &due).await;
        assert!(first >= Duration::from_secs(3600), "{first:?}");
        let noted = fleet.records.miner(&due.miner.to_string()).await.unwrap().unwrap().due.unwrap();
        assert!(later(&fleet, &policy, &due).await <= first);
        assert_eq!(fleet.records.miner(&due.miner.to_string()).await.unwrap().unwrap().due, Some(noted));
        let soon = NextChallenge { at_ms: unix_ms() + 5000, kind: String::new() };
        fleet.records.set_due(&due.miner.to_string(), Some(&soon)).await.unwrap();
        let wait = later(&fleet, &policy, &due).await;
        assert!(wait <= Duration::from_secs(5), "{wait:?}");
    }

    /// Regression test: after an abandoned challenge a miner that connected again knew that none came for ten minutes.
    #[tokio::test]
    async fn an_abandoned_challenge_puts_off_none_that_is_due() {
        let folder = tempfile::tempdir().unwrap();
        let (fleet, due) = fleet(folder.path(), "[[group]]\nname = \"default\"\n").await;
        let policy = Policy { challenge_interval: Some(Duration::from_secs(600)), ..Policy::default() };
        let (record, group) = {
            let record = fleet.records.miner(&due.miner.to_string()).await.unwrap().unwrap();
            (record.clone(), fleet.group_of(&record).await.unwrap())
        };
        let abandoned = Some(Duration::from_secs(60));
        let wait = async |record: &MinerRecord| match fleet.on_connecting(&group, &policy, record, abandoned).await {
            Ok(Some(ScheduleDecision::Later(wait))) => wait,
            other => panic!("{other:?}"),
        };
        assert_eq!(wait(&record).await, Duration::from_secs(540), "without one that is due");
        let soon = Some(NextChallenge { at_ms: unix_ms() + 5000, kind: String::new() });
        let wait = wait(&MinerRecord { due: soon, ..record.clone() }).await;
        assert!(wait <= Duration::from_secs(5), "{wait:?}");
        let long_ago = fleet.on_connecting(&group, &policy, &record, Some(Duration::from_secs(600))).await;
        assert!(matches!(long_ago, Ok(None)), "{long_ago:?}");
        // A challenge on connecting knows of the one that is due later, and one that is due of none.
        for (in_ms, kept) in [(60_000, true), (-1, false)] {
            let noted = NextChallenge { at_ms: unix_ms() + in_ms, kind: String::new() };
            fleet.records.set_due(&due.miner.to_string(), Some(&noted)).await.unwrap();
            let begun = fleet.prepare(&policy, due.clone()).await;
            let ScheduleDecision::Ready(order, _) = begun else { panic!("{begun:?}") };
            assert_eq!(order.kept_due_ms, kept.then_some(noted.at_ms));
        }
        // Regression test: a miner had as many challenges as connections.
        let judged = async |ago_ms: i64| {
            let (challenge, outcome) = (String::new(), "pass".to_owned());
            let last_verdict = Some(LastVerdict { challenge, outcome, at_ms: unix_ms() - ago_ms });
            fleet.on_connecting(&group, &policy, &MinerRecord { last_verdict, ..record.clone() }, None).await.unwrap()
        };
        assert!(matches!(judged(50_000).await, Some(ScheduleDecision::Later(_))), "less than a tenth of the interval");
        assert!(judged(60_001).await.is_none() && judged(-600_000).await.is_none());
    }

    /// Regression test: challenges that waited for a place of their group kept other groups from all places.
    #[tokio::test]
    async fn a_group_that_waits_for_its_places_takes_none_of_all() {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::open(&Location::File(folder.path().join("validator.db"))).await.unwrap();
        let text = "[[group]]\nname = \"other\"\nlabels = { pool = \"other\" }\n[[group]]\nname = \"default\"\nconcurrency = 1\n";
        let rules = FleetRules::parse(text, "p.toml", None).unwrap();
        let fleet = Fleet::new(records.clone(), rules, Signer::open(&folder.path().join("key"), "test").unwrap());
        let (challenges, policy) = (Arc::new(Semaphore::new(4)), Policy::default());
        let due = |key: u8| DueChallenge {
            miner: PublicKey([key; 32]),
            models: Vec::new(),
            claimed_bytes: 0,
            is_first: false,
            is_moved: true,
            challenges: challenges.clone(),
            max_challenges: 4,
        };
        let allow = MinerChange { action: "allow", status: None, standing: None };
        let actor = Actor { name: "ada".to_owned(), uid: None };
        for key in [1, 2, 3, 4] {
            records.change_miner(&PublicKey([key; 32]).to_string(), &allow, &actor).await.unwrap();
        }
        let first = fleet.prepare(&policy, due(1)).await;
        assert!(matches!(first, ScheduleDecision::Ready(..)), "{first:?}");
        let mut second = Box::pin(fleet.prepare(&policy, due(2)));
        let polled = tokio::time::timeout(Duration::from_millis(200), &mut second).await;
        assert!(polled.is_err() && challenges.available_permits() == 3);
        // Regression test: what waited for its group had all places of miners without an attestation.
        let mut third = Box::pin(fleet.prepare(&policy, due(3)));
        let polled = tokio::time::timeout(Duration::from_millis(200), &mut third).await;
        assert!(polled.is_err());
        records
            .set_labels(
                &PublicKey([4; 32]).to_string(),
                &[("pool".to_owned(), Some("other".to_owned()))].into(),
                &actor,
            )
            .await
            .unwrap();
        let other = fleet.prepare(&policy, due(4));
        let other = tokio::time::timeout(Duration::from_millis(200), other).await.unwrap();
        assert!(matches!(other, ScheduleDecision::Ready(..)), "{other:?}");
        drop(first);
        assert!(matches!(second.await, ScheduleDecision::Ready(..)));
    }

    /// Regression test: miners that stalled held all places, and the digests of claims too large for any host.
    #[tokio::test]
    async fn miners_without_an_attestation_leave_places_to_others() {
        let folder = tempfile::tempdir().unwrap();
        let (fleet, due) = fleet(folder.path(), "[[group]]\nname = \"default\"\n").await;
        let policy = Policy::default();
        let prepare = async |claimed_bytes| {
            let due = DueChallenge { claimed_bytes, is_first: false, is_moved: true, ..due.clone() };
            tokio::time::timeout(Duration::from_millis(200), fleet.prepare(&policy, due)).await
        };
        let mut begun = Vec::new();
        // Of four places: one of few digests, two of as many as four permits; slots have 4 MiB.
        for claimed_bytes in [(SLOTS_PER_PLACE << 22) - 1, SLOTS_PER_PLACE << 22, (3 * SLOTS_PER_PLACE) << 22] {
            begun.push(prepare(claimed_bytes).await.unwrap());
        }
        assert!(begun.iter().all(|begun| matches!(begun, ScheduleDecision::Ready(..))), "{begun:?}");
        assert!(prepare(SLOTS_PER_PLACE << 22).await.is_err(), "others send as many digests as there may be");
        begun.push(prepare(0).await.unwrap());
        assert!(prepare(0).await.is_err(), "half of the places are taken");
        let judged = async |state| {
            let after = json!(Standing { state, ..Standing::default() }).to_string();
            let standing = Some(StandingChange { before: None, after, transition: None });
            let change = MinerChange { action: "set", status: None, standing };
            let actor = Actor { name: "ada".to_owned(), uid: None };
            fleet.records.change_miner(&due.miner.to_string(), &change, &actor).await.unwrap();
        };
        judged(State::Passing).await;
        assert!(prepare(u64::MAX).await.is_ok(), "it is attested");
        judged(State::Failed).await;
        begun.clear();
        let largest = prepare(u64::MAX).await.unwrap();
        assert!(matches!(largest, ScheduleDecision::Ready(..)), "{largest:?}");
        assert!(prepare(SLOTS_PER_PLACE << 22).await.is_err() && prepare(0).await.is_ok(), "it delays its like alone");
    }
}
