//! Logs that cannot be written: full, closed or unread. They cost lines, and nothing else.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use assay_integration_tests::daemon::{self, PATIENCE};
use tempfile::TempDir;

const NAP: Duration = Duration::from_millis(20);
/// The smallest pipe that Linux makes.
const PIPE_BYTES: usize = 4096;
/// A trace of everything is long before the first challenge ends.
const CHATTY: &str = "--log=trace";

/// A program whose log the test does not read. Dropped, it is killed.
struct Process(Child);

impl Process {
    fn start(command: &mut Command, errors: impl Into<Stdio>) -> Self {
        let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);
        Self(command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}")))
    }

    fn id(&self) -> i32 {
        i32::try_from(self.0.id()).unwrap()
    }

    fn signal(&self, signal: i32) {
        // SAFETY: kill only sends a signal; the child was not waited for, so that the id is still its own.
        assert_eq!(unsafe { libc::kill(self.id(), signal) }, 0);
    }

    fn wait(&mut self) -> ExitStatus {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < until, "it does not end");
            std::thread::sleep(NAP);
        }
    }

    /// SIGTERM drains it, in any state of its log.
    fn drains(&mut self) {
        assert!(self.0.try_wait().unwrap().is_none(), "it runs");
        self.signal(libc::SIGTERM);
        assert_eq!(self.wait().code(), Some(0));
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A folder with the keys and the socket of a validator and a miner.
struct Scene {
    folder: TempDir,
}

impl Scene {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn flag(&self, name: &str, file: &str) -> String {
        format!("--{name}={}", self.file(file).display())
    }

    fn validator(&self, flags: &[&str]) -> Command {
        let mut command = daemon::command("assay-validator");
        let small = "--n=256 --policy-fields=max_matrices=12 --policy-fields=probe_walks=64 --policy-fields=probe_steps=8 --policy-fields=segments=32 --samples=128 \
             --policy-fields=probe_target=10ms --policy-fields=probe_expect_gb_per_s=0.01 --challenge-on-connect=false --challenge-interval-s=0 \
             --policy-fields=probe_deadline=60000ms --policy-fields=commit_deadline=60s --policy-fields=openings_deadline=60s";
        command.args(["serve", &self.flag("key-file", "validator.key"), &self.flag("control-socket", "sock")]);
        command.args(["--listen=127.0.0.1:0", "--http-listen="]).args(small.split_whitespace());
        command.args(["--backend=cpu", "--cpu-memory=8MiB", "--cpu-threads=1"]).args(flags);
        command
    }

    /// The miner of the validator that runs.
    fn miner(&self, flags: &[&str]) -> Command {
        let mut command = daemon::command("assay-miner");
        command.args(["run", &self.flag("key-file", "miner.key"), &format!("--validator={}", self.address())]);
        command.args(["--backend=cpu", "--cpu-devices=1", "--cpu-memory=8MiB", "--cpu-threads=1"]);
        command.args(["--reconnect-max-ms=200"]).args(flags);
        command
    }

    /// Runs a command of the validator, which ends in time; gives its exit code and its output.
    fn run(&self, arguments: &[&str]) -> (Option<i32>, Vec<u8>) {
        let printed = self.file("printed");
        let mut command = daemon::command("assay-validator");
        command.args(arguments).arg(self.flag("control-socket", "sock"));
        command.stdin(Stdio::null()).stdout(File::create(&printed).unwrap()).stderr(Stdio::null());
        let code = Process(command.spawn().unwrap()).wait().code();
        (code, fs::read(&printed).unwrap())
    }

    /// Where the validator listens: its log is not there to say so.
    fn address(&self) -> String {
        let until = Instant::now() + PATIENCE;
        loop {
            let (_, printed) = self.run(&["status", "--json"]);
            let status: serde_json::Value = serde_json::from_slice(&printed).unwrap_or_default();
            if let Some(address) = status["address"].as_str() {
                return address.to_owned();
            }
            assert!(Instant::now() < until, "no validator answers");
            std::thread::sleep(NAP);
        }
    }

    /// Waits until one miner is connected.
    fn wait_for_miner(&self) {
        let until = Instant::now() + PATIENCE;
        loop {
            let (_, printed) = self.run(&["miners", "--json"]);
            let miners: serde_json::Value = serde_json::from_slice(&printed).unwrap_or_default();
            if miners.as_array().is_some_and(|miners| miners.len() == 1) {
                return;
            }
            assert!(Instant::now() < until, "no miner connects");
            std::thread::sleep(NAP);
        }
    }

    /// A challenge, which passes.
    fn passes(&self) {
        let code = self.run(&["challenge", "--miner=only", "--mode=audit", "--json"]).0;
        assert!(matches!(code, Some(0 | 3)), "{code:?}");
    }
}

fn full() -> File {
    File::options().write(true).open("/dev/full").unwrap()
}

/// A pipe that takes as little as can be.
fn pipe() -> (File, OwnedFd) {
    let (reader, writer) = std::io::pipe().unwrap();
    // SAFETY: the call changes the size of an open pipe, and nothing else.
    let bytes = unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_SETPIPE_SZ, PIPE_BYTES) };
    assert_eq!(usize::try_from(bytes), Ok(PIPE_BYTES));
    (File::from(OwnedFd::from(reader)), writer.into())
}

