//! TUN devices: network devices whose packets a program reads and writes.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;

/// Makes a device of this name, and takes its packets (linux/if_tun.h).
const TUNSETIFF: libc::Ioctl = 0x4004_54ca;
/// Packets of IP, without a header before them.
const IFF_TUN_NO_PI: libc::c_short = 0x1001;

/// The part of `struct ifreq` that the call takes, and the rest of its 40 bytes.
#[repr(C)]
struct InterfaceRequest {
    name: [u8; libc::IFNAMSIZ],
    flags: libc::c_short,
    rest: [u8; 22],
}

/// Makes a TUN device in the network namespace of this process. It is gone once the file is closed, also where it was
/// moved into another namespace.
///
/// # Errors
/// The system's error: without `CAP_NET_ADMIN` it makes no device. A name that is too long is invalid.
pub fn open(name: &str) -> io::Result<File> {
    let mut request = InterfaceRequest { name: [0; libc::IFNAMSIZ], flags: IFF_TUN_NO_PI, rest: [0; 22] };
    if name.len() >= request.name.len() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{name}: a device's name is shorter")));
    }
    request.name[..name.len()].copy_from_slice(name.as_bytes());
    let file = OpenOptions::new().read(true).write(true).open("/dev/net/tun")?;
    // SAFETY: the request lives through the call and has the size and layout of `struct ifreq`, which the kernel reads
    // and writes; the descriptor is open.
    let made = unsafe { libc::ioctl(file.as_raw_fd(), TUNSETIFF, &raw mut request) };
    if made < 0 { Err(io::Error::last_os_error()) } else { Ok(file) }
}
