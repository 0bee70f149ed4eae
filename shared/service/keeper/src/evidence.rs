//! The evidence store in service: its settings, and its limits.

pub mod settings;
pub mod upkeep;
