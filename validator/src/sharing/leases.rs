//! Which of several validators schedules a miner that is connected to more than one of them: the one with its lease.
//!
//! A lease is a row in the records that they share, and ends by the database's clock unless it is renewed. A validator
//! counts it from before it asked, by its own monotonic clock: it stops to schedule before another one begins.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use assay_records::{Records, RecordsError};
use assay_work::PublicKey;
use tokio::sync::{Notify, watch};
use tokio::time::MissedTickBehavior;

/// How long a lease stands without a sign of life: so long a miner waits for another validator when its own is lost.
pub const MINER_LEASE: Duration = Duration::from_secs(10);
/// How often leases are renewed, and those of others asked for.
const RENEWAL: Duration = Duration::from_millis(2500);
/// How long one statement may take: another round follows.
const ROUND_LIMIT: Duration = Duration::from_secs(5);

/// What the lease of a miner is called, before the miner's key.
const SUBJECT: &str = "miner:";

/// The leases of a validator's miners. Clones are the same.
#[derive(Clone, Default)]
pub struct MinerLeases(Option<Arc<Shared>>);

struct Shared {
    records: Records,
    /// The run of this validator's process.
    holder: String,
    /// The miners that are connected here, by the first of their keys.
    candidates: Mutex<HashMap<PublicKey, Candidate>>,
    entered: Notify,
}

struct Candidate {
    /// Sessions of the miner: a new one enters before the old one leaves.
    sessions: usize,
    /// Until when the lease is ours at least; `None`: it is not.
    until: watch::Sender<Option<Instant>>,
}

/// A connected miner's part in the leases, until it is dropped.
pub struct MinerLease {
    /// With whom it is shared; `None`: with nobody.
    of: Option<(Arc<Shared>, PublicKey, watch::Receiver<Option<Instant>>)>,
}

impl MinerLeases {
    /// No other validator has these records: every miner is this one's.
    #[must_use]
    pub const fn alone() -> Self {
        Self(None)
    }

    /// Leases in these records, for this run of a validator's process.
    #[must_use]
    pub fn shared(records: Records, holder: String) -> Self {
        let (candidates, entered) = (Mutex::default(), Notify::new());
        Self(Some(Arc::new(Shared { records, holder, candidates, entered })))
    }

    /// Takes part for a miner that is connected, named by the first of its keys: its lease is asked for, now and as long
    /// as another validator has it.
    #[must_use]
    pub fn enter(&self, miner: PublicKey) -> MinerLease {
        let Some(shared) = &self.0 else { return MinerLease { of: None } };
        let held = {
            let mut candidates = shared.lock();
            let new = || Candidate { sessions: 0, until: watch::Sender::new(None) };
            let candidate = candidates.entry(miner).or_insert_with(new);
            candidate.sessions += 1;
            candidate.until.subscribe()
        };
        shared.entered.notify_one();
        MinerLease { of: Some((shared.clone(), miner, held)) }
    }

    /// Takes, renews and gives leases back, for ever.
    pub async fn keep(&self) {
        let Some(shared) = &self.0 else { return std::future::pending().await };
        let mut rounds = tokio::time::interval(RENEWAL);
        rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_failing = false;
        loop {
            tokio::select! {
                _ = rounds.tick() => {}
                () = shared.entered.notified() => {}
            }
            let round = tokio::time::timeout(ROUND_LIMIT, shared.round()).await;
            let problem = match round {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(error.to_string()),
                Err(_) => Some(format!("no answer within {ROUND_LIMIT:?}")),
            };
            // Once, until it works again.
            if let Some(problem) = problem.as_ref().filter(|_| !is_failing) {
                tracing::warn!(
                    "the leases of miners cannot be renewed, which other validators may take over: {problem}"
                );
            }
            is_failing = problem.is_some();
            shared.end_those_over();
        }
    }
}

impl MinerLease {
    /// Whether this validator schedules the miner now.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.of.as_ref().is_none_or(|(_, _, until)| until.borrow().is_some_and(|until| Instant::now() < until))
    }

    /// Whether this validator schedules the miner now; where it does not, it asks whether nobody does any more.
    pub async fn hold(&self) -> bool {
        let Some((shared, miner, _)) = &self.of else { return true };
        if self.is_held() {
            return true;
        }
        match tokio::time::timeout(ROUND_LIMIT, shared.take(*miner)).await {
            Ok(Ok(())) => self.is_held(),
            // The next round tries again.
            Ok(Err(_)) | Err(_) => false,
        }
    }

    /// Waits until this validator schedules the miner; returns at once where it does.
    pub async fn held(&mut self) {
        while !self.is_held() {
            let Some((_, _, until)) = &mut self.of else { return };
            if until.changed().await.is_err() {
                // The validator ends.
                return std::future::pending().await;
            }
        }
    }

    /// Waits until this validator does not schedule the miner; returns at once where it does not.
    pub async fn lost(&mut self) {
        let Some((_, _, held)) = &mut self.of else { return std::future::pending().await };
        loop {
            let Some(until) = *held.borrow_and_update() else { return };
            tokio::select! {
                () = tokio::time::sleep_until(until.into()) => return,
                changed = held.changed() => if changed.is_err() { return },
            }
        }
    }
}

