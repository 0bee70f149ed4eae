//! The common parts of both programs around their work: settings, logs, exit codes, signals, tables.

#![forbid(unsafe_code)]

pub mod address;
pub mod blocking;
pub mod clock;
pub mod exit;
pub mod file;
pub mod help;
pub mod lock;
pub mod logging;
pub mod manager;
pub mod paths;
pub mod prefix;
pub mod private_memory;
pub mod progress;
pub mod reload;
pub mod render;
pub mod settings;
pub mod shutdown;
pub mod span;
pub mod standard_error;
pub mod utc;
