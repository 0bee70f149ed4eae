//! Standard handles and console signals of a Windows process. Compiled, but run on no Windows machine yet.

use std::fs::File;
use std::io;
use std::os::windows::io::{AsHandle, IntoRawHandle};

use windows_sys::Win32::System::Console::{
    STD_HANDLE, STD_INPUT_HANDLE, STD_OUTPUT_HANDLE, SetConsoleCtrlHandler, SetStdHandle,
};
use windows_sys::Win32::System::Threading::{GetCurrentProcess, TerminateProcess};

/// The C library's numbers for standard output and standard error.
const C_OUTPUT: i32 = 1;
const C_ERROR: i32 = 2;

/// As [`super::take`].
pub fn take() -> io::Result<(File, File)> {
    let input = io::stdin().as_handle().try_clone_to_owned()?;
    let output = io::stdout().as_handle().try_clone_to_owned()?;
    // The C library's output goes first: it closes its own handle of the pipe, and may set the system's.
    // SAFETY: both numbers stand for the handles that the process started with, which live as long as it does.
    if unsafe { libc::dup2(C_ERROR, C_OUTPUT) } != 0 {
        return Err(io::Error::last_os_error());
    }
    replace(STD_INPUT_HANDLE, File::open("NUL")?)?;
    replace(STD_OUTPUT_HANDLE, io::stderr().as_handle().try_clone_to_owned()?)?;
    Ok((input.into(), output.into()))
}

/// Replaces the standard handle: later callers get this one, which is never closed.
fn replace(which: STD_HANDLE, with: impl IntoRawHandle) -> io::Result<()> {
    // SAFETY: the handle is open, and stays so: it has no owner any more.
    if unsafe { SetStdHandle(which, with.into_raw_handle()) } == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// As [`super::leave_signals_to_the_program`].
pub fn leave_signals_to_the_program() {
    // SAFETY: no handler is installed: the process ignores Ctrl-C from here on. Without a console the call does
    // nothing.
    unsafe { SetConsoleCtrlHandler(None, 1) };
}

/// As [`super::end`]. `ExitProcess` would have every library say goodbye to its device.
pub fn end() {
    // SAFETY: no code of this process runs after it.
    unsafe { TerminateProcess(GetCurrentProcess(), 0) };
}
