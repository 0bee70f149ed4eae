//! Judges an object of the store again, and reports the differences.

use std::collections::BTreeSet;

use assay_evidence::{Digest, EvidenceError, EvidenceReader, EvidenceStore};
use assay_records::RecordsError;
use assay_work::{ChallengeId, PublicKey};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use assay_judge::case::file::{CaseError, CaseReader};
use assay_judge::rejudge::{CaseContents, Standard};

/// Reasons why a case cannot be judged again.
#[derive(Debug, thiserror::Error)]
pub enum RejudgeError {
    /// Its bytes are missing, or were changed.
    #[error(transparent)]
    Evidence(#[from] EvidenceError),
    /// Its bytes are not a case.
    #[error(transparent)]
    Case(#[from] CaseError),
    /// It belongs to another challenge than the one requested.
    #[error("it is the evidence of challenge {0}")]
    OtherChallenge(ChallengeId),
    /// Its verdict cannot be decoded.
    #[error("the verdict in it cannot be read: {0}")]
    Verdict(#[from] serde_json::Error),
    /// The records cannot be read.
    #[error(transparent)]
    Records(#[from] RecordsError),
    /// A thread of ours ended early.
    #[error("judging ended before its time: {0}")]
    Internal(#[from] tokio::task::JoinError),
}

/// Result of judging a case again.
#[derive(Debug, Clone, Serialize)]
pub struct RejudgedCase {
    pub challenge_id: ChallengeId,
    pub miner_key: PublicKey,
    /// Sending time of the challenge: seconds since 1970.
    pub unix_seconds: u64,
    /// Release that judged it at the time.
    pub program: String,
    /// Name of its object in the store.
    pub evidence: Digest,
    /// The original ruling.
    pub given: Ruling,
    /// The new ruling; `None` where the evidence ends before.
    pub now: Option<Ruling>,
    /// Whether the verdict is the same, to the bit.
    pub is_same: bool,
    /// Whether its outcome or reasons differ.
    pub changes: bool,
    /// The new verdict.
    pub verdict: Option<Box<RawValue>>,
}

/// Summary of a verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ruling {
    pub outcome: String,
    /// Reasons, unless it is a pass.
    pub reasons: Vec<RulingReason>,
}

/// Summary of a reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RulingReason {
    pub code: String,
    pub detail: String,
}

impl Ruling {
    /// Whether both have the same outcome and codes.
    pub fn agrees(&self, other: &Self) -> bool {
        let codes = |ruling: &Self| ruling.reasons.iter().map(|reason| reason.code.clone()).collect::<BTreeSet<_>>();
        self.outcome == other.outcome && codes(self) == codes(other)
    }
}

/// Judges an object again. `other` selects the policy; `None` is the policy of the time.
///
/// # Errors
/// [`RejudgeError`], with the problem of the object: no verdict is made.
pub async fn rejudge(
    store: &EvidenceStore,
    digest: Digest,
    challenge: Option<ChallengeId>,
    other: impl Fn(&CaseContents) -> Option<Standard> + Send + 'static,
) -> Result<RejudgedCase, RejudgeError> {
    let reader = store.read(&digest).await?;
    tokio::task::spawn_blocking(move || judge(reader, digest, challenge, &other)).await?
}

fn judge(
    reader: EvidenceReader,
    evidence: Digest,
    challenge: Option<ChallengeId>,
    other: &dyn Fn(&CaseContents) -> Option<Standard>,
) -> Result<RejudgedCase, RejudgeError> {
    let mut entries = CaseReader::new(reader)?;
    let case = CaseContents::read(&mut entries)?;
    let header = &case.header;
    if challenge.is_some_and(|challenge| challenge != header.challenge_id) {
        return Err(RejudgeError::OtherChallenge(header.challenge_id));
    }
    let standard = other(&case).unwrap_or_else(|| case.standard());
    let again = entries.into_inner().again().map_err(CaseError::Read)?;
    let judgement = case.judge(CaseReader::new(again)?, &standard)?;
    let (json, given) = (judgement.json(), serde_json::from_slice::<Ruling>(&case.verdict)?);
    let now = json.as_deref().map(serde_json::from_slice::<Ruling>).transpose()?;
    Ok(RejudgedCase {
        challenge_id: header.challenge_id,
        miner_key: header.miner_key,
        unix_seconds: header.unix_seconds,
        program: header.program.clone(),
        evidence,
        is_same: json.as_ref() == Some(&case.verdict),
        changes: now.as_ref().is_none_or(|now| !now.agrees(&given)),
        verdict: json.as_deref().map(serde_json::from_slice).transpose()?,
        given,
        now,
    })
}
