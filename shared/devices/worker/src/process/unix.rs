//! Worker processes on Unix: a process group each, which on Linux ends with this program.

use super::KILLED;
use std::ffi::OsStr;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};

/// A path to the running program, even after its file was replaced by a newer one; `own` on systems without one.
pub fn own_program(own: PathBuf) -> PathBuf {
    if cfg!(target_os = "linux") { "/proc/self/exe".into() } else { own }
}

/// A started process, and all processes that it starts.
#[derive(Debug)]
pub struct ProcessGroup;

impl ProcessGroup {
    /// Starts a process that goes by `name`.
    pub fn start(command: &mut Command, name: &OsStr) -> io::Result<(Child, Self)> {
        // A group of its own: Ctrl-C at a terminal reaches the program, which first ends its challenge.
        command.arg0(name).process_group(0);
        die_with_parent(command);
        Ok((command.spawn()?, Self))
    }

    /// Ends the process, which was not waited for yet, and all that it started: they hold the same device.
    pub fn kill(&self, child: &Child) {
        // The id is the child's own as long as it was not waited for.
        if let Ok(group) = i32::try_from(child.id()) {
            // SAFETY: kill only sends a signal, to the group that the child was started in.
            unsafe { libc::kill(-group, libc::SIGKILL) };
        }
    }
}

/// The end of a process, in words.
pub fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with code {code}"),
        (None, Some(libc::SIGKILL)) => format!("{KILLED}: by hand, or by the kernel for want of host memory"),
        (None, Some(signal)) => format!("was killed by signal {signal}"),
        (None, None) => "ended".into(),
    }
}

/// The kernel kills the worker when the thread that started it ends, and thus when the program does, however it does.
#[cfg(target_os = "linux")]
fn die_with_parent(command: &mut Command) {
    let parent = std::process::id();
    let set = move || {
        // SAFETY: both calls take and change nothing of this program's memory, and both may be made between fork and exec.
        let (set, now) = unsafe { (libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL), libc::getppid()) };
        if set != 0 {
            return Err(io::Error::last_os_error());
        }
        // Files that a library of the program's opened without close-on-exec end here. Before Linux 5.11 this does
        // nothing.
        // SAFETY: the call takes three numbers, and marks files; open files stay open until the worker's program
        // starts.
        let _ = unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
        // The parent may have ended before the call.
        if u32::try_from(now) != Ok(parent) { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(()) }
    };
    // SAFETY: the closure makes two system calls, and allocates nothing.
    unsafe { command.pre_exec(set) };
}

/// Elsewhere the end of its input ends a worker, unless it hangs.
#[cfg(not(target_os = "linux"))]
fn die_with_parent(_command: &mut Command) {}
