//! What the miner and the validator say to each other: messages, verdicts and their reasons, identities, claims, and
//! the wire that carries them.

#![forbid(unsafe_code)]

pub mod channel;
pub mod claims;
pub mod identity;
pub mod join_token;
pub mod key_file;
pub mod message;
pub mod signature;
pub mod successor;
pub mod verdict;
pub mod wire;
