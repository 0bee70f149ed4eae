//! Documents and sources against each other: a document's statements on the code hold, and so do the rules of the
//! layout.

mod budget;
mod checks;
mod circles;
mod crates;
mod guarantees;
mod limits;
mod links;
#[cfg(target_os = "linux")]
mod metrics;
mod probes;
mod protocol;
mod records;
#[cfg(unix)]
mod settings;
mod source;
mod threats;
mod verdicts;
