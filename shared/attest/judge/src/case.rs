//! The evidence of a challenge: every input of its verdict, kept so that it can be judged again.
//!
//! A run is a state machine: events in, actions out. Its policy, draws, events and the history of the miner are written
//! down as [`entry::CaseEntry`]s while it runs. To judge again, a run takes them once more: the code that judges stored
//! cases is the code that judged them live.

pub mod entry;
pub mod file;
