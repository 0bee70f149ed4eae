//! What a miner says of its hardware: shown, and nothing else. No value decides anything.

mod hardware;
mod telemetry;

pub use hardware::{ConfidentialComputing, Facts, Hardware};
pub use telemetry::{MAX_XIDS, Spread, Telemetry, ThrottleReason};
