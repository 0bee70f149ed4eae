//! A verdict, and all that becomes known with it.

use assay_protocol::verdict::Verdict;

use crate::{CommitmentRecord, EvidenceRecord, FindingRecord, ReceiptRecord, Transition};
use assay_policy::DeviceRate;

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
    pub shown: Vec<DeviceRate>,
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
