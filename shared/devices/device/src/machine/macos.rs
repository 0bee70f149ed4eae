//! A host as macOS shows it, through Mach and sysctl. Compiled, but run on no Mac yet.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::{ptr, time::Duration};

/// Bytes of a text that the kernel gives: a processor's name takes fewer than a hundred.
const MAX_TEXT_BYTES: usize = 256;

/// How long the host's id is waited for: it is there once the machine has started.
const UUID_LIMIT: Duration = Duration::from_secs(1);

/// Free memory, and memory that the system gives up when asked: cached files and pages that programs marked as
/// purgeable. Where the kernel does not say, half of the physical memory.
pub fn available_bytes() -> u64 {
    spare_bytes().or_else(|| Some(number(c"hw.memsize")? / 2)).unwrap_or(0)
}

pub fn total_bytes() -> u64 {
    number(c"hw.memsize").unwrap_or(0)
}

/// The processor's model, as the kernel names it.
pub fn processor_name() -> Option<String> {
    let mut text = [0; MAX_TEXT_BYTES];
    let bytes = read(c"machdep.cpu.brand_string", &mut text)?;
    let name = CStr::from_bytes_until_nul(&text[..bytes]).ok()?.to_str().ok()?.trim();
    (!name.is_empty()).then(|| name.to_owned())
}

/// The host's name over restarts: the id of its hardware.
pub fn host_name() -> Option<String> {
    let mut id = [0; 16];
    let limit = libc::timespec { tv_sec: UUID_LIMIT.as_secs().cast_signed(), tv_nsec: 0 };
    // SAFETY: the function writes 16 bytes, which is what it is given, and reads the time.
    let failed = unsafe { libc::gethostuuid(id.as_mut_ptr(), &raw const limit) } != 0;
    (!failed).then(|| hex::encode(id))
}

fn spare_bytes() -> Option<u64> {
    let mut pages = MaybeUninit::<libc::vm_statistics64>::zeroed();
    let mut words = libc::HOST_VM_INFO64_COUNT;
    // SAFETY: the count says how many words the struct has, and the kernel writes no more; an older one writes fewer and
    // leaves zeros, which are a value of every field. The port is the host's own, which every process has.
    let pages = unsafe {
        #[allow(deprecated, reason = "libc points to another crate for this one function, which is the same")]
        let host = libc::mach_host_self();
        let told = libc::host_statistics64(host, libc::HOST_VM_INFO64, pages.as_mut_ptr().cast(), &raw mut words);
        if told != libc::KERN_SUCCESS {
            return None;
        }
        pages.assume_init()
    };
    let spare = [pages.free_count, pages.external_page_count, pages.purgeable_count];
    number(c"hw.pagesize")?.checked_mul(spare.map(u64::from).iter().sum())
}

/// A number that the kernel gives under a name, in as many bytes as it likes.
fn number(name: &CStr) -> Option<u64> {
    let mut value = [0; 8];
    match read(name, &mut value)? {
        4 => Some(u64::from(u32::from_ne_bytes([value[0], value[1], value[2], value[3]]))),
        8 => Some(u64::from_ne_bytes(value)),
        _ => None,
    }
}

/// The kernel's value of a name, and its length in bytes; `None` when it does not fit.
fn read(name: &CStr, into: &mut [u8]) -> Option<usize> {
    let mut bytes = into.len();
    // SAFETY: the kernel writes at most as many bytes as it is told, and how many it wrote; nothing is set.
    let failed =
        unsafe { libc::sysctlbyname(name.as_ptr(), into.as_mut_ptr().cast(), &raw mut bytes, ptr::null_mut(), 0) != 0 };
    (!failed && bytes <= into.len()).then_some(bytes)
}
