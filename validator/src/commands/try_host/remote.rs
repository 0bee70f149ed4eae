//! The host: one ssh, whose remote script takes the miner's program from standard input, runs it behind the tunnel, and
//! removes it when its input ends or falls silent.

use std::collections::VecDeque;
use std::fs;
use std::io::{BufRead, BufReader, IsTerminal, Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TryRecvError, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use assay_program::exit::{Exit, Failure};
use assay_program::standard_error;
use assay_work::PublicKey;
use assay_work::text::printable;

use crate::cli::try_host::TryArgs;

/// The script, in one line that every login shell passes on.
const SCRIPT: &str = include_str!("script.sh");
/// The first word of each line of the script.
const MARK: &str = "assay-try ";
/// The words of a miner without the driver of its GPUs.
const NO_DRIVER: &str = "no NVIDIA driver";
/// Interval of signs of life: the script ends after 20 s without one.
const SIGN_OF_LIFE: Duration = Duration::from_secs(5);
/// Time for the login, which a person may have to answer.
const LOGIN_LIMIT: Duration = Duration::from_secs(120);
/// Time for a step of the script, the copy of the program among them.
const STEP_LIMIT: Duration = Duration::from_secs(300);
/// Time for the script to remove its files.
const REMOVE_LIMIT: Duration = Duration::from_secs(30);
/// Interval of looking for an interrupt.
const STOP_POLL: Duration = Duration::from_millis(100);
/// The longest line that is read of a host, in bytes; the rest of it is another line.
const MAX_LINE: u64 = 1024;
/// The last lines of a host that are kept, for a failure.
const MAX_LINES: usize = 12;
/// Lines of the script that wait to be taken: a host that says more waits.
const MAX_WAITING: usize = 16;
/// Time for the last lines of ssh and the host, for a failure.
const REST_LIMIT: Duration = Duration::from_secs(1);

/// Input of the script.
pub struct MinerFiles<'a> {
    pub program: &'a Path,
    pub key_file: &'a Path,
}

pub struct RemoteHost {
    name: String,
    child: Child,
    /// `None` once the script was told to end.
    input: Option<Sender<()>>,
    said: Receiver<HostLine>,
    tail: Arc<Mutex<VecDeque<String>>>,
    /// Whether the script said that its files are removed.
    is_cleared: bool,
    /// Whether a person stopped the validator of this process.
    stopped: Arc<AtomicBool>,
}

enum HostLine {
    /// A word of the script, and the rest of its line.
    Script(String),
    /// The port on the host of the tunnel.
    Port(u16),
}

impl RemoteHost {
    /// Logs in, and starts the miner for the validator at this address.
    ///
    /// # Errors
    /// The login, the tunnel or the miner's start failed; with the remedy.
    pub fn start(
        args: &TryArgs,
        files: &MinerFiles<'_>,
        address: SocketAddr,
        validator: PublicKey,
        stopped: Arc<AtomicBool>,
    ) -> Result<Self, Failure> {
        let (mut host, input) = Self::log_in(args, address, stopped)?;
        let (mut port, mut machine) = (None, None);
        let until = Instant::now() + LOGIN_LIMIT;
        while port.is_none() || machine.is_none() {
            match host.next(until)? {
                HostLine::Port(allocated) => port = Some(allocated),
                HostLine::Script(line) => machine = Some(line.strip_prefix("host ").unwrap_or_default().to_owned()),
            }
        }
        let program = read(files.program)?;
        fits(&program, files.program, &machine.unwrap_or_default(), &host.name)?;
        let key = read(files.key_file)?;
        let port = port.unwrap_or_default();
        let header = format!("{port} {validator} {} {} {}\n", key.len(), program.len(), args.miner_option.join(" "));
        standard_error::print(&format!("copying the miner ({} MB) to {}", program.len() / 1_000_000, host.name));
        host.input = Some(feed(input, [header.into_bytes(), key, program].concat()));
        match host.next(Instant::now() + STEP_LIMIT)? {
            HostLine::Script(line) if line == "started" => Ok(host),
            _ => Err(host.failure()),
        }
    }

