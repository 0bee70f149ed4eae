//! Who is let in by the records: keys that operators decided about, keys with a join token, and keys that wait.
//!
//! What operators decided is kept in memory too ([`Lists::decided`](crate::allow::Lists)), so that a session hears of a
//! change at once. The records are asked before a key is turned away for what memory does not know.

use std::time::Duration;

use assay_protocol::join_token::JoinToken;
use assay_protocol::successor::Lineage;
use assay_records::{Connected, MinerRecord, RecordsError, Status};
use assay_work::PublicKey;

use crate::allow::{Decided, NotAllowed};
use crate::clock::{unix_millis, unix_seconds};
use crate::refusal::OPERATOR_PAUSE;
use crate::takeover::EnterError;
use crate::validator::Validator;

/// How long a miner that connects waits for the records.
pub const RECORDS_LIMIT: Duration = Duration::from_secs(5);
/// How soon a key that waits for an operator may ask again at first; the pause grows with the time that it has waited.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
/// How often the records are asked whether an operator did something at another validator.
const FOLLOW_INTERVAL: Duration = Duration::from_secs(1);

/// Asks the records, for a miner that waits: they have [`RECORDS_LIMIT`].
///
/// # Errors
/// [`EnterError::NoRecords`].
pub async fn asked<T>(answer: impl Future<Output = Result<T, RecordsError>>) -> Result<T, EnterError> {
    let why = match tokio::time::timeout(RECORDS_LIMIT, answer).await {
        Ok(Ok(answer)) => return Ok(answer),
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer within {RECORDS_LIMIT:?}"),
    };
    tracing::warn!("the records cannot be used for a miner that connects: {why}");
    Err(EnterError::NoRecords)
}

impl Validator {
    /// Whether a miner that proved its key is let in; where it has a join token, by that too. `is_private`: nobody in
    /// between could read the token. A key that has to wait is noted with what it said.
    ///
    /// # Errors
    /// [`EnterError`].
    pub async fn admit(
        &self,
        miner: &Lineage,
        token: Option<&JoinToken>,
        is_private: bool,
        connected: &Connected,
    ) -> Result<(), EnterError> {
        let known = match self.check(miner) {
            Ok(()) => Ok(()),
            // Another validator of the same records may have let it in since.
            Err(NotAllowed::Pending | NotAllowed::TokenNeeded) => {
                let record = asked(self.records.miner(&miner.key().to_string())).await?;
                if record.is_some_and(|record| record.status != Status::Pending) {
                    asked(self.follow_decisions()).await?;
                }
                self.check(miner)
            }
            Err(why) => Err(why),
        };
        match (known, token) {
            (Err(NotAllowed::Pending | NotAllowed::TokenNeeded) | Ok(()), Some(token)) => {
                self.redeem(miner, token, is_private, (known, connected)).await
            }
            (Err(NotAllowed::Pending), None) => Err(self.wait(miner.key(), connected).await),
            (known, _) => known.map_err(EnterError::NotAllowed),
        }
    }

    fn check(&self, miner: &Lineage) -> Result<(), NotAllowed> {
        self.admission.allowed.check(miner, unix_seconds()).map(|_| ())
    }

    /// Uses a join token, where the key is not let in by the records already.
    async fn redeem(
        &self,
        miner: &Lineage,
        token: &JoinToken,
        is_private: bool,
        (known, connected): (Result<(), NotAllowed>, &Connected),
    ) -> Result<(), EnterError> {
        let key = miner.key();
        if self.admission.allowed.is_approved(&key) {
            return known.map_err(EnterError::NotAllowed);
        }
        let refused = if is_private {
            match asked(self.records.redeem(token.secret(), &key.to_string(), unix_millis())).await? {
                Ok(labels) => {
                    asked(self.follow_decisions()).await?;
                    tracing::info!(miner = %key, ?labels, "a join token was used");
                    return self.check(miner).map_err(EnterError::NotAllowed);
                }
                Err(refusal) => NotAllowed::Token(refusal),
            }
        } else {
            NotAllowed::TokenInClear
        };
        match known {
            Ok(()) => {
                tracing::info!(miner = %key, "let in without its join token: {refused}");
                Ok(())
            }
            Err(NotAllowed::Pending) => Err(self.wait(key, connected).await),
            Err(_) => Err(EnterError::NotAllowed(refused)),
        }
    }

    /// Notes a key that waits for an operator; says when it may ask again.
    async fn wait(&self, key: PublicKey, connected: &Connected) -> EnterError {
        let address = connected.address.parse().ok();
        match asked(self.records.miner(&key.to_string())).await {
            Ok(Some(record)) => EnterError::Waiting(pause(unix_millis().saturating_sub(record.first_seen_ms))),
            Ok(None) if !self.waiting.note(key, address) => EnterError::TooManyWaiting,
            Ok(None) => {
                asked(self.note_waiting(key, connected)).await.err().unwrap_or(EnterError::Waiting(FIRST_PAUSE))
            }
            Err(error) => error,
        }
    }

    /// Notes what a key that waits says of itself, for whoever decides about it.
    async fn note_waiting(&self, key: PublicKey, connected: &Connected) -> Result<(), RecordsError> {
        // By itself: a key that it follows has decided nothing.
        let alone = Connected { keys: vec![key.to_string()], ..connected.clone() };
        self.records.connected(&alone).await?;
        self.records.disconnected(&alone.session, unix_millis(), "it waits for an operator").await
    }

    /// Takes over from the records what operators decided. Sessions hear of it at once.
    ///
    /// # Errors
    /// The records cannot be read.
    pub async fn follow_decisions(&self) -> Result<(), RecordsError> {
        // One after the other: what was read first must not be put in place last.
        let _one = self.following.lock().await;
        let decided = self.records.decided().await?;
        let keys = decided.into_iter().filter_map(|(key, status)| Some((key.parse().ok()?, status)));
        let decided: Decided = keys.collect();
        self.waiting.settle(&decided);
        self.admission.allowed.decide(decided);
        Ok(())
    }

    /// Follows what operators do at other validators of the same records, for ever.
    pub async fn follow_operators(&self) {
        let mut last = None;
        loop {
            tokio::time::sleep(FOLLOW_INTERVAL).await;
            // What cannot be read now is read later; that it cannot is said where verdicts are written.
            let Ok(newest) = self.records.actions(None, 0, 1).await else { continue };
            let newest = newest.into_iter().next().map(|action| action.id);
            if newest != last && self.follow_decisions().await.is_ok() {
                last = newest;
            }
        }
    }

    /// Notes a miner that is let in, and its session: gives what the records have of it.
    ///
    /// # Errors
    /// [`EnterError::NoRecords`], or the records say that an operator keeps it out, which memory did not know yet.
    pub async fn note_connected(&self, connected: &Connected) -> Result<MinerRecord, EnterError> {
        let record = asked(self.records.connected(connected)).await?;
        let refused = match record.status {
            Status::Suspended => NotAllowed::Suspended,
            Status::Revoked => NotAllowed::Revoked,
            Status::Approved | Status::Pending => return Ok(record),
        };
        asked(self.records.disconnected(&connected.session, unix_millis(), "an operator keeps it out")).await?;
        asked(self.follow_decisions()).await?;
        Err(EnterError::NotAllowed(refused))
    }
}

/// When a key that has waited for so long may ask again: half as long, within bounds.
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
