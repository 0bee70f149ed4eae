//! The CPU backend: virtual devices over host memory and threads.
//!
//! A device is a share of the host's memory, some threads, and a `kernel`: the fused product for one
//! instruction set. A `plan` cuts a `pass` into items, the `thread_team` takes them from a queue.
//! The residency probe is a `probe` round of `walk`s.

mod backend;
mod config;
mod device;
mod hash;
mod kernel;
mod limit;
mod measure;
mod memory;
mod mix;
mod pass;
mod plan;
mod probe;
#[cfg(test)]
mod tests;
mod thread_team;
mod walk;

pub use config::{CpuConfig, CpuConfigError, CpuSpec, devices, specs};
pub use device::CpuDevice;
pub use kernel::{KernelKind, UnknownKernel};
pub use limit::RegisterLoop;
