//! Slots of a device as other devices map them, across processes.

/// What another process maps memory of a device by.
#[cfg(unix)]
pub type MemoryHandle = std::os::fd::OwnedFd;

/// There is none on this system.
#[cfg(not(unix))]
#[derive(Debug)]
pub enum MemoryHandle {}

/// The resident slots of a device, for other devices that walk over them.
#[derive(Debug)]
pub struct SharedSlots {
    /// How long the memory is: the slots and what lies behind them.
    pub bytes: u64,
    /// What it is mapped by.
    pub handle: MemoryHandle,
}

impl SharedSlots {
    /// Another handle of the same memory.
    ///
    /// # Errors
    /// What the system said.
    #[cfg(unix)]
    pub fn try_clone(&self) -> std::io::Result<Self> {
        Ok(Self { bytes: self.bytes, handle: self.handle.try_clone()? })
    }

    /// There is none to clone.
    #[cfg(not(unix))]
    pub fn try_clone(&self) -> std::io::Result<Self> {
        match self.handle {}
    }
}
