//! Changes of a fleet by time alone: attestations that end, quarantines that are over, missed challenges of absent
//! miners, and scheduled rounds.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use assay_policy::policy::Cadence;
use assay_policy::schedule::draw_wait;
use assay_policy::state::Word;
use assay_policy::{Event, State};
use assay_records::{Approval, MinerFilter, MinerRecord, RecordsError, ValidatorRecord};

use crate::fleet::Fleet;
use crate::fleet::schedule::uniform;
use crate::operations::rounds;
use crate::validator::Validator;
use assay_program::clock::{self, unix_ms};

/// Interval of the sweeps.
const SWEEP: Duration = Duration::from_secs(15);
/// Time in ms after which the miner of a due challenge counts as absent: longer than miners wait before they dial again.
const MISSED_AFTER_MS: i64 = 60_000;
/// Time in ms for which a validator that is away excuses the absence of its miners: longer than a night.
const AWAY_MS: i64 = 24 * 3_600_000;
/// Lease under which one of several validators sweeps the fleet.
const LEASE: &str = "sweep";

/// Records ends of sessions that the records do not have yet, and sweeps the fleet, for ever.
pub async fn keep(validator: Arc<Validator>) {
    let (mut due, mut serving_ms) = (HashMap::new(), unix_ms());
    loop {
        tokio::time::sleep(SWEEP).await;
        let fleet = &validator.fleet;
        if let Err(error) = validator.registry.unrecorded.record(&fleet.records).await {
            tracing::debug!(%error, "ends of sessions are recorded later");
            continue;
        }
        // Miners of a validator that has not come back from an outage of the database yet are not absent.
        if !fleet.records.is_steady() {
            serving_ms = unix_ms();
            continue;
        }
        let held = fleet.records.lease(LEASE, &validator.instance, SWEEP * 3).await;
        if !matches!(held, Ok(true)) {
            continue;
        }
        if let Err(error) = fleet.sweep(&validator, serving_ms).await {
            tracing::debug!(%error, "the fleet is looked through later");
        }
        begin_rounds(&validator, &mut due);
    }
}

impl Fleet {
    /// Sweeps every miner of the records once. No challenge was missed before `serving_ms`, when miners could not connect.
    ///
    /// # Errors
    /// The records cannot be read or written.
    async fn sweep(&self, validator: &Validator, serving_ms: i64) -> Result<(), RecordsError> {
        let (mut after, validators) = (None, self.records.validators().await?);
        loop {
            let filter = MinerFilter { after: after.take(), ..MinerFilter::default() };
            let miners = self.records.miners(&filter).await?;
            let Some(last) = miners.last() else { return Ok(()) };
            after = Some(last.id.clone());
            for miner in &miners {
                match self.look(validator, miner, serving_ms, &validators).await {
                    // Another event changed it just now: the next sweep handles it.
                    Err(RecordsError::StandingChanged(_)) => {}
                    looked => looked?,
                }
            }
        }
    }

    async fn look(
        &self,
        validator: &Validator,
        miner: &MinerRecord,
        serving_ms: i64,
        validators: &[ValidatorRecord],
    ) -> Result<(), RecordsError> {
        let is_revoked = miner.key.parse().is_ok_and(|key| validator.access.allowed.lists().revoked.contains(&key));
        if let Some(word) = unheeded(miner.status, is_revoked, miner.standing().state) {
            return self.happened_to(miner, &Event::Operator(word)).await;
        }
        let ages = State::named(&miner.state).is_none_or(|state| state.is_attested() || state == State::Quarantined);
        // The list was read a while ago: a miner that has come since is looked up again.
        if self.is_absent(miner, serving_ms, validators).await?
            && let Some(miner) = &self.records.miner(&miner.key).await?
            && self.is_absent(miner, serving_ms, validators).await?
        {
            self.happened_to(miner, &Event::Missed).await?;
            let group = self.group_of(miner).await?;
            self.draw_due(miner, &group, &validator.policy()).await.map(drop)
        } else if ages {
            self.happened_to(miner, &Event::Tick).await
        } else {
            Ok(())
        }
    }

    /// Whether a miner was not there for its due challenge, though it could reach the validator of its last session.
    async fn is_absent(
        &self,
        miner: &MinerRecord,
        serving_ms: i64,
        validators: &[ValidatorRecord],
    ) -> Result<bool, RecordsError> {
        let Some(due) = &miner.due else { return Ok(false) };
        let is_awaited = is_expected(miner.status, &miner.state) && miner.connected_to.is_none();
        if !is_awaited || !is_missed(due.at_ms, serving_ms, unix_ms()) {
            return Ok(false);
        }
        let since_ms = |its: &ValidatorRecord| if its.is_alive { its.started_ms } else { its.heartbeat_ms + AWAY_MS };
        let excuses = |its: &&ValidatorRecord| !is_missed(due.at_ms, since_ms(its), unix_ms());
        let excusing: Vec<_> = validators.iter().filter(excuses).map(|its| its.key.clone()).collect();
        if excusing.is_empty() {
            return Ok(true);
        }
        let last = self.records.sessions(&miner.key, 1).await?.pop();
        Ok(last.is_none_or(|last| !excusing.contains(&last.validator)))
    }
}

