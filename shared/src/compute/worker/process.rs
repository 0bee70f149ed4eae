//! Starting a worker's process, and ending it.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::log;

/// How often a process that is to end is asked whether it has.
const NAP: Duration = Duration::from_millis(2);

/// How long a killed process is waited for as it is dropped.
const DROP_LIMIT: Duration = Duration::from_millis(500);

/// How workers are started.
pub trait Launcher: Send + Sync {
    /// Starts one.
    ///
    /// # Errors
    /// What the system said.
    fn launch(&self) -> io::Result<Launched>;
}

/// A worker that was started.
pub struct Launched {
    /// Its input.
    pub input: Box<dyn Write + Send>,
    /// Its output.
    pub output: Box<dyn Read + Send>,
    /// Its process.
    pub process: Box<dyn Process>,
}

/// A worker's process.
pub trait Process: Send {
    /// Its number, as the system shows it.
    fn id(&self) -> u32;

    /// Ends it, whatever it does.
    fn kill(&mut self);

    /// Waits until it has ended, and gives how, in words; `None` when it has not by then.
    fn wait(&mut self, limit: Duration) -> Option<String>;
}

/// Starts a program's `worker` command.
#[derive(Debug, Clone)]
pub struct Program {
    program: PathBuf,
    name: OsString,
    environment: Vec<(&'static str, OsString)>,
}

impl Program {
    /// This program, or another one whose `worker` command does the same.
    ///
    /// # Errors
    /// What the system said, when it does not tell which program this is.
    pub fn new(other: Option<PathBuf>) -> io::Result<Self> {
        if let Some(program) = other {
            let name = program.clone().into();
            return Ok(Self { program, name, environment: Vec::new() });
        }
        let own = std::env::current_exe()?;
        // The link leads to this very program even after its file was replaced by a newer one.
        let program = if cfg!(target_os = "linux") { "/proc/self/exe".into() } else { own.clone() };
        Ok(Self { program, name: own.into(), environment: Vec::new() })
    }

    /// The same, with variables that its processes start with.
    #[must_use]
    pub fn with_environment(self, environment: Vec<(&'static str, OsString)>) -> Self {
        Self { environment, ..self }
    }
}

impl Launcher for Program {
    fn launch(&self) -> io::Result<Launched> {
        let mut command = Command::new(&self.program);
        command.arg0(&self.name).arg("worker").arg("--log").arg(log::level());
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A group of its own: Ctrl-C at a terminal reaches the program, which first ends its challenge.
        command.process_group(0);
        die_with_parent(&mut command);
        let mut child = command.spawn()?;
        let id = child.id();
        let pipe = || io::Error::other("a pipe that was asked for is missing");
        let input = child.stdin.take().ok_or_else(pipe)?;
        let output = child.stdout.take().ok_or_else(pipe)?;
        log::forward(id, child.stderr.take().ok_or_else(pipe)?)?;
        Ok(Launched { input: Box::new(input), output: Box::new(output), process: Box::new(Running(child)) })
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
        // The parent may have ended before the call.
        if u32::try_from(now) != Ok(parent) { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(()) }
    };
    // SAFETY: the closure makes two system calls, and allocates nothing.
    unsafe { command.pre_exec(set) };
}

/// Elsewhere the end of its input ends a worker, unless it hangs.
#[cfg(not(target_os = "linux"))]
fn die_with_parent(_command: &mut Command) {}

struct Running(Child);

impl Process for Running {
    fn id(&self) -> u32 {
        self.0.id()
    }

    fn kill(&mut self) {
        // The id is the child's own as long as it was not waited for.
        if matches!(self.0.try_wait(), Ok(None))
            && let Ok(group) = i32::try_from(self.0.id())
        {
            // SAFETY: kill only sends a signal, to the group that the child was started in: whatever it started itself
            // holds the same device.
            unsafe { libc::kill(-group, libc::SIGKILL) };
        }
    }

    fn wait(&mut self, limit: Duration) -> Option<String> {
        let until = Instant::now() + limit;
        loop {
            match self.0.try_wait() {
                Ok(Some(status)) => return Some(describe(status)),
                Err(error) => return Some(format!("is gone: {error}")),
                Ok(None) if Instant::now() >= until => return None,
                Ok(None) => thread::sleep(NAP),
            }
        }
    }
}

/// However a worker is let go of, nothing of it is left, not even its entry in the system's table.
impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
        let _ = self.wait(DROP_LIMIT);
    }
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with code {code}"),
        (None, Some(libc::SIGKILL)) => {
            "was killed by signal 9: by hand, or by the kernel for want of host memory".into()
        }
        (None, Some(signal)) => format!("was killed by signal {signal}"),
        (None, None) => "ended".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(script: &str) -> Running {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]).process_group(0);
        die_with_parent(&mut command);
        Running(command.spawn().unwrap())
    }

    #[test]
    fn how_a_process_ended_is_said() {
        const PATIENCE: Duration = Duration::from_secs(60);
        assert_eq!(start("exit 3").wait(PATIENCE).unwrap(), "ended with code 3");
        assert_eq!(start("kill -SEGV $$").wait(PATIENCE).unwrap(), "was killed by signal 11");
        let mut sleeper = start("sleep 100");
        assert_eq!(sleeper.wait(Duration::ZERO), None);
        sleeper.kill();
        assert!(sleeper.wait(PATIENCE).unwrap().starts_with("was killed by signal 9"));
        // What has ended is not signalled: its number may be another's by now.
        sleeper.kill();
    }

    #[test]
    fn what_is_dropped_is_gone() {
        let sleeper = start("sleep 100");
        let status = format!("/proc/{}/stat", sleeper.id());
        assert!(std::fs::exists(&status).unwrap());
        drop(sleeper);
        assert!(!std::fs::exists(&status).unwrap(), "neither running nor waited for");
    }
}
