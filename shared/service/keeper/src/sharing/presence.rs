//! Heartbeats of this validator, for the others that share its records; and verdicts on challenges of lost validators.

use std::time::Duration;

use assay_program::exit::{Exit, Failure};
use assay_protocol::verdict::{Reason, ReasonCode, Verdict};
use assay_records::{Conclusion, OrphanChallenge, Records, RecordsError, ValidatorRecord};
use assay_work::PublicKey;
use tokio::time::MissedTickBehavior;

use crate::registry::Registry;
use assay_program::clock::unix_ms;

/// Interval of heartbeats, and of looking for lost validators' challenges.
const HEARTBEAT: Duration = Duration::from_millis(2500);
/// Time after a heartbeat during which a validator counts as alive.
const ALIVE: Duration = Duration::from_secs(10);
/// Interval of heartbeats in records of one process: a heartbeat is a write that waits for the disk.
const HEARTBEAT_ALONE: Duration = Duration::from_secs(600);
/// Interval of checking whether an earlier run of this validator counts as alive.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);
/// Time for which abandoned replays are kept.
const QUEUE_KEPT: Duration = Duration::from_secs(60);
/// The most challenges of lost validators concluded in one round.
const MAX_ORPHANS: u32 = 100;

/// Another process has this validator's key: each would take the other's challenges for lost.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "a validator with this key is alive at {address}, heartbeat {age_s} s ago: stop that one, or give each validator a key \
     of its own (key_file)"
)]
pub struct KeyInUse {
    /// Address that it listens on.
    pub address: String,
    /// Age of its last heartbeat in seconds.
    pub age_s: i64,
}

impl From<KeyInUse> for Failure {
    fn from(error: KeyInUse) -> Self {
        Self::new(Exit::Config, error.to_string())
    }
}

