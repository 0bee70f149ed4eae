//! The validator: challenges the connected miners, and judges their answers.

#![forbid(unsafe_code)]

#[cfg(not(unix))]
compile_error!("the validator needs a Unix system: operators reach it through a Unix socket");

pub mod allow;
pub mod bounds;
pub mod case;
pub mod cli;
pub mod client;
pub mod clock;
pub mod commands;
pub mod config;
pub mod connection;
pub mod course;
pub mod device_spec;
pub mod drain;
pub mod driver;
pub mod enrolment;
pub mod events;
pub mod fleet;
pub mod gate;
pub mod handshake;
pub mod health;
pub mod http;
pub mod intake;
pub mod lag;
pub mod memory;
pub mod metrics;
pub mod operations;
pub mod order;
pub mod peer;
pub mod policy;
pub mod port;
pub mod preflight;
pub mod rates;
pub mod receipt;
pub mod records_setting;
pub mod registry;
pub mod reload;
pub mod render;
pub mod replay;
pub mod round;
pub mod running;
pub mod scrape;
pub mod server;
pub mod service;
pub mod sharing;
pub mod takeover;
pub mod tls;
pub mod user;
pub mod validator;
pub mod waiting;
pub mod webhook;
