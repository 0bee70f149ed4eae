//! Documents and sources against each other: what a document says of the code is what the code is, and the rules of
//! the layout hold.

mod budget;
mod checks;
mod circles;
mod crates;
mod guarantees;
mod limits;
mod protocol;
#[cfg(unix)]
mod settings;
mod source;
mod threats;
