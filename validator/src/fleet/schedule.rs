//! When a miner is challenged by the policy, and what it is asked: decided when a challenge is due, from the records.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use assay_fleet::Group;
use assay_fleet::schedule::{budget, draw_kind, draw_wait, fits};
use assay_records::{MinerRecord, RecordsError};
use assay_work::PublicKey;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{Fleet, standing_of};
use crate::clock::{unix_ms, unix_seconds};
use crate::entropy::{Entropy, OsEntropy};

use crate::order::{Asked, Order};
use crate::policy::Policy;

/// How long until a challenge is looked at again that another validator makes, or that has no room in a budget.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
/// A day, over which device time is counted.
const DAY_MS: i64 = 86_400_000;
/// After an abandoned challenge, how long a miner is not challenged on connecting where the policy has no interval.
const ABANDONED_PAUSE: Duration = Duration::from_secs(600);

/// A challenge's place among those that run at once.
#[derive(Debug)]
pub struct Places {
    _all: OwnedSemaphorePermit,
    _group: Option<OwnedSemaphorePermit>,
}

impl Places {
    /// A place that no group limits.
    #[must_use]
    pub const fn of(place: OwnedSemaphorePermit) -> Self {
        Self { _all: place, _group: None }
    }
}

/// What comes of a challenge that is due.
#[derive(Debug)]
pub enum Prepared {
    /// It starts now.
    Ready(Box<Order>, Places),
    /// It is looked at again then.
    Later(Duration),
    /// The policy has no challenges for this miner.
    Never,
}

/// A challenge that is due.
#[derive(Debug, Clone)]
pub struct DueChallenge {
    /// Of this miner.
    pub miner: PublicKey,
    /// The models that its devices claim.
    pub models: Vec<String>,
    /// The miner has just connected.
    pub is_first: bool,
    /// The policy was replaced, and the challenge is due earlier than the records say.
    pub is_moved: bool,
    /// How long ago it abandoned a challenge.
    pub abandoned: Option<Duration>,
    /// One permit for each challenge that may run at once.
    pub challenges: Arc<Semaphore>,
}

/// One permit for each challenge of a group that may run at once.
#[derive(Debug, Default)]
pub struct GroupPlaces(Mutex<HashMap<String, (u32, Arc<Semaphore>)>>);

impl GroupPlaces {
    /// The places of a group; `None` where it has no limit. Another limit counts from the next challenge on.
    fn of(&self, group: &Group) -> Option<Arc<Semaphore>> {
        let limit = group.concurrency?;
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = || (limit, Arc::new(Semaphore::new(limit as usize)));
        let entry = places.entry(group.name.clone()).or_insert_with(fresh);
        if entry.0 != limit {
            *entry = fresh();
        }
        Some(entry.1.clone())
    }
}

/// A number from 0 to 1, from the operating system's random source.
pub fn uniform(entropy: &mut dyn Entropy) -> f64 {
    // 53 bits, as many as the number has. Without a random source no challenge can be made either.
    const BITS: u64 = 1 << 53;
    entropy.below(BITS).map_or(0.5, |drawn| drawn as f64 / BITS as f64)
}

/// The wait for the next challenge; `None` where there is none but on demand.
#[must_use]
pub fn next_wait(group: &Group, policy: &Policy, entropy: &mut dyn Entropy) -> Option<Duration> {
    let mean = group.cadence.mean.or(policy.challenge_interval)?;
    Some(draw_wait(&group.cadence, mean, uniform(entropy)))
}

impl Fleet {
    /// Decides what comes of a challenge that is due, and waits for its place.
    pub async fn prepare(&self, policy: &Policy, due: DueChallenge) -> Prepared {
        match self.try_prepare(policy, due).await {
            Ok(prepared) => prepared,
            Err(error) => {
                // The store's own trouble is in the log; challenges go on once it is over.
                tracing::debug!(%error, "a challenge that is due waits for the records");
                Prepared::Later(LOOK_AGAIN)
            }
        }
    }

