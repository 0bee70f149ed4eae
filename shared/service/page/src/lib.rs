//! The pages of a validator, as HTML: pure functions of the API's documents, with the charts, styles and script that
//! they need. Nothing is loaded from elsewhere.
//!
//! A page is complete without its script, which only brings it up to date. Others' texts go through [`text`] before
//! they stand on a page, and `maud` escapes all that is not markup.

#![forbid(unsafe_code)]

mod address;
mod assets;
mod challenge;
pub mod chart;
mod devices;
mod fleet;
mod frame;
pub mod icon;
mod login;
mod miner;
mod report;
mod rounds;
pub mod text;
pub mod time;
mod verdict;
mod verdicts;
pub mod words;

pub use self::assets::{Asset, SCRIPT, SIGN, STYLE, assets};
pub use self::challenge::{ChallengeView, challenge};
pub use self::devices::{DeviceView, DevicesFilter, DevicesView, device, devices};
pub use self::fleet::{FleetFilter, FleetView, fleet};
pub use self::frame::{Frame, Viewer};
pub use self::login::{LoginView, ProblemView, login, login_address, problem};
pub use self::miner::{MinerView, miner};
pub use self::report::report;
pub use self::rounds::{MAX_COLUMNS, Names, Outcomes, RoundView, RoundsView, round, rounds};
pub use self::verdict::{VerdictView, verdict};
pub use self::verdicts::{ListedVerdict, VerdictsFilter, VerdictsView, verdicts};

#[cfg(test)]
mod tests;
