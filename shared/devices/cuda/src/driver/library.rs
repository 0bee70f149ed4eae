//! Loads the driver, so that a missing library or function is an error and never a panic.
//!
//! cudarc finds functions as they are called, and panics when one is missing. So all that this backend calls are
//! looked up first, and a [`Library`], which everything else needs, only exists once they were found.

use std::ffi::{c_char, c_int};

use cudarc::driver::sys;

use super::{EventElapsedTime, call};
use crate::error::CudaError;

/// Every function of the driver that this backend calls; a test compares it with the source.
const SYMBOLS: &[&str] = &[
    "cuCtxGetStreamPriorityRange",
    "cuCtxSetCurrent",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDeviceGetCount",
    "cuDeviceGetName",
    "cuDeviceGetPCIBusId",
    "cuDeviceGetUuid_v2",
    "cuDevicePrimaryCtxRelease_v2",
    "cuDevicePrimaryCtxRetain",
    "cuDeviceTotalMem_v2",
    "cuDriverGetVersion",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventElapsedTime",
    "cuEventQuery",
    "cuEventRecord",
    "cuFuncSetAttribute",
    "cuGetErrorName",
    "cuInit",
    "cuLaunchKernel",
    "cuMemAddressFree",
    "cuMemAddressReserve",
    "cuMemAlloc_v2",
    "cuMemCreate",
    "cuMemExportToShareableHandle",
    "cuMemFreeHost",
    "cuMemFree_v2",
    "cuMemGetAllocationGranularity",
    "cuMemGetInfo_v2",
    "cuMemHostAlloc",
    "cuMemImportFromShareableHandle",
    "cuMemMap",
    "cuMemRelease",
    "cuMemSetAccess",
    "cuMemUnmap",
    "cuMemcpyDtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemsetD8Async",
    "cuModuleGetFunction",
    "cuModuleLoadDataEx",
    "cuModuleUnload",
    "cuStreamCreateWithPriority",
    "cuStreamDestroy_v2",
    "cuStreamWaitEvent",
    "cuTensorMapEncodeTiled",
];

/// The version that the oldest supported driver, R525, reports.
const MIN_VERSION: i32 = 12_000;

/// Proof that the driver is loaded, new enough, complete, and initialised.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Library {
    /// As `cuDriverGetVersion` gives it: 1000 · major + 10 · minor.
    pub(crate) version: i32,
    /// cudarc, built for CUDA 13, only knows a successor of this function that R525 does not have.
    pub(crate) elapsed: EventElapsedTime,
}

impl Library {
    /// Loads the driver and starts it.
    ///
    /// # Errors
    /// [`CudaError`] for each of the many ways to be without CUDA.
    pub(crate) fn load() -> Result<Self, CudaError> {
        // The version first: an old driver also lacks functions, and its age is the better answer.
        let version = version()?;
        if version < MIN_VERSION {
            return Err(CudaError::DriverTooOld { version });
        }
        SYMBOLS.iter().try_for_each(|symbol| find(symbol))?;
        let elapsed = event_elapsed_time()?;
        // SAFETY: the function is there; it may be called any number of times.
        call(unsafe { sys::cuInit(0) }, "starting it").map_err(CudaError::of_init)?;
        Ok(Self { version, elapsed })
    }
}

/// The version of CUDA that the driver speaks, as `cuDriverGetVersion` gives it. Loads the driver without starting it.
///
/// # Errors
/// [`CudaError`] when the version is not known.
pub(crate) fn version() -> Result<i32, CudaError> {
    // SAFETY: only loads libraries by their names; the driver's has no other effect before `cuInit`.
    if !unsafe { sys::is_culib_present() } {
        return Err(CudaError::NoDriver);
    }
    find("cuDriverGetVersion")?;
    find("cuGetErrorName")?;
    let mut version = 0;
    // SAFETY: the function is there, and may be called before `cuInit`.
    call(unsafe { sys::cuDriverGetVersion(&raw mut version) }, "asking its version").map_err(CudaError::of_init)?;
    Ok(version)
}

fn find(symbol: &'static str) -> Result<(), CudaError> {
    // SAFETY: the library is present, so that this cannot panic; the address is not used.
    let found = unsafe { sys::culib().get::<*const c_char>(symbol.as_bytes()) }.is_ok();
    if found { Ok(()) } else { Err(CudaError::MissingSymbol { symbol }) }
}

fn event_elapsed_time() -> Result<EventElapsedTime, CudaError> {
    let symbol = "cuEventElapsedTime";
    // SAFETY: the type is that of the function in every CUDA so far; the library is never unloaded.
    let found = unsafe { sys::culib().get::<EventElapsedTime>(symbol.as_bytes()) };
    found.map(|function| *function).map_err(|_| CudaError::MissingSymbol { symbol })
}

/// The driver's error numbers are C's `int`s.
const _: () = assert!(size_of::<sys::CUresult>() == size_of::<c_int>());

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    /// The functions of the driver that the backend's source calls.
    fn called(folder: &Path, found: &mut BTreeSet<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                called(&path, found);
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            for piece in text.split("sys::cu").skip(1) {
                let name: String = piece.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
                if piece[name.len()..].starts_with('(') {
                    found.insert(format!("cu{name}"));
                }
            }
        }
    }

    #[test]
    fn every_function_that_is_called_is_looked_up_first() {
        let mut found = BTreeSet::from(["cuEventElapsedTime".to_owned()]);
        called(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
        found.remove("culib");
        let listed: BTreeSet<_> = SYMBOLS.iter().map(|s| (*s).to_owned()).collect();
        assert_eq!(listed, found);
    }
}
