//! A verdict, and all that becomes known with it.

use assay_policy::identity::IdentityFinding;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The miner's signed checksums, in hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CommitmentRecord {
    /// Checksum over the roots.
    pub checksum: String,
    /// Signature of the commitment.
    pub signature: String,
    /// Checksum over the digests of the probe.
    pub probe_checksum: Option<String>,
    /// Signature of the probe answer.
    pub probe_signature: Option<String>,
}

/// Location of a challenge's evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EvidenceRecord {
    /// BLAKE3 of the evidence, in hexadecimal: its name in the store of evidence.
    pub digest: String,
    /// Its size in bytes.
    pub bytes: i64,
    /// Its stored, compressed size in bytes.
    pub stored_bytes: i64,
    /// Reason for keeping it: `fail`, `inconclusive` or `drawn`.
    pub why: String,
}

/// A change of a miner's attestation state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Transition {
    /// Any key of the miner.
    pub miner: String,
    /// Time of the change.
    pub at_ms: i64,
    /// The state before.
    pub from: String,
    /// The state after.
    pub to: String,
    /// A stable name of the cause.
    pub why: String,
    /// Details of the change.
    pub detail: String,
}

/// A finding about a miner that no single challenge shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FindingRecord {
    /// A stable name.
    pub code: String,
    /// Any key of the miner.
    pub miner: String,
    /// The other miner, where two are concerned.
    pub other_miner: Option<String>,
    /// The device that it concerns, if any.
    pub device_id: Option<String>,
    /// Details, with figures.
    pub detail: String,
    /// Whether it is enforced; otherwise it is only recorded.
    pub enforced: bool,
}

impl From<&IdentityFinding> for FindingRecord {
    fn from(found: &IdentityFinding) -> Self {
        Self {
            code: found.code.name().to_owned(),
            miner: found.miner.clone(),
            other_miner: found.other.clone(),
            device_id: found.device_id.map(|id| id.to_string()),
            detail: found.detail.clone(),
            enforced: found.enforced,
        }
    }
}

/// A signed receipt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReceiptRecord {
    /// Its id (`jti`).
    pub id: String,
    /// The key that signed it (`kid`).
    pub key_id: String,
    /// `iat`: seconds since 1970.
    pub issued_s: i64,
    /// `exp`: seconds since 1970.
    pub expires_s: i64,
    /// `eat_nonce`: the nonce of its requester.
    pub nonce: Option<String>,
    /// The token.
    pub token: String,
}