/// How many bytes wait in a pipe.
fn waiting_bytes(pipe: &File) -> usize {
    let mut bytes = 0;
    // SAFETY: the call writes one number, to where there is room for it.
    assert_eq!(unsafe { libc::ioctl(pipe.as_raw_fd(), libc::FIONREAD, &raw mut bytes) }, 0);
    usize::try_from(bytes).unwrap()
}

/// Reads a log until a line has `part`; gives the line.
fn wait_for_line(log: &mut impl BufRead, part: &str) -> String {
    let mut seen = String::new();
    loop {
        let start = seen.len();
        assert_ne!(log.read_line(&mut seen).unwrap(), 0, "the log never says {part:?}:\n{seen}");
        if seen[start..].contains(part) {
            return seen[start..].to_owned();
        }
    }
}

#[test]
fn a_full_standard_error_stops_no_daemon() {
    for format in ["--log-format=human", "--log-format=json"] {
        let scene = Scene::new();
        let mut validator = Process::start(&mut scene.validator(&[CHATTY, format]), full());
        let mut miner = Process::start(&mut scene.miner(&[CHATTY, format]), full());
        scene.wait_for_miner();
        scene.passes();
        miner.drains();
        validator.drains();
    }
}

#[test]
fn a_closed_standard_error_stops_no_daemon() {
    let scene = Scene::new();
    let start = |mut command: Command| {
        let (reader, writer) = pipe();
        let process = Process::start(&mut command, writer);
        drop(reader);
        process
    };
    let mut validator = start(scene.validator(&[CHATTY]));
    let mut miner = start(scene.miner(&[CHATTY]));
    scene.wait_for_miner();
    scene.passes();
    miner.drains();
    validator.drains();
}

#[test]
fn a_log_that_nobody_reads_stops_no_daemon() {
    let scene = Scene::new();
    let (validator_log, writer) = pipe();
    let mut validator = Process::start(&mut scene.validator(&[CHATTY]), writer);
    let (miner_log, writer) = pipe();
    let mut miner = Process::start(&mut scene.miner(&[CHATTY]), writer);
    scene.wait_for_miner();
    for _ in 0..3 {
        scene.passes();
    }
    // A line is written whole or not at all; the longest have a statement of the records.
    for log in [&validator_log, &miner_log] {
        let bytes = waiting_bytes(log);
        assert!(bytes > PIPE_BYTES - 2048, "the test fills the log: {bytes} bytes");
    }
    miner.drains();
    validator.drains();
}

#[test]
fn a_log_that_is_read_again_says_what_was_lost() {
    let scene = Scene::new();
    let (log, writer) = pipe();
    let _validator = Process::start(&mut scene.validator(&[CHATTY, "--log-format=json"]), writer);
    let _miner = Process::start(&mut scene.miner(&[]), Stdio::null());
    scene.wait_for_miner();
    // The queue holds thousands of lines; a trace of this many challenges has more.
    for _ in 0..20 {
        scene.passes();
    }
    let line = wait_for_line(&mut BufReader::new(log), "log lines were lost: they came faster");
    let line: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert!(line["lost_lines"].as_u64().unwrap() > 0 && line["level"] == "ERROR", "{line}");
}

/// Limits the files of a process to `bytes`.
fn limit_files(process: i32, bytes: libc::rlim_t) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the limit is read, and nothing is written.
    assert_eq!(unsafe { libc::prlimit(process, libc::RLIMIT_FSIZE, &raw const limit, std::ptr::null_mut()) }, 0);
}

