//! The miner daemon and its commands.
fn main() {}
