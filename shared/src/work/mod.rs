//! `docs/WORK.md` in code: pure functions and types, no I/O, no clock, no randomness.

pub mod bytes;
pub mod challenge;
pub mod keys;

pub use bytes::{
    ChallengeId, Checksum, DeviceId, Digest, Nonce, PassKey, ProbeKey, ProbeSeed, PublicKey, Root, RoundKey, Signature,
    WorkKey,
};
pub use challenge::{Challenge, ChallengeError, Precision, Share, UncheckedChallenge};
