//! Standard descriptors and signals of a Unix process.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// As [`super::take`].
pub fn take() -> io::Result<(File, File)> {
    let input = io::stdin().as_fd().try_clone_to_owned()?;
    let output = io::stdout().as_fd().try_clone_to_owned()?;
    let nothing = OwnedFd::from(File::open("/dev/null")?);
    replace(&nothing, libc::STDIN_FILENO)?;
    replace(io::stderr(), libc::STDOUT_FILENO)?;
    Ok((input.into(), output.into()))
}

fn replace(with: impl AsFd, number: i32) -> io::Result<()> {
    // SAFETY: both descriptors are open, and the standard library uses 0 and 1 by number only, independent of their
    // files.
    if unsafe { libc::dup2(with.as_fd().as_raw_fd(), number) } < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// As [`super::leave_signals_to_the_program`].
pub fn leave_signals_to_the_program() {
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
        // SAFETY: ignoring a signal installs no code; the worker is of one thread yet.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// As [`super::end`].
pub fn end() {
    // SAFETY: no code of this process runs after it.
    unsafe { libc::_exit(0) }
}