    fn log_in(args: &TryArgs, address: SocketAddr, stopped: Arc<AtomicBool>) -> Result<(Self, ChildStdin), Failure> {
        // Ctrl-C is for the challenge; ssh leaves it ignored.
        let mut command = Command::new("sh");
        command.args(["-c", "trap '' INT; exec ssh \"$@\"", "ssh"]);
        command.args(["-T", "-oExitOnForwardFailure=yes", "-oControlMaster=no", "-oControlPath=none"]);
        command.args(["-oServerAliveInterval=5", "-oServerAliveCountMax=4", "-oLogLevel=INFO"]);
        command.args(args.ssh_option.iter().map(|option| format!("-o{option}")));
        if !std::io::stdin().is_terminal() {
            command.arg("-oBatchMode=yes");
        }
        command.arg(format!("-R127.0.0.1:0:{address}")).arg("--").arg(&args.host);
        command.arg(format!("exec sh -c '{}'", in_a_line(SCRIPT)));
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = spawned.map_err(|error| Failure::because(Exit::Config, "cannot run sh", error))?;
        let (sender, said) = sync_channel(MAX_WAITING);
        let tail = Arc::<Mutex<VecDeque<String>>>::default();
        if let Some(output) = child.stdout.take() {
            listen(output, tail.clone(), sender.clone(), |line| {
                Some(HostLine::Script(line.strip_prefix(MARK)?.to_owned()))
            });
        }
        if let Some(errors) = child.stderr.take() {
            listen(errors, tail.clone(), sender, |line| {
                let port = line.strip_prefix("Allocated port ")?.split(' ').next()?;
                port.parse().ok().map(HostLine::Port)
            });
        }
        let input = child.stdin.take().ok_or_else(|| Failure::new(Exit::Internal, "ssh has no standard input"))?;
        Ok((Self { name: args.host.clone(), child, input: None, said, tail, is_cleared: false, stopped }, input))
    }

    /// The next line of meaning; what ends the connection is a failure.
    fn next(&mut self, until: Instant) -> Result<HostLine, Failure> {
        let said = loop {
            self.check_stopped()?;
            match self.said.recv_timeout(STOP_POLL) {
                Err(RecvTimeoutError::Timeout) if Instant::now() < until => {}
                said => break said,
            }
        };
        match said {
            Ok(HostLine::Script(line)) if line.starts_with("lacks ") => {
                let program = printable(line.trim_start_matches("lacks "), 20);
                Err(self.failed(&format!("has no program {program}: install it (coreutils)")))
            }
            Ok(HostLine::Script(line)) if line == "full" => {
                Err(self.failed("has no folder with room for the miner in which programs may run"))
            }
            Ok(HostLine::Script(line)) if line == "unusable" => Err(self.failure()),
            Ok(line) => Ok(line),
            Err(RecvTimeoutError::Timeout) => Err(self.failed("does not answer")),
            Err(RecvTimeoutError::Disconnected) => Err(self.failure()),
        }
    }

    /// Fails once a person stopped the validator.
    pub fn check_stopped(&self) -> Result<(), Failure> {
        if self.stopped.load(Ordering::Relaxed) {
            return Err(Failure::new(Exit::CutShort, "interrupted"));
        }
        Ok(())
    }

    /// The failure, once the connection or the miner has ended.
    pub fn ended(&mut self) -> Option<Failure> {
        match self.said.try_recv() {
            Ok(HostLine::Script(line)) if line == "ended" => Some(self.failure()),
            Ok(_) | Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(self.failure()),
        }
    }

