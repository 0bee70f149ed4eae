//! The socket of a service manager, which is a matter of Linux.

#[cfg(target_os = "linux")]
pub(super) use linux::{Socket, monotonic_us};
#[cfg(not(target_os = "linux"))]
pub(super) use other::{Socket, monotonic_us};

#[cfg(target_os = "linux")]
mod linux {
    use std::ffi::OsStr;
    use std::io;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::net::{SocketAddr, UnixDatagram};

    use rustix::time::{ClockId, clock_gettime};

    /// A datagram socket, connected to the manager's.
    #[derive(Debug)]
    pub struct Socket(UnixDatagram);

    impl Socket {
        /// Connects to a path, or with @ before it to a name of Linux's own.
        pub fn new(name: &OsStr) -> io::Result<Self> {
            let address = match name.as_bytes() {
                [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
                [b'/', ..] => SocketAddr::from_pathname(name)?,
                _ => return Err(io::Error::new(io::ErrorKind::InvalidInput, "expected a path, or a name after @")),
            };
            let socket = UnixDatagram::unbound()?;
            socket.connect_addr(&address)?;
            socket.set_nonblocking(true)?;
            Ok(Self(socket))
        }

        /// Sends a datagram, or nothing where the manager's queue is full.
        pub fn send(&self, message: &str) -> io::Result<()> {
            self.0.send(message.as_bytes()).map(|_| ())
        }
    }

    /// The time since the machine started, as the manager counts it.
    pub fn monotonic_us() -> u64 {
        let now = clock_gettime(ClockId::Monotonic);
        let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
        seconds * 1_000_000 + u64::try_from(now.tv_nsec).unwrap_or_default() / 1000
    }
}

#[cfg(not(target_os = "linux"))]
mod other {
    use std::ffi::OsStr;
    use std::io;

    #[derive(Debug)]
    pub struct Socket;

    impl Socket {
        pub fn new(_name: &OsStr) -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub fn send(&self, _message: &str) -> io::Result<()> {
            Ok(())
        }
    }

    pub fn monotonic_us() -> u64 {
        0
    }
}
