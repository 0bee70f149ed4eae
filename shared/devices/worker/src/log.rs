//! A worker's standard error, line by line into this program's log.

use std::io::{self, BufRead, BufReader, Read};
use std::thread;
use std::time::{Duration, Instant};

use assay_program::logging::quota::Quota;
use assay_work::text::printable;
use tracing::level_filters::LevelFilter;

/// Bytes kept of a line.
const MAX_LINE_BYTES: usize = 1024;
/// Lines of one worker in [`WINDOW`] that are kept: a driver that repeats itself does not fill a disk.
const MAX_LINES: u32 = 200;
/// The time in which [`MAX_LINES`] lines are kept.
const WINDOW: Duration = Duration::from_secs(10);

/// The log level of workers: that of this program.
pub fn level() -> &'static str {
    match LevelFilter::current().into_level() {
        None => "off",
        Some(tracing::Level::ERROR) => "error",
        Some(tracing::Level::WARN) => "warn",
        Some(tracing::Level::INFO) => "info",
        Some(tracing::Level::DEBUG) => "debug",
        Some(tracing::Level::TRACE) => "trace",
    }
}

/// Forwards lines until the pipe ends.
///
/// # Errors
/// No thread could be started.
pub fn forward(process: u32, lines: impl Read + Send + 'static) -> io::Result<()> {
    let work = move || {
        let mut quota = Quota::new(MAX_LINES, WINDOW);
        let skipped = |skipped: u64| {
            if skipped > 0 {
                tracing::warn!(process, "{skipped} lines of the worker were left out");
            }
        };
        each_line(lines, |line| {
            let (keep, before) = quota.take(Instant::now());
            skipped(before);
            if keep {
                log(process, line);
            }
        });
        skipped(quota.left_out());
    };
    thread::Builder::new().name("worker-log".into()).spawn(work).map(drop)
}

/// The worker's own lines start with their level; those of a library or the system do not.
fn log(process: u32, line: &str) {
    let line = line.trim();
    let (level, text) = line.split_once(' ').unwrap_or((line, ""));
    match level {
        "" => {}
        "ERROR" => tracing::error!(process, "worker: {text}"),
        "WARN" => tracing::warn!(process, "worker: {text}"),
        "INFO" => tracing::info!(process, "worker: {}", text.trim()),
        "DEBUG" => tracing::debug!(process, "worker: {text}"),
        "TRACE" => tracing::trace!(process, "worker: {text}"),
        _ => tracing::warn!(process, "worker: {line}"),
    }
}

/// Gives each line, cut to its bound, without terminal control characters.
fn each_line(from: impl Read, mut take: impl FnMut(&str)) {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    while let Ok(bytes) = from.fill_buf() {
        if bytes.is_empty() {
            break;
        }
        let (part, ended) = match bytes.iter().position(|byte| *byte == b'\n') {
            Some(end) => (&bytes[..end], true),
            None => (bytes, false),
        };
        line.extend_from_slice(&part[..part.len().min(MAX_LINE_BYTES - line.len())]);
        let used = part.len() + usize::from(ended);
        from.consume(used);
        if ended {
            take(&printable(&String::from_utf8_lossy(&line), MAX_LINE_BYTES));
            line.clear();
        }
    }
    if !line.is_empty() {
        take(&printable(&String::from_utf8_lossy(&line), MAX_LINE_BYTES));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(bytes: &[u8]) -> Vec<String> {
        let mut lines = Vec::new();
        each_line(bytes, |line| lines.push(line.to_owned()));
        lines
    }

    #[test]
    fn lines_are_cut_and_made_printable() {
        assert_eq!(lines(b"one\ntwo\n\nthree"), ["one", "two", "", "three"]);
        let long = [vec![b'x'; 10_000], b"\nnext\n".to_vec()].concat();
        assert_eq!(lines(&long), ["x".repeat(MAX_LINE_BYTES), "next".to_owned()]);
        assert_eq!(lines(b"\x1b[2Jred\xff\n"), [" [2Jred\u{fffd}"]);
        assert!(lines(b"").is_empty());
    }
}
