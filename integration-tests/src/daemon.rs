//! Programs of the workspace as processes that never outlive their test.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::Value;

/// How long a test waits for an expected event: far more than it takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(180);
/// The log filter of daemons in tests: it includes the processes that drive their devices.
pub const LOG: &str = "info,assay_worker=debug";
/// The variable with the folder of other programs than those beside the test: of another release.
pub const PROGRAMS: &str = "ASSAY_TEST_PROGRAMS";
/// How long a line of the rest of a log is waited for.
const REST_OF_LOG: Duration = Duration::from_secs(1);
/// How often a process is asked whether it has ended.
const NAP: Duration = Duration::from_millis(10);

/// A program beside the test's own executable: `cargo build --workspace --bins` with the test's profile puts it there.
///
/// # Panics
/// Panics without the program: a test that was skipped would go unnoticed.
#[must_use]
pub fn program(name: &str) -> PathBuf {
    let own = std::env::current_exe().expect("a test knows its executable");
    let folder = own.parent().expect("it is in a folder");
    // Tests are built in target/PROFILE/deps, programs that start others in target/PROFILE.
    let path = if folder.ends_with("deps") { folder.with_file_name(name) } else { folder.join(name) };
    assert!(
        path.is_file(),
        "{} is missing: run scripts/test, or cargo build --workspace --bins --tests first",
        path.display()
    );
    path
}

/// Whether a process is there and not only waited for.
#[must_use]
pub fn lives(process: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    status.rsplit(')').next().and_then(|rest| rest.split_whitespace().next()).is_some_and(|state| state != "Z")
}

/// The process that started another one.
fn parent(process: i32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    status.rsplit(')').next()?.split_whitespace().nth(1)?.parse().ok()
}

/// Whether a command ended with a pass: also with one that showed no memory, as small matrices do on a busy machine.
#[must_use]
pub fn passed(status: ExitStatus) -> bool {
    matches!(status.code(), Some(0 | 3))
}

