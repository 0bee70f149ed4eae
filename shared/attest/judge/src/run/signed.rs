//! Checks of the miner's signed values once they are complete: each checksum again, then the signature.

use assay_protocol::identity::verify;
use assay_protocol::message::SignedChecksum;
use assay_protocol::verdict::{Reason, ReasonCode};
use assay_work::commitment::{CommitmentError, DeviceEvidence, Evidence, commitment_message};
use assay_work::probe::{Answer, AnswerError, DeviceAnswer, MemoryProbe, probe_message};
use assay_work::{Challenge, Checksum};

/// Checks the complete commitment: every checksum again, then the signature.
pub(super) fn check_commitment(
    challenge: &Challenge,
    signed: &SignedChecksum,
    devices: Vec<DeviceEvidence>,
) -> Result<Evidence, Reason> {
    let SignedChecksum { challenge_id, checksum, signature, .. } = *signed;
    let evidence = Evidence { challenge_id, devices, checksum, signature: Some(signature) };
    evidence.check(challenge).map_err(|error| commitment_reason(&error))?;
    let message = commitment_message(challenge.work_key(), &checksum);
    if !verify(&challenge.fields().miner_key, &message, &signature) {
        return Err(Reason::new(ReasonCode::CommitmentSignature, "it does not hold for the key of this session"));
    }
    Ok(evidence)
}

/// Checks the complete answer: the digests, the checksum again, then the signature.
pub(super) fn check_answer(
    challenge: &Challenge,
    committed: &Checksum,
    probe: &MemoryProbe,
    signed: &SignedChecksum,
    devices: Vec<DeviceAnswer>,
) -> Result<Answer, Reason> {
    let SignedChecksum { checksum, signature, .. } = *signed;
    let answer = Answer { devices, checksum, signature: Some(signature) };
    answer.check(challenge, probe).map_err(|error| answer_reason(&error))?;
    let message = probe_message(challenge.work_key(), committed, probe, &checksum);
    if !verify(&challenge.fields().miner_key, &message, &signature) {
        return Err(Reason::new(ReasonCode::ProbeSignature, "it does not hold for the key of this session"));
    }
    Ok(answer)
}

/// Returns the reason for evidence that does not commit to its challenge.
pub fn commitment_reason(error: &CommitmentError) -> Reason {
    let code = match error {
        CommitmentError::OtherChallenge(_) => ReasonCode::CommitmentChallenge,
        CommitmentError::OtherSplit { .. } => ReasonCode::CommitmentSplit,
        CommitmentError::RootCount { .. } => ReasonCode::CommitmentRoots,
        CommitmentError::DeviceChecksum(_) | CommitmentError::Checksum => ReasonCode::CommitmentChecksum,
    };
    Reason::new(code, error.to_string())
}

/// Returns the reason for digests that do not answer their probe.
pub(super) fn answer_reason(error: &AnswerError) -> Reason {
    let code = match error {
        AnswerError::Checksum => ReasonCode::ProbeChecksum,
        _ => ReasonCode::ProbeDigests,
    };
    Reason::new(code, error.to_string())
}
