//! Judges an object of the store again, and says what changes.

use std::collections::BTreeSet;

use assay_evidence::{Digest, EvidenceError, EvidenceReader, EvidenceStore};
use assay_records::RecordsError;
use assay_work::{ChallengeId, PublicKey};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::file::{CaseError, CaseReader};
use super::rejudge::{Case, Standard};

/// Why a case cannot be judged again.
#[derive(Debug, thiserror::Error)]
pub enum RejudgeError {
    /// Its bytes cannot be had, or are not those that were kept.
    #[error(transparent)]
    Evidence(#[from] EvidenceError),
    /// They are no case.
    #[error(transparent)]
    Case(#[from] CaseError),
    /// It is the case of another challenge than the one that names it.
    #[error("it is the evidence of challenge {0}")]
    OtherChallenge(ChallengeId),
    /// The verdict in it is no verdict.
    #[error("the verdict in it cannot be read: {0}")]
    Verdict(#[from] serde_json::Error),
    /// The records do not say whose it is.
    #[error(transparent)]
    Records(#[from] RecordsError),
    /// A thread of ours ended before its time.
    #[error("judging ended before its time: {0}")]
    Internal(#[from] tokio::task::JoinError),
}

/// What a case gives when it is judged again.
#[derive(Debug, Clone, Serialize)]
pub struct Rejudged {
    /// The challenge.
    pub challenge_id: ChallengeId,
    /// The miner.
    pub miner_key: PublicKey,
    /// When the challenge was sent: seconds since 1970.
    pub unix_seconds: u64,
    /// The release that judged it then.
    pub program: String,
    /// Its name in the store.
    pub evidence: Digest,
    /// What was given.
    pub given: Ruling,
    /// What it would be; `None` where the evidence ends before.
    pub now: Option<Ruling>,
    /// Whether the verdict is the same, to the bit.
    pub is_same: bool,
    /// Whether its outcome or its reasons are others.
    pub changes: bool,
    /// The verdict that it would be.
    pub verdict: Option<Box<RawValue>>,
}

/// A verdict in short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ruling {
    /// The outcome.
    pub outcome: String,
    /// Why, when not a pass.
    pub reasons: Vec<RulingReason>,
}

/// A reason in short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RulingReason {
    /// Its code.
    pub code: String,
    /// The circumstances.
    pub detail: String,
}

impl Ruling {
    /// Whether both have one outcome for the same codes.
    #[must_use]
    pub fn agrees(&self, other: &Self) -> bool {
        let codes = |ruling: &Self| ruling.reasons.iter().map(|reason| reason.code.clone()).collect::<BTreeSet<_>>();
        self.outcome == other.outcome && codes(self) == codes(other)
    }
}

/// Judges an object again. `other` gives what to judge by; `None` is what judged at the time.
///
/// # Errors
/// [`RejudgeError`]: what is wrong with the object. Nothing is judged then.
pub async fn rejudge(
    store: &EvidenceStore,
    digest: Digest,
    challenge: Option<ChallengeId>,
    other: impl Fn(&Case) -> Option<Standard> + Send + 'static,
) -> Result<Rejudged, RejudgeError> {
    let reader = store.read(&digest).await?;
    tokio::task::spawn_blocking(move || judge(reader, digest, challenge, &other)).await?
}

fn judge(
    reader: EvidenceReader,
    evidence: Digest,
    challenge: Option<ChallengeId>,
    other: &dyn Fn(&Case) -> Option<Standard>,
) -> Result<Rejudged, RejudgeError> {
    let mut entries = CaseReader::new(reader)?;
    let case = Case::read(&mut entries)?;
    let header = &case.header;
    if challenge.is_some_and(|challenge| challenge != header.challenge_id) {
        return Err(RejudgeError::OtherChallenge(header.challenge_id));
    }
    let standard = other(&case).unwrap_or_else(|| case.standard());
    let again = entries.into_inner().again().map_err(CaseError::Read)?;
    let judgement = case.judge(CaseReader::new(again)?, &standard)?;
    let (json, given) = (judgement.json(), serde_json::from_slice::<Ruling>(&case.verdict)?);
    let now = json.as_deref().map(serde_json::from_slice::<Ruling>).transpose()?;
    Ok(Rejudged {
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
