//! The validator's view of its fleet: policy, schedule, attestation state, and findings about speed and identity.
//!
//! Everything here is a function of its arguments: no clock, no randomness, no files. Times are seconds since 1970 by
//! the validator's clock. The caller draws random numbers and passes them in.

#![forbid(unsafe_code)]

pub mod bands;
pub mod challenge;
pub mod distribution;
pub mod expectations;
pub mod fields;
pub mod finding;
pub mod identity;
pub mod memory;
pub mod policy;
pub mod profile;
mod read;
pub mod round;
pub mod rules;
pub mod schedule;
pub mod state;
pub mod text;

use std::collections::BTreeMap;

pub use bands::{BandFinding, DeviceSpeed, judge_model, judge_speed};
pub use challenge::Policy;
pub use distribution::{Distribution, Sample};
pub use expectations::Expectations;
pub use fields::Overrides;
pub use finding::FindingCode;
pub use memory::{DeviceRate, End, MAX_ENDS, MinerMemory};
pub use policy::{FleetPolicy, FleetRules, Group, Kind};
pub use profile::{ModelProfiles, Profile};
pub use read::{FileError, MAX_FILE_BYTES, Problem};
pub use state::{Change, Event, Standing, State, step};

/// Labels that an operator gives a miner: names and values, such as `rack` and `7`.
pub type Labels = BTreeMap<String, String>;
