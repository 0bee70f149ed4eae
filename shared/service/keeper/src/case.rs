//! Stored cases: captured while a challenge runs, kept within limits, judged again on demand.

pub mod again;
pub mod capture;
pub mod other;
pub mod settings;
pub mod upkeep;
