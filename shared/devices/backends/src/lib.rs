//! The devices of this machine: the backends of the build, the choice between them, and their start.
//!
//! [`registry`] names the backends; [`choice`] says which may be used; [`merge`] counts hardware once that several of
//! them have; [`start`] opens each device in a worker process. [`settings`] are the command line's.

#![forbid(unsafe_code)]

pub mod choice;
pub mod filter;
pub mod merge;
mod preparing;
pub mod registry;
pub mod settings;
pub mod start;
pub mod worker_command;

pub use choice::{BackendChoice, ChooseError};
pub use registry::HostConfig;
pub use start::DeviceSelection;
