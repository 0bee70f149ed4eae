//! What both programs have around their work: settings, logs, exit codes, signals, tables.

pub mod address;
pub mod devices;
pub mod drivers;
pub mod exit;
pub mod file;
pub mod logging;
pub mod paths;
pub mod preparing;
pub mod progress;
pub mod render;
pub mod settings;
pub mod shutdown;
pub mod size;
pub mod worker;