/// Waits until no run of the validator with this key counts as alive: after a crash it does for some seconds.
///
/// # Errors
/// [`KeyInUse`]: it sends heartbeats meanwhile. The records cannot be read.
pub async fn wait_until_alone(records: &Records, key: PublicKey) -> Result<Result<(), KeyInUse>, RecordsError> {
    if !records.is_shared() {
        return Ok(Ok(()));
    }
    let mut first: Option<ValidatorRecord> = None;
    while let Some(found) = alive(records, key).await? {
        match &first {
            None => {
                tracing::info!(
                    address = found.address,
                    "waiting for an earlier run with this key, which counts as alive"
                );
                first = Some(found);
            }
            Some(first) if *first != found => return in_use(records, found).await.map(Err),
            Some(_) => {}
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
    Ok(Ok(()))
}

/// The run of the validator with this key that counts as alive.
async fn alive(records: &Records, key: PublicKey) -> Result<Option<ValidatorRecord>, RecordsError> {
    let key = key.to_string();
    Ok(records.validators().await?.into_iter().find(|validator| validator.key == key && validator.is_alive))
}

async fn in_use(records: &Records, other: ValidatorRecord) -> Result<KeyInUse, RecordsError> {
    let age_ms = records.now_ms().await?.saturating_sub(other.heartbeat_ms);
    Ok(KeyInUse { address: other.address, age_s: age_ms.max(0) / 1000 })
}

/// A run of this validator's process, in its records.
pub struct ValidatorPresence {
    records: Records,
    key: PublicKey,
    instance: String,
    address: String,
}

impl ValidatorPresence {
    /// Registers a run of the process of the validator with this key, which miners reach at this address. Challenges of
    /// an earlier run count as lost from now on, and its rounds end.
    ///
    /// # Errors
    /// The records cannot be written.
    pub async fn enter(
        records: Records,
        key: PublicKey,
        instance: String,
        address: String,
    ) -> Result<Self, RecordsError> {
        let presence = Self { records, key, instance, address };
        presence.beat().await?;
        presence.records.end_open_rounds(Some(&key.to_string())).await?;
        Ok(presence)
    }

    /// Sends heartbeats, and concludes the challenges of lost validators; passes each verdict to `tell`. Returns when
    /// another process registered this key (two that start at the same moment do not see one another before), or when a
    /// newer release migrated the records beyond this one.
    pub async fn keep(&self, registry: &Registry, tell: impl Fn(Verdict)) -> Failure {
        let mut beats = tokio::time::interval(self.interval());
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            beats.tick().await;
            // Another round follows one that hangs, before this validator counts as lost.
            let limit = 2 * self.interval();
            let slow = RecordsError::Slow { doing: "send a heartbeat", limit_s: limit.as_secs() };
            let round = tokio::time::timeout(limit, self.round(registry, &tell)).await;
            // Trouble of the records is reported by the records.
            match round.unwrap_or(Err(slow)) {
                Ok(Some(in_use)) => return in_use.into(),
                Ok(None) => {}
                Err(error @ RecordsError::Newer { .. }) => return Failure::new(Exit::Config, error.to_string()),
                Err(error) => {
                    tracing::debug!(%error, "the validator's heartbeat");
                    // Challenges of an earlier run wait for their verdicts.
                    beats.reset_after(HEARTBEAT);
                }
            }
        }
    }

    async fn round(&self, registry: &Registry, tell: &impl Fn(Verdict)) -> Result<Option<KeyInUse>, RecordsError> {
        if self.records.is_shared()
            && let Some(other) = alive(&self.records, self.key).await?.filter(|other| other.instance != self.instance)
        {
            return in_use(&self.records, other).await.map(Some);
        }
        self.beat().await?;
        if !self.records.is_steady() {
            self.reopen_sessions(registry).await?;
        }
        self.conclude_lost(tell).await?;
        self.records.sweep_queue(QUEUE_KEPT).await.map(|_| None)
    }

    /// Records the end of this run: others continue with its miners at once.
    pub async fn leave(&self) {
        if let Err(error) = self.records.retire(&self.key.to_string(), &self.instance).await {
            tracing::warn!(%error, "other validators take this one for alive for some seconds");
        }
    }

    /// Opens the sessions in the registry anew that another validator ended, since this one's heartbeat had expired.
    async fn reopen_sessions(&self, registry: &Registry) -> Result<(), RecordsError> {
        let open = registry.sessions();
        if self.records.reopen_sessions(open.iter().cloned().collect()).await? == 0 {
            return Ok(());
        }
        // The ends of these were noted before their sessions were open again.
        for session in open.difference(&registry.sessions()) {
            self.records.disconnected(session, unix_ms(), "the session ended").await?;
        }
        Ok(())
    }

    /// Concludes the challenges that lost validators began, and passes each verdict to `tell`. Of several validators
    /// that do it at once, one has its verdict written. After an outage of the database others get time for their
    /// heartbeats; an earlier run of this validator is lost at once.
    ///
    /// # Errors
    /// The records cannot be read or written.
    pub async fn conclude_lost(&self, tell: &impl Fn(Verdict)) -> Result<(), RecordsError> {
        let (is_steady, own) = (self.records.is_steady(), self.key.to_string());
        if is_steady {
            self.records.end_lost_sessions().await?;
            self.records.end_open_rounds(None).await?;
        }
        let mut orphans = self.records.orphans(MAX_ORPHANS).await?;
        orphans.retain(|orphan| is_steady || orphan.begun.validator == own);
        for orphan in orphans {
            let Some(verdict) = self.verdict(&orphan) else {
                tracing::error!(
                    challenge = orphan.begun.challenge,
                    "a challenge in the records has a malformed id or key"
                );
                continue;
            };
            // Its replay has no reader any more.
            self.records.remove_jobs_of(&orphan.begun.challenge).await?;
            match self.records.conclude(&conclusion(verdict.clone(), orphan)).await {
                Ok(()) => tell(verdict),
                Err(RecordsError::ConcludedBefore { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The verdict on a challenge of a lost validator. It names its author: two validators never give the same.
    fn verdict(&self, orphan: &OrphanChallenge) -> Option<Verdict> {
        let begun = &orphan.begun;
        let detail = format!(
            "the validator that began it ended, or failed, before its verdict; validator {} concluded it",
            self.key
        );
        let [miner, validator] = [&begun.miner, &begun.validator].map(|key| key.parse().ok());
        let reasons = vec![Reason::new(ReasonCode::ValidatorLost, detail)];
        let unix_seconds = u64::try_from(begun.begun_ms / 1000).ok()?;
        Some(Verdict::without_work(begun.challenge.parse().ok()?, miner?, validator?, reasons, unix_seconds))
    }

    async fn beat(&self) -> Result<(), RecordsError> {
        let alive = if self.records.is_shared() { ALIVE } else { 3 * HEARTBEAT_ALONE };
        self.records.heartbeat(&self.key.to_string(), &self.instance, &self.address, alive).await
    }

    fn interval(&self) -> Duration {
        if self.records.is_shared() { HEARTBEAT } else { HEARTBEAT_ALONE }
    }
}

/// The conclusion of a lost challenge: its miner is due again, if the schedule had asked for it.
fn conclusion(verdict: Verdict, orphan: OrphanChallenge) -> Conclusion {
    let begun = orphan.begun;
    let is_scheduled = matches!(begun.asked.as_str(), "schedule" | "connect");
    Conclusion {
        verdict,
        at_ms: unix_ms(),
        next_due: is_scheduled.then(|| (begun.begun_ms, begun.kind.clone())),
        asked: begun.asked,
        group: begun.group,
        kind: begun.kind,
        round: begun.round,
        session: begun.session,
        commitment: None,
        evidence: None,
        standing: None,
        shown: Vec::new(),
        findings: Vec::new(),
        receipt: None,
        device_ms: begun.device_ms,
        operator: None,
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use assay_listen::bounds::ConnectionBounds;
    use assay_program::clock;
    use assay_program::clock::testing::{SimulatedTime, simulate};
    use assay_records::Location;
    use assay_records::testing::Postgres;
    use assay_work::Nonce;
    use tokio::sync::mpsc;

    use super::*;
    use crate::registry::ConnectedMiner;
    use crate::takeover::SessionNonces;
    use crate::tests::{begun, connected, round, session};

    const NONCE: Nonce = Nonce([5; 32]);

    /// Regression test: after an outage of the database the first validator back concluded the challenges of the others,
    /// and ended their sessions for good; after a step of the database's clock too, which looked like none.
    #[tokio::test]
    async fn after_an_outage_no_validator_is_lost_before_it_could_send_a_heartbeat() {
        let today = Duration::from_millis(unix_ms().unsigned_abs());
        let mut time = SimulatedTime { began: clock::now(), database: today, daemons: today };
        simulate(Some(time));
        let database = Postgres::shared().database();
        let (miner, [first, second]) = (PublicKey([7; 32]), [1, 2].map(|key| PublicKey([key; 32])));
        let enter = async |key| {
            let records = Records::open(&database.location()).await.unwrap();
            ValidatorPresence::enter(records, key, "run".to_owned(), String::new()).await.unwrap()
        };
        let [early, late] = [enter(first).await, enter(second).await];
        let [empty, registry] = [(); 2].map(|()| Registry::new(ConnectionBounds::default()));
        let resumption = SessionNonces { nonce: Some(NONCE), resumes: None };
        let connected = ConnectedMiner { resumption, ..connected(miner) };
        registry.enter(1, miner, connected, mpsc::channel(1).0, None, 1).unwrap();
        late.records.connected(&session(NONCE, miner, second)).await.unwrap();
        let begun = begun(NONCE, miner, second);
        late.records.begin_challenge(&begun).await.unwrap();
        database.sql("UPDATE validators SET expires_ms = 0");
        let told = AtomicUsize::new(0);
        let tell = |_| {
            told.fetch_add(1, Ordering::Relaxed);
        };
        early.round(&empty, &tell).await.unwrap();
        assert_eq!(told.load(Ordering::Relaxed), 0);
        assert_eq!(late.records.challenge(&begun.challenge).await.unwrap().unwrap().ended_ms, None);
        let ended = async || late.records.sessions(&miner.to_string(), 1).await.unwrap()[0].disconnected_ms;
        assert_eq!(ended().await, None);
        // One that another validator ended is open again.
        assert_eq!(early.records.end_lost_sessions().await.unwrap(), 1);
        assert!(ended().await.is_some());
        late.round(&registry, &tell).await.unwrap();
        assert_eq!(ended().await, None);
        for _ in 0..6 {
            tokio::time::pause();
            tokio::time::advance(Duration::from_secs(2)).await;
            tokio::time::resume();
            early.round(&empty, &tell).await.unwrap();
            late.round(&registry, &tell).await.unwrap();
        }
        assert!(early.records.is_steady() && late.records.is_steady());
        time.database += Duration::from_secs(3600);
        simulate(Some(time));
        early.round(&empty, &tell).await.unwrap();
        assert_eq!((told.load(Ordering::Relaxed), ended().await), (0, None));
        assert_eq!(early.records.end_lost_sessions().await.unwrap(), 1);
        late.round(&registry, &tell).await.unwrap();
        assert_eq!(ended().await, None);
        simulate(None);
    }

    #[tokio::test]
    async fn a_start_ends_the_rounds_of_an_earlier_run() {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::open(&Location::File(folder.path().join("validator.db"))).await.unwrap();
        let key = PublicKey([1; 32]);
        let enter = async |run: &str| {
            ValidatorPresence::enter(records.clone(), key, run.to_owned(), String::new()).await.unwrap();
        };
        enter("first").await;
        records.plan_round(&round("aa", key), &[]).await.unwrap();
        enter("second").await;
        assert!(records.round("aa").await.unwrap().unwrap().0.ended_ms.is_some());
    }
}
