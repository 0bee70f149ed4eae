//! Slots of a device as other devices map them, across processes.

/// The handle by which another process maps memory of a device.
#[cfg(unix)]
pub type MemoryHandle = std::os::fd::OwnedFd;

/// No handle exists on this system.
#[cfg(not(unix))]
#[derive(Debug)]
pub enum MemoryHandle {}

/// The resident slots of a device, for other devices that walk over them.
#[derive(Debug)]
pub struct SharedSlots {
    /// Length of the memory, in bytes: the slots and the rest of their allocation.
    pub bytes: u64,
    pub handle: MemoryHandle,
}

impl SharedSlots {
    /// Another handle of the same memory.
    ///
    /// # Errors
    /// The system's.
    #[cfg(unix)]
    pub fn try_clone(&self) -> std::io::Result<Self> {
        Ok(Self { bytes: self.bytes, handle: self.handle.try_clone()? })
    }

    /// Never called: no handle exists.
    #[cfg(not(unix))]
    pub fn try_clone(&self) -> std::io::Result<Self> {
        match self.handle {}
    }
}
