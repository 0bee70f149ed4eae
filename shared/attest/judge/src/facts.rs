//! Facts that a verdict is checked against beside the work itself: profiles of models, the fleet's own speeds,
//! identities.
//!
//! The facts are gathered first; the findings are a pure function of them, so that a verdict can be judged again later.

use std::collections::{BTreeMap, BTreeSet};

use assay_policy::bands::{Basis, Reference};
use assay_policy::finding::{dispute, enforce};
use assay_policy::identity::IdentityFinding;
use assay_policy::policy::BandPolicy;
use assay_policy::{BandFinding, Distribution, FindingCode, Profile};
use assay_protocol::verdict::{Outcome, Verdict};
use assay_work::DeviceId;
use serde::{Deserialize, Serialize};

/// The facts known when a verdict is checked against the fleet.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FleetFacts {
    /// Policy for judging speed.
    pub bands: BandPolicy,
    /// The share of the devices' memory that the challenge was meant to fill; `None` where a number of matrices was
    /// asked for.
    pub fill_share: Option<f64>,
    /// The profiles of the models that devices claim, by that claim.
    pub profiles: BTreeMap<String, Profile>,
    /// The speeds of the fleet's models, without the hosts of this miner's operator.
    pub speeds: BTreeMap<String, Distribution>,
    /// Model names of devices whose claimed name is ambiguous.
    pub models: BTreeMap<DeviceId, String>,
    /// Findings about the identity of this miner.
    pub identity: Vec<IdentityFinding>,
}

/// A finding about a miner, made with a verdict.
#[derive(Debug, Clone, PartialEq)]
pub struct FleetFinding {
    pub code: FindingCode,
    /// The device that the finding names.
    pub device_id: Option<DeviceId>,
    /// Key of the other miner, where two are concerned.
    pub other: Option<String>,
    /// The circumstances, with figures.
    pub detail: String,
    /// Whether it makes the verdict a fail.
    pub enforced: bool,
    /// Whether it makes a pass disputed.
    pub disputed: bool,
}

impl FleetFacts {
    /// Checks a verdict against the facts: enforced findings become its reasons. Returns all findings.
    pub fn judge(&self, verdict: &mut Verdict) -> Vec<FleetFinding> {
        let identity = self.identity.iter().map(|finding| FleetFinding {
            code: finding.code,
            device_id: finding.device_id,
            other: finding.other.clone(),
            detail: finding.detail.clone(),
            enforced: finding.enforced,
            disputed: finding.disputed,
        });
        let mut found: Vec<_> = identity.collect();
        // Figures are shown where the work held, and only then.
        if verdict.outcome == Outcome::Pass {
            found.extend(self.speed(verdict));
        }
        for FleetFinding { code, device_id, detail, enforced, disputed, .. } in &found {
            if *enforced {
                enforce(verdict, *code, *device_id, detail);
            } else if *disputed {
                dispute(verdict, *device_id, detail);
            }
        }
        found
    }

    /// Takes into account a round of this miner: with the members that had committed when the probes went out, as one
    /// device cannot answer for two; and with those that had not and hold no attestation. One device has one
    /// attestation then, and declining keeps none from another miner.
    pub fn settle(&mut self, committed: &BTreeSet<String>, unattested: &BTreeSet<String>) {
        for finding in self.identity.iter_mut().filter(|finding| finding.disputed) {
            let Some(other) = &finding.other else { continue };
            let why = match (committed.contains(other), unattested.contains(other)) {
                (true, _) => "; both are asked in one round",
                (_, true) => "; asked in the same round, it did not commit, and it is not attested",
                _ => continue,
            };
            finding.disputed = false;
            finding.detail.push_str(why);
        }
    }

    /// Findings about the speed of each device.
    fn speed(&self, verdict: &Verdict) -> Vec<FleetFinding> {
        let known = Reference {
            models: &self.models,
            profiles: &self.profiles,
            fleets: &self.speeds,
            precision: verdict.precision,
        };
        let findings = known.judge(&verdict.devices, verdict.n, self.fill_share, &self.bands);
        findings.into_iter().map(FleetFinding::from).collect()
    }
}

impl From<BandFinding> for FleetFinding {
    fn from(finding: BandFinding) -> Self {
        let BandFinding { code, device_id, basis, detail, enforced } = finding;
        let basis = match basis {
            Basis::Profile => "profile",
            Basis::Fleet => "fleet",
        };
        Self {
            code,
            device_id: Some(device_id),
            other: None,
            detail: format!("{basis}: {detail}"),
            enforced,
            disputed: false,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use assay_protocol::verdict::ReasonCode;
    use assay_work::{ChallengeId, PublicKey};

    pub(crate) fn pass() -> Verdict {
        let keys = (PublicKey([2; 32]), PublicKey([3; 32]));
        let verdict = Verdict::without_work(ChallengeId([1; 16]), keys.0, keys.1, Vec::new(), 0);
        Verdict { n: 256, iterations: 1, ..verdict }
    }

    #[test]
    fn the_time_of_a_challenge_is_that_of_its_work_and_probes() {
        let mut verdict = pass();
        assert_eq!(verdict.timed_seconds(), 0.0, "nothing was committed to");
        (verdict.whole.seconds, verdict.whole.probe_seconds) = (2.0, 0.5);
        verdict.digests_ms = Some(7000.0);
        assert_eq!(verdict.timed_seconds(), 2.5, "digests and openings take as long as the miner likes");
    }

    #[test]
    fn whose_a_disputed_device_is_shows_in_a_round_of_both() {
        let finding = IdentityFinding {
            code: FindingCode::DeviceAtTwoMiners,
            miner: "a".to_owned(),
            other: Some("b".to_owned()),
            device_id: None,
            detail: "the miner b shows it at the same time".to_owned(),
            enforced: false,
            disputed: true,
        };
        let facts = FleetFacts { identity: vec![finding], ..FleetFacts::default() };
        let judged = |facts: &FleetFacts| {
            let mut verdict = pass();
            let found = facts.judge(&mut verdict);
            assert_eq!(found.len(), 1, "it is told all the same");
            (verdict.outcome, verdict.reasons.into_iter().map(|reason| reason.code).collect::<Vec<_>>())
        };
        let open = (Outcome::Inconclusive, vec![ReasonCode::DeviceDisputed]);
        assert_eq!(judged(&facts), open);
        let among = |committed: &[&str], unattested: &[&str]| {
            let mut facts = facts.clone();
            let set = |members: &[&str]| members.iter().map(|member| (*member).to_owned()).collect();
            facts.settle(&set(committed), &set(unattested));
            judged(&facts)
        };
        assert_eq!(among(&["a", "c"], &["d"]), open, "a round without the other shows nothing");
        assert_eq!(among(&["a", "b"], &[]), (Outcome::Pass, vec![]));
        assert_eq!(
            among(&["a"], &["b"]),
            (Outcome::Pass, vec![]),
            "whoever declines and is not attested disputes nothing"
        );
    }
}
