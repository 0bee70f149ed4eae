//! The CUDA and wgpu backends alone, without daemons. `scripts/check devices` runs them, and is skipped while what they
//! are compiled from has not changed: they use the crates of devices alone.

mod cuda_bench;
mod cuda_faults;
mod cuda_peers;
mod cuda_work;
mod scenario;
mod shaders;
mod standin;
mod sweeps;
mod vulkan;
mod vulkan_layer;
mod wgpu_device_faults;
mod wgpu_work;
