//! The errors of a device.

use serde::{Deserialize, Serialize};

/// A failure of a device's call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum DeviceError {
    /// Its memory is in use.
    #[error("{needed_bytes} bytes are needed, {free_bytes} are free: wait for the other tenant, or ask for less")]
    Busy {
        /// Bytes that the call needs.
        needed_bytes: u64,
        free_bytes: u64,
    },
    /// Its driver ran out of memory for objects of its own, whose size is not known; the device goes on.
    #[error("{0}")]
    NoMemory(String),
    /// It gave wrong bits, was lost, or its driver failed: look at the device.
    #[error("the device failed: {0}")]
    Sick(String),
    /// The process that drives it ended, for no fault of the device that is known: killed, say, or out of host memory.
    #[error("the device's process was lost: {0}")]
    Lost(String),
    /// It cannot be opened, but may be later: another process has it.
    #[error("{0}")]
    NotNow(String),
    /// The caller asked to stop.
    #[error("cancelled")]
    Cancelled,
    /// This device cannot do it, ever.
    #[error("not supported: {0}")]
    Unsupported(String),
}
