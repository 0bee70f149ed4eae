//! The judge of miners: sessions and challenges as state machines, the verification of answers, the verdict, and stored
//! cases that are judged again.
//!
//! Events go in, actions come out. Clock and randomness are arguments; the crate has no sockets, no Tokio and no
//! database.

#![forbid(unsafe_code)]

pub mod action;
pub mod bounds;
pub mod case;
pub mod entropy;
pub mod facts;
pub mod history;
pub mod issue;
pub mod probe_size;
pub mod refusal;
pub mod rejudge;
pub mod replay;
pub mod run;
pub mod session;
pub mod verify;
