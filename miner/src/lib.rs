//! The miner.
