//! Compute devices: what one is, and the backends that give them.

pub mod choose;
pub mod cpu;
pub mod cuda;
pub mod device;
pub mod host;
pub mod measure;
pub mod open;
pub mod reference;
pub mod run;
#[cfg(feature = "wgpu")]
pub mod wgpu;
pub mod worker;
