//! The miner daemon and its commands.

pub mod cli;
pub mod commands;
pub mod config;