    /// Ends the miner; whether the host said that its files are removed.
    pub fn finish(mut self) -> bool {
        self.input = None;
        let until = Instant::now() + REMOVE_LIMIT;
        while !self.is_cleared {
            match self.said.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(HostLine::Script(line)) if line == "removed" => self.is_cleared = true,
                Ok(_) if Instant::now() < until => {}
                _ => return false,
            }
        }
        true
    }

    /// A failure of the host.
    pub fn failed(&self, why: &str) -> Failure {
        Failure::new(Exit::Inconclusive, format!("{} {why}", self.name))
    }

    /// The failure by the last lines of ssh and the host.
    fn failure(&mut self) -> Failure {
        // Of both streams, if the connection has ended.
        let until = Instant::now() + REST_LIMIT;
        while let Ok(line) = self.said.recv_timeout(until.saturating_duration_since(Instant::now())) {
            self.is_cleared |= matches!(line, HostLine::Script(line) if line == "removed");
            if Instant::now() >= until {
                break;
            }
        }
        let lines = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        // A miner that goes on without a driver says so too.
        let has = |part: &str| {
            lines.iter().any(|line| line.contains(part) && (part != NO_DRIVER || line.contains("error: ")))
        };
        let causes: [(&str, &str); 11] = [
            ("ssh: not found", "cannot be reached: ssh is missing here (Debian: openssh-client)"),
            ("Permission denied", "refused the login: ssh to it has to work by hand, with this user and key"),
            ("Host key verification failed", "has a key that is unknown here: log in once by hand, and compare it"),
            ("IDENTIFICATION HAS CHANGED", "has another key than before: find out why, then ssh-keygen -R"),
            ("Could not resolve", "has no address: check its name"),
            ("Connection refused", "has no sshd on that port: give ssh://host:port"),
            ("timed out", "does not answer: check its address, port and firewall"),
            ("orwarding failed", "forwards no ports: its sshd needs AllowTcpForwarding yes or remote for this user"),
            (
                "GLIBC_",
                "has an older C library than this miner: take the packaged one (--miner-program), which runs on glibc 2.28",
            ),
            (NO_DRIVER, "has no NVIDIA driver: install it (R525 or newer), or take --miner-option=--backend=wgpu"),
            ("Exec format error", "cannot run this miner: it is for another machine (--miner-program)"),
        ];
        if let Some((_, why)) = causes.iter().find(|(part, _)| has(part)) {
            return self.failed(why);
        }
        let said = lines.iter().map(|line| format!("\n  {line}")).collect::<String>();
        self.failed(&format!("ended the connection or its miner. Its last lines:{said}"))
    }
}

