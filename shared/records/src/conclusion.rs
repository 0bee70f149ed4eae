//! A verdict, and all that becomes known with it.

use assay_protocol::verdict::Verdict;
use serde::{Deserialize, Serialize};

use assay_fleet::DeviceShown;

/// A verdict, and all that becomes known with it: it is written whole or not at all.
#[derive(Debug, Clone)]
pub struct Conclusion {
    /// The verdict. It is kept as the JSON that `--json` prints.
    pub verdict: Verdict,
    /// When it was judged: milliseconds since 1970. The verdict itself says when its challenge was sent.
    pub at_ms: i64,
    /// Why the challenge was made: `schedule` or `operator`.
    pub asked: String,
    /// The group of the policy.
    pub group: String,
    /// The kind of challenge in the policy.
    pub kind: String,
    /// The round it belongs to.
    pub round: Option<String>,
    /// The session of the miner.
    pub session: String,
    /// The commitment that the miner signed.
    pub commitment: Option<CommitmentRecord>,
    /// The place of the evidence.
    pub evidence: Option<EvidenceRecord>,
    /// The basis of the miner's attestation from now on; `None` leaves it as it is.
    pub standing: Option<StandingChange>,
    /// The devices' results: the miner's memory of them from now on.
    pub shown: Vec<DeviceShown>,
    /// Findings beside the verdict.
    pub findings: Vec<FindingRecord>,
    pub receipt: Option<ReceiptRecord>,
    /// When the miner is challenged next, in milliseconds since 1970, and with which kind.
    pub next_due: Option<(i64, String)>,
    /// Device time that the challenge took, in milliseconds, over all devices.
    pub device_ms: i64,
    /// The operator of the host, from the miner's labels; empty where it has none.
    pub operator: Option<String>,
}

/// The miner's signed checksums, in hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
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

/// The basis of a miner's attestation from now on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StandingChange {
    /// The basis from which the new one was derived, empty for no basis: where the records differ by now, nothing is
    /// written. `None`: any basis.
    pub before: Option<String>,
    /// The new basis, as JSON.
    pub after: String,
    /// The change of its state.
    pub transition: Option<Transition>,
}

/// A change of a miner's attestation state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
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

/// A signed receipt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
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
