//! The fleet policy for judging a stored case, instead of the one of its time.

use std::sync::Arc;

use assay_policy::{FleetPolicy, Labels};
use assay_records::{Records, RecordsError};

use assay_judge::rejudge::{CaseContents, Standard, judged_by};

/// A fleet policy, with the records' data on one challenge.
#[derive(Debug, Clone)]
pub struct AlternatePolicy {
    policy: Arc<FleetPolicy>,
    /// Current labels of the miner.
    labels: Labels,
    /// Name of the kind of challenge.
    kind: String,
}

impl AlternatePolicy {
    /// Reads the data for judging a challenge by a policy.
    ///
    /// # Errors
    /// The records cannot be read.
    pub async fn of(
        policy: Arc<FleetPolicy>,
        records: &Records,
        challenge: Option<&str>,
    ) -> Result<Self, RecordsError> {
        let verdict = match challenge {
            Some(challenge) => records.verdict(challenge).await?,
            None => None,
        };
        let Some(verdict) = verdict else { return Ok(Self { policy, labels: Labels::new(), kind: String::new() }) };
        let miner = records.miner(&verdict.record.miner).await?;
        Ok(Self { policy, labels: miner.map(|miner| miner.labels).unwrap_or_default(), kind: verdict.record.kind })
    }

    /// The standard for a case: the standard of its time, with the overrides of its miner's group.
    pub fn standard(&self, case: &CaseContents) -> Standard {
        let models: Vec<_> = case.facts.models.values().map(String::as_str).collect();
        let group = self.policy.group_of(&self.labels, &models);
        let heavy = group.heavy.as_ref().map(|heavy| &heavy.kind).filter(|heavy| heavy.name == self.kind);
        let stored = &case.header.policy;
        let policy = judged_by(stored, &group.over(stored, heavy.unwrap_or(&group.light)));
        Standard { policy, bands: group.bands }
    }
}
