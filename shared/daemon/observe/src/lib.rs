//! Metrics and traces, as both daemons give them: a page for Prometheus, and spans of a challenge for a collector of
//! OpenTelemetry.
//!
//! Nothing here ever waits for who reads it: a metric is a number in memory, and a span that finds no place in its queue
//! is counted as lost.

#![forbid(unsafe_code)]

mod export;
pub mod metrics;
pub mod page;
#[cfg(target_os = "linux")]
pub mod process;
pub mod settings;
mod span;
pub mod traces;

pub use prometheus;
pub use span::{ChallengeSpan, SpanPhase, places};
pub use traces::{Traces, trace_id};
