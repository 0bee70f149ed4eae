//! What runs beside the challenges: evidence goes to its bucket, and what is too old or too much is removed.

use std::collections::HashSet;
use std::time::{Duration, SystemTime};

use assay_evidence::{Digest, EvidenceError, EvidenceStore, Limits, Swept};
use assay_observe::prometheus::IntCounter;
use assay_records::{Records, RecordsError};

use crate::clock::unix_ms;

/// How often a bucket is given what waits for it.
const DELIVER_INTERVAL: Duration = Duration::from_secs(10);
/// How often the limits are applied.
const SWEEP_INTERVAL: Duration = Duration::from_secs(3600);

/// Why the limits could not be applied.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// The evidence.
    #[error(transparent)]
    Evidence(#[from] EvidenceError),
    /// The records, which say what is needed.
    #[error(transparent)]
    Records(#[from] RecordsError),
}

/// Uploads for ever what waits for the bucket, and counts what fails. Says so when that stops or goes on again.
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

/// Applies the limits for ever.
pub async fn sweep_at_intervals(store: EvidenceStore, records: Records, limits: Limits) {
    loop {
        match sweep(&store, &records, &limits, SystemTime::now()).await {
            Ok(Swept { removed, removed_bytes, kept, kept_bytes, bytes_over }) => {
                if bytes_over > 0 {
                    tracing::warn!(bytes_over, kept, kept_bytes, "evidence is above its limit: states rest on it");
                }
                if !removed.is_empty() {
                    tracing::info!(
                        removed = removed.len(),
                        removed_bytes,
                        kept,
                        kept_bytes,
                        "old evidence was removed"
                    );
                }
            }
            Err(error) => tracing::error!(%error, "the limits of evidence could not be applied"),
        }
        tokio::time::sleep(SWEEP_INTERVAL).await;
    }
}

/// Applies the limits once. What an attestation state rests on stays.
///
/// # Errors
/// [`SweepError`]. Without an answer of the records nothing is removed.
pub async fn sweep(
    store: &EvidenceStore,
    records: &Records,
    limits: &Limits,
    now: SystemTime,
) -> Result<Swept, SweepError> {
    let needed = records.needed_evidence().await?;
    let needed: HashSet<Digest> = needed.iter().filter_map(|digest| digest.parse().ok()).collect();
    let swept = store.sweep(limits, &|digest| needed.contains(digest), now).await?;
    for digest in &swept.removed {
        records.evidence_dropped(&digest.to_string(), unix_ms()).await?;
    }
    Ok(swept)
}
