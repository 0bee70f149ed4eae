//! The validator: challenges the connected miners, and judges their answers.

#![forbid(unsafe_code)]

#[cfg(not(unix))]
compile_error!("the validator needs a Unix system: operators reach it through a Unix socket");

pub mod cli;
pub mod commands;
pub mod config;
pub mod health;
pub mod policy;
pub mod port;
pub mod preflight;
pub mod receipt;
pub mod records_setting;
pub mod reload;
pub mod server;
pub mod service;
