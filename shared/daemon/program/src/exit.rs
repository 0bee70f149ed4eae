//! Exit codes, and how an error becomes one.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | success; verdict pass; daemon drained |
//! | 1 | verdict fail |
//! | 2 | inconclusive verdict, or no challenge could be made; the miner does not run, or the validator does not serve |
//! | 3 | verdict pass, but no memory was shown |
//! | 64 | invalid command line |
//! | 65 | invalid input file |
//! | 70 | internal error, or a device failed |
//! | 74 | I/O error |
//! | 75 | stopped before it was drained: a challenge was cut short |
//! | 78 | invalid configuration, or an error only the operator can fix |

use std::error::Error;
use std::io::{self, Write};
use std::process::{ExitCode, Termination};

use serde::Serialize;

use crate::settings::SettingsError;
use crate::standard_error;

/// `EIO`, for which [`io::ErrorKind`] has no name.
const INPUT_OUTPUT_ERROR: i32 = 5;

/// The table of codes, for the end of a program's help.
pub const HELP: &str = "Exit codes:
  0   success; verdict pass; daemon drained
  1   verdict fail
  2   inconclusive verdict, or no challenge could be made; the miner does not run, or the validator does not serve
  3   verdict pass, but no memory was shown
  64  invalid command line
  65  invalid input file
  70  internal error, or a device failed
  74  I/O error
  75  stopped before it was drained: a challenge was cut short
  78  invalid configuration, or an error only the operator can fix";

/// The exit code of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Success; a verdict: pass.
    Done = 0,
    /// A verdict: fail.
    Fail = 1,
    /// A verdict: inconclusive.
    Inconclusive = 2,
    /// A verdict: pass, though no memory was shown.
    NoMemory = 3,
    /// Invalid command line.
    Usage = 64,
    /// Invalid input file.
    Data = 65,
    /// Internal error, or a device failed.
    Internal = 70,
    /// I/O error.
    Io = 74,
    /// A daemon was stopped before it was drained: a challenge was cut short.
    CutShort = 75,
    /// Invalid configuration, or an error only the operator can fix.
    Config = 78,
}

impl Termination for Exit {
    fn report(self) -> ExitCode {
        ExitCode::from(self as u8)
    }
}

/// An error that determines the program's exit code. It may stand anywhere in a chain of causes.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The program's exit code.
    pub exit: Exit,
    /// The problem and its remedy.
    pub message: String,
    pub source: Option<Box<dyn Error + Send + Sync>>,
}

impl Failure {
    /// A failure without a further cause.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), source: None }
    }

    /// A failure with its cause.
    pub fn because(exit: Exit, message: impl Into<String>, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { exit, message: message.into(), source: Some(source.into()) }
    }
}

/// The exit code for an error: that of the first cause in the chain that determines one.
pub fn of_error(error: &(dyn Error + 'static)) -> Exit {
    causes(error).find_map(of_cause).unwrap_or(Exit::Internal)
}

fn of_cause(cause: &(dyn Error + 'static)) -> Option<Exit> {
    if let Some(failure) = cause.downcast_ref::<Failure>() {
        return Some(failure.exit);
    }
    if cause.is::<SettingsError>() {
        return Some(Exit::Config);
    }
    if cause.is::<serde_json::Error>() {
        return Some(Exit::Data);
    }
    cause.is::<io::Error>().then_some(Exit::Io)
}

/// The exit code where a start is refused for a file: that of settings, which no restart mends, but for a disk that is full
/// or fails.
pub fn of_file_error(error: &(dyn Error + 'static)) -> Exit {
    let fails = |error: &io::Error| {
        let is_full = matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        is_full || error.raw_os_error() == Some(INPUT_OUTPUT_ERROR)
    };
    let fails = causes(error).filter_map(|cause| cause.downcast_ref::<io::Error>()).any(fails);
    if fails { Exit::Io } else { Exit::Config }
}

/// The error and its causes as one line, each said once.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let mut line = String::new();
    for cause in causes(error) {
        let said = cause.to_string();
        if line.ends_with(&said) {
            continue;
        }
        if !line.is_empty() {
            line.push_str(": ");
        }
        line.push_str(&said);
    }
    line
}

/// The error and its causes, one after the other.
pub fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |e: &&'a (dyn Error + 'static)| (*e).source())
}

/// Prints `error: …` with the chain of causes, and gives the exit code.
pub fn report(error: &(dyn Error + 'static)) -> Exit {
    standard_error::print(&format!("error: {}", chain(error)));
    of_error(error)
}

/// Prints clap's message: help and versions are no errors, anything else is wrong usage. (Clap's own code for that is
/// 2, which here is an inconclusive verdict.)
pub fn report_usage(error: &clap::Error) -> Exit {
    let _ = error.print();
    if error.use_stderr() { Exit::Usage } else { Exit::Done }
}

/// Prints to standard output. A reader that has gone away (`| head`) is no error.
///
/// # Errors
/// The system's error, for anything else.
pub fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush());
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(io::Error::new(error.kind(), format!("cannot write to standard output: {error}"))),
        Ok(()) => Ok(()),
    }
}

/// Prints a document as JSON, or its text for people: a command that does no more is done.
///
/// # Errors
/// As [`print()`].
pub fn print_document(
    document: &(impl Serialize + ?Sized),
    as_json: bool,
    text: impl FnOnce() -> String,
) -> io::Result<Exit> {
    print(&if as_json { serde_json::to_string_pretty(document)? } else { text() }).map(|()| Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_names_every_code() {
        for exit in [
            Exit::Done,
            Exit::Fail,
            Exit::Inconclusive,
            Exit::NoMemory,
            Exit::Usage,
            Exit::Data,
            Exit::Internal,
            Exit::Io,
            Exit::CutShort,
            Exit::Config,
        ] {
            let code = format!("  {:<4}", exit as u8);
            assert!(HELP.lines().any(|line| line.starts_with(&code)), "{exit:?}");
        }
    }

    #[test]
    fn the_first_cause_that_decides_is_the_code() {
        let io = || io::Error::other("disk");
        assert_eq!(of_error(&io()), Exit::Io);
        assert_eq!(of_error(&Failure::because(Exit::Data, "evidence", io())), Exit::Data);
        assert_eq!(of_error(&fmt_error()), Exit::Internal);
        let read = SettingsError::Read { path: "k".into(), source: io() };
        assert_eq!(of_error(&read), Exit::Config);
    }

    #[test]
    fn a_failing_disk_is_no_setting() {
        let file = |source: io::Error| SettingsError::Read { path: "k".into(), source };
        for (error, exit) in [
            (file(io::ErrorKind::StorageFull.into()), Exit::Io),
            (file(io::Error::from_raw_os_error(INPUT_OUTPUT_ERROR)), Exit::Io),
            (file(io::ErrorKind::PermissionDenied.into()), Exit::Config),
            (file(io::ErrorKind::ReadOnlyFilesystem.into()), Exit::Config),
        ] {
            assert_eq!(of_file_error(&error), exit, "{error:?}");
        }
        assert_eq!(of_file_error(&fmt_error()), Exit::Config);
    }

    fn fmt_error() -> std::fmt::Error {
        std::fmt::Error
    }

    #[test]
    fn a_chain_says_each_cause_once() {
        let error = Failure::because(Exit::Io, "cannot read a", io::Error::other("disk"));
        assert_eq!(chain(&error), "cannot read a: disk");
        let twice = Failure::because(Exit::Io, "cannot read a: disk", io::Error::other("disk"));
        assert_eq!(chain(&twice), "cannot read a: disk");
    }
}
