//! The miner: serves a validator with the devices of its host.

#![forbid(unsafe_code)]

pub mod cli;
pub mod commands;
pub mod config;
pub mod connection;
pub mod driver;
pub mod driver_disagreements;
pub mod engine;
pub mod first_byte;
pub mod health;
pub mod http2;
pub mod joining;
pub mod limits;
pub mod metrics;
pub mod metrics_endpoint;
pub mod outbox;
pub mod reach;
pub mod receipt;
pub mod reload;
pub mod render;
pub mod session;
pub mod status;
pub mod target;
pub mod telemetry;
pub mod turns;