/// Whether a due challenge was missed, at a validator that its miner could reach since `serving_ms`.
fn is_missed(due_ms: i64, serving_ms: i64, now_ms: i64) -> bool {
    due_ms.max(serving_ms) + MISSED_AFTER_MS < now_ms
}

/// Whether the absence of a miner counts: of one that an operator admitted, and of any that is attested.
fn is_expected(status: Approval, state: &str) -> bool {
    status == Approval::Approved || State::named(state).is_some_and(State::is_attested)
}

/// A decision of operators that the state does not follow yet: by the settings, from a release without states, or about
/// a key that turned out to be the same miner's.
pub fn unheeded(status: Approval, is_revoked: bool, state: State) -> Option<Word> {
    let (is_revoked, is_suspended) = (is_revoked || status == Approval::Revoked, status == Approval::Suspended);
    match state {
        State::Revoked => (!is_revoked && !is_suspended).then_some(Word::Resume),
        _ if is_revoked => Some(Word::Revoke),
        State::Suspended => (!is_suspended).then_some(Word::Resume),
        _ => is_suspended.then_some(Word::Suspend),
    }
}

/// Begins the due rounds, and draws the times of the next ones.
fn begin_rounds(validator: &Arc<Validator>, due: &mut HashMap<String, Instant>) {
    let rules = validator.fleet.rules();
    due.retain(|name, _| rules.policy.group(name).is_some());
    for group in &rules.policy.groups {
        let Some(mean) = group.rounds.as_ref().and_then(|rounds| rounds.mean) else { continue };
        let wait = || draw_wait(&Cadence::default(), mean, uniform(&mut validator.fleet.entropy.clone()));
        let now = clock::now();
        let at = *due.entry(group.name.clone()).or_insert_with(|| now + wait());
        if now < at {
            continue;
        }
        due.insert(group.name.clone(), now + wait());
        let (validator, name) = (validator.clone(), group.name.clone());
        tokio::spawn(async move {
            if let Err(error) = rounds::of_group(&validator, &name).await {
                tracing::warn!(group = name, "no round: {error}");
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use assay_records::NextChallenge;
    use assay_work::{Nonce, PublicKey};

    use super::*;
    use crate::tests::{fleet, session};

    #[test]
    fn absence_counts_for_all_that_are_attested() {
        for status in Approval::ALL {
            for state in State::ALL {
                let counts = status == Approval::Approved || matches!(state, State::Passing | State::Suspect);
                assert_eq!(is_expected(status, state.name()), counts, "{status} {state}");
            }
        }
    }

    /// Regression test: a restart of the validator counted as the absence of miners that had not dialled again yet.
    #[test]
    fn no_challenge_is_missed_while_the_validator_is_away() {
        assert!(is_missed(1000, 0, 61_001) && !is_missed(1000, 0, 61_000));
        assert!(is_missed(1000, 500_000, 560_001) && !is_missed(1000, 500_000, 560_000));
    }

    /// Regression test: of several validators, a restart of one counted as the absence of its miners where another swept.
    #[tokio::test]
    async fn a_miner_is_excused_while_its_validator_is_away() {
        let folder = tempfile::tempdir().unwrap();
        let fleet = fleet(folder.path()).await;
        let [its, other] = [1, 2].map(|key| PublicKey([key; 32]));
        let miner = fleet.records.connected(&session(Nonce([5; 32]), PublicKey([7; 32]), its)).await.unwrap();
        let due = Some(NextChallenge { at_ms: 1, kind: String::new() });
        let miner = MinerRecord { due, connected_to: None, ..miner };
        let is_absent = async |key: PublicKey, started_ms, heartbeat_ms, is_alive| {
            let (key, [instance, address]) = (key.to_string(), [(); 2].map(|()| String::new()));
            let validator = ValidatorRecord { key, instance, address, started_ms, heartbeat_ms, is_alive };
            fleet.is_absent(&miner, 0, &[validator]).await.unwrap()
        };
        let now = unix_ms();
        assert!(is_absent(other, now, now, true).await && is_absent(its, 0, now, true).await);
        assert!(!is_absent(its, now, now, true).await, "its validator started just now");
        assert!(!is_absent(its, 0, now - AWAY_MS / 2, false).await, "its validator is away");
        assert!(is_absent(its, 0, now - AWAY_MS - MISSED_AFTER_MS - 1, false).await, "its validator is away for good");
    }

    #[test]
    fn a_state_follows_what_operators_decided() {
        for state in State::ALL {
            for status in Approval::ALL {
                for by_settings in [false, true] {
                    let expected = match (status, by_settings) {
                        (Approval::Revoked, _) | (_, true) => (state != State::Revoked).then_some(Word::Revoke),
                        // A revocation overrides a suspension.
                        (Approval::Suspended, _) => state.is_challenged().then_some(Word::Suspend),
                        _ => (!state.is_challenged()).then_some(Word::Resume),
                    };
                    assert_eq!(unheeded(status, by_settings, state), expected, "{status} {by_settings} {state}");
                }
            }
        }
    }
}
