//! The wgpu backend.

pub mod shaders;
