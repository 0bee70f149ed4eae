//! Admission by the records: keys with a decision, keys with a join token, and keys that wait.
//!
//! Operators' decisions are in memory too ([`Lists::decided`](crate::allow::Lists)), so that a session is notified of a
//! change at once. The records are read before a key without a known decision is refused.

use std::time::Duration;

use assay_policy::Event;
use assay_protocol::join_token::JoinToken;
use assay_protocol::successor::Lineage;
use assay_records::{Approval, ConnectedSession, MinerRecord, RecordsError};
use assay_work::PublicKey;

use crate::allow::{AdmissionError, AdmissionReason, FollowedKey, KeyDecisions};
use crate::sweep::unheeded;
use crate::takeover::EnterError;
use crate::validator::Validator;
use assay_judge::refusal::OPERATOR_PAUSE;
use assay_program::clock::{unix_ms, unix_seconds};

/// The longest wait of a connecting miner for the records.
pub const RECORDS_LIMIT: Duration = Duration::from_secs(5);
/// The first pause of a key that waits for an operator; it grows with the waiting time.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
/// Interval of reading operators' actions at other validators.
const FOLLOW_INTERVAL: Duration = Duration::from_secs(1);

/// Reads the records for a miner that waits, within [`RECORDS_LIMIT`].
///
/// # Errors
/// [`EnterError::NoRecords`], or too many keys of one miner.
pub async fn asked<T>(answer: impl Future<Output = Result<T, RecordsError>>) -> Result<T, EnterError> {
    let why = match tokio::time::timeout(RECORDS_LIMIT, answer).await {
        Ok(Ok(answer)) => return Ok(answer),
        Ok(Err(RecordsError::TooMany { max, .. })) => {
            return Err(EnterError::NotAllowed(AdmissionError::TooManyKeys(max)));
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer within {RECORDS_LIMIT:?}"),
    };
    tracing::warn!("the records cannot be used for a miner that connects: {why}");
    Err(EnterError::NoRecords)
}

impl Validator {
    /// Admits a miner that proved its key. If it has a join token and is not approved yet, the token is used too: an
    /// invalid token is refused under every enrolment. `is_private`: the token was unreadable on its way. A key that
    /// has to wait is recorded with its claims.
    pub async fn admit(
        &self,
        miner: &Lineage,
        token: Option<&JoinToken>,
        is_private: bool,
        connected: &ConnectedSession,
    ) -> Result<(), EnterError> {
        let allowed = &self.access.allowed;
        if let Ok(Some(FollowedKey { old_key, .. })) = allowed.check(miner, unix_seconds())
            && allowed.admitted(&old_key) == AdmissionReason::Approved
        {
            // A newer key may have come a moment ago, here or at another validator of the same records.
            asked(self.follow_decisions()).await?;
        }
        let mut known = self.check(miner);
        // Another validator of the same records may have admitted it since.
        if matches!(known, Err(AdmissionError::Pending | AdmissionError::TokenNeeded | AdmissionError::Superseded)) {
            let key = miner.key().to_string();
            let record = asked(self.records.miner(&key)).await?;
            if record.is_some_and(|record| record.status != Approval::Pending && record.key == key) {
                asked(self.follow_decisions()).await?;
            }
            known = self.check(miner);
        }
        let token = token.filter(|_| !allowed.lists().is_approved(miner, unix_seconds()));
        match (known, token) {
            (Ok(()) | Err(AdmissionError::Pending | AdmissionError::TokenNeeded), Some(token)) => {
                self.redeem(miner, token, is_private).await
            }
            (Err(AdmissionError::Pending), None) => Err(self.wait(miner.key(), connected).await),
            (known, _) => known.map_err(EnterError::NotAllowed),
        }
    }

    fn check(&self, miner: &Lineage) -> Result<(), AdmissionError> {
        self.access.allowed.check(miner, unix_seconds()).map(|_| ())
    }

    /// Consumes a join token.
    async fn redeem(&self, miner: &Lineage, token: &JoinToken, is_private: bool) -> Result<(), EnterError> {
        if !is_private {
            return Err(EnterError::NotAllowed(AdmissionError::TokenInClear));
        }
        let key = miner.key();
        let redeemed = asked(self.records.redeem(token.secret(), &key.to_string(), unix_ms())).await?;
        let labels = redeemed.map_err(|refusal| EnterError::NotAllowed(AdmissionError::Token(refusal)))?;
        asked(self.follow_decisions()).await?;
        tracing::info!(miner = %key, ?labels, "a join token was used");
        self.check(miner).map_err(EnterError::NotAllowed)
    }

    /// Records a key that waits for an operator; returns the time of its next attempt.
    async fn wait(&self, key: PublicKey, connected: &ConnectedSession) -> EnterError {
        let address = connected.address.parse().ok();
        match asked(self.records.miner(&key.to_string())).await {
            Ok(Some(record)) => EnterError::Waiting(pause(unix_ms().saturating_sub(record.first_seen_ms))),
            Ok(None) if !self.access.waiting.note(key, address) => EnterError::TooManyWaiting,
            Ok(None) => {
                asked(self.note_waiting(key, connected)).await.err().unwrap_or(EnterError::Waiting(FIRST_PAUSE))
            }
            Err(error) => error,
        }
    }

    /// Records the claims of a waiting key, for the operator's decision.
    async fn note_waiting(&self, key: PublicKey, connected: &ConnectedSession) -> Result<(), RecordsError> {
        // Only its own key: a predecessor has made no claims here.
        let alone = ConnectedSession { keys: vec![key.to_string()], ..connected.clone() };
        self.records.connected(&alone).await?;
        self.records.disconnected(&alone.session, unix_ms(), "it waits for an operator").await
    }

    /// Loads operators' decisions from the records, and notifies the sessions at once.
    ///
    /// # Errors
    /// The records cannot be read.
    pub async fn follow_decisions(&self) -> Result<(), RecordsError> {
        // One at a time: older data must not overwrite newer.
        let _one = self.access.following.lock().await;
        let decided = self.records.decided().await?;
        let keys = decided.into_iter().filter_map(|(key, decision)| Some((key.parse().ok()?, decision)));
        let decided: KeyDecisions = keys.collect();
        self.access.waiting.settle(&decided);
        self.access.allowed.decide(decided);
        Ok(())
    }

    /// Follows operators' actions at other validators of the same records, for ever.
    pub async fn follow_operators(self: std::sync::Arc<Self>) {
        let mut last = None;
        loop {
            tokio::time::sleep(FOLLOW_INTERVAL).await;
            // A failed read is repeated later; the outage is logged where verdicts are written.
            let Ok((now, has_acted)) = self.records.actions_since(last.unwrap_or(0)).await else { continue };
            if (last.is_some() && !has_acted) || self.follow_decisions().await.is_ok() {
                last = Some(now);
            }
        }
    }

    /// The seat of a miner with this chain of keys, oldest first: the first key that the records know.
    ///
    /// # Errors
    /// [`EnterError::NoRecords`].
    pub async fn seat(&self, chain: &[String]) -> Result<PublicKey, EnterError> {
        let mut seat = chain.first().cloned();
        for key in chain {
            if let Some(known) = asked(self.records.miner_id(key)).await? {
                seat = Some(known);
                break;
            }
        }
        seat.and_then(|seat| seat.parse().ok()).ok_or(EnterError::NoRecords)
    }

    pub async fn is_attested(&self, seat: PublicKey) -> Result<bool, EnterError> {
        let record = asked(self.records.miner(&seat.to_string())).await?;
        Ok(record.is_some_and(|record| record.standing().state.is_attested()))
    }

    /// Records an admitted miner and its session; returns the miner's record.
    ///
    /// # Errors
    /// [`EnterError::NoRecords`], or a decision against it in the records that memory did not have yet.
    pub async fn note_connected(&self, connected: &ConnectedSession) -> Result<MinerRecord, EnterError> {
        let record = asked(self.records.connected(connected)).await?;
        let refused = match record.status {
            Approval::Suspended => AdmissionError::Suspended,
            Approval::Revoked => AdmissionError::Revoked,
            Approval::Approved if !self.has_newest(&record) => {
                // The approval is of this key from now on.
                asked(self.follow_decisions()).await?;
                return Ok(record);
            }
            Approval::Approved | Approval::Pending => return Ok(record),
        };
        // Its two records may have been merged just now, with the state of the other one.
        if let Some(word) = unheeded(record.status, false, record.standing().state) {
            asked(self.fleet.happened(&record.id, &Event::Operator(word))).await?;
        }
        asked(self.records.disconnected(&connected.session, unix_ms(), "an operator keeps it out")).await?;
        asked(self.follow_decisions()).await?;
        Err(EnterError::NotAllowed(refused))
    }

    fn has_newest(&self, record: &MinerRecord) -> bool {
        record.key.parse().is_ok_and(|key| self.access.allowed.lists().is_newest_approved(&key))
    }
}

/// The pause of a key by its waiting time: half of it, within bounds.
fn pause(waited_ms: i64) -> Duration {
    let waited = Duration::from_millis(u64::try_from(waited_ms).unwrap_or_default());
    (waited / 2).clamp(FIRST_PAUSE, OPERATOR_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_longer_asks_less_often() {
        assert_eq!(pause(-5), FIRST_PAUSE);
        assert_eq!(pause(1000), FIRST_PAUSE);
        assert_eq!(pause(20_000), Duration::from_secs(10));
        assert_eq!(pause(i64::MAX), OPERATOR_PAUSE);
    }
}
