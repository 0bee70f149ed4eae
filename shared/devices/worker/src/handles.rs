//! The way of memory handles between program and worker: descriptors over a socket of their own, on Linux.

#[cfg(target_os = "linux")]
mod socket;

#[cfg(target_os = "linux")]
pub use socket::{Handles, Listener};

/// No handle exists on this system: its drivers give none.
#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
pub enum Handles {}

/// No listener exists on this system.
#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
pub enum Listener {}

#[cfg(not(target_os = "linux"))]
mod none {
    use std::io;
    use std::path::Path;

    use assay_device::MemoryHandle;

    use super::{Handles, Listener};

    impl Listener {
        pub fn new() -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub fn path(&self) -> &Path {
            match *self {}
        }

        pub fn accept(self) -> io::Result<Handles> {
            match self {}
        }
    }

    impl Handles {
        pub fn connect(_path: &str) -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub fn send(&self, _handles: &[&MemoryHandle]) -> io::Result<()> {
            match *self {}
        }

        pub fn receive(&self, _count: usize) -> io::Result<Vec<MemoryHandle>> {
            match *self {}
        }
    }
}
