//! The CPU backend: virtual devices over host memory and threads.
//!
//! A device is a share of the host's memory, some threads, and a `kernel`: the fused product for one
//! instruction set. A `plan` cuts a `pass` into items, the `thread_team` takes them from a queue.
//! The residency probe is a `probe` round of `walk`s, the sweep one of `row_sums`.

#![deny(unsafe_code)]

mod backend;
#[cfg(feature = "bench")]
#[allow(unsafe_code)]
mod bench;
mod config;
#[allow(unsafe_code)]
mod device;
mod hash;
#[allow(unsafe_code)]
mod kernel;
#[allow(unsafe_code)]
mod memory;
mod mix;
#[allow(unsafe_code)]
mod pass;
mod plan;
#[allow(unsafe_code)]
mod probe;
#[allow(unsafe_code)]
mod row_sums;
#[allow(unsafe_code)]
mod sweep;
#[cfg(test)]
mod tests;
mod thread_team;
#[allow(unsafe_code)]
mod walk;

#[cfg(feature = "bench")]
pub use bench::{CpuBench, RegisterLoop};
pub use config::{CpuArgs, CpuConfig, CpuConfigError, CpuSpec, devices, specs};
pub use device::CpuDevice;
pub use kernel::{KernelKind, UnknownKernel};
