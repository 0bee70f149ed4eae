//! That this validator lives, for the others that share its records; and the verdicts on challenges of one that does not.

use std::time::Duration;

use assay_protocol::verdict::{Reason, ReasonCode, Verdict};
use assay_records::{Conclusion, Location, Orphan, Records, RecordsError};
use assay_work::{ChallengeId, PublicKey};
use tokio::time::MissedTickBehavior;

use crate::clock::unix_ms;
use crate::history::Recent;
use crate::history::devices::Difference;
use crate::verify::judge::Unchallenged;

/// How often a validator says that it lives, and looks for challenges of those that do not.
const HEARTBEAT: Duration = Duration::from_millis(2500);
/// How long it counts as alive without that.
const ALIVE: Duration = Duration::from_secs(10);
/// The same where no other process has the records: a heartbeat is a write that waits for the disk.
const HEARTBEAT_ALONE: Duration = Duration::from_secs(600);
/// How long replays stay that nobody waits for any more.
const QUEUE_KEPT: Duration = Duration::from_secs(60);
/// Challenges of lost validators concluded in one go.
const MAX_ORPHANS: u32 = 100;

/// A run of this validator's process, in its records.
pub struct Presence {
    records: Records,
    key: PublicKey,
    instance: String,
    address: String,
}

impl Presence {
    /// Enters a run of the process of the validator with this key, which miners reach at this address. Challenges of an earlier run are
    /// lost from now on.
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
        Ok(presence)
    }

    /// Says for ever that this validator lives, and concludes what lost ones left behind; gives each verdict to `tell`.
    pub async fn keep(&self, tell: impl Fn(Verdict)) {
        let mut beats = tokio::time::interval(self.interval());
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            beats.tick().await;
            // Where the records are in trouble, they say so themselves.
            if let Err(error) = self.round(&tell).await {
                tracing::debug!(%error, "the validator's heartbeat");
            }
        }
    }

    async fn round(&self, tell: &impl Fn(Verdict)) -> Result<(), RecordsError> {
        self.beat().await?;
        self.conclude_lost(tell).await?;
        self.records.sweep_queue(QUEUE_KEPT).await.map(drop)
    }

    /// Says that this run ends: others go on with its miners at once.
    pub async fn leave(&self) {
        if let Err(error) = self.records.retire(&self.key.to_string(), &self.instance).await {
            tracing::warn!(%error, "other validators take this one for alive for some seconds");
        }
    }

    /// Concludes the challenges that lost validators began, and gives each verdict to `tell`. Of several validators that
    /// do it at once, one has its verdict written.
    ///
    /// # Errors
    /// The records cannot be read or written.
    pub async fn conclude_lost(&self, tell: &impl Fn(Verdict)) -> Result<(), RecordsError> {
        self.records.end_lost_sessions().await?;
        for orphan in self.records.orphans(MAX_ORPHANS).await? {
            let Some(verdict) = self.verdict(&orphan) else {
                tracing::error!(
                    challenge = orphan.begun.challenge,
                    "a challenge in the records has a malformed id or key"
                );
                continue;
            };
            // Nobody waits for its replay.
            self.records.remove_jobs_of(&orphan.begun.challenge).await?;
            match self.records.conclude(&conclusion(verdict.clone(), orphan)).await {
                Ok(()) => tell(verdict),
                Err(RecordsError::ConcludedBefore { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The verdict on a challenge whose validator is lost. It names who gave it: two validators never give the same.
    fn verdict(&self, orphan: &Orphan) -> Option<Verdict> {
        let begun = &orphan.begun;
        let detail = format!(
            "the process of the validator that began it ended before its verdict; validator {} concluded it",
            self.key
        );
        let verdict = Unchallenged {
            challenge_id: begun.challenge.parse::<ChallengeId>().ok()?,
            miner_key: begun.miner.parse().ok()?,
            validator_key: begun.validator.parse().ok()?,
            n: 0,
            iterations: 0,
            reason: Reason::new(ReasonCode::ValidatorLost, detail),
            not_challenged: Vec::new(),
            difference: Difference::default(),
            recent: Recent::default(),
            unix_seconds: u64::try_from(begun.begun_ms / 1000).ok()?,
        };
        Some(verdict.verdict())
    }

    async fn beat(&self) -> Result<(), RecordsError> {
        let alive = if self.is_alone() { 3 * HEARTBEAT_ALONE } else { ALIVE };
        self.records.heartbeat(&self.key.to_string(), &self.instance, &self.address, alive).await
    }

    fn interval(&self) -> Duration {
        if self.is_alone() { HEARTBEAT_ALONE } else { HEARTBEAT }
    }

    fn is_alone(&self) -> bool {
        matches!(self.records.location(), Location::File(_))
    }
}

/// What becomes known with the end of a lost challenge: its miner is due again, where the schedule had asked for it.
fn conclusion(verdict: Verdict, orphan: Orphan) -> Conclusion {
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
        transition: None,
        standing: None,
        findings: Vec::new(),
        receipt: None,
        device_ms: begun.device_ms,
        operator: None,
    }
}
