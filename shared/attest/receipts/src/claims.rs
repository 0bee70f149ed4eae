//! The statements of a receipt, as its JSON has them.
//!
//! Names and meaning are those of RFC 7519 (`iss` to `iat`), RFC 9711 (`eat_…`, `submods`) and draft-ietf-rats-ear-04
//! (`ear_…`). The verifier's findings are in `ear_verifier_claims` of a submodule; the miner's own claims are in
//! `ear_attester_claims` alone.

use std::collections::BTreeMap;

use assay_protocol::verdict::{first_rule, is_first_rule};
use assay_work::{ChallengeId, DeviceId, Precision, PublicKey};
use serde::{Deserialize, Serialize};

use crate::nonce::EatNonce;

/// The profile of attestation results, in the draft's version that this crate writes.
pub const EAR_PROFILE: &str = "tag:ietf.org,2026:rats/ear#04";
/// The profile of a submodule: the meaning of its `ear_attester_claims` and `ear_verifier_claims` (docs/receipts.md).
pub const SUBMODULE_PROFILE: &str = "urn:uuid:a7736711-5b03-4cb6-817a-af046ba8c518";
/// Who made the verifier's software.
pub const DEVELOPER: &str = "Assay";

assay_work::names! {
    /// How far the verifier vouches (draft-ietf-rats-ar4si, section 3.2, "trustworthiness tier").
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Tier {
        /// The verifier makes no assertion.
        None = "none",
        /// The checks held.
        Affirming = "affirming",
        /// The checks held, but another finding speaks against relying on it.
        Warning = "warning",
        /// The checks did not hold.
        Contraindicated = "contraindicated",
    }
}

/// Everything that a receipt states.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Claims {
    /// The profile of a receipt as a whole.
    pub eat_profile: String,
    /// The validator's session key.
    pub iss: PublicKey,
    /// The miner's key.
    pub sub: PublicKey,
    /// The receipt's id: 32 hex digits.
    pub jti: String,
    /// When it was issued, in seconds since 1970.
    pub iat: u64,
    /// From when on it must not be accepted, in seconds since 1970.
    pub exp: u64,
    /// The nonce of the client that requested the challenge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eat_nonce: Option<EatNonce>,
    /// The verifier's software.
    pub ear_verifier_id: VerifierId,
    /// The worst status of the submodules.
    pub ear_status: Tier,
    /// The host and its devices.
    pub submods: Submods,
}

/// The verifier's software (draft-ietf-rats-ar4si, section 3.3).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifierId {
    /// Who made it.
    pub developer: String,
    /// The program and its version.
    pub build: String,
}

/// The host as a whole, and each device that was challenged under `device-` and its id.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Submods {
    /// The host.
    pub host: Appraisal<HostResult>,
    /// The devices, by [`device_label`].
    #[serde(flatten)]
    pub devices: BTreeMap<String, Appraisal<DeviceResult>>,
}

/// The label of a device's submodule.
pub fn device_label(id: DeviceId) -> String {
    format!("device-{id}")
}

/// The result for one attester (draft-ietf-rats-ear-04, section 3.1).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Appraisal<R> {
    /// The profile of a submodule.
    pub eat_profile: String,
    /// How far the verifier vouches.
    pub ear_status: Tier,
    /// The policies that it was appraised by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ear_appraisal_policy_ids: Vec<String>,
    /// The categories of AR4SI, on most of which the work gives no evidence.
    pub ear_trustworthiness_vector: TrustVector,
    /// The challenge's nonce, which the evidence is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eat_nonce: Option<EatNonce>,
    /// The miner's claims about itself, unchecked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ear_attester_claims: Option<AttesterClaims>,
    /// The verifier's findings.
    pub ear_verifier_claims: R,
}

/// Claims of the trustworthiness vector (draft-ietf-rats-ar4si, section 2.3). Those that are left out are "no claim".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrustVector {
    /// Whether the miner's key is known, and signed the work: 2, 0 or 99.
    #[serde(rename = "instance-identity", default, skip_serializing_if = "Option::is_none")]
    pub instance_identity: Option<i8>,
    /// The tier of the submodule's status, by the hardware's results and not by its kind: 2, 32, 96 or 0.
    pub hardware: i8,
}

/// A miner's claims about a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttesterClaims {
    /// Its model.
    pub claimed_model: String,
}

