//! The GPU backends without a GPU: CUDA over the stand-in driver, wgpu over lavapipe and the layer that makes trouble.
//! Each alone, the parts of both, daemons over them, and `scripts/gpu-check`. `scripts/check backends` runs them. The
//! CPU backend's and the worker's own tests are in their crates.

mod cuda;
mod cuda_bench;
mod cuda_faults;
mod cuda_peers;
mod cuda_work;
mod diag;
mod gpu_check;
mod linked;
mod scenario;
mod shaders;
mod standin;
mod sweeps;
mod vulkan;
mod vulkan_layer;
mod wgpu;
mod wgpu_device_faults;
mod wgpu_faults;
mod wgpu_work;
