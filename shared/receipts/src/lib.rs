//! Signed receipts of verdicts: EAT attestation results (EAR) as JSON Web Tokens.

#![forbid(unsafe_code)]
