//! Starting a worker's process, and ending it.

#[cfg(unix)]
#[allow(unsafe_code)]
mod unix;
#[cfg(windows)]
#[allow(unsafe_code)]
mod windows;

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::log;
#[cfg(unix)]
use unix::{ProcessGroup, describe, own_program};
#[cfg(windows)]
use windows::{ProcessGroup, describe, own_program};

/// How often an ending process is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// How the words for the end of a process begin that was killed.
pub(crate) const KILLED: &str = "was killed by signal 9";

/// How long a killed process is waited for as it is dropped.
const DROP_LIMIT: Duration = Duration::from_millis(500);

/// A way to start workers.
pub trait Launcher: Send + Sync {
    fn launch(&self) -> io::Result<LaunchedWorker>;
}

pub struct LaunchedWorker {
    pub input: Box<dyn Write + Send>,
    pub output: Box<dyn Read + Send>,
    pub process: Box<dyn Process>,
}

pub trait Process: Send {
    /// The process's number, as the system shows it.
    fn id(&self) -> u32;

    /// Ends the process in any state.
    fn kill(&mut self);

    /// Waits until the process has ended, at most for `limit`, and gives its end in words; `None` when it has not ended
    /// by then.
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
    /// The system's error, when this program's path is not known.
    pub fn new(other: Option<PathBuf>) -> io::Result<Self> {
        if let Some(program) = other {
            let name = program.clone().into();
            return Ok(Self { program, name, environment: Vec::new() });
        }
        let own = std::env::current_exe()?;
        let program = own_program(own.clone());
        Ok(Self { program, name: own.into(), environment: Vec::new() })
    }

    /// The same, with variables that its processes start with.
    pub fn with_environment(self, environment: Vec<(&'static str, OsString)>) -> Self {
        Self { environment, ..self }
    }
}

impl Launcher for Program {
    fn launch(&self) -> io::Result<LaunchedWorker> {
        let mut command = Command::new(&self.program);
        command.arg("worker").arg("--log").arg(log::level());
        for name in
            std::env::vars_os().map(|(name, _)| name).filter(|name| is_the_programs_own(&name.to_string_lossy()))
        {
            command.env_remove(name);
        }
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let (child, group) = ProcessGroup::start(&mut command, &self.name)?;
        let mut process = RunningProcess { child, group };
        let pipe = || io::Error::other("a pipe that was asked for is missing");
        let input = process.child.stdin.take().ok_or_else(pipe)?;
        let output = process.child.stdout.take().ok_or_else(pipe)?;
        log::forward(process.id(), process.child.stderr.take().ok_or_else(pipe)?)?;
        Ok(LaunchedWorker { input: Box::new(input), output: Box::new(output), process: Box::new(process) })
    }
}

/// Whether a variable is for the program alone and not for its workers: its settings, in which an URL may have a token,
/// proxies with passwords, variables of its service manager: a worker that answered the watchdog for it would keep a
/// daemon alive that hangs.
fn is_the_programs_own(name: &str) -> bool {
    const PREFIXES: [&str; 6] = ["ASSAY_MINER_", "ASSAY_VALIDATOR_", "CREDENTIALS_", "NOTIFY_", "WATCHDOG_", "LISTEN_"];
    PREFIXES.iter().any(|prefix| name.starts_with(prefix)) || name.to_ascii_lowercase().ends_with("_proxy")
}

struct RunningProcess {
    child: Child,
    group: ProcessGroup,
}

impl Process for RunningProcess {
    fn id(&self) -> u32 {
        self.child.id()
    }

    fn kill(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.group.kill(&self.child);
        }
    }

    fn wait(&mut self, limit: Duration) -> Option<String> {
        let until = Instant::now() + limit;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(describe(status)),
                Err(error) => return Some(format!("is gone: {error}")),
                Ok(None) if Instant::now() >= until => return None,
                Ok(None) => thread::sleep(POLL_INTERVAL),
            }
        }
    }
}

/// Kills and reaps the process however the worker is dropped, so that no zombie is left.
impl Drop for RunningProcess {
    fn drop(&mut self) {
        self.kill();
        let _ = self.wait(DROP_LIMIT);
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;

    fn start(script: &str) -> RunningProcess {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        let (child, group) = ProcessGroup::start(&mut command, "sh".as_ref()).unwrap();
        RunningProcess { child, group }
    }

    #[test]
    fn how_a_process_ended_is_said() {
        const TIMEOUT: Duration = Duration::from_secs(60);
        assert_eq!(start("exit 3").wait(TIMEOUT).unwrap(), "ended with code 3");
        assert_eq!(start("kill -SEGV $$").wait(TIMEOUT).unwrap(), "was killed by signal 11");
        let mut sleeper = start("sleep 100");
        assert_eq!(sleeper.wait(Duration::ZERO), None);
        sleeper.kill();
        assert!(sleeper.wait(TIMEOUT).unwrap().starts_with("was killed by signal 9"));
        // A process that has ended is not signalled: its number may be another's by now.
        sleeper.kill();
    }

    #[test]
    fn what_is_the_programs_own_is_not_the_workers() {
        for own in ["ASSAY_MINER_KEY_FILE", "ASSAY_VALIDATOR_TOKEN", "https_proxy", "ALL_PROXY", "NOTIFY_SOCKET"] {
            assert!(is_the_programs_own(own), "{own}");
        }
        for other in ["PATH", "CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "VK_ICD_FILENAMES", "HOME"] {
            assert!(!is_the_programs_own(other), "{other}");
        }
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
