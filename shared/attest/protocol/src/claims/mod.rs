//! A miner's claims about its hardware: displayed, never used for a decision.

mod hardware;
mod sensors;
mod telemetry;

pub use hardware::{ConfidentialComputing, Hardware, HostClaims};
pub use sensors::{
    MAX_CLOCK_MHZ, MAX_MEMORY_BYTES, MAX_PERCENT, MAX_POWER_MW, MAX_TEMPERATURE_C, MAX_THROTTLE_REASONS, MAX_XID,
    MAX_XIDS,
};
pub use telemetry::{SensorSpread, Telemetry, ThrottleReason};
