//! The one place that decides which statements a receipt makes of a verdict.
//!
//! Figures are stated where all that was checked held, and nowhere else. No status is `affirming` unless the verdict is
//! a pass that showed memory, nothing enforced speaks against the host, and its attestation state is `passing`.

use assay_protocol::verdict::{Bound, DeviceWork, KindRate, LinkWork, Outcome, ReasonCode, Verdict, Work, first_rule};
use assay_work::text::printable;
use assay_work::{DeviceId, Nonce, Precision};

use crate::claims::{
    Appraisal, AttesterClaims, BoundClaim, Claims, DEVELOPER, DeviceResult, EAR_PROFILE, FindingClaim, HostResult,
    LinkedClaims, ProvenClaims, RateClaim, ReasonClaim, SUBMODULE_PROFILE, Soundness, Submods, SweepClaims, Tier,
    TrustVector, VerifierId, device_label,
};
use crate::nonce::EatNonce;

/// The attestation state in which a pass is affirmed.
pub const STATE_PASSING: &str = "passing";
/// Reasons, and findings, of one receipt: the rest is counted. The verdict has them all.
const MAX_LISTED: usize = 16;
/// Bytes of a reason's or a finding's circumstances.
const MAX_DETAIL_BYTES: usize = 256;
/// Bytes of a state, a group, a finding's code and the build of a verifier.
const MAX_WORD_BYTES: usize = 64;
/// Bytes of the id of a policy.
const MAX_POLICY_BYTES: usize = 128;
/// Bytes of a model.
const MAX_MODEL_BYTES: usize = 128;
/// Figures are given to 9 decimals: all of them are read back exactly by every reader of JSON.
const DECIMALS: f64 = 1e9;
/// The least logarithm of a probability that is stated, and the largest figure.
const LARGEST: f64 = 1e6;

/// AR4SI's value of a claim that is not made.
const NO_CLAIM: i8 = 0;
/// AR4SI's value of an instance that is recognised and not known to be compromised.
const RECOGNISED: i8 = 2;
/// AR4SI's value of hardware that passed its verification.
const HARDWARE_PASSED: i8 = 2;
/// AR4SI's value of hardware that passed its verification with a reservation.
const HARDWARE_WARNING: i8 = 32;
/// AR4SI's value of hardware that did not pass its verification.
const HARDWARE_FAILED: i8 = 96;
/// AR4SI's value of evidence whose cryptographic check failed.
const CRYPTO_FAILED: i8 = 99;

/// Something else that is known of the miner or a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubjectFinding {
    /// The code.
    pub code: String,
    /// Whether it counts against the miner.
    pub enforced: bool,
    /// The device, where one is meant.
    pub device_id: Option<DeviceId>,
    /// The circumstances, with figures.
    pub detail: String,
}

/// The subject of a receipt.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The verdict.
    pub verdict: &'a Verdict,
    /// The challenge's nonce; `None` where the host had nothing to challenge.
    pub challenge_nonce: Option<Nonce>,
    /// Whether the operator admitted this very key: by a list, a token or an approval.
    pub is_recognised: bool,
    /// The miner's attestation state after the verdict.
    pub state: &'a str,
    /// The group whose policy it was challenged by.
    pub group: &'a str,
    /// The id of the policy in force: its group, and a digest of it.
    pub policy_id: &'a str,
    /// The nonce of the client that requested the challenge.
    pub eat_nonce: Option<&'a EatNonce>,
    /// Other findings.
    pub findings: &'a [SubjectFinding],
    /// How long the receipt is to be accepted.
    pub lifetime_s: u64,
    /// Seconds since 1970.
    pub now_s: u64,
}

