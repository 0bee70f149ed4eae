//! The pipes of a worker's process: its standard input and output, which nothing else may touch.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// This process's input and output, kept for the worker alone. In their place stand an empty input and standard error:
/// a library that prints to standard output ends up in the log and not between two messages.
///
/// # Errors
/// What the system said.
pub fn take() -> io::Result<(File, File)> {
    let input = io::stdin().as_fd().try_clone_to_owned()?;
    let output = io::stdout().as_fd().try_clone_to_owned()?;
    let nothing = OwnedFd::from(File::open("/dev/null")?);
    replace(&nothing, libc::STDIN_FILENO)?;
    replace(io::stderr(), libc::STDOUT_FILENO)?;
    Ok((input.into(), output.into()))
}

fn replace(with: impl AsFd, number: i32) -> io::Result<()> {
    // SAFETY: both descriptors are open, and the standard library uses 0 and 1 by number only, whatever they lead to.
    if unsafe { libc::dup2(with.as_fd().as_raw_fd(), number) } < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Leaves signals that ask a program to end to the program: it may have a challenge to finish, and a service manager
/// sends them to all its processes. A worker ends with its input.
pub fn leave_signals_to_the_program() {
    for signal in [libc::SIGTERM, libc::SIGINT] {
        // SAFETY: ignoring a signal installs no code; the worker is of one thread yet.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// Ends this process at once, without what a driver would do on the way out: that can wait for a device that hangs.
pub fn end() {
    // SAFETY: no code of this process runs after it.
    unsafe { libc::_exit(0) }
}
