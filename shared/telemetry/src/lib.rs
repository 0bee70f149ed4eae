//! What a machine's management library says about its devices: facts, and what their sensors show during a challenge.
//!
//! All of it is told as claims and nothing rests on it. A library that is missing, lies, fails or hangs costs the
//! claims and nothing else: readings are taken on a thread of their own ([`Sampler`]), and nobody waits for it without
//! a bound. Above a [`Watch`] nobody knows where readings come from; below a [`Source`] nobody knows who wants them.

mod collect;
pub mod nvml;
mod reading;
mod sampler;
mod watch;

pub use collect::Collector;
pub use reading::Reading;
pub use sampler::{NoFacts, PERIOD, Sampler, Source};
pub use watch::{Unwatched, Watch};