impl Subject<'_> {
    /// The statements of the receipt.
    pub(crate) fn claims(&self, id: String, build: &str) -> Claims {
        let devices = self.verdict.devices.iter().map(|device| (device_label(device.device_id), self.device(device)));
        let host = self.host();
        Claims {
            eat_profile: EAR_PROFILE.into(),
            iss: self.verdict.validator_key,
            sub: self.verdict.miner_key,
            jti: id,
            iat: self.now_s,
            exp: self.now_s.saturating_add(self.lifetime_s.max(1)),
            eat_nonce: self.eat_nonce.cloned(),
            ear_verifier_id: VerifierId { developer: DEVELOPER.into(), build: printable(build, MAX_WORD_BYTES) },
            // No device has a better one.
            ear_status: host.ear_status,
            submods: Submods { host, devices: devices.collect() },
        }
    }

    /// The status of the host.
    fn status(&self) -> Tier {
        let speaks_against = self.findings.iter().any(|finding| finding.enforced);
        match self.verdict.outcome {
            Outcome::Fail => Tier::Contraindicated,
            Outcome::Inconclusive => Tier::None,
            Outcome::Pass if speaks_against || !self.verdict.reasons.is_empty() => Tier::Contraindicated,
            Outcome::Pass if self.state == STATE_PASSING && self.verdict.whole.bytes_held > 0 => Tier::Affirming,
            Outcome::Pass => Tier::Warning,
        }
    }

    /// The status of a device. Of a host that fails, the devices that no reason names are not judged.
    fn device_status(&self, id: DeviceId) -> Tier {
        let failed = self.verdict.reasons.iter().any(|r| r.device_id == Some(id) && r.code.class().fails());
        let found = self.findings.iter().any(|finding| finding.enforced && finding.device_id == Some(id));
        match self.status() {
            _ if failed || found => Tier::Contraindicated,
            Tier::Contraindicated => Tier::None,
            status => status,
        }
    }

    /// Whether figures are proven: the work was checked, and all of it held.
    fn is_proven(&self) -> bool {
        self.verdict.mode.is_some() && self.verdict.work_held()
    }

    fn host(&self) -> Appraisal<HostResult> {
        let verdict = self.verdict;
        let proven = self.is_proven();
        let reasons = verdict.reasons.iter().take(MAX_LISTED).map(|reason| ReasonClaim {
            code: reason.code.name().into(),
            class: reason.code.class().name().into(),
            device_id: reason.device_id,
            detail: printable(&reason.detail, MAX_DETAIL_BYTES),
        });
        let findings = self.findings.iter().take(MAX_LISTED).map(|finding| FindingClaim {
            code: printable(&finding.code, MAX_WORD_BYTES),
            enforced: finding.enforced,
            device_id: finding.device_id,
            detail: printable(&finding.detail, MAX_DETAIL_BYTES),
        });
        Appraisal {
            eat_profile: SUBMODULE_PROFILE.into(),
            ear_status: self.status(),
            ear_appraisal_policy_ids: vec![printable(self.policy_id, MAX_POLICY_BYTES)],
            ear_trustworthiness_vector: TrustVector {
                instance_identity: Some(self.instance_identity()),
                hardware: hardware(self.status()),
            },
            eat_nonce: self.challenge_nonce.and_then(|nonce| EatNonce::of_bytes(nonce.as_bytes()).ok()),
            ear_attester_claims: None,
            ear_verifier_claims: HostResult {
                outcome: verdict.outcome.to_string(),
                state: printable(self.state, MAX_WORD_BYTES),
                group: printable(self.group, MAX_WORD_BYTES),
                challenge_id: verdict.challenge_id,
                challenged_at: verdict.unix_seconds,
                miner_key: verdict.miner_key,
                validator_key: verdict.validator_key,
                mode: verdict.mode.map(|mode| mode.name().into()),
                precision: verdict.precision,
                n: verdict.n,
                iterations: verdict.iterations,
                iterations_checked: verdict.iterations_checked,
                proven: proven.then(|| shown(&verdict.whole)),
                linked: verdict.link.as_ref().filter(|_| proven).map(linked),
                soundness: proven.then(|| Soundness {
                    work: bounds(&verdict.work_bounds),
                    iterations: bounds(&verdict.iteration_bounds),
                    memory: bounds(&verdict.probe_bounds),
                    linked: verdict.link.as_ref().map(|link| bounds(&link.bounds)).unwrap_or_default(),
                }),
                reasons: reasons.collect(),
                reasons_left_out: left_out(verdict.reasons.len()),
                findings: findings.collect(),
                findings_left_out: left_out(self.findings.len()),
                not_challenged: verdict.not_challenged.iter().map(|device| device.device_id).collect(),
                missing_devices: verdict.missing_devices.iter().map(|device| device.device_id).collect(),
            },
        }
    }

    fn other_kinds(&self, device: &DeviceWork) -> Vec<RateClaim> {
        let others = device.rates.iter().filter(|rate| rate.precision != self.verdict.precision);
        let claim = |rate: &KindRate| RateClaim {
            precision: rate.precision,
            tops: down(rate.tops),
            detour_at_most: up(rate.detour),
            challenged_at: rate.unix_seconds,
        };
        others.take(Precision::ALL.len()).map(claim).collect()
    }

    fn device(&self, device: &DeviceWork) -> Appraisal<DeviceResult> {
        let hiding = device.hiding.filter(|_| self.is_proven());
        Appraisal {
            eat_profile: SUBMODULE_PROFILE.into(),
            ear_status: self.device_status(device.device_id),
            ear_appraisal_policy_ids: Vec::new(),
            ear_trustworthiness_vector: TrustVector {
                instance_identity: None,
                hardware: hardware(self.device_status(device.device_id)),
            },
            eat_nonce: None,
            ear_attester_claims: Some(AttesterClaims { claimed_model: printable(&device.name, MAX_MODEL_BYTES) }),
            ear_verifier_claims: DeviceResult {
                proven: self.is_proven().then(|| shown(&device.work)),
                hidden_share_at_most: hiding.map(|hiding| up(hiding.share)),
                hidden_share_rests_on_shown_speed: hiding.is_some_and(|hiding| hiding.rate_is_shown_only),
                hidden_share_rule: hiding.map_or(first_rule(), |hiding| hiding.rule),
                other_kinds: if self.is_proven() { self.other_kinds(device) } else { Vec::new() },
                sweep: device.sweep.filter(|_| self.is_proven()).map(|sweep| SweepClaims {
                    gb_per_s: down(sweep.gb_per_s),
                    seconds: up(sweep.seconds),
                    hidden_share_at_most: up(sweep.share),
                }),
            },
        }
    }

    /// The category of the miner's key. A pass shows that the key signed the work; the operator says whether the key is
    /// recognised.
    fn instance_identity(&self) -> i8 {
        let is_forged = |code| matches!(code, ReasonCode::CommitmentSignature | ReasonCode::ProbeSignature);
        if self.verdict.reasons.iter().any(|reason| is_forged(reason.code)) {
            CRYPTO_FAILED
        } else if self.is_recognised && self.status() == Tier::Affirming {
            RECOGNISED
        } else {
            NO_CLAIM
        }
    }
}

