//! Logs: to standard error or to a file, for people or as JSON lines.
//!
//! A log never changes the program's behaviour. Lines go into a queue of bounded size, and a thread of its own writes
//! them: a full disk, a closed pipe or a reader that sleeps costs lines, which are counted, and nothing else.

mod filter;
mod line;
mod list;
mod queue;
pub mod quota;
mod sink;

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::{self};
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use clap::{Args, ValueEnum};
use parking_lot::Mutex;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry, fmt, reload as filters};

use super::exit::{Exit, Failure};
use super::settings::{Settings, SettingsError};
use line::{LineFormat, LogStyle};
pub use list::list;
use queue::LineQueue;
use sink::Sink;

/// How long the end of a program waits for its log to be written.
const FLUSH_LIMIT: Duration = Duration::from_millis(500);

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Text.
    Human,
    /// One JSON object per line.
    Json,
}

/// Settings of the log of every command, as written.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Logs")]
pub struct RawLogging {
    /// Format of the log
    #[arg(long, value_enum, default_value = "human")]
    pub log_format: LogFormat,
    /// Log level (off, error, warn, info, debug, trace), or filters such as `info,assay_worker=debug`
    #[arg(long, value_name = "FILTER", default_value = "info")]
    pub log: String,
}

/// Settings of a daemon's log, as written.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Logs")]
pub struct RawDaemonLog {
    /// Of every command.
    #[command(flatten)]
    pub logging: RawLogging,
    /// File to log to instead of standard error; SIGHUP opens it anew
    #[arg(long, value_name = "FILE")]
    pub log_file: Option<PathBuf>,
}

/// Settings of the log, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogConfig {
    pub format: LogFormat,
    /// A filter that parses.
    pub filter: String,
    /// The file that a daemon logs to; `None`: standard error.
    pub file: Option<PathBuf>,
}

impl LogConfig {
    /// Checks the raw settings.
    ///
    /// # Errors
    /// [`SettingsError::Value`] for a filter with an unknown level.
    pub fn check<R: Args>(settings: &Settings<R>, raw: &RawDaemonLog) -> Result<Self, SettingsError> {
        let RawDaemonLog { logging: RawLogging { log_format, log }, log_file } = raw;
        filter::check(log).map_err(|reason| settings.wrong("log", reason))?;
        Ok(Self { format: *log_format, filter: log.clone(), file: log_file.clone() })
    }

    /// Checks the log file, and its folder, which is not created.
    ///
    /// # Errors
    /// [`Failure`] with the remedy.
    pub fn check_file(&self) -> Result<(), Failure> {
        let Some(path) = &self.file else { return Ok(()) };
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let why = match folder {
            _ if path.as_os_str().is_empty() => "the path is empty".to_owned(),
            _ if path.is_dir() => "a folder is there, where a file is expected".to_owned(),
            Some(folder) if !folder.is_dir() => format!("the folder {} is missing: make it", folder.display()),
            _ => return Ok(()),
        };
        Err(Failure::new(Exit::Config, format!("log_file = {}: {why}", path.display())))
    }

    /// The same without a file: for commands, which must not write into the log of a daemon.
    pub fn on_standard_error(&self) -> Self {
        Self { file: None, ..self.clone() }
    }

    /// Starts logging, and logs panics too. Once in a process: later calls change nothing.
    ///
    /// # Errors
    /// The log file cannot be opened.
    pub fn start(&self) -> Result<LogGuard, Failure> {
        let wrong = |reason| Failure::new(Exit::Config, reason);
        let look = match self.format {
            LogFormat::Human => LogStyle::Human,
            LogFormat::Json => LogStyle::Json,
        };
        let (filter, sink) = (filter::parse(&self.filter).map_err(wrong)?, self.sink().map_err(wrong)?);
        let started = start(filter, look, self.file.clone(), sink);
        started.map_err(|error| Failure::because(Exit::Internal, "no thread for the log", error))
    }

    fn sink(&self) -> Result<Sink, String> {
        self.file.as_deref().map_or_else(|| Ok(Sink::standard_error()), Sink::file)
    }
}

/// Starts the log of a worker, whose lines start with their level: the program that reads them puts them into its own
/// log, with the time.
///
/// # Errors
/// Why `filter` is refused, or that no thread could be started.
pub fn start_worker(filter: &str) -> Result<LogGuard, String> {
    let started = start(filter::parse(filter)?, LogStyle::Worker, None, Sink::standard_error());
    started.map_err(|error| format!("no thread for the log: {error}"))
}

