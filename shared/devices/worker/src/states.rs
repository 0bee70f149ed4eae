//! Memory that program and worker share, for the states of linked walks.

#[cfg(unix)]
#[allow(unsafe_code)]
mod shared;

#[cfg(not(unix))]
use assay_device::StateBytes;

#[cfg(unix)]
pub use shared::{Name, SharedStates};

#[cfg(target_os = "linux")]
pub use shared::in_memory_folder;

/// No shared memory exists on this system.
#[cfg(not(unix))]
#[derive(Debug)]
pub enum SharedStates {}

#[cfg(not(unix))]
pub type Name = std::path::PathBuf;

#[cfg(not(unix))]
impl SharedStates {
    pub fn create() -> std::io::Result<(Self, Name)> {
        Err(std::io::ErrorKind::Unsupported.into())
    }

    pub fn open(_path: &str) -> std::io::Result<Self> {
        Err(std::io::ErrorKind::Unsupported.into())
    }

    pub fn first(&mut self, _count: usize) -> &mut [StateBytes] {
        match *self {}
    }
}

/// The way of states to a worker.
#[derive(Debug)]
pub enum StatesWay {
    /// Both ends have this memory.
    Shared(SharedStates),
    /// Over the pipe, without shared memory.
    Pipe,
}