impl Drop for RemoteHost {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads lines of bounded length into the tail, and sends those that `meaning` knows.
fn listen(
    from: impl Read + Send + 'static,
    tail: Arc<Mutex<VecDeque<String>>>,
    sender: SyncSender<HostLine>,
    meaning: impl Fn(&str) -> Option<HostLine> + Send + 'static,
) {
    thread::spawn(move || {
        let mut from = BufReader::new(from);
        loop {
            let mut line = Vec::new();
            match from.by_ref().take(MAX_LINE).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
            let line = printable(String::from_utf8_lossy(&line).trim_end(), MAX_LINE as usize);
            if let Some(line) = meaning(&line) {
                if sender.send(line).is_err() {
                    return;
                }
            } else if !line.is_empty() {
                let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
                if tail.len() == MAX_LINES {
                    tail.pop_front();
                }
                tail.push_back(line);
            }
        }
    });
}

/// Writes the script's input, then signs of life until the returned sender is dropped.
fn feed(mut input: ChildStdin, bytes: Vec<u8>) -> Sender<()> {
    let (sender, ended) = channel();
    thread::spawn(move || {
        if input.write_all(&bytes).is_err() {
            return;
        }
        while ended.recv_timeout(SIGN_OF_LIFE) == Err(RecvTimeoutError::Timeout) {
            if input.write_all(b".").is_err() {
                return;
            }
        }
    });
    sender
}

/// A script whose lines are commands, or end with `do`.
fn in_a_line(script: &str) -> String {
    script.trim_end().replace('\n', "; ").replace(" do; ", " do ")
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(path).map_err(|error| Failure::because(Exit::Io, format!("cannot read {}", path.display()), error))
}

/// Refuses a program for another architecture than the host's.
fn fits(program: &[u8], path: &Path, machine: &str, host: &str) -> Result<(), Failure> {
    let ours = match program.get(..20) {
        Some(head) if head.starts_with(b"\x7fELF") && head[18..20] == [62, 0] => "x86_64",
        Some(head) if head.starts_with(b"\x7fELF") && head[18..20] == [183, 0] => "aarch64",
        _ => return Err(Failure::new(Exit::Data, format!("{} is no program for Linux", path.display()))),
    };
    if machine == format!("Linux {ours}") {
        return Ok(());
    }
    let (machine, path) = (printable(machine, 40), path.display());
    let message = format!("{host} is {machine}, and {path} is for Linux {ours}: give its miner with --miner-program");
    Err(Failure::new(Exit::Config, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_of_another_machine_is_refused() {
        let program = |machine: u8| [b"\x7fELF".as_slice(), &[0; 14], &[machine, 0], &[0; 9]].concat();
        let check = |program: &[u8], machine: &str| fits(program, Path::new("assay-miner"), machine, "gpu7");
        check(&program(62), "Linux x86_64").unwrap();
        check(&program(183), "Linux aarch64").unwrap();
        let refused = check(&program(62), "Linux aarch64").unwrap_err().to_string();
        assert_eq!(
            refused,
            "gpu7 is Linux aarch64, and assay-miner is for Linux x86_64: give its miner with --miner-program"
        );
        assert!(check(b"#!/bin/sh\nexit 0\nmore than twenty bytes", "Linux x86_64").is_err());
        assert!(check(b"", "Linux x86_64").is_err());
    }

    /// The script goes through the host's login shell between single quotes, as one line.
    #[test]
    fn the_script_has_no_quotes_that_end_it() {
        assert!(!SCRIPT.contains('\''));
    }

    #[test]
    fn lines_without_an_end_are_cut_and_the_last_ones_kept() {
        let (sender, said) = sync_channel(MAX_WAITING);
        let tail = Arc::<Mutex<VecDeque<String>>>::default();
        let flood = [vec![b'a'; 5000], b"\n\x1b[2Jred\nassay-try started\n".to_vec(), b"b\n".repeat(30)].concat();
        let meaning = |line: &str| line.strip_prefix(MARK).map(|line| HostLine::Script(line.to_owned()));
        listen(std::io::Cursor::new(flood), tail.clone(), sender, meaning);
        assert!(matches!(said.recv().unwrap(), HostLine::Script(line) if line == "started"));
        assert!(said.recv().is_err(), "the stream ended");
        let tail = tail.lock().unwrap();
        assert_eq!(tail.len(), MAX_LINES);
        assert!(tail.iter().all(|line| line == "b"), "{tail:?}");
    }

    /// Neither memory nor the wait for the end grows with a host's output.
    #[test]
    fn a_host_that_never_stops_talking_holds_nothing_up() {
        let (sender, said) = sync_channel(MAX_WAITING);
        let read = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let counted = read.clone();
        let meaning = move |_: &str| {
            counted.fetch_add(1, Ordering::Relaxed);
            Some(HostLine::Script("again".to_owned()))
        };
        listen(std::io::repeat(b'\n').take(1 << 30), Arc::default(), sender, meaning);
        let child = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
        let (name, tail, stopped) = ("gpu7".to_owned(), Arc::default(), Arc::default());
        let mut host = RemoteHost { name, child, input: None, said, tail, is_cleared: false, stopped };
        thread::sleep(STOP_POLL);
        assert!(read.load(Ordering::Relaxed) <= MAX_WAITING + 1, "it waits");
        assert!(host.failure().to_string().starts_with("gpu7 ended the connection"));
    }
}
