//! Standard error, which may have no reader.

use std::io::{self, Write};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// How long printing may take.
const PRINT_LIMIT: Duration = Duration::from_millis(500);

/// Standard error without the lock of the standard library: a thread that waits there blocks no other.
#[cfg(unix)]
pub fn unlocked() -> Box<dyn Write + Send> {
    use std::os::fd::AsFd;
    match io::stderr().as_fd().try_clone_to_owned() {
        Ok(descriptor) => Box::new(std::fs::File::from(descriptor)),
        Err(_) => Box::new(io::stderr()),
    }
}

/// Standard error. A console takes its text from the standard library only.
#[cfg(not(unix))]
pub fn unlocked() -> Box<dyn Write + Send> {
    Box::new(io::stderr())
}

/// Prints a line, for at most 500 ms.
pub fn print(line: &str) {
    let (line, (done, ended)) = (format!("{line}\n"), mpsc::channel());
    let work = move || {
        // The error cannot be reported when standard error is closed.
        let _ = unlocked().write_all(line.as_bytes());
        let _ = done.send(());
    };
    // Where no thread can be started, or the time is up, nothing is printed.
    if thread::Builder::new().name("print".into()).spawn(work).is_ok() {
        let _ = ended.recv_timeout(PRINT_LIMIT);
    }
}
