//! Everything that a verdict follows from, kept so that it can be judged again.
//!
//! A run is a state machine: events in, actions out. What it is made of, what was drawn for it, what it remembered of the
//! miner and every event that it took are written down as [`entry::Entry`]s while it runs. Judging again is giving them
//! to a run once more: the code that judges stored cases is the code that judged them live.

pub mod again;
pub mod capture;
pub mod entry;
pub mod file;
pub mod other;
pub mod rejudge;
pub mod settings;
pub mod upkeep;
