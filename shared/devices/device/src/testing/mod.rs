//! For tests: the requirements on every device ([`conformance`]), the [`vectors`], small challenges worked out by the
//! reference, a device whose answers a test replaces, and models of matrix [`units`].

pub mod conformance;
mod fake;
pub mod units;
pub mod vectors;
mod worked;

pub use fake::FakeDevice;
pub use worked::{WorkedExample, challenge, challenge_of, previous_root, probe};
