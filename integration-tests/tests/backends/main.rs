//! Each GPU backend by itself, without a GPU: CUDA over the stand-in driver, wgpu over lavapipe and the layer that makes
//! trouble, and what both are made of. No daemon. The CPU backend's and the worker's own tests are in their crates.

mod cuda_bench;
mod cuda_faults;
mod cuda_peers;
mod cuda_work;
mod scenario;
mod shaders;
mod standin;
mod vulkan;
mod vulkan_layer;
mod wgpu_device_faults;
mod wgpu_work;
