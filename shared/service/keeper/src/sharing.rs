//! Several validators on one database: the assignment of miners, and the challenges of a lost validator.

pub mod leases;
pub mod presence;
