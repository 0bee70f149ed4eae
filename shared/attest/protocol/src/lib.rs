//! The protocol between miner and validator: messages, verdicts and their reasons, identities, claims, and the wire
//! that carries them.

#![warn(missing_docs)]
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
