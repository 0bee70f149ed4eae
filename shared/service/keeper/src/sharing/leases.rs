//! Scheduling of miners connected to several validators: the validator with a miner's lease schedules it.
//!
//! A lease is a row in the records that they share, and ends by the database's clock unless it is renewed. A validator
//! counts it from before its request, by its own monotonic clock: it stops scheduling before another one begins.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use assay_program::clock;
use assay_records::{Records, RecordsError};
use assay_work::PublicKey;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::MissedTickBehavior;

/// Validity of a lease: the wait of a miner for another validator when its own is lost.
pub const MINER_LEASE: Duration = Duration::from_secs(10);
/// Interval of renewing leases, and of requesting those of others.
const RENEWAL: Duration = Duration::from_millis(2500);
/// Time limit of one statement: another round follows.
const ROUND_LIMIT: Duration = Duration::from_secs(5);

/// Prefix of a miner's lease, before the miner's key.
const SUBJECT: &str = "miner:";

/// The leases of a validator's miners. Clones share them.
#[derive(Clone, Default)]
pub struct MinerLeases(Option<Arc<LeasesState>>);

struct LeasesState {
    records: Records,
    /// Id of this run of the validator's process.
    holder: String,
    /// Miners connected here, by the first of their keys.
    candidates: Mutex<BTreeMap<PublicKey, LeaseCandidate>>,
    entered: Notify,
    /// Held while leases change in the records: one that is taken again must not be returned afterwards.
    order: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct LeaseCandidate {
    /// Number of the miner's sessions: a new one enters before the old one leaves.
    sessions: usize,
    /// Time until which the lease is surely ours; `None`: not ours.
    until: Option<Instant>,
    /// Whether the last round found that another validator has it.
    is_taken: bool,
}

/// A connected miner's claim to its lease, until it is dropped: the shared state with the miner's key; `None` for records
/// without other validators.
pub struct MinerLease(Option<(Arc<LeasesState>, PublicKey)>);

impl MinerLeases {
    /// Leases for records without other validators: every miner is this one's.
    pub const fn alone() -> Self {
        Self(None)
    }

    /// Leases in these records, for this run of a validator's process.
    pub fn shared(records: Records, holder: String) -> Self {
        let (candidates, entered, order) = (Mutex::default(), Notify::new(), tokio::sync::Mutex::default());
        Self(Some(Arc::new(LeasesState { records, holder, candidates, entered, order })))
    }

    /// Claims the lease of a connected miner, named by the first of its keys: it is requested now, and as long as
    /// another validator has it.
    pub fn enter(&self, miner: PublicKey) -> MinerLease {
        let Some(shared) = &self.0 else { return MinerLease(None) };
        shared.candidates.lock().entry(miner).or_default().sessions += 1;
        shared.entered.notify_one();
        MinerLease(Some((shared.clone(), miner)))
    }

    /// Takes, renews and returns leases, for ever.
    pub async fn keep(self) {
        let Some(shared) = self.0 else { return std::future::pending().await };
        let mut rounds = tokio::time::interval(RENEWAL);
        rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_failing = false;
        loop {
            tokio::select! {
                biased;
                _ = rounds.tick() => {}
                () = shared.entered.notified() => {}
            }
            let round = tokio::time::timeout(ROUND_LIMIT, shared.round()).await;
            let problem = match round {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(error.to_string()),
                Err(_) => Some(format!("no answer within {ROUND_LIMIT:?}")),
            };
            // Logged once, until it works again.
            if let Some(problem) = problem.as_ref().filter(|_| !is_failing) {
                tracing::warn!(
                    "the leases of miners cannot be renewed, which other validators may take over: {problem}"
                );
            }
            is_failing = problem.is_some();
        }
    }
}

impl MinerLease {
    /// Whether this validator schedules the miner now.
    pub fn is_held(&self) -> bool {
        let Some((shared, miner)) = &self.0 else { return true };
        let candidates = shared.candidates.lock();
        candidates.get(miner).and_then(|candidate| candidate.until).is_some_and(|until| clock::now() < until)
    }

