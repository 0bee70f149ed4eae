//! The pipes of a worker's process: its standard input and output, which nothing else may touch.

#[cfg(unix)]
#[allow(unsafe_code)]
mod unix;
#[cfg(windows)]
#[allow(unsafe_code)]
mod windows;

use std::fs::File;
use std::io;

#[cfg(unix)]
use unix as system;
#[cfg(windows)]
use windows as system;

/// Takes this process's input and output for the worker alone. In their place stand an empty input and standard error:
/// a library that prints to standard output ends up in the log and not between two messages.
pub fn take() -> io::Result<(File, File)> {
    system::take()
}

/// Leaves signals that ask a program to end to the program: it may have a challenge to finish, and a service manager
/// sends them to all its processes. A worker ends with its input.
pub fn leave_signals_to_the_program() {
    system::leave_signals_to_the_program();
}

/// Ends this process at once, without the drivers' clean-up: that can wait for a device that hangs.
pub fn end() {
    system::end();
}
