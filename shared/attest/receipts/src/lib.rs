//! Signed receipts of verdicts: EAT attestation results (EAR, draft-ietf-rats-ear-04) as JSON Web Tokens, signed with
//! Ed25519 (RFC 8037), by a key apart from the one that sessions use. docs/receipts.md explains every claim.
//!
//! ```text
//! Verdict -> Subject -> Signer::issue -> Receipt { token } -> verify(token, KeySet, ReceiptExpectations) -> Claims
//! ```

#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod claims;
mod compare;
mod keys;
mod nonce;
mod period;
mod signer;
mod subject;
#[cfg(test)]
mod tests;
mod verify;

pub use claims::{
    Appraisal, AttesterClaims, BoundClaim, Claims, DeviceResult, FindingClaim, HostResult, ProvenClaims, ReasonClaim,
    Soundness, Submods, Tier, TrustVector, VerifierId, device_label,
};
pub use compare::{
    ComparedItem, ComparedRow, ComparedValue, Comparison, ComparisonError, ComparisonResult, ComparisonRules, compare,
};
pub use keys::{KeySet, KeySetError, MAX_KEY_SET_BYTES, key_id};
pub use nonce::{EatNonce, MAX_NONCE_BYTES, MAX_NONCE_CHARS, MIN_NONCE_BYTES, NonceError};
pub use period::{
    DayProof, DevicePeriod, KeyUse, KindRange, PeriodChange, PeriodReport, ProofGap, Stated, StatedRange, Unproven,
};
pub use signer::{Receipt, ReceiptIssueError, Signer, SignerError, key_set_file};
pub use subject::{STATE_PASSING, Subject, SubjectFinding};
pub use verify::{MAX_TOKEN_BYTES, ReceiptError, ReceiptExpectations, read_trusted, verify};
