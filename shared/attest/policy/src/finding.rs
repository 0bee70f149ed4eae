//! Findings about a miner beside its work: stable names, and the reason codes of enforced ones.

use assay_protocol::verdict::{Reason, ReasonCode, Verdict, outcome_of};
use assay_work::DeviceId;
use serde::{Deserialize, Serialize};

assay_work::names! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum FindingCode {
        /// The work took longer than the claimed model needs.
        TooSlow = "too_slow",
        /// The work was faster than the claimed model can be: more hardware than claimed.
        TooFast = "too_fast",
        /// Less memory was shown than the claimed model has.
        MemoryBelowClaim = "memory_below_claim",
        /// The probe read slower than the claimed model reads.
        BandwidthBelowClaim = "bandwidth_below_claim",
        /// The speed is that of another model.
        ModelMismatch = "model_mismatch",
        /// Two miners show the same device id at the same time.
        DeviceAtTwoMiners = "device_at_two_miners",
        /// Another miner showed this device id before.
        DeviceMoved = "device_moved",
        /// The number of devices differs from the last session.
        DeviceCountChanged = "device_count_changed",
        /// One key has sessions from two hosts at the same time.
        KeyAtTwoAddresses = "key_at_two_addresses",
    }
}

impl FindingCode {
    /// The reason code of an enforced finding; `None` for findings that are only warnings.
    pub const fn reason(self) -> Option<ReasonCode> {
        Some(match self {
            Self::TooSlow => ReasonCode::TooSlow,
            Self::TooFast => ReasonCode::TooFast,
            Self::MemoryBelowClaim => ReasonCode::MemoryBelowClaim,
            Self::BandwidthBelowClaim => ReasonCode::BandwidthBelowClaim,
            Self::ModelMismatch => ReasonCode::ModelMismatch,
            Self::DeviceAtTwoMiners => ReasonCode::DeviceAtTwoMiners,
            Self::KeyAtTwoAddresses => ReasonCode::KeyAtTwoAddresses,
            Self::DeviceMoved | Self::DeviceCountChanged => return None,
        })
    }
}

impl FindingCode {
    /// Whether it concerns speed or memory, which only work that held can show.
    pub const fn needs_work(self) -> bool {
        matches!(
            self,
            Self::TooSlow | Self::TooFast | Self::MemoryBelowClaim | Self::BandwidthBelowClaim | Self::ModelMismatch
        )
    }
}

/// Adds an enforced finding to a verdict. Findings about speed or memory are added only where the work held: a failed
/// challenge measured neither. Returns whether it was added.
pub fn enforce(verdict: &mut Verdict, code: FindingCode, device_id: Option<DeviceId>, detail: &str) -> bool {
    let Some(reason) = code.reason().filter(|_| !code.needs_work() || verdict.work_held()) else { return false };
    let reason = Reason { code: reason, detail: detail.to_owned(), device_id };
    if verdict.reasons.contains(&reason) {
        return false;
    }
    verdict.reasons.push(reason);
    verdict.outcome = outcome_of(&verdict.reasons);
    true
}

/// Turns a pass into a disputed one: another miner showed the same device, and its owner is unknown. Returns whether
/// the verdict changed.
pub fn dispute(verdict: &mut Verdict, device_id: Option<DeviceId>, detail: &str) -> bool {
    let took_part = device_id.is_none_or(|id| verdict.device(id).is_some());
    let reason = Reason { code: ReasonCode::DeviceDisputed, detail: detail.to_owned(), device_id };
    // Other reasons against the miner are not excused by it.
    let is_pass = verdict.reasons.iter().all(|other| other.code == reason.code);
    if !took_part || !is_pass || verdict.reasons.contains(&reason) {
        return false;
    }
    verdict.reasons.push(reason);
    verdict.outcome = outcome_of(&verdict.reasons);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use assay_protocol::verdict::{Class, Outcome};
    use assay_work::{ChallengeId, PublicKey};

    fn verdict(reasons: Vec<Reason>) -> Verdict {
        let keys = (PublicKey([2; 32]), PublicKey([3; 32]));
        Verdict {
            n: 2048,
            iterations: 1,
            iterations_checked: 1,
            recent_challenges: 1,
            ..Verdict::without_work(ChallengeId([1; 16]), keys.0, keys.1, reasons, 0)
        }
    }

    #[test]
    fn a_finding_has_the_name_of_its_reason_and_fails() {
        for code in FindingCode::ALL {
            if let Some(reason) = code.reason() {
                assert_eq!(reason.name(), code.name());
                assert!(reason.class().fails() && reason.leaves_work_standing(), "{code}");
                let is_short = matches!(
                    code,
                    FindingCode::TooSlow | FindingCode::MemoryBelowClaim | FindingCode::BandwidthBelowClaim
                );
                assert_eq!(reason.class(), if is_short { Class::Short } else { Class::Forged }, "{code}");
            }
            let json = serde_json::to_string(&code).unwrap();
            assert_eq!(json, format!("\"{}\"", code.name()));
        }
        let warnings = FindingCode::ALL.into_iter().filter(|code| code.reason().is_none());
        assert!(warnings.eq([FindingCode::DeviceMoved, FindingCode::DeviceCountChanged]));
    }

    #[test]
    fn an_enforced_finding_fails_a_pass_once() {
        let mut passed = verdict(Vec::new());
        assert!(enforce(&mut passed, FindingCode::TooSlow, None, "1 TOPS"));
        assert!(!enforce(&mut passed, FindingCode::TooSlow, None, "1 TOPS"), "said once");
        assert!(!enforce(&mut passed, FindingCode::DeviceMoved, None, ""), "a warning");
        assert_eq!((passed.outcome, passed.reasons.len()), (Outcome::Fail, 1));
    }

    #[test]
    fn a_disputed_device_leaves_a_pass_open_and_fails_nobody() {
        let mut passed = verdict(Vec::new());
        assert!(!dispute(&mut passed, Some(DeviceId([1; 16])), "b"), "a device that took no part");
        assert!(dispute(&mut passed, None, "b") && !dispute(&mut passed, None, "b"));
        assert_eq!((passed.outcome, passed.work_held()), (Outcome::Inconclusive, true));
        for code in [ReasonCode::Disconnected, ReasonCode::DeviceMissing] {
            let mut other = verdict(vec![Reason::new(code, "")]);
            assert!(!dispute(&mut other, None, "b"), "it was no pass");
        }
    }

    #[test]
    fn speed_is_not_judged_where_the_work_did_not_hold() {
        let mut broken = verdict(vec![Reason::new(ReasonCode::Disconnected, "")]);
        assert!(!enforce(&mut broken, FindingCode::TooSlow, None, "0 TOPS"));
        assert_eq!(broken.outcome, Outcome::Inconclusive);
        assert!(enforce(&mut broken, FindingCode::DeviceAtTwoMiners, None, ""), "an identity is known all the same");
        assert_eq!(broken.outcome, Outcome::Fail);
    }
}
