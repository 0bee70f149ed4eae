//! The CPU backend: virtual devices over host memory and threads.
//!
//! A device is a share of the host's memory, some threads, and a `kernel`: the fused product for one
//! instruction set. A `plan` cuts a `pass` into items, the `thread_team` takes them from a queue.
//! The residency probe is a `probe` round of `walk`s.

#![deny(unsafe_code)]

mod backend;
mod config;
#[allow(unsafe_code)]
mod device;
mod hash;
#[allow(unsafe_code)]
mod kernel;
#[allow(unsafe_code)]
mod limit;
mod measure;
#[allow(unsafe_code)]
mod memory;
mod mix;
#[allow(unsafe_code)]
mod pass;
mod plan;
#[allow(unsafe_code)]
mod probe;
#[cfg(test)]
mod tests;
mod thread_team;
#[allow(unsafe_code)]
mod walk;

pub use config::{CpuConfig, CpuConfigError, CpuSpec, devices, specs};
pub use device::CpuDevice;
pub use kernel::{KernelKind, UnknownKernel};
pub use limit::RegisterLoop;
