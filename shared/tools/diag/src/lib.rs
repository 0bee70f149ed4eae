//! A burn-in that passes or fails: all devices of a host at once, their memory filled, every pass compared exactly.
//!
//! [`run()`] drives the devices: `drive` is one device's part, `state` is shared by all threads, a `group` keeps equal
//! devices in step, the `board` is where results meet. [`locate`] finds the first wrong bit. `speed` and `sensors`
//! judge rates and readings; [`DiagReport`] reports all of it, as text and JSON, and [`chart`] draws it over time.
//! Nothing here opens a socket.

#![forbid(unsafe_code)]

mod board;
pub mod chart;
mod draw;
mod drive;
mod finding;
mod group;
pub mod locate;
mod plan;
mod progress;
mod record;
mod report;
mod run;
mod sensors;
mod speed;
mod state;
pub mod stats;
mod text;

pub use draw::Seed;
pub use finding::{BitLocation, RecheckResult, Severity, Test, TestFinding};
pub use plan::{DiagPlan, TestLimits};
pub use report::{DeviceTestReport, DiagReport, RateReport, TestReport, TestStatus};
pub use run::{BurnInEnd, StopRequest, run};