/// The claim that carries a status.
const fn hardware(status: Tier) -> i8 {
    match status {
        Tier::Affirming => HARDWARE_PASSED,
        Tier::Warning => HARDWARE_WARNING,
        Tier::Contraindicated => HARDWARE_FAILED,
        Tier::None => NO_CLAIM,
    }
}

fn shown(work: &Work) -> ProvenClaims {
    ProvenClaims {
        bytes: work.bytes_held,
        tops: down(work.tops),
        seconds: up(work.seconds),
        gb_per_s: down(work.probe_gb_per_s),
        probe_seconds: up(work.probe_seconds),
    }
}

fn linked(link: &LinkWork) -> LinkedClaims {
    LinkedClaims {
        gb_per_s: down(link.gb_per_s),
        half_gb_per_s: down(link.half_gb_per_s),
        least_gb_per_s: down(link.least_gb_per_s),
        seconds: up(link.seconds),
    }
}

fn bounds(bounds: &[Bound]) -> Vec<BoundClaim> {
    let claim =
        |bound: &Bound| BoundClaim { wrong: up(bound.fraction), log2_probability_at_most: up(bound.log2_probability) };
    bounds.iter().map(claim).collect()
}

fn left_out(found: usize) -> u64 {
    found.saturating_sub(MAX_LISTED) as u64
}

/// A figure that is at least the given one. An undefined one is 0.
fn up(figure: f64) -> f64 {
    round(figure, f64::ceil)
}

/// A figure that is at most the given one. An undefined one is 0.
fn down(figure: f64) -> f64 {
    round(figure, f64::floor)
}

fn round(figure: f64, to_whole: fn(f64) -> f64) -> f64 {
    let figure = if figure.is_nan() { 0.0 } else { figure.clamp(-LARGEST, LARGEST) };
    // Not -0, which some readers take for an integer.
    to_whole(figure * DECIMALS) / DECIMALS + 0.0
}
