//! Worker processes on Windows: a job object each, which ends with this program. Compiled, but run on no Windows
//! machine yet.

use std::ffi::OsStr;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::os::windows::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::{io, ptr};

use windows_sys::Win32::System::JobObjects::{
    AssignProcessToJobObject, CreateJobObjectW, JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE,
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION, JobObjectExtendedLimitInformation, SetInformationJobObject,
    TerminateJobObject,
};
use windows_sys::Win32::System::Threading::{CREATE_NEW_PROCESS_GROUP, CREATE_NO_WINDOW};

/// The code that a killed process ends with. Windows keeps no other trace of that.
const KILLED: u32 = 0xa55a_0009;

/// No path leads to a program whose file was moved away: only its old place is left. A newer program there says so in
/// its greeting, when the two do not fit.
pub const fn own_program(own: PathBuf) -> PathBuf {
    own
}

/// A started process, and all processes that it starts: a job that has no other owner, so that the system ends it when
/// this program is gone, however it went.
#[derive(Debug)]
pub struct ProcessGroup(OwnedHandle);

impl ProcessGroup {
    /// Starts a process, which goes by the program's own file: `_name` is not used.
    pub fn start(command: &mut Command, _name: &OsStr) -> io::Result<(Child, Self)> {
        let job = Self::new()?;
        // Neither the program's window nor its Ctrl-C: these reach the program, which first ends its challenge.
        command.creation_flags(CREATE_NEW_PROCESS_GROUP | CREATE_NO_WINDOW);
        let mut child = command.spawn()?;
        match job.take(&child) {
            Ok(()) => Ok((child, job)),
            Err(error) => {
                // The process may have ended already, which is as good.
                let _ = child.kill();
                let _ = child.wait();
                Err(error)
            }
        }
    }

    fn new() -> io::Result<Self> {
        // SAFETY: a new job without a name, that no child inherits; the handle is ours, or null.
        let job = unsafe { CreateJobObjectW(ptr::null(), ptr::null()) };
        if job.is_null() {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the handle was just made, and nothing else has it.
        let job = unsafe { OwnedHandle::from_raw_handle(job) };
        let mut limits = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
        limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
        let bytes = size_of::<JOBOBJECT_EXTENDED_LIMIT_INFORMATION>() as u32;
        let (kind, limits) = (JobObjectExtendedLimitInformation, ptr::from_ref(&limits).cast());
        // SAFETY: the job is open, and the struct is of the kind and the size that the call is told.
        succeeded(unsafe { SetInformationJobObject(job.as_raw_handle(), kind, limits, bytes) })?;
        Ok(Self(job))
    }

    fn take(&self, child: &Child) -> io::Result<()> {
        // SAFETY: both handles are open.
        succeeded(unsafe { AssignProcessToJobObject(self.0.as_raw_handle(), child.as_raw_handle()) })
    }

    /// Ends the process and all that it started: they hold the same device.
    pub fn kill(&self, _child: &Child) {
        // SAFETY: the job is open. A failure leaves processes running, which the caller sees as they do not end.
        unsafe { TerminateJobObject(self.0.as_raw_handle(), KILLED) };
    }
}

fn succeeded(told: windows_sys::core::BOOL) -> io::Result<()> {
    if told == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The end of a process, in words.
pub fn describe(status: ExitStatus) -> String {
    match status.code().map(i32::cast_unsigned) {
        Some(KILLED) => "was killed by the program".into(),
        // An exception's code: crashes end with one.
        Some(code) if code >> 30 == 3 => format!("crashed with {code:#010x}"),
        Some(code) => format!("ended with code {code}"),
        None => "ended".into(),
    }
}