/// Changes the level, and opens the log file anew: after a rename there is a new one. Callable from anywhere once the
/// log was started. The format of lines stays.
///
/// # Errors
/// The reason, in a sentence; the log goes on as before.
pub fn reload(config: &LogConfig) -> Result<(), String> {
    let log = LOG.get().ok_or("the log was not started")?;
    let (filter, sink) = (filter::parse(&config.filter)?, config.sink()?);
    let mut file = log.file.lock();
    // Standard error is not opened anew.
    if file.is_some() || config.file.is_some() {
        log.queue.write_to(sink).map_err(|error| format!("no thread for the log: {error}"))?;
        file.clone_from(&config.file);
    }
    log.filter.reload(filter).map_err(|error| format!("the log's level stays as it is: {error}"))
}

/// How many lines the log of this process lost: they came faster than they were written, or the output refused them.
pub fn lost_lines() -> u64 {
    LOG.get().map_or(0, |log| log.queue.lost())
}

static LOG: OnceLock<Log> = OnceLock::new();

struct Log {
    queue: Arc<LineQueue>,
    filter: filters::Handle<EnvFilter, Registry>,
    /// The file of the log; `None`: standard error.
    file: Mutex<Option<PathBuf>>,
}

fn start(filter: EnvFilter, look: LogStyle, file: Option<PathBuf>, sink: Sink) -> io::Result<LogGuard> {
    let (queue, colour) = (LineQueue::new(look), sink.has_colour());
    if LOG.get().is_none() {
        queue.write_to(sink)?;
    }
    let (filter, handle) = filters::Layer::new(filter);
    let writer = queue.clone();
    let lines = fmt::layer()
        .with_ansi(colour)
        .log_internal_errors(false)
        .fmt_fields(line::human_fields())
        .event_format(LineFormat::new(look, queue.colour()))
        .with_writer(move || queue::Writer(writer.clone()));
    // An error means that a logger stands already: it goes on.
    if tracing_subscriber::registry().with(filter).with(lines).try_init().is_ok() {
        // The cell was empty: this is the first log of the process.
        let _ = LOG.set(Log { queue, filter: handle, file: Mutex::new(file) });
        std::panic::set_hook(Box::new(log_panic));
    }
    Ok(LogGuard(()))
}

/// Logs a panic: the default print could wait for a reader of standard error.
fn log_panic(info: &std::panic::PanicHookInfo<'_>) {
    let thread = std::thread::current();
    let thread = thread.name().unwrap_or("unnamed");
    let location = info.location().map(ToString::to_string).unwrap_or_default();
    let payload = info.payload();
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let message = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("(no text)");
    let trace = Backtrace::capture();
    if trace.status() == BacktraceStatus::Captured {
        tracing::error!(target: "panic", thread, location, backtrace = %trace, "panicked: {message}");
    } else {
        tracing::error!(target: "panic", thread, location, "panicked: {message}");
    }
}

/// Writes the rest of the log when it is dropped, for at most 500 ms. Keep it to the end of main.
#[derive(Debug)]
pub struct LogGuard(());

impl LogGuard {
    /// Something that is used for as long as there is a log.
    pub fn keep_with<T>(self, value: T) -> LoggedValue<T> {
        LoggedValue { value, _log: self }
    }
}

impl Drop for LogGuard {
    fn drop(&mut self) {
        flush();
    }
}

/// Writes the rest of the log, for at most 500 ms: before this process ends without a return of main.
pub fn flush() {
    if let Some(log) = LOG.get() {
        log.queue.flush(FLUSH_LIMIT);
    }
}

/// A value, such as a configuration, with the guard of the log that was started from it.
#[derive(Debug)]
pub struct LoggedValue<T> {
    value: T,
    _log: LogGuard,
}

impl<T> Deref for LoggedValue<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_file_that_cannot_be_made_is_refused_before_the_start() {
        let folder = tempfile::tempdir().unwrap();
        let check = |path: PathBuf| {
            LogConfig { format: LogFormat::Human, filter: "info".to_owned(), file: Some(path) }.check_file()
        };
        let said = |path: PathBuf| check(path).unwrap_err().message;
        assert!(said(folder.path().into()).contains("a folder is there"));
        assert!(said(PathBuf::new()).contains("empty"));
        assert!(said(folder.path().join("missing/log")).contains("missing: make it"));
        assert!(check("log".into()).is_ok() && check(folder.path().join("log")).is_ok());
        assert!(!folder.path().join("log").exists(), "nothing is made");
    }
}
