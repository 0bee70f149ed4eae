//! Background tasks of the evidence store and the records: uploads to the bucket, and removal by age and size.

use std::collections::HashSet;
use std::time::{Duration, SystemTime};

use assay_evidence::{Digest, EvidenceError, EvidenceStore, NamedEvidence, SweepReport};
use assay_observe::prometheus::IntCounter;
use assay_program::clock::unix_ms;
use assay_records::{EvidenceShare, MAX_STRANGERS, Records, RecordsError, RemovedStrangers};

use super::settings::EvidenceConfig;

/// Interval of uploads to a bucket.
const DELIVER_INTERVAL: Duration = Duration::from_secs(10);
/// Interval of applying the limits.
const SWEEP_INTERVAL: Duration = Duration::from_secs(3600);
/// The shortest interval of applying them when evidence was refused.
const PRESSED_INTERVAL: Duration = Duration::from_secs(60);
/// The part of the limit on size, as a divisor, that a sweep leaves free.
const SWEPT_PART: u64 = 20;
/// Interval of removing strangers: at the default rate of connections some two thousand may have come.
const STRANGERS_INTERVAL: Duration = Duration::from_secs(10);

/// Reasons why the limits could not be applied.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    #[error(transparent)]
    Evidence(#[from] EvidenceError),
    /// The records, which list the evidence still needed.
    #[error(transparent)]
    Records(#[from] RecordsError),
}

/// Uploads pending evidence for ever, and counts failures. Logs when uploads stop and resume.
pub async fn deliver(store: EvidenceStore, failures: IntCounter) {
    let mut fails = false;
    loop {
        let delivered = store.deliver().await;
        failures.inc_by(delivered.is_err().into());
        match delivered {
            Ok(delivered) => {
                if std::mem::take(&mut fails) {
                    tracing::info!(objects = delivered.objects, "the evidence store takes evidence again");
                }
            }
            Err(error) if !fails => {
                fails = true;
                tracing::error!(store = %store.location(), %error, "evidence waits on this machine");
            }
            Err(error) => tracing::debug!(%error, "evidence still waits"),
        }
        tokio::time::sleep(DELIVER_INTERVAL).await;
    }
}

/// Applies the limits for ever: at intervals, and when the store was full.
pub async fn sweep_at_intervals(store: EvidenceStore, records: Records, mut config: EvidenceConfig) {
    // Leaves room for new evidence until the next sweep.
    config.limits.max_bytes = config.limits.max_bytes.map(|most| most - most / SWEPT_PART);
    let mut told = 0;
    loop {
        match sweep(&store, &records, &config, SystemTime::now()).await {
            Ok(SweepReport { removed, removed_bytes, kept, kept_bytes, bytes_over, failure: _ }) => {
                if bytes_over > 0 {
                    tracing::warn!(bytes_over, kept, kept_bytes, "evidence is above its limit: states rest on it");
                }
                if !removed.is_empty() {
                    let removed = removed.len();
                    tracing::info!(removed, removed_bytes, kept, kept_bytes, "old evidence was removed");
                }
            }
            Err(error) => tracing::error!(%error, "the limits of evidence and verdicts could not be applied"),
        }
        let pressed = async {
            tokio::time::sleep(PRESSED_INTERVAL).await;
            store.pressed().await;
        };
        let _ = tokio::time::timeout(SWEEP_INTERVAL, pressed).await;
        let all = store.refused();
        let refused = all - std::mem::replace(&mut told, all);
        if refused > 0 {
            tracing::warn!(refused, "evidence was not kept: its limits, or the disk, leave no room");
        }
    }
}

/// Removes excess strangers from the records for ever, with their evidence: miners without a decision and without work
/// that held.
pub async fn remove_strangers(store: EvidenceStore, records: Records) {
    loop {
        loop {
            match records.remove_strangers(MAX_STRANGERS, unix_ms()).await {
                Ok(removed) if removed.miners == 0 => break,
                Ok(RemovedStrangers { miners, evidence }) => {
                    tracing::debug!(miners, "miners that never showed work were removed from the records");
                    for digest in evidence.iter().filter_map(|digest| digest.parse().ok()) {
                        if let Err(error) = store.remove(&digest).await {
                            tracing::debug!(%error, "evidence of a miner that was removed stays until it is old");
                        }
                    }
                }
                Err(error) => {
                    tracing::debug!(%error, "miners that never showed work are removed later");
                    break;
                }
            }
        }
        tokio::time::sleep(STRANGERS_INTERVAL).await;
    }
}

/// Applies the limits once, and removes old verdicts and join tokens. What an attestation state rests on stays. Evidence
/// that is not in this store is another validator's, and counts for nothing.
///
/// # Errors
/// [`SweepError`]. Without an answer of the records no evidence is removed.
pub async fn sweep(
    store: &EvidenceStore,
    records: &Records,
    config: &EvidenceConfig,
    now: SystemTime,
) -> Result<SweepReport, SweepError> {
    records.remove_expired_tokens(unix_ms()).await?;
    if let Some(max_age) = config.verdicts_max_age {
        records.remove_old(max_age, unix_ms()).await?;
    }
    let needed: HashSet<Digest> =
        records.needed_evidence().await?.iter().filter_map(|digest| digest.parse().ok()).collect();
    let named = |EvidenceShare { digest, stored_bytes, miner, is_stranger }: EvidenceShare| {
        Some(NamedEvidence { digest: digest.parse().ok()?, bytes: stored_bytes.unsigned_abs(), miner, is_stranger })
    };
    let named: Vec<_> = records.evidence_shares().await?.into_iter().filter_map(named).collect();
    let mut swept = store.sweep(&config.limits, &named, &|digest| needed.contains(digest), now).await?;
    for digest in &swept.removed {
        records.evidence_dropped(&digest.to_string(), unix_ms()).await?;
    }
    swept.failure.take().map_or(Ok(swept), |error| Err(error.into()))
}

#[cfg(test)]
mod tests {
    use assay_evidence::{EvidenceLocation, StoreLimits};
    use assay_records::{EvidenceRecord, Location, RoundRecord};
    use assay_work::{ChallengeId, PublicKey};

    use super::*;

    #[tokio::test]
    async fn a_sweep_removes_what_is_older_than_verdicts_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::open(&Location::File(folder.path().join("validator.db"))).await.unwrap();
        let (location, outbox) =
            (EvidenceLocation::Folder(folder.path().join("evidence")), folder.path().join("outbox"));
        let store = EvidenceStore::open(&location, &outbox).unwrap();
        let text = || "old".to_owned();
        let (id, group, asked, validator, detail) = (text(), text(), text(), text(), text());
        let round = RoundRecord { id, group, asked, validator, begun_ms: 1, ended_ms: Some(2), detail };
        records.plan_round(&round, &[]).await.unwrap();
        for (verdicts_max_age, stays) in [(None, true), (Some(Duration::from_secs(86_400)), false)] {
            let (location, outbox, limits) = (location.clone(), outbox.clone(), StoreLimits::default());
            let config = EvidenceConfig { location, outbox, limits, verdicts_max_age };
            sweep(&store, &records, &config, SystemTime::now()).await.unwrap();
            assert_eq!(records.round("old").await.unwrap().is_some(), stays);
        }
    }

    /// Regression test: a validator noted the evidence of another one's folder, or prefix of a bucket, as removed.
    #[cfg(unix)]
    #[tokio::test]
    async fn a_sweep_leaves_the_evidence_of_other_validators() {
        let (folder, database) = (tempfile::tempdir().unwrap(), assay_records::testing::Postgres::shared().database());
        let records = Records::open(&database.location()).await.unwrap();
        let location = EvidenceLocation::Folder(folder.path().join("evidence"));
        let outbox = folder.path().join("outbox");
        let store = EvidenceStore::open(&location, &outbox).unwrap();
        let kept = {
            let mut spool = store.spool().unwrap();
            spool.write(b"own").unwrap();
            store.keep(spool.finish().unwrap(), false).await.unwrap()
        };
        for (validator, digest) in [(1, Digest([1; 32])), (2, kept.digest)] {
            let keys = [PublicKey([9; 32]), PublicKey([validator; 32])];
            let mut conclusion = crate::tests::conclusion(ChallengeId([validator; 16]), keys[0], keys[1], validator);
            let (digest, why) = (digest.to_string(), "fail".to_owned());
            conclusion.evidence = Some(EvidenceRecord { digest, bytes: 1 << 40, stored_bytes: 1 << 40, why });
            records.conclude(&conclusion).await.unwrap();
        }
        let limits = StoreLimits { max_age: None, max_bytes: Some(1 << 30) };
        store.limit(limits.max_bytes);
        let config = EvidenceConfig { location, outbox, limits, verdicts_max_age: None };
        sweep(&store, &records, &config, SystemTime::now()).await.unwrap();
        for (validator, is_dropped) in [(1, false), (2, true)] {
            let kept = records.evidence_of(&ChallengeId([validator; 16]).to_string()).await.unwrap().unwrap();
            assert_eq!(kept.dropped_ms.is_some(), is_dropped, "{validator}");
        }
        assert!(store.list().await.unwrap().is_empty());
    }
}
