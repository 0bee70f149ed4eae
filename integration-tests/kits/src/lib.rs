//! For tests: WORK.md in [plain code](naive), the [reference](mod@reference) of devices, small challenges worked out by
//! it, a device whose answers a test replaces, a backend of devices with faults; and the requirements on every device
//! ([`conformance`]) with the [`vectors`].

#![forbid(unsafe_code)]

pub mod conformance;
mod fake;
pub mod faulty;
pub mod naive;
pub mod reference;
pub mod vectors;
mod worked;

pub use fake::FakeDevice;
pub use worked::{WorkedExample, challenge, challenge_of, previous_root, probe};
