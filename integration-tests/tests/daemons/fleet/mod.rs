//! A fleet over months: enrolment, records, and validators that share them. Real daemons over real sockets.
//! The programs must have been built: `cargo build --bins`.

mod commands;
mod enrolment;
mod leases;
#[cfg(target_os = "linux")]
mod load;
mod operator;
mod policy;
mod remote;
mod replay_workers;
mod shared_records;
mod webhooks;
