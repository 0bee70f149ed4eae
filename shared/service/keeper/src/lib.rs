//! The validator's state and its tasks: sessions and their challenges, the schedule, conclusions, rounds, enrolment,
//! evidence, metrics, and the operations that operators ask for. It knows no socket.

#![forbid(unsafe_code)]

pub mod allow;
pub mod course;
pub mod drain;
pub mod driver;
pub mod enrolment;
pub mod events;
pub mod evidence;
pub mod fleet;
pub mod freed_memory;
pub mod metrics;
pub mod operations;
pub mod order;
pub mod registry;
pub mod round;
pub mod running;
pub mod sharing;
pub mod sweep;
pub mod takeover;
#[cfg(test)]
mod tests;
pub mod unrecorded;
pub mod validator;
pub mod verdict_log;
pub mod waiting;
