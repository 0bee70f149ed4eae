//! The GPUs that the driver lists, without taking memory on them.

use std::ffi::{CStr, c_char};

use cudarc::driver::sys::{self, CUdevice, CUdevice_attribute as Attribute, CUuuid};

use super::driver::library::Library;
use super::driver::{attribute, call};
use super::error::{CudaError, Fault};
use assay_work::DeviceId;

/// The smallest compute capability that the built-in PTX supports.
const MIN_CAPABILITY: Capability = Capability { major: 7, minor: 5 };
/// The most devices that are asked about: more than any host has.
const MAX_ORDINAL: i32 = 1024;
/// `CU_COMPUTEMODE_PROHIBITED`.
const MODE_PROHIBITED: i32 = 2;
/// Bytes for a name or an address, as the driver writes them.
const TEXT_BYTES: usize = 256;

/// A compute capability, such as 9.0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Capability {
    pub major: u32,
    pub minor: u32,
}

impl std::fmt::Display for Capability {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// A GPU, or a MIG instance of one, as the driver describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceDescription {
    /// The driver's UUID; a MIG instance has its own.
    pub id: DeviceId,
    /// The driver's number of it, in this process's environment.
    pub ordinal: i32,
    pub name: String,
    pub capability: Capability,
    pub multiprocessors: u32,
    /// All its memory, in bytes.
    pub memory_bytes: u64,
    /// The most shared memory of a block, in bytes.
    pub shared_bytes: u32,
    pub ecc: bool,
    /// Whether it is a MIG instance. The driver only says so in the name.
    pub mig: bool,
    pub integrated: bool,
    pub pci_address: String,
    /// The reason that it cannot be used; `None` when it can.
    pub refusal: Option<String>,
    /// Whether the operator forbids its use.
    pub forbidden: bool,
}

impl DeviceDescription {
    /// Its name in messages: model and PCI address.
    pub fn title(&self) -> String {
        format!("{} at {}", self.name, self.pci_address)
    }

    /// Its properties in one line, for people.
    pub(super) fn detail(&self) -> String {
        let Self { capability, multiprocessors, pci_address, .. } = self;
        let mut detail =
            format!("compute capability {capability}, {multiprocessors} multiprocessors, PCI {pci_address}");
        for (is, what) in [(self.ecc, ", ECC"), (self.mig, ", MIG"), (self.integrated, ", integrated")] {
            if is {
                detail.push_str(what);
            }
        }
        detail
    }
}

/// Describes all devices, those that are refused too, in the driver's order.
///
/// # Errors
/// [`CudaError`] with the reason that there are no devices.
pub(super) fn describe_all(library: Library) -> Result<Vec<DeviceDescription>, CudaError> {
    let mut count = 0;
    // SAFETY: the driver is initialised.
    call(unsafe { sys::cuDeviceGetCount(&raw mut count) }, "counting devices").map_err(CudaError::of_init)?;
    if count == 0 {
        let none = Fault { code: 100, name: "CUDA_ERROR_NO_DEVICE".into(), doing: "counting devices".into() };
        return Err(CudaError::of_init(none));
    }
    let all = (0..count.min(MAX_ORDINAL)).map(|ordinal| describe(library, ordinal));
    // A device that cannot even be described must not hide the others.
    let (found, failed): (Vec<_>, Vec<_>) = all.partition(Result::is_ok);
    for fault in failed.iter().filter_map(|result| result.as_ref().err()) {
        tracing::warn!(%fault, "a CUDA device that cannot be described is left out");
    }
    match failed.into_iter().find_map(Result::err) {
        Some(fault) if found.is_empty() => Err(CudaError::Driver(fault)),
        _ => Ok(found.into_iter().flatten().collect()),
    }
}

