//! The validator: challenges the miners that are connected to it, and judges what they answer.

#![forbid(unsafe_code)]

#[cfg(not(unix))]
compile_error!("the validator needs a Unix system: operators reach it through a Unix socket");

pub mod action;
pub mod allow;
pub mod bounds;
pub mod case;
pub mod cli;
pub mod client;
pub mod clock;
pub mod commands;
pub mod config;
pub mod connection;
pub mod device_spec;
pub mod drain;
pub mod driver;
pub mod enrolment;
pub mod entropy;
pub mod events;
pub mod expectations;
pub mod fleet;
pub mod gate;
pub mod handshake;
pub mod health;
pub mod history;
pub mod http;
pub mod intake;
pub mod issue;
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
pub mod refusal;
pub mod registry;
pub mod reload;
pub mod render;
pub mod round;
pub mod run;
pub mod running;
pub mod scrape;
pub mod server;
pub mod service;
pub mod session;
pub mod sharing;
pub mod takeover;
pub mod tls;
pub mod user;
pub mod validator;
pub mod verdict_log;
pub mod verify;
pub mod waiting;
pub mod webhook;
