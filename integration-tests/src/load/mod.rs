//! Load on a validator: thousands of miners in one process, each with a key, a connection with TLS and the real miner's
//! session. Their answers are real work: they share a few processor devices, a challenge at a time each.

pub mod cost;
pub mod devices;
pub mod figures;
pub mod miner;
pub mod page;
pub mod run;
pub mod work;