    async fn try_prepare(&self, policy: &Policy, due: DueChallenge) -> Result<Prepared, RecordsError> {
        let DueChallenge { miner, models, is_first, is_moved, abandoned, challenges } = due;
        let key = miner.to_string();
        let Some(record) = self.records.miner(&key).await? else { return Ok(Prepared::Later(LOOK_AGAIN)) };
        let rules = self.rules();
        let names: Vec<&str> = models.iter().map(String::as_str).collect();
        let group = rules.policy.group_of(&record.labels, &names);
        if is_first && let Some(prepared) = Self::on_connecting(group, policy, &record, abandoned) {
            return Ok(prepared);
        }
        // Due times are in the records: whoever takes a lost validator's miners over does not challenge all at once.
        let early = record.due.as_ref().map_or(0, |due| due.at_ms - unix_ms());
        if !is_first && !is_moved && early > 0 {
            return Ok(Prepared::Later(Duration::from_millis(early.unsigned_abs()).min(LOOK_AGAIN)));
        }
        let standing = standing_of(&record);
        if !standing.state.is_challenged() {
            return Ok(Prepared::Later(LOOK_AGAIN));
        }
        if self.is_over_budget(group, &record, models.len()).await? {
            return Ok(Prepared::Later(LOOK_AGAIN));
        }
        let all = challenges.acquire_owned().await;
        // The places are never closed.
        let Ok(all) = all else { return Ok(Prepared::Never) };
        let of_group = match self.group_places.of(group) {
            Some(places) => places.acquire_owned().await.ok(),
            None => None,
        };
        let (kind, _) = draw_kind(group, &standing, unix_seconds(), uniform(&mut OsEntropy));
        let order = Order {
            asked: Asked::Schedule,
            kind: kind.name.clone(),
            group: group.name.clone(),
            ..Order::manual(super::rules::laid_over(policy, group, Some(kind)))
        };
        Ok(Prepared::Ready(Box::new(order), Places { _all: all, _group: of_group }))
    }

    /// What the policy says of a miner that has just connected; `None`: challenge it. Connecting again must not be a way
    /// to the next draw, nor to put a challenge off.
    fn on_connecting(
        group: &Group,
        policy: &Policy,
        record: &MinerRecord,
        abandoned: Option<Duration>,
    ) -> Option<Prepared> {
        let pause = policy.challenge_interval.unwrap_or(ABANDONED_PAUSE);
        if let Some(ago) = abandoned.filter(|ago| *ago < pause) {
            return Some(Prepared::Later(pause.saturating_sub(ago)));
        }
        if group.cadence.at_connect.unwrap_or(policy.challenge_on_connect) {
            return None;
        }
        let stored =
            record.due.as_ref().map(|due| Duration::from_millis(u64::try_from(due.at_ms - unix_ms()).unwrap_or(0)));
        let wait = stored.or_else(|| next_wait(group, policy, &mut OsEntropy));
        Some(wait.map_or(Prepared::Never, Prepared::Later))
    }

    /// Whether the policy's share of the host's device time in a day is used up.
    async fn is_over_budget(&self, group: &Group, record: &MinerRecord, devices: usize) -> Result<bool, RecordsError> {
        let Some(percent) = group.duty_percent else { return Ok(false) };
        let duty = self.records.duty(&record.id, unix_ms() - DAY_MS).await?;
        // As long as the mean of the last ones: what is not known yet is tried.
        let expected = if duty.challenges > 0 { duty.device_ms / duty.challenges } else { 0 };
        let time = |ms: i64| Duration::from_millis(u64::try_from(ms).unwrap_or(0));
        let devices = u32::try_from(devices.max(1)).unwrap_or(u32::MAX);
        Ok(!fits(time(duty.device_ms), time(expected), budget(percent).saturating_mul(devices)))
    }
}
