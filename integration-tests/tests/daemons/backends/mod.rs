//! The GPU backends without a GPU: CUDA over the stand-in driver, wgpu over lavapipe and the layer that makes trouble.
//! Each alone in `devices`; here daemons over them, and `scripts/gpu-check`. `scripts/check devices backends` runs them.
//! The CPU backend's and the worker's own tests are in their crates.

mod cuda;
mod devices;
mod diag;
mod gpu_check;
mod linked;
mod wgpu;
mod wgpu_faults;
