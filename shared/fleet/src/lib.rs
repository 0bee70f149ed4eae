//! What a validator asks of a fleet: its policy, the schedule, the attestation state, and what speed and identity show.
//!
//! Everything here is a function of its arguments: no clock, no randomness, no files. Times are seconds since 1970 by the
//! validator's clock. Who calls draws the random numbers and passes them in.

#![forbid(unsafe_code)]

pub mod bands;
pub mod distribution;
pub mod finding;
pub mod identity;
pub mod policy;
pub mod profile;
mod read;
pub mod round;
pub mod rules;
pub mod schedule;
pub mod state;
pub mod text;

use std::collections::BTreeMap;

pub use bands::{BandFinding, Measured, judge_model, judge_speed};
pub use distribution::{Distribution, Sample};
pub use finding::FindingCode;
pub use policy::{FleetPolicy, Group, Kind};
pub use profile::{ModelProfiles, Profile};
pub use read::{FileError, MAX_FILE_BYTES, Problem};
pub use state::{Change, Event, Standing, State, step};

/// What an operator calls a miner: names and values, such as `rack` and `7`.
pub type Labels = BTreeMap<String, String>;
