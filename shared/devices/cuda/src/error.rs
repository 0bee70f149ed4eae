//! Errors of the CUDA driver, each with its remedy.

use cudarc::driver::sys::{self, CUresult};

use assay_device::DeviceError;
use assay_work::DeviceId;

/// Why CUDA gives no devices, or not this one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CudaError {
    /// There is no library to load.
    #[error("no NVIDIA driver: libcuda is not installed; install the driver, R525 or newer")]
    NoDriver,
    /// The library is the toolkit's stub, which only serves to link against.
    #[error("libcuda is the toolkit's stub, not the driver: take its folder off LD_LIBRARY_PATH")]
    Stub,
    /// The library lacks a function that the backend calls.
    #[error("the NVIDIA driver lacks {symbol}: it is too old or not NVIDIA's; install R525 or newer")]
    MissingSymbol {
        /// The function.
        symbol: &'static str,
    },
    /// The driver is older than this build needs.
    #[error("the NVIDIA driver is too old: it gives CUDA {}.{}, and CUDA 12.0 is needed; install R525 or newer",
        version / 1000, version % 1000 / 10)]
    DriverTooOld {
        /// As `cuDriverGetVersion` gives it: 1000 · major + 10 · minor.
        version: i32,
    },
    /// The driver sees no GPU.
    #[error(
        "the NVIDIA driver finds no GPU: see whether nvidia-smi lists one, and whether this container was given it"
    )]
    NoDevice,
    /// There may be GPUs, but the environment hides them.
    #[error("CUDA_VISIBLE_DEVICES={value:?} hides every GPU: unset it, or name the GPUs to use")]
    Hidden {
        /// The variable's value.
        value: String,
    },
    /// The library and the kernel module are of different versions.
    #[error("libcuda and the loaded kernel module are of different driver versions: reboot, or reload the module")]
    Mismatch,
    /// The system is not set up yet.
    #[error("the system is not ready for CUDA: start nvidia-fabricmanager (NVSwitch systems), or wait until it is up")]
    NotReady,
    /// The kernel's side cannot be reached.
    #[error(
        "{name}: the driver cannot be reached: check that the kernel module is loaded and /dev/nvidia* may be opened"
    )]
    OperatingSystem {
        /// CUDA's name of the error.
        name: String,
    },
    /// A forward-compatibility library on hardware that does not have it.
    #[error("the CUDA compatibility package does not work on this GPU: take it off LD_LIBRARY_PATH")]
    Compatibility,
    /// The multi-process service stands in between and does not answer.
    #[error("{name}: the CUDA multi-process service does not work: start it again, or unset CUDA_MPS_PIPE_DIRECTORY")]
    Mps {
        /// CUDA's name of the error.
        name: String,
    },
    /// The GPU does not take another process, or none at all.
    #[error(
        "{device} takes no process now: another one has it alone, or its compute mode forbids it; \
        see nvidia-smi -q -d COMPUTE"
    )]
    Unavailable {
        /// The device's title.
        device: String,
    },
    /// The GPU cannot do the work.
    #[error("{device}: {reason}")]
    Refused {
        /// The device's title.
        device: String,
        /// The reason, with the remedy.
        reason: String,
    },
    /// No GPU has this id now.
    #[error("no CUDA device has the id {id} now: it was lost, or CUDA_VISIBLE_DEVICES hides it")]
    Unknown {
        /// The id asked for.
        id: DeviceId,
    },
    /// The memory that a device always needs is not free.
    #[error("{device}: not even its context fits into the memory that is free: wait for the other tenant")]
    NoMemory {
        /// The device's title.
        device: String,
    },
    /// No product kernel could be loaded.
    #[error("{device}: no kernel can be used: {reasons}")]
    NoKernel {
        /// The device's title.
        device: String,
        /// The reasons, family by family.
        reasons: String,
    },
    /// Any other failure.
    #[error("the NVIDIA driver failed: {0}; see the kernel's log (dmesg) for NVRM and Xid lines")]
    Driver(#[from] Fault),
}

impl CudaError {
    /// The meaning of a failed start of the driver.
    pub(super) fn of_init(fault: Fault) -> Self {
        use sys::cudaError_enum as code;
        let is = |codes: &[code]| codes.iter().any(|c| *c as u32 == fault.code);
        if is(&[code::CUDA_ERROR_NO_DEVICE]) {
            return match std::env::var("CUDA_VISIBLE_DEVICES") {
                Ok(value) => Self::Hidden { value },
                Err(_) => Self::NoDevice,
            };
        }
        if is(&[code::CUDA_ERROR_STUB_LIBRARY]) {
            Self::Stub
        } else if is(&[code::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH]) {
            Self::Mismatch
        } else if is(&[code::CUDA_ERROR_SYSTEM_NOT_READY]) {
            Self::NotReady
        } else if is(&[code::CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE]) {
            Self::Compatibility
        } else if is(&[code::CUDA_ERROR_OPERATING_SYSTEM, code::CUDA_ERROR_NOT_PERMITTED]) {
            Self::OperatingSystem { name: fault.name }
        } else if fault.name.starts_with("CUDA_ERROR_MPS_") {
            Self::Mps { name: fault.name }
        } else {
            Self::Driver(fault)
        }
    }