fn describe(_library: Library, ordinal: i32) -> Result<DeviceDescription, Fault> {
    let device = handle(ordinal)?;
    let name = text(|to, bytes| unsafe {
        // SAFETY: the driver is initialised; it writes at most `bytes` bytes.
        sys::cuDeviceGetName(to, bytes, device)
    })?;
    let pci_address = text(|to, bytes| unsafe {
        // SAFETY: as above.
        sys::cuDeviceGetPCIBusId(to, bytes, device)
    })?;
    let number = |which| attribute(device, which).map(|value| u32::try_from(value).unwrap_or(0));
    let capability = Capability {
        major: number(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
        minor: number(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
    };
    let mode = attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_MODE)?;
    Ok(DeviceDescription {
        id: uuid(device)?,
        ordinal,
        mig: name.contains(" MIG "),
        name,
        capability,
        multiprocessors: number(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?.max(1),
        memory_bytes: memory_bytes(device)?,
        shared_bytes: number(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
        ecc: number(Attribute::CU_DEVICE_ATTRIBUTE_ECC_ENABLED)? != 0,
        integrated: number(Attribute::CU_DEVICE_ATTRIBUTE_INTEGRATED)? != 0,
        pci_address,
        refusal: refusal(capability, mode),
        forbidden: mode == MODE_PROHIBITED,
    })
}

/// The reason not to use a device, as far as its description shows.
fn refusal(capability: Capability, mode: i32) -> Option<String> {
    if capability < MIN_CAPABILITY {
        return Some(format!("compute capability {capability}, and {MIN_CAPABILITY} (Turing) is the least"));
    }
    (mode == MODE_PROHIBITED).then(|| "its compute mode is Prohibited: nvidia-smi -c 0 lets processes use it".into())
}

/// The driver's handle of a device.
pub(super) fn handle(ordinal: i32) -> Result<CUdevice, Fault> {
    let mut device = 0;
    // SAFETY: every caller has loaded the driver.
    call(unsafe { sys::cuDeviceGet(&raw mut device, ordinal) }, "choosing a device")?;
    Ok(device)
}

fn uuid(device: CUdevice) -> Result<DeviceId, Fault> {
    let mut uuid = CUuuid { bytes: [0; 16] };
    // SAFETY: the driver is initialised; the pointer is to a local.
    call(unsafe { sys::cuDeviceGetUuid_v2(&raw mut uuid, device) }, "asking for its UUID")?;
    // C's characters are unsigned on ARM.
    Ok(DeviceId(uuid.bytes.map(|byte| u8::from_ne_bytes(byte.to_ne_bytes()))))
}

fn memory_bytes(device: CUdevice) -> Result<u64, Fault> {
    let mut bytes = 0;
    // SAFETY: the driver is initialised; the pointer is to a local.
    call(unsafe { sys::cuDeviceTotalMem_v2(&raw mut bytes, device) }, "asking for its memory")?;
    Ok(bytes as u64)
}

/// A text that the driver writes.
fn text(write: impl FnOnce(*mut c_char, i32) -> sys::CUresult) -> Result<String, Fault> {
    let mut bytes = [0_u8; TEXT_BYTES];
    // One byte less, so that it is ended in any case.
    call(write(bytes.as_mut_ptr().cast(), TEXT_BYTES as i32 - 1), "asking for its name")?;
    let text = CStr::from_bytes_until_nul(&bytes).map(CStr::to_string_lossy);
    Ok(text.map(|text| text.trim().to_owned()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_and_forbidden_devices_are_refused_with_their_reason() {
        let capability = |major, minor| Capability { major, minor };
        assert!(refusal(capability(7, 0), 0).unwrap().contains("7.0"));
        assert!(refusal(capability(6, 1), 0).unwrap().contains("Turing"));
        assert!(refusal(capability(7, 5), MODE_PROHIBITED).unwrap().contains("nvidia-smi -c 0"));
        for usable in [capability(7, 5), capability(8, 0), capability(10, 0), capability(12, 1)] {
            assert_eq!(refusal(usable, 0), None);
            assert_eq!(refusal(usable, 3), None, "exclusive to one process is enough for one process");
        }
    }
}
