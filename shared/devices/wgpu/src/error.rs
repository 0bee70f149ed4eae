//! Errors of the wgpu backend, each with its remedy.

use assay_device::DeviceError;
use assay_work::DeviceId;

/// A start of the wgpu backend that gives no device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WgpuError {
    /// No API shows an adapter.
    #[error("no GPU is seen through {apis}: install its driver ({remedy})")]
    NoAdapter {
        /// The APIs asked, as a person names them.
        apis: String,
        /// The usual name of that driver on this system.
        remedy: &'static str,
    },
    /// Adapters that are programs, where hardware is wanted.
    #[error(
        "only software adapters are seen ({names}), which are taken only when wgpu is asked for by name; a driver of a GPU \
         that does not call itself conformant is not used"
    )]
    OnlySoftware {
        /// Their names.
        names: String,
    },
    /// An adapter that cannot do the work.
    #[error("{device}: {reason}")]
    Refused {
        /// The adapter's title.
        device: String,
        /// The reason.
        reason: String,
    },
    /// No adapter has this id now.
    #[error("no adapter has the id {id} now: it was lost, or another driver shows it")]
    Unknown {
        /// The id asked for.
        id: DeviceId,
    },
    /// The driver does not open it.
    #[error("{device} cannot be opened: {reason}")]
    Open {
        /// The adapter's title.
        device: String,
        /// The driver's error.
        reason: String,
    },
    /// Its memory is in use.
    #[error("{device} cannot be opened in the memory that is free: wait for the other tenant")]
    NoMemory {
        /// The adapter's title.
        device: String,
    },
    /// It was opened, and fails or computes wrongly.
    #[error("{device}: {error}")]
    Device {
        /// The adapter's title.
        device: String,
        /// The failure.
        error: DeviceError,
    },
    /// The driver does not take a shader.
    #[error("{device} does not take the shader {shader}: {reason}")]
    Shader {
        /// The adapter's title.
        device: String,
        /// The shader's name.
        shader: String,
        /// The driver's error.
        reason: String,
    },
}
