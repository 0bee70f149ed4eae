//! The miner.
pub mod session;
