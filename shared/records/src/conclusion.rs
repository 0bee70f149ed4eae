//! A verdict, and all that becomes known with it.

use assay_protocol::verdict::Verdict;
use serde::{Deserialize, Serialize};

/// A verdict, and all that becomes known with it: it is written whole or not at all.
#[derive(Debug, Clone)]
pub struct Conclusion {
    /// The verdict. It is kept as the JSON that `--json` prints.
    pub verdict: Verdict,
    /// When it was judged: milliseconds since 1970. The verdict itself says when its challenge was sent.
    pub at_ms: i64,
    /// Why the challenge was made: `schedule`, `connect`, `operator`, `round` or `renter`.
    pub asked: String,
    /// The group of the policy.
    pub group: String,
    /// The kind of challenge in the policy.
    pub kind: String,
    /// The round it belongs to.
    pub round: Option<String>,
    /// The session of the miner.
    pub session: String,
    /// What the miner signed.
    pub commitment: Option<CommitmentRecord>,
    /// Where the evidence lies.
    pub evidence: Option<EvidenceRecord>,
    /// The change of the miner's attestation state.
    pub transition: Option<Transition>,
    /// The miner's attestation state and what it rests on, as JSON; `None` leaves it as it is.
    pub standing: Option<String>,
    /// What else was found.
    pub findings: Vec<FindingRecord>,
    /// The receipt.
    pub receipt: Option<ReceiptRecord>,
    /// When the miner is challenged next, in milliseconds since 1970, and with which kind.
    pub next_due: Option<(i64, String)>,
    /// Device time that the challenge took, in milliseconds, over all devices.
    pub device_ms: i64,
    /// The operator of the host, from the miner's labels; empty where it has none.
    pub operator: Option<String>,
}

/// What a miner signed, in hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CommitmentRecord {
    /// Over the roots.
    pub checksum: String,
    /// Of the commitment.
    pub signature: String,
    /// Over the digests of the probe.
    pub probe_checksum: Option<String>,
    /// Of the probe answer.
    pub probe_signature: Option<String>,
}

/// Where the evidence of a challenge lies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct EvidenceRecord {
    /// BLAKE3 of the evidence, in hexadecimal: its name in the store of evidence.
    pub digest: String,
    /// Its size.
    pub bytes: i64,
    /// Its size as it is stored, compressed.
    pub stored_bytes: i64,
    /// Why it is kept: `fail`, `inconclusive` or `drawn`.
    pub why: String,
}

/// A change of a miner's attestation state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Transition {
    /// Any key of the miner.
    pub miner: String,
    /// When.
    pub at_ms: i64,
    /// The state before.
    pub from: String,
    /// The state after.
    pub to: String,
    /// A stable name of the cause.
    pub why: String,
    /// The circumstances.
    pub detail: String,
}

/// Something found about a miner that no single challenge shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct FindingRecord {
    /// A stable name.
    pub code: String,
    /// Any key of the miner.
    pub miner: String,
    /// The other miner, where two are concerned.
    pub other_miner: Option<String>,
    /// The device, where one is meant.
    pub device_id: Option<String>,
    /// The circumstances, with figures.
    pub detail: String,
    /// Whether it counts; else it is only recorded.
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
    /// `eat_nonce`: what a renter gave.
    pub nonce: Option<String>,
    /// The token.
    pub token: String,
}
