//! The miner: serves a validator with the devices of its host.

pub mod cli;
pub mod commands;
pub mod config;
pub mod connection;
pub mod driver;
pub mod engine;
pub mod session;
pub mod telemetry;
