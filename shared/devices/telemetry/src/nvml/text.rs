//! Texts of the library, without trust in their length.
//!
//! The wrapper searches for a text's terminator without a bound. Here the buffer is many times as long as the length
//! given to the library, so that a library that writes too much or no terminator does no harm, and its text is cut.

use std::ffi::{c_char, c_uint};
use std::mem::MaybeUninit;

use assay_work::text::printable;
use nvml_wrapper::{Device, Nvml};

/// Bytes of the buffer: far more than a faulty library writes.
const BUFFER_BYTES: usize = 64 << 10;
/// The length given to the library: the documented maximum of NVML's longest text.
const TOLD_BYTES: c_uint = 96;
/// Bytes kept of a text.
const MAX_TEXT_BYTES: usize = 128;
/// The largest numbers of a bus and of a device on it.
const MAX_BUS: c_uint = 0xff;
const MAX_PLACE: c_uint = 0x1f;
/// `NVML_SUCCESS`.
const SUCCESS: c_uint = 0;

/// The version of the kernel driver.
pub(super) fn driver_version(nvml: &Nvml) -> Option<String> {
    let call = nvml.lib().nvmlSystemGetDriverVersion.as_ref().ok()?;
    // SAFETY: the function has this signature by the library's header, and writes into the buffer only.
    text(|buffer, told| unsafe { call(buffer, told) })
}

/// The functions of a device that write a text.
macro_rules! device_texts {
    ($($(#[$about:meta])* $name:ident: $function:ident;)*) => {
        $($(#[$about])*
        pub(super) fn $name(device: &Device<'_>) -> Option<String> {
            let call = device.nvml().lib().$function.as_ref().ok()?;
            // SAFETY: the function has this signature by the library's header and writes into the buffer only; the
            // handle is the library's own, which is never unloaded while a device is alive.
            text(|buffer, told| unsafe { call(device.handle(), buffer, told) })
        })*
    };
}

device_texts! {
    /// The product name.
    name: nvmlDeviceGetName;
    /// The UUID with its prefix.
    uuid: nvmlDeviceGetUUID;
    /// The board's serial number.
    serial: nvmlDeviceGetSerial;
    /// The version of the firmware.
    vbios_version: nvmlDeviceGetVbiosVersion;
}

/// The address on the PCI bus, formatted from its numbers, which need no terminator.
pub(super) fn pci_address(device: &Device<'_>) -> Option<String> {
    let call = device.nvml().lib().nvmlDeviceGetPciInfo_v3.as_ref().ok()?;
    let mut place = MaybeUninit::zeroed();
    // SAFETY: the function has this signature by the library's header, and fills the struct only, which consists of
    // numbers: zeros are a value of it.
    let place = unsafe {
        if call(device.handle(), place.as_mut_ptr()) != SUCCESS {
            return None;
        }
        place.assume_init()
    };
    let is_possible = place.bus <= MAX_BUS && place.device <= MAX_PLACE;
    is_possible.then(|| format!("{:08X}:{:02X}:{:02X}.0", place.domain, place.bus, place.device))
}

/// The text that a call writes; `None` when it fails or writes nothing.
fn text(write: impl FnOnce(*mut c_char, c_uint) -> c_uint) -> Option<String> {
    let mut buffer = vec![0_u8; BUFFER_BYTES];
    if write(buffer.as_mut_ptr().cast(), TOLD_BYTES) != SUCCESS {
        return None;
    }
    let end = buffer.iter().position(|byte| *byte == 0).unwrap_or(BUFFER_BYTES);
    readable(&buffer[..end])
}

/// The start of a text, as far as it is printable.
fn readable(bytes: &[u8]) -> Option<String> {
    let kept = printable(&String::from_utf8_lossy(bytes), MAX_TEXT_BYTES);
    let kept = kept.trim();
    (!kept.is_empty()).then(|| kept.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A library that writes these bytes, beyond its bound too.
    fn written(bytes: &[u8]) -> Option<String> {
        text(|buffer, told| {
            assert_eq!(told, TOLD_BYTES);
            // SAFETY: the buffer has room for BUFFER_BYTES, and no test writes more.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr().cast(), buffer, bytes.len()) };
            SUCCESS
        })
    }

    #[test]
    fn a_text_is_what_stands_before_its_end() {
        assert_eq!(written(b"NVIDIA H200\0garbage"), Some("NVIDIA H200".into()));
        assert_eq!(written(b" NVIDIA\r\n\x1b[2JH200 \0"), Some("NVIDIA   [2JH200".into()));
        assert_eq!(written("Größe\0".as_bytes()), Some("Größe".into()));
        assert_eq!(written(b"\xff\xfeGPU\0"), Some("\u{fffd}\u{fffd}GPU".into()));
        assert_eq!((written(b"\0"), written(b""), written(b" \n\0")), (None, None, None));
        assert_eq!(text(|_, _| 3), None);
    }

    /// Too long, and without a terminator.
    #[test]
    fn a_text_that_overruns_is_cut() {
        assert_eq!(written(&[b'x'; 10_000]), Some("x".repeat(MAX_TEXT_BYTES)));
        assert_eq!(written(&[b'x'; BUFFER_BYTES]), Some("x".repeat(MAX_TEXT_BYTES)));
        // Between characters: 128 is in the middle of the 43rd.
        assert_eq!(written("€".repeat(5000).as_bytes()), Some("€".repeat(42)));
    }
}
