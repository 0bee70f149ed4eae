//! `docs/WORK.md` in code: pure functions and types, no I/O, no clock, no randomness.

pub mod bytes;
pub mod challenge;
pub mod digest;
pub mod keys;
pub mod leaf;
pub mod product;
pub mod split;
pub mod tree;

pub use bytes::{
    ChainingValue, ChallengeId, Checksum, DeviceId, Digest, Nonce, PassKey, ProbeKey, ProbeSeed, PublicKey, Root,
    RoundKey, Signature, WorkKey,
};
pub use challenge::{Challenge, ChallengeError, Precision, Share, UncheckedChallenge};
pub use split::{SplitError, Weight, split};