/// As on a disk that is full, and then has room again.
#[test]
fn a_log_file_that_may_not_grow_stops_no_daemon_and_says_what_was_lost() {
    // The logs have this size from before: the limit leaves room for the daemons' other writes.
    const BEFORE_BYTES: usize = 8 << 20;
    const MOST_BYTES: libc::rlim_t = BEFORE_BYTES as libc::rlim_t + 2000;
    let scene = Scene::new();
    let line = "2026-01-01T00:00:00Z  INFO a line from before\n";
    let before = line.repeat(BEFORE_BYTES / line.len());
    for name in ["validator.log", "miner.log"] {
        fs::write(scene.file(name), &before).unwrap();
    }
    let small = |command: &mut Command| {
        // SAFETY: prlimit is one system call, and allocates nothing.
        unsafe {
            command.pre_exec(|| {
                limit_files(0, MOST_BYTES);
                Ok(())
            })
        };
    };
    let mut daemons = Vec::new();
    for name in ["validator.log", "miner.log"] {
        let flags = ["--log=debug", &scene.flag("log-file", name)];
        let mut command = if name == "miner.log" { scene.miner(&flags) } else { scene.validator(&flags) };
        small(&mut command);
        daemons.push((name, Process::start(&mut command, Stdio::null())));
    }
    scene.wait_for_miner();
    let until = Instant::now() + PATIENCE;
    while daemons.iter().any(|(name, _)| fs::metadata(scene.file(name)).unwrap().len() < MOST_BYTES) {
        assert!(Instant::now() < until, "the test fills the logs");
        scene.passes();
    }
    scene.passes();
    for (name, daemon) in daemons.iter_mut().rev() {
        limit_files(daemon.id(), libc::RLIM_INFINITY);
        // Even when nothing more is logged.
        while !fs::read_to_string(scene.file(name)).unwrap().contains("lost: File too large") {
            assert!(Instant::now() < until, "{name} never says what was lost");
            std::thread::sleep(NAP);
        }
        daemon.drains();
        let log = fs::read_to_string(scene.file(name)).unwrap();
        assert!(log.contains("drained") && !log.contains('\u{1b}'), "it goes on, without colours:\n{log}");
        // No line but the last one before the notice is torn, and the notice has a line of its own.
        let is_whole = |line: &str| line.starts_with("20") && line.contains("Z ");
        let lines: Vec<_> = log.lines().collect();
        let notice = lines.iter().position(|line| line.contains("lost: File too large")).unwrap();
        let torn: Vec<_> = (0..lines.len()).filter(|at| !is_whole(lines[*at])).collect();
        assert!(torn.iter().all(|at| at + 1 == notice), "{torn:?} of these are torn:\n{log}");
    }
}

#[test]
fn a_log_file_that_cannot_be_opened_is_an_error_at_the_start() {
    let scene = Scene::new();
    let missing = scene.flag("log-file", "no/such/folder/log");
    let mut miner = daemon::command("assay-miner");
    miner.args(["run", "--validator=127.0.0.1:9", &scene.flag("key-file", "miner.key"), &missing]);
    for mut command in [scene.validator(&[&missing]), miner] {
        let output = command.output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(78), "{error}");
        assert!(error.contains("log_file") && error.contains("no/such/folder"), "{error}");
    }
}

/// A worker that has a line to log: its input is malformed. The line goes nowhere, and the worker ends.
#[test]
fn a_worker_whose_log_cannot_be_written_ends_as_any_other() {
    let (_unread, mut stuck) = {
        let (reader, writer) = pipe();
        (reader, File::from(writer))
    };
    stuck.write_all(&[b'.'; PIPE_BYTES]).unwrap();
    for errors in [full(), stuck] {
        let mut command = daemon::command("assay-miner");
        command.arg("worker").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
        let mut worker = Process(command.spawn().unwrap());
        worker.0.stdin.as_mut().unwrap().write_all(&[0xff; 1000]).unwrap();
        assert_eq!(worker.wait().code(), Some(0));
        let mut said = Vec::new();
        worker.0.stdout.take().unwrap().read_to_end(&mut said).unwrap();
        assert!(!said.is_empty(), "it greeted before");
    }
}

#[test]
fn what_is_no_level_is_refused() {
    for (level, meant) in [
        ("warning", "did you mean `warn`?"),
        ("infos", "did you mean `info`?"),
        ("verbose", "did you mean `debug`?"),
        ("", "expected a level"),
        ("info,assay_worker", "such as `assay_worker=debug`"),
    ] {
        for name in ["assay-validator", "assay-miner"] {
            let output = daemon::run(name, ["config", "show", &format!("--log={level}")]);
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(78), "{level}: {error}");
            assert!(error.starts_with("error: log = ") && error.contains(meant), "{level}: {error}");
        }
    }
}

/// A command's messages beside its result may go nowhere: the result and the exit code stay.
#[test]
fn a_command_whose_standard_error_is_full_gives_its_result() {
    let scene = Scene::new();
    let mut validator = Process::start(&mut scene.validator(&[]), Stdio::null());
    let mut miner = Process::start(&mut scene.miner(&[]), Stdio::null());
    scene.wait_for_miner();
    let run = |arguments: &[&str]| {
        let mut command = daemon::command("assay-validator");
        command.args(arguments).arg(scene.flag("control-socket", "sock")).stderr(full());
        let output = command.output().unwrap();
        (output.status.code(), output.stdout.len())
    };
    let (code, bytes) = run(&["challenge", "--miner=only", "--mode=audit", "--log=trace"]);
    assert!(matches!(code, Some(0 | 3)) && bytes > 0, "{code:?}, {bytes} bytes");
    miner.drains();
    assert_eq!(run(&["challenge", "--miner=only", "--wait=1"]).0, Some(2), "no miner comes");
    validator.drains();
    assert_eq!(run(&["miners", "--log=verbose"]).0, Some(78));
}