    /// Whether this validator schedules the miner now; without the lease it tries to take it, unless another validator
    /// has it: then each round looks for all miners at once.
    pub async fn hold(&self) -> bool {
        let Some((shared, miner)) = &self.0 else { return true };
        let is_taken = || shared.candidates.lock().get(miner).is_some_and(|candidate| candidate.is_taken);
        if self.is_held() || is_taken() {
            return self.is_held();
        }
        // After a failure the next round tries again.
        let taken = tokio::time::timeout(ROUND_LIMIT, shared.take(*miner)).await;
        matches!(taken, Ok(Ok(()))) && self.is_held()
    }
}

impl Drop for MinerLease {
    fn drop(&mut self) {
        let Some((shared, miner)) = self.0.take() else { return };
        let is_held = {
            let mut candidates = shared.candidates.lock();
            let Some(candidate) = candidates.get_mut(&miner) else { return };
            candidate.sessions -= 1;
            if candidate.sessions > 0 {
                return;
            }
            candidates.remove(&miner).is_some_and(|candidate| candidate.until.is_some())
        };
        // Other validators need not wait for its expiry. Without a runtime it expires.
        if let (true, Ok(runtime)) = (is_held, tokio::runtime::Handle::try_current()) {
            runtime.spawn(async move {
                // A failure is left to the next round, or to the expiry.
                let _ = shared.give_back(miner).await;
            });
        }
    }
}

/// Subject of a miner's lease.
fn subject(miner: PublicKey) -> String {
    format!("{SUBJECT}{miner}")
}

impl LeasesState {
    /// Renews the held leases, and requests free ones.
    async fn round(&self) -> Result<(), RecordsError> {
        let in_order = self.order.lock().await;
        let since = clock::now();
        let renewed: BTreeSet<_> =
            self.records.renew_all(SUBJECT, &self.holder, MINER_LEASE).await?.into_iter().collect();
        let mut wanted = self.note(&renewed, since + MINER_LEASE);
        drop(in_order);
        // Its lease could not be returned when the miner left.
        for miner in renewed.iter().filter_map(|subject| subject.strip_prefix(SUBJECT)?.parse().ok()) {
            self.give_back(miner).await?;
        }
        if wanted.is_empty() {
            return Ok(());
        }
        let taken = self.records.leases(None, MINER_LEASE).await?;
        let taken: BTreeSet<_> = taken.into_iter().map(|lease| lease.subject).collect();
        wanted.retain(|miner| {
            let is_taken = taken.contains(&subject(*miner));
            if let Some(candidate) = self.candidates.lock().get_mut(miner) {
                candidate.is_taken = is_taken;
            }
            !is_taken
        });
        for miner in wanted {
            self.take(miner).await?;
        }
        Ok(())
    }

    /// Takes a miner's lease, if it is free.
    async fn take(&self, miner: PublicKey) -> Result<(), RecordsError> {
        let _in_order = self.order.lock().await;
        let since = clock::now();
        if self.records.lease(&subject(miner), &self.holder, MINER_LEASE).await? {
            let until = since + MINER_LEASE;
            let noted = self
                .candidates
                .lock()
                .get_mut(&miner)
                .map(|candidate| (candidate.until, candidate.is_taken) = (Some(until), false));
            // Its miner has left meanwhile.
            if noted.is_none() {
                self.records.release(&subject(miner), &self.holder).await?;
            }
        }
        Ok(())
    }

    /// Records the renewed leases; returns the miners without one.
    fn note(&self, renewed: &BTreeSet<String>, until: Instant) -> Vec<PublicKey> {
        let mut wanted = Vec::new();
        for (miner, candidate) in &mut *self.candidates.lock() {
            // A lease taken during the renewal stays.
            let is_new = candidate.until.is_some_and(|own| own > until);
            if renewed.contains(&subject(*miner)) {
                candidate.until = Some(until);
            } else if !is_new {
                candidate.until = None;
                wanted.push(*miner);
            }
        }
        wanted
    }

    /// Returns a miner's lease, unless the miner is connected.
    async fn give_back(&self, miner: PublicKey) -> Result<(), RecordsError> {
        let _in_order = self.order.lock().await;
        let is_here = self.candidates.lock().contains_key(&miner);
        if is_here { Ok(()) } else { self.records.release(&subject(miner), &self.holder).await }
    }
}

#[cfg(test)]
mod tests {
    use assay_records::Location;

    use super::*;

    /// Regression test: a validator without the lease asked for it every 2 s for each of its miners.
    #[tokio::test]
    async fn a_lease_that_another_validator_has_is_looked_for_by_rounds() {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::open(&Location::File(folder.path().join("validator.db"))).await.unwrap();
        let (miner, leases) = (PublicKey([7; 32]), MinerLeases::shared(records.clone(), "run".to_owned()));
        assert!(records.lease(&subject(miner), "other", MINER_LEASE).await.unwrap());
        let lease = leases.enter(miner);
        assert!(!lease.hold().await);
        leases.0.as_ref().unwrap().round().await.unwrap();
        records.release(&subject(miner), "other").await.unwrap();
        assert!(!lease.hold().await, "nothing is asked for between rounds");
        leases.0.as_ref().unwrap().round().await.unwrap();
        assert!(lease.is_held() && lease.hold().await);
    }

    /// Regression test: a miner that came back at once lost its lease to the return of the one before, and two validators
    /// challenged it.
    #[tokio::test]
    async fn a_lease_that_is_taken_again_is_not_returned() {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::open(&Location::File(folder.path().join("validator.db"))).await.unwrap();
        let leases = MinerLeases::shared(records.clone(), "run".to_owned());
        let lease = leases.enter(PublicKey([7; 32]));
        assert!(lease.hold().await);
        let held = async || records.leases(Some("run"), MINER_LEASE).await.unwrap().len();
        drop(lease);
        let again = leases.enter(PublicKey([7; 32]));
        assert!(again.hold().await);
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!((again.is_held(), held().await), (true, 1));
        drop(again);
        while held().await > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}