    /// Whether it may pass without an operator: another process has the device, or the system is not ready yet.
    pub(super) const fn may_pass(&self) -> bool {
        matches!(self, Self::NotReady | Self::Mps { .. } | Self::Unavailable { .. } | Self::NoMemory { .. })
    }

    /// The same of the listing: a driver that does not start beside its kernel module has GPUs, which wait for another
    /// module (nvidia-uvm) or for a reboot.
    pub(super) fn listing_may_pass(&self, has_module: bool) -> bool {
        let is_unknown = matches!(self, Self::Driver(fault) if fault.is(CUresult::CUDA_ERROR_UNKNOWN));
        let is_broken = is_unknown || matches!(self, Self::Mismatch | Self::OperatingSystem { .. });
        self.may_pass() || is_broken && has_module
    }

    /// The meaning of a failed start of one device.
    pub(super) fn of_device(device: &str, fault: Fault) -> Self {
        let device = device.to_owned();
        if fault.is(CUresult::CUDA_ERROR_DEVICE_UNAVAILABLE) {
            Self::Unavailable { device }
        } else if fault.is_out_of_memory() {
            Self::NoMemory { device }
        } else {
            Self::of_init(fault)
        }
    }
}

/// A call of the driver that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name} ({code}) while {doing}")]
pub struct Fault {
    /// CUDA's number of the error.
    pub code: u32,
    pub name: String,
    /// The failed operation; for an error of work enqueued before, the oldest that was not done.
    pub doing: String,
}

impl Fault {
    pub(super) fn is(&self, code: CUresult) -> bool {
        self.code == code as u32
    }

    pub(super) fn is_out_of_memory(&self) -> bool {
        self.is(CUresult::CUDA_ERROR_OUT_OF_MEMORY)
    }

    /// Whether the module itself was refused, so that another one may still load.
    pub(super) fn is_of_module(&self) -> bool {
        use sys::cudaError_enum as code;
        [
            code::CUDA_ERROR_INVALID_VALUE,
            code::CUDA_ERROR_INVALID_IMAGE,
            code::CUDA_ERROR_NO_BINARY_FOR_GPU,
            code::CUDA_ERROR_INVALID_PTX,
            code::CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
            code::CUDA_ERROR_JIT_COMPILER_NOT_FOUND,
            code::CUDA_ERROR_JIT_COMPILATION_DISABLED,
            code::CUDA_ERROR_INVALID_SOURCE,
            code::CUDA_ERROR_NOT_FOUND,
            code::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
            code::CUDA_ERROR_NOT_SUPPORTED,
        ]
        .into_iter()
        .any(|code| self.is(code))
    }
}

impl From<Fault> for DeviceError {
    /// Nearly all errors of work end the context, and with it the process's use of the device (CUDA's manual, Error
    /// Handling): no operation is tried again here. Out of memory does not: another process took it.
    fn from(fault: Fault) -> Self {
        if fault.is_out_of_memory() {
            return Self::NoMemory(format!("{fault}: wait for the other tenant"));
        }
        Self::Sick(format!("{fault}; the process that drives it must start again"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn init(code: CUresult, name: &str) -> CudaError {
        CudaError::of_init(Fault { code: code as u32, name: name.into(), doing: "cuInit".into() })
    }

    #[test]
    fn each_failed_start_is_named_with_its_remedy() {
        let cases = [
            (CUresult::CUDA_ERROR_STUB_LIBRARY, "LD_LIBRARY_PATH"),
            (CUresult::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "reboot"),
            (CUresult::CUDA_ERROR_SYSTEM_NOT_READY, "fabricmanager"),
            (CUresult::CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, "compatibility"),
            (CUresult::CUDA_ERROR_OPERATING_SYSTEM, "/dev/nvidia*"),
            (CUresult::CUDA_ERROR_NOT_PERMITTED, "/dev/nvidia*"),
            (CUresult::CUDA_ERROR_UNKNOWN, "dmesg"),
        ];
        for (code, remedy) in cases {
            let text = init(code, "CUDA_ERROR").to_string();
            assert!(text.contains(remedy), "{code:?}: {text}");
            assert!(!text.contains('\n') && !text.contains("  "), "{text}");
        }
        let mps = init(CUresult::CUDA_ERROR_MPS_CONNECTION_FAILED, "CUDA_ERROR_MPS_CONNECTION_FAILED");
        assert!(mps.to_string().contains("multi-process") && mps.may_pass(), "its server may start later: {mps}");
    }

    /// Regression test: a miner that started before nvidia-uvm attested the processor until it was started again.
    #[test]
    fn a_driver_that_does_not_start_beside_its_module_may_start_later() {
        use CUresult::{
            CUDA_ERROR_NO_DEVICE as NONE, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH as OLD, CUDA_ERROR_UNKNOWN as UVM,
        };
        let passes = |code, has_module| init(code, "CUDA_ERROR").listing_may_pass(has_module);
        assert!(passes(UVM, true) && passes(OLD, true));
        assert!(!passes(UVM, false) && !passes(NONE, true) && !CudaError::NoDriver.listing_may_pass(true));
    }

    #[test]
    fn a_version_is_told_as_people_write_it() {
        let text = CudaError::DriverTooOld { version: 11_080 }.to_string();
        assert!(text.contains("CUDA 11.8,") && text.contains("R525"), "{text}");
    }
}
