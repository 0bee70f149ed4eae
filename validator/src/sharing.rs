//! Several validators on one database: which of them schedules a miner, and what becomes of the challenges of one that
//! is lost.

pub mod leases;
pub mod presence;
