//! Real daemons over real sockets: honest miners, the commands, and what happens when a peer, a worker or a device fails.
//! The programs must have been built: `cargo build --bins`.

mod commands;
mod control;
mod conversation;
mod cuda;
mod diag;
mod events;
mod gpu_check;
mod honest;
mod hook;
mod keys;
mod known_devices;
mod lifecycle;
mod logs;
mod miner_devices;
mod miner_limits;
mod miner_mistakes;
mod miner_status;
mod one_key;
mod python;
mod reload;
mod secrets;
mod service_manager;
mod several_validators;
mod sizing;
mod slow_links;
mod standard_services;
mod strangers;
mod takeover;
mod telemetry;
mod terminals;
mod texts;
mod verdict_log;
mod wgpu;
mod wgpu_faults;
mod workers;