/// The findings about the host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostResult {
    /// `pass`, `fail` or `inconclusive`.
    pub outcome: String,
    /// The miner's attestation state after the verdict.
    pub state: String,
    /// The group whose policy it was challenged by.
    pub group: String,
    /// The challenge.
    pub challenge_id: ChallengeId,
    /// When it was sent, in seconds since 1970.
    pub challenged_at: u64,
    /// The miner's key, which signed the work.
    pub miner_key: PublicKey,
    /// The validator's key, which the work is bound to.
    pub validator_key: PublicKey,
    /// How the work was checked; absent where it did not come so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// The kind of work, by its number in docs/WORK.md; absent where it is 1, INT8.
    #[serde(default, skip_serializing_if = "is_int8")]
    pub precision: Precision,
    /// Rows of a matrix.
    pub n: u32,
    /// Passes of each device.
    pub iterations: u32,
    /// Passes of each device that were checked.
    pub iterations_checked: u32,
    /// The results of all devices together; absent where the work did not hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proven: Option<ProvenClaims>,
    /// The devices' results on the memory of one another; absent where no linked probe was answered and held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linked: Option<LinkedClaims>,
    /// How likely wrong work would have passed; absent where the work did not hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soundness: Option<Soundness>,
    /// Why it is not a pass.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<ReasonClaim>,
    /// How many further reasons there are.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reasons_left_out: u64,
    /// Other findings about the miner or its devices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<FindingClaim>,
    /// How many further findings there are.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub findings_left_out: u64,
    /// Devices that the miner lists and that were not challenged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_challenged: Vec<DeviceId>,
    /// Devices that the key showed before and that took no part.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_devices: Vec<DeviceId>,
}

/// The findings about a device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeviceResult {
    /// Its results; absent where the work did not hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proven: Option<ProvenClaims>,
    /// The share of its memory that may have been elsewhere, rounded up. It is taken off the proven bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hidden_share_at_most: Option<f64>,
    /// Whether that share rests on the speed that the device chose to show.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hidden_share_rests_on_shown_speed: bool,
    /// The rule that bounds that share, by its number in docs/verdicts.md; absent where it is 1, the first.
    #[serde(default = "first_rule", skip_serializing_if = "is_first_rule")]
    pub hidden_share_rule: u32,
    /// The rates that it showed in other kinds of work, each in the last challenge of its kind that it passed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_kinds: Vec<RateClaim>,
    /// Its memory read whole and in order; absent where no sweep was answered and held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<SweepClaims>,
}

/// The results that a sweep proves. Figures are rounded down.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SweepClaims {
    /// 10⁹ bytes a second, read in order, over `seconds`.
    pub gb_per_s: f64,
    /// From the sweep out to its answer in, by the validator's clock. Rounded up.
    pub seconds: f64,
    /// The share of the memory that may have been elsewhere meanwhile, rounded up.
    pub hidden_share_at_most: f64,
}

/// A rate in a kind of work. It can be understated, never overstated.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RateClaim {
    /// The kind of work, by its number.
    pub precision: Precision,
    /// 10¹² operations a second of this kind, rounded down.
    pub tops: f64,
    /// By how much a known detour over another unit may be faster than the unit made for the kind: 1 or more.
    pub detour_at_most: f64,
    /// When the challenge was sent, in seconds since 1970.
    pub challenged_at: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_int8(precision: &Precision) -> bool {
    *precision == Precision::Int8
}

/// The results that the work proves. Figures are rounded down.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ProvenClaims {
    /// Bytes that were in memory at once.
    pub bytes: u64,
    /// 10¹² operations a second, over `seconds`.
    pub tops: f64,
    /// From the challenge out to the commitment in, of a device to its word, by the validator's clock. Rounded up.
    pub seconds: f64,
    /// 10⁹ bytes a second, read at random addresses of these bytes, over `probe_seconds`.
    pub gb_per_s: f64,
    /// From the probe out to its answer in, of a device to its word, by the validator's clock. Rounded up.
    pub probe_seconds: f64,
}

/// The results that a linked probe proves. Figures are rounded down.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LinkedClaims {
    /// 10⁹ bytes a second into each device from the others, in the mean, over `seconds`.
    pub gb_per_s: f64,
    /// The least that a network carries each way, had two hosts half of the slots each.
    pub half_gb_per_s: f64,
    /// The same, were the device with the fewest slots alone in another host.
    pub least_gb_per_s: f64,
    /// From the linked probe out to its answer in, by the validator's clock. Rounded up.
    pub seconds: f64,
}

/// The probability that a host would have passed although a fraction of the checked work was wrong.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Soundness {
    /// Bounds for the products.
    pub work: Vec<BoundClaim>,
    /// Of the passes; empty where all were checked.
    pub iterations: Vec<BoundClaim>,
    /// Of the lines in memory.
    pub memory: Vec<BoundClaim>,
    /// Bounds for the lines of the linked probe; absent without one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub linked: Vec<BoundClaim>,
}

/// One bound.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BoundClaim {
    /// The fraction that was wrong.
    pub wrong: f64,
    /// log2 of the probability, rounded up.
    pub log2_probability_at_most: f64,
}

/// One reason behind an outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReasonClaim {
    /// The code, as docs/verdicts.md lists it.
    pub code: String,
    /// The party to blame.
    pub class: String,
    /// The device, where one is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_id: Option<DeviceId>,
    /// The circumstances, with figures.
    pub detail: String,
}

/// Something else that is known of the miner or a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FindingClaim {
    /// The code.
    pub code: String,
    /// Whether it counts against the miner. Else it is only recorded.
    pub enforced: bool,
    /// The device, where one is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_id: Option<DeviceId>,
    /// The circumstances, with figures.
    pub detail: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}
