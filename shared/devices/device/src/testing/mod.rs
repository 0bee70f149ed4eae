//! For tests: the requirements on every device ([`conformance`]), the [`vectors`], small challenges worked out by the
//! reference, and a device whose answers a test replaces.

pub mod conformance;
mod fake;
pub mod vectors;
mod worked;

pub use fake::FakeDevice;
pub use worked::{WorkedExample, challenge, challenge_of, previous_root, probe};
