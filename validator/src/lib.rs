//! The validator daemon and its commands.

pub mod cli;
pub mod commands;
pub mod config;
pub mod device_spec;
pub mod policy;