/// Runs a program to its end, without the environment's own settings.
pub fn run(name: &str, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Output {
    run_in(name, arguments, &[])
}

/// The same, with variables of the environment.
pub fn run_in(
    name: &str,
    arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
    environment: &[(String, OsString)],
) -> Output {
    command_in(name, environment).args(arguments).output().unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// A program of the workspace, without the environment's own settings.
#[must_use]
pub fn command(name: &str) -> Command {
    without_settings(Command::new(program(name)))
}

/// The same, with variables of the environment, of which [`PROGRAMS`] says where the program is.
fn command_in(name: &str, environment: &[(String, OsString)]) -> Command {
    let others = environment.iter().find(|(key, _)| key == PROGRAMS);
    let program = others.map_or_else(|| program(name), |(_, folder)| Path::new(folder).join(name));
    let mut command = without_settings(Command::new(program));
    command.envs(environment.iter().map(|(key, value)| (key, value)));
    command
}

fn without_settings(mut command: Command) -> Command {
    let settings = std::env::vars_os().map(|(key, _)| key).filter(|key| key.to_string_lossy().starts_with("ASSAY_"));
    for key in settings {
        command.env_remove(key);
    }
    // Nor the settings of the machine.
    command.env("ASSAY_MINER_CONFIG", "/dev/null").env("ASSAY_VALIDATOR_CONFIG", "/dev/null");
    // A test has the GPUs that it says.
    command.env_remove("CUDA_VISIBLE_DEVICES");
    command
}

/// A process that stands still until this is dropped, so that its work cannot end before.
#[derive(Debug)]
#[must_use]
pub struct Held(i32);

impl Held {
    pub fn process(process: i32) -> Self {
        // SAFETY: kill only sends a signal; the process is one of a program that this test started.
        assert_eq!(unsafe { libc::kill(process, libc::SIGSTOP) }, 0, "process {process} is there");
        Self(process)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: as above; one that was killed in the meantime hears nothing.
        unsafe { libc::kill(self.0, libc::SIGCONT) };
    }
}

/// Physical memory of a process, as Linux counts it.
#[derive(Debug, Clone, Copy)]
pub struct ResidentMemory {
    pub now_bytes: u64,
    /// The most since the process started.
    pub peak_bytes: u64,
}

/// A running program and its log. Dropped, it is killed.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
    lines: Receiver<String>,
    seen: Vec<String>,
}

impl Daemon {
    /// Starts a program, with a log in JSON where its arguments name no format.
    #[must_use]
    pub fn start(name: &str, arguments: &[String]) -> Self {
        Self::start_in(name, arguments, &[])
    }

    /// The same, with variables of the environment.
    #[must_use]
    pub fn start_in(name: &str, arguments: &[String], environment: &[(String, OsString)]) -> Self {
        let says_format = arguments.iter().any(|argument| argument.starts_with("--log-format="));
        let format: &[&str] = if says_format { &[] } else { &["--log-format=json"] };
        let mut command = command_in(name, environment);
        command.args(arguments).args(format);
        Self::spawn(&mut command)
    }

    /// Starts a program that logs lines to standard error, in any form.
    #[must_use]
    pub fn spawn(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let errors = child.stderr.take().expect("standard error is a pipe");
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            // The thread ends with the pipe, that is with the process; the test may have gone before.
            for line in BufReader::new(errors).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        Self { child, lines, seen: Vec::new() }
    }

    /// Waits for a line of the log whose text contains `part`, and gives it.
    ///
    /// # Panics
    /// Panics when the program ends, or has not logged such a line within a test's patience.
    pub fn wait_for(&mut self, part: &str) -> Value {
        let until = Instant::now() + PATIENCE;
        loop {
            match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    self.seen.push(line.clone());
                    if line.contains(part) {
                        return serde_json::from_str(&line).unwrap_or(Value::String(line));
                    }
                }
                Err(RecvTimeoutError::Timeout) => panic!("the log never says {part:?}: {:#?}", self.seen),
                Err(RecvTimeoutError::Disconnected) => panic!("it ended without {part:?}: {:#?}", self.seen),
            }
        }
    }

    /// The processes that drive the program's devices, by device; waits until there are `devices` of them.
    ///
    /// # Panics
    /// When the program ends before, or does not start them.
    pub fn workers(&mut self, devices: usize) -> BTreeMap<String, i32> {
        const STARTED: &str = "worker 1 drives";
        let process = |line: &Value| {
            let process = line["process"].as_i64().and_then(|process| i32::try_from(process).ok());
            (line["device"].as_str().unwrap_or_default().to_owned(), process.expect("the log names the process"))
        };
        let seen = self.seen.iter().filter(|line| line.contains(STARTED));
        let mut found: BTreeMap<_, _> =
            seen.filter_map(|line| serde_json::from_str(line).ok()).map(|l| process(&l)).collect();
        while found.len() < devices {
            found.extend([process(&self.wait_for(STARTED))]);
        }
        found
    }

    /// Has the processes that drive the program's devices stand still: its children.
    pub fn hold_devices(&self) -> Vec<Held> {
        let processes = std::fs::read_dir("/proc").expect("Linux lists processes").filter_map(Result::ok);
        let processes = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let held: Vec<_> = processes.filter(|process| parent(*process) == Some(self.id())).map(Held::process).collect();
        assert!(!held.is_empty(), "nothing drives a device");
        held
    }

    /// The memory that the process has now, and the most that it ever had.
    #[must_use]
    pub fn memory(&self) -> ResidentMemory {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("it runs");
        let bytes = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("Linux says so of a process");
            let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number of KiB");
            kib << 10
        };
        ResidentMemory { now_bytes: bytes("VmRSS:"), peak_bytes: bytes("VmHWM:") }
    }

    /// The time of the process's threads on cores.
    #[must_use]
    pub fn cpu_time(&self) -> Duration {
        // Since Linux counts for user space, a hundred ticks are a second.
        const TICK: Duration = Duration::from_millis(10);
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).expect("it runs");
        let (_, after_name) = stat.rsplit_once(')').expect("the name is in parentheses");
        let ticks = |field: usize| after_name.split_whitespace().nth(field).and_then(|ticks| ticks.parse::<u32>().ok());
        TICK * (ticks(11).expect("user time") + ticks(12).expect("system time"))
    }

    /// Has the peak of the process's memory counted from now on.
    pub fn forget_peak(&self) {
        std::fs::write(format!("/proc/{}/clear_refs", self.child.id()), "5").expect("a process of our own");
    }

    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn terminate(&mut self) {
        assert!(self.child.try_wait().expect("a child can be asked").is_none(), "it runs");
        let id = i32::try_from(self.child.id()).expect("process ids fit");
        // SAFETY: kill only sends a signal; the child was not waited for, so that the id is still its own.
        assert_eq!(unsafe { libc::kill(id, libc::SIGTERM) }, 0);
    }

    pub fn hang_up(&mut self) {
        assert!(self.child.try_wait().expect("a child can be asked").is_none(), "it runs");
        let id = i32::try_from(self.child.id()).expect("process ids fit");
        // SAFETY: kill only sends a signal; the child was not waited for, so that the id is still its own.
        assert_eq!(unsafe { libc::kill(id, libc::SIGHUP) }, 0);
    }

    /// Stops the process and has it go on after a while, as a machine does that is suspended.
    pub fn hold_up(&mut self, time: Duration) {
        assert!(self.child.try_wait().expect("a child can be asked").is_none(), "it runs");
        let id = i32::try_from(self.child.id()).expect("process ids fit");
        // SAFETY: kill only sends a signal; the child was not waited for, so that the id is still its own.
        assert_eq!(unsafe { libc::kill(id, libc::SIGSTOP) }, 0);
        std::thread::sleep(time);
        // SAFETY: as above.
        assert_eq!(unsafe { libc::kill(id, libc::SIGCONT) }, 0);
    }

    /// Lets no file of the process grow beyond this, as on a full disk; `None` for no limit.
    pub fn limit_file_bytes(&mut self, bytes: Option<u64>) {
        assert!(self.child.try_wait().expect("a child can be asked").is_none(), "it runs");
        let id = i32::try_from(self.child.id()).expect("process ids fit");
        let limit = libc::rlimit { rlim_cur: bytes.unwrap_or(libc::RLIM_INFINITY), rlim_max: libc::RLIM_INFINITY };
        // SAFETY: both limits are valid for the call, which only reads the first and takes no second; the child was not
        // waited for, so that the id is still its own.
        let set = unsafe { libc::prlimit(id, libc::RLIMIT_FSIZE, &limit, std::ptr::null_mut()) };
        assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
    }

    /// Waits until the process has ended.
    ///
    /// # Panics
    /// When it does not for as long as a test waits.
    pub fn wait(&mut self) -> ExitStatus {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().expect("a child can be asked") {
                return status;
            }
            assert!(Instant::now() < until, "it does not end: {:#?}", self.log());
            std::thread::sleep(NAP);
        }
    }

    /// The most memory that the process has had resident so far.
    ///
    /// # Panics
    /// When the system does not say: Linux does.
    #[must_use]
    pub fn peak_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("the process runs");
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix("kB"));
        peak.and_then(|kib| kib.trim().parse::<u64>().ok()).expect("a peak in KiB") << 10
    }

    pub fn kill(&mut self) {
        // Either fails only when it has ended, which is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Reads the rest of an ended process's output; a process that it started may hold the pipe open.
    fn read_rest(&mut self) {
        while let Ok(line) = self.lines.recv_timeout(REST_OF_LOG) {
            self.seen.push(line);
        }
    }

    /// Its log so far; all of it, if it has ended.
    ///
    /// # Panics
    /// When the system does not say whether it has.
    pub fn log(&mut self) -> &[String] {
        if self.child.try_wait().expect("a child can be asked").is_some() {
            self.read_rest();
        }
        self.seen.extend(self.lines.try_iter());
        &self.seen
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let ended = self.child.try_wait().ok().flatten();
        self.kill();
        if std::thread::panicking() {
            self.read_rest();
            let ended =
                ended.map_or_else(|| "ran to the end of the test".to_owned(), |status| format!("ended: {status}"));
            eprintln!("process {} {ended}. Its log:\n{}", self.child.id(), self.seen.join("\n"));
        }
    }
}
