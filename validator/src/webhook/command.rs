//! One attempt to have a command read an event.

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use assay_program::manager;
use assay_work::text::quoted;
use rustix::process::{Pid, Signal, kill_process_group};

/// How often a command is looked at.
const NAP: Duration = Duration::from_millis(10);
/// Bytes kept of what a command last wrote to standard error, to say why it failed.
const MAX_ERROR_BYTES: usize = 512;

/// Runs a command that reads an event, in so much time.
///
/// # Errors
/// Why the event counts as not delivered, for an operator.
pub async fn deliver(program: &str, arguments: &[String], body: &Arc<[u8]>, limit: Duration) -> Result<(), String> {
    let (program, arguments, body) = (program.to_owned(), arguments.to_vec(), body.clone());
    let run = move || run(&program, &arguments, body, limit);
    tokio::task::spawn_blocking(run).await.map_err(|error| error.to_string())?
}

/// Runs a command in a process group of its own, which is killed when the time is over.
fn run(program: &str, arguments: &[String], body: Arc<[u8]>, limit: Duration) -> Result<(), String> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
    for variable in manager::VARIABLES {
        command.env_remove(variable);
    }
    let mut child = command.spawn().map_err(|error| format!("cannot run {}: {error}", quoted(program)))?;
    if let Some(mut input) = child.stdin.take() {
        // A command that does not read must not hold this up; what it left unread is its own matter. The thread ends with
        // the process group at the latest.
        let write = move || drop(input.write_all(&body));
        let _ = std::thread::Builder::new().name("hook-input".into()).spawn(write);
    }
    let mut errors = Errors::new(child.stderr.take());
    let status = wait(&mut child, &mut errors, limit);
    errors.read();
    match status {
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(format!("{status}{errors}")),
        None => Err(format!("it ran for longer than {limit:?} and was killed{errors}")),
    }
}

/// Waits for a command; `None` once it was killed.
fn wait(child: &mut Child, errors: &mut Errors, limit: Duration) -> Option<ExitStatus> {
    let until = Instant::now() + limit;
    while Instant::now() < until {
        errors.read();
        match child.try_wait() {
            Ok(None) => std::thread::sleep(NAP),
            Ok(status) => return status,
            // It cannot be waited for: it is not ours any more.
            Err(_) => break,
        }
    }
    // The group has the id of its first process, which was not waited for: the id is still its own.
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
    let _ = child.wait();
    None
}

/// What a command writes to standard error: its end is kept, and reading never waits.
struct Errors {
    pipe: Option<ChildStderr>,
    last: Vec<u8>,
}

impl Errors {
    fn new(pipe: Option<ChildStderr>) -> Self {
        Self { pipe: pipe.filter(|pipe| rustix::io::ioctl_fionbio(pipe, true).is_ok()), last: Vec::new() }
    }

    fn read(&mut self) {
        let Some(pipe) = &mut self.pipe else { return };
        let mut block = [0; 4096];
        // A command that writes without end is not followed for ever.
        for _ in 0..16 {
            match pipe.read(&mut block) {
                Ok(bytes) if bytes > 0 => self.last.extend_from_slice(&block[..bytes]),
                _ => break,
            }
        }
        let surplus = self.last.len().saturating_sub(MAX_ERROR_BYTES);
        self.last.drain(..surplus);
    }
}

impl std::fmt::Display for Errors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = String::from_utf8_lossy(&self.last);
        match text.trim() {
            "" => Ok(()),
            text => write!(f, "; it said {}", quoted(text)),
        }
    }
}