impl Drop for MinerLease {
    fn drop(&mut self) {
        let Some((shared, miner, _)) = self.of.take() else { return };
        let is_held = {
            let mut candidates = shared.lock();
            let Some(candidate) = candidates.get_mut(&miner) else { return };
            candidate.sessions -= 1;
            if candidate.sessions > 0 {
                return;
            }
            candidates.remove(&miner).is_some_and(|candidate| candidate.until.borrow().is_some())
        };
        // Others need not wait until it ends. Where no task can run any more, it ends by itself.
        if let (true, Ok(runtime)) = (is_held, tokio::runtime::Handle::try_current()) {
            runtime.spawn(async move {
                // What fails is left to the next round, or to its end.
                let _ = shared.records.release(&subject(miner), &shared.holder).await;
            });
        }
    }
}

/// What a miner's lease is called.
fn subject(miner: PublicKey) -> String {
    format!("{SUBJECT}{miner}")
}

impl Shared {
    /// Renews what is held, and asks for what nobody holds.
    async fn round(&self) -> Result<(), RecordsError> {
        let since = Instant::now();
        let renewed: HashSet<_> = self.records.renew_all(&self.holder, MINER_LEASE).await?.into_iter().collect();
        let mut wanted = self.note(&renewed, since + MINER_LEASE);
        // A miner left, and its lease could not be given back then.
        for left in self.left(renewed) {
            self.records.release(&left, &self.holder).await?;
        }
        if wanted.is_empty() {
            return Ok(());
        }
        let taken: HashSet<_> = self.records.leases(None).await?.into_iter().map(|lease| lease.subject).collect();
        wanted.retain(|miner| !taken.contains(&subject(*miner)));
        for miner in wanted {
            self.take(miner).await?;
        }
        Ok(())
    }

    /// Takes a miner's lease where nobody else has it.
    async fn take(&self, miner: PublicKey) -> Result<(), RecordsError> {
        let since = Instant::now();
        if self.records.lease(&subject(miner), &self.holder, MINER_LEASE).await? {
            self.took(miner, since + MINER_LEASE).await?;
        }
        Ok(())
    }

    /// Notes which leases were renewed; gives the miners without one.
    fn note(&self, renewed: &HashSet<String>, until: Instant) -> Vec<PublicKey> {
        let mut wanted = Vec::new();
        for (miner, candidate) in &*self.lock() {
            let is_renewed = renewed.contains(&subject(*miner));
            // One that was taken while the renewal was under way stands by itself.
            let is_new = candidate.until.borrow().is_some_and(|own| own > until);
            if is_renewed {
                candidate.until.send_replace(Some(until));
            } else if !is_new {
                candidate.until.send_if_modified(|held| held.take().is_some());
                wanted.push(*miner);
            }
        }
        wanted
    }

    /// The leases among these whose miners are not connected any more.
    fn left(&self, renewed: HashSet<String>) -> Vec<String> {
        let here: HashSet<_> = self.lock().keys().map(|miner| subject(*miner)).collect();
        renewed.into_iter().filter(|subject| subject.starts_with(SUBJECT) && !here.contains(subject)).collect()
    }

    /// Notes a lease that was taken; gives it back where its miner has left meanwhile.
    async fn took(&self, miner: PublicKey, until: Instant) -> Result<(), RecordsError> {
        let is_here = {
            let candidates = self.lock();
            let candidate = candidates.get(&miner);
            candidate.map(|candidate| candidate.until.send_replace(Some(until))).is_some()
        };
        if is_here { Ok(()) } else { self.records.release(&subject(miner), &self.holder).await }
    }

    /// Wakes whoever waits for the end of a lease that could not be renewed.
    fn end_those_over(&self) {
        let now = Instant::now();
        for candidate in self.lock().values() {
            candidate.until.send_if_modified(|until| until.take_if(|until| *until <= now).is_some());
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<PublicKey, Candidate>> {
        self.candidates.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
