//! What a verdict is held against beside the work itself: profiles of models, the fleet's own speeds, identities.
//!
//! The facts are gathered first; what follows from them is a function, so that a verdict can be judged again later.

use std::collections::BTreeMap;

use assay_fleet::bands::{Basis, Known};
use assay_fleet::finding::enforce;
use assay_fleet::identity::IdentityFinding;
use assay_fleet::policy::BandPolicy;
use assay_fleet::{BandFinding, Distribution, FindingCode, Profile};
use assay_protocol::verdict::{Outcome, Verdict};
use assay_records::FindingRecord;
use assay_work::DeviceId;
use serde::{Deserialize, Serialize};

/// What is known when a verdict is held against the fleet.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FleetFacts {
    /// How speed is judged.
    pub bands: BandPolicy,
    /// The share of the devices' memory that the challenge was meant to fill; `None` where a number of matrices was
    /// asked for.
    pub fill_share: Option<f64>,
    /// The profiles of the models that devices claim, by that claim.
    pub profiles: BTreeMap<String, Profile>,
    /// The speeds of the fleet's models, without the hosts of this miner's operator.
    pub speeds: BTreeMap<String, Distribution>,
    /// The models that devices claim, where their name alone does not tell.
    pub models: BTreeMap<DeviceId, String>,
    /// What identities say of this miner.
    pub identity: Vec<IdentityFinding>,
}

/// What was found about a miner with a verdict.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// What.
    pub code: FindingCode,
    /// The device, where one is meant.
    pub device_id: Option<DeviceId>,
    /// The other miner, where two are concerned.
    pub other: Option<String>,
    /// The circumstances, with figures.
    pub detail: String,
    /// Whether it fails the miner.
    pub enforced: bool,
}

impl FleetFacts {
    /// Holds a verdict against the facts: what is enforced becomes a reason. Gives all that was found.
    pub fn judge(&self, verdict: &mut Verdict) -> Vec<Found> {
        let identity = self.identity.iter().map(|finding| Found {
            code: finding.code,
            device_id: finding.device_id,
            other: finding.other.clone(),
            detail: finding.detail.clone(),
            enforced: finding.enforced,
        });
        let mut found: Vec<_> = identity.collect();
        // Figures are shown where the work held, and only then.
        if verdict.outcome == Outcome::Pass {
            found.extend(self.speed(verdict));
        }
        for Found { code, device_id, detail, .. } in found.iter().filter(|found| found.enforced) {
            enforce(verdict, *code, *device_id, detail);
        }
        found
    }

    /// What the speed of each device says.
    fn speed(&self, verdict: &Verdict) -> Vec<Found> {
        let known = Known {
            models: &self.models,
            profiles: &self.profiles,
            fleets: &self.speeds,
            precision: verdict.precision,
        };
        let findings = known.judge(&verdict.devices, verdict.n, self.fill_share, &self.bands);
        findings.into_iter().map(Found::from).collect()
    }
}

impl From<BandFinding> for Found {
    fn from(finding: BandFinding) -> Self {
        let BandFinding { code, device_id, basis, detail, enforced } = finding;
        let basis = match basis {
            Basis::Profile => "profile",
            Basis::Fleet => "fleet",
        };
        Self { code, device_id: Some(device_id), other: None, detail: format!("{basis}: {detail}"), enforced }
    }
}

impl Found {
    /// As it is kept.
    #[must_use]
    pub fn record(&self, miner: &str) -> FindingRecord {
        FindingRecord {
            code: self.code.name().to_owned(),
            miner: miner.to_owned(),
            other_miner: self.other.clone(),
            device_id: self.device_id.map(|id| id.to_string()),
            detail: self.detail.clone(),
            enforced: self.enforced,
        }
    }
}
