//! A host as Windows shows it. Compiled, but run on no Windows machine yet.

use std::ptr;

use windows_sys::Win32::Foundation::ERROR_SUCCESS;
use windows_sys::Win32::System::Registry::{HKEY_LOCAL_MACHINE, RRF_RT_REG_SZ, RRF_SUBKEY_WOW6464KEY, RegGetValueW};
use windows_sys::Win32::System::SystemInformation::{GlobalMemoryStatusEx, MEMORYSTATUSEX};
use windows_sys::core::{PCWSTR, w};

/// Units of a text that the registry gives: a processor's name and a machine's id take fewer than a hundred.
const MAX_TEXT_UNITS: usize = 256;

/// Physical memory that is available, or memory that this process may still commit, if that is less: Windows promises
/// no memory that it does not have.
pub fn available_bytes() -> u64 {
    memory().map_or(0, |status| status.ullAvailPhys.min(status.ullAvailPageFile))
}

pub fn total_bytes() -> u64 {
    memory().map_or(0, |status| status.ullTotalPhys)
}

fn memory() -> Option<MEMORYSTATUSEX> {
    // A number of bytes of a struct: far below 2³².
    let length = size_of::<MEMORYSTATUSEX>() as u32;
    let mut status = MEMORYSTATUSEX { dwLength: length, ..MEMORYSTATUSEX::default() };
    // SAFETY: the function fills the struct, whose length it is told.
    let told = unsafe { GlobalMemoryStatusEx(&raw mut status) } != 0;
    told.then_some(status)
}

/// The processor's model, as the firmware names it.
pub fn processor_name() -> Option<String> {
    registry_text(w!(r"HARDWARE\DESCRIPTION\System\CentralProcessor\0"), w!("ProcessorNameString"))
}

/// The host's name over restarts: its machine id, else its host name.
pub fn host_name() -> Option<String> {
    registry_text(w!(r"SOFTWARE\Microsoft\Cryptography"), w!("MachineGuid"))
        .or_else(|| std::env::var("COMPUTERNAME").ok())
}

/// A text of the machine's part of the registry; `None` for an empty one.
fn registry_text(key: PCWSTR, value: PCWSTR) -> Option<String> {
    let mut text = [0_u16; MAX_TEXT_UNITS];
    let mut bytes = size_of_val(&text) as u32;
    let kind = RRF_RT_REG_SZ | RRF_SUBKEY_WOW6464KEY;
    // SAFETY: both names end with zero; the function writes at most as many bytes as it is told, and how many it wrote.
    let told = unsafe {
        RegGetValueW(HKEY_LOCAL_MACHINE, key, value, kind, ptr::null_mut(), text.as_mut_ptr().cast(), &raw mut bytes)
    };
    if told != ERROR_SUCCESS {
        return None;
    }
    let end = text.iter().position(|unit| *unit == 0)?;
    let text = String::from_utf16_lossy(&text[..end]).trim().to_owned();
    (!text.is_empty()).then_some(text)
}
