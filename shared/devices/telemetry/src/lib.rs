//! The claims of a machine's management library about its devices: their hardware, and the sensors during a challenge.
//!
//! All of it is a claim, on which no verdict rests. A library that is missing, lies, fails or hangs costs the claims
//! and nothing else: one thread ([`Sampler`]) takes the readings, and no caller waits for it without a bound. Users of
//! a [`SensorWatch`] do not depend on the source of readings, nor a [`SensorSource`] on its users.

#![deny(unsafe_code)]

mod collect;
pub mod nvml;
mod reading;
mod sampler;
mod watch;
mod wear;

pub use collect::TelemetryCollector;
pub use reading::Reading;
pub use sampler::{HostClaimsError, PERIOD, Sampler, SensorSource};
pub use watch::{NoSensors, SensorWatch};
pub use wear::Wear;
