//! Compute devices: what one is, and the backends that give them.

pub mod choose;
pub mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
pub mod device;
pub mod host;
pub mod measure;
pub mod merge;
pub mod open;
pub mod place;
pub mod reference;
pub mod run;
#[cfg(feature = "wgpu")]
pub mod wgpu;
pub mod worker;
