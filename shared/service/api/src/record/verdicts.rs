//! Verdicts as they were concluded, and the speeds of devices that they show.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::flat::Document;
use super::{CommitmentRecord, FindingRecord, KeptEvidence, ReceiptRecord};

/// A verdict, with its record data.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct VerdictRecord {
    /// The challenge.
    pub challenge: String,
    /// The miner's id; the key that answered is in the verdict.
    pub miner: String,
    /// When it was judged, in milliseconds since 1970.
    pub at_ms: i64,
    /// Its outcome.
    pub outcome: String,
    /// The group of the policy.
    pub group: String,
    /// The kind of challenge.
    pub kind: String,
    /// Origin of the challenge.
    pub asked: String,
    /// The round that it belongs to.
    pub round: Option<String>,
    /// Measured time of its work and probes, in milliseconds over all devices.
    pub device_ms: i64,
    /// The verdict, in the form of `--json`.
    #[schema(value_type = assay_protocol::verdict::Verdict)]
    pub verdict: Box<RawValue>,
}

/// A verdict with its related records.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct FullVerdict {
    /// The verdict.
    #[serde(flatten)]
    pub record: VerdictRecord,
    /// The session.
    pub session: String,
    /// The miner's signed checksums.
    pub commitment: Option<CommitmentRecord>,
    /// Its evidence.
    pub evidence: Option<KeptEvidence>,
    /// Further findings.
    pub findings: Vec<FindingRecord>,
    /// Its receipts.
    pub receipts: Vec<ReceiptRecord>,
}

/// The parts of a [`FullVerdict`] beside its record.
#[derive(Deserialize)]
struct FullVerdictParts {
    session: String,
    commitment: Option<CommitmentRecord>,
    evidence: Option<KeptEvidence>,
    findings: Vec<FindingRecord>,
    receipts: Vec<ReceiptRecord>,
}

impl<'de> Deserialize<'de> for FullVerdict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let document = Document::deserialize(deserializer)?;
        let FullVerdictParts { session, commitment, evidence, findings, receipts } = document.part()?;
        Ok(Self { record: document.part()?, session, commitment, evidence, findings, receipts })
    }
}
