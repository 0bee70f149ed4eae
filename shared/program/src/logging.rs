//! Logs: to standard error, for people or as JSON lines.

use std::io::{self, IsTerminal};

use clap::{Args, ValueEnum};
use tracing_subscriber::EnvFilter;

use super::settings::{Settings, SettingsError};

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Text.
    Human,
    /// One JSON object per line.
    Json,
}

/// Settings of the log, as written.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Logs")]
pub struct RawLogging {
    /// Format of the log on standard error
    #[arg(long, value_enum, default_value = "human")]
    pub log_format: LogFormat,
    /// Log level (error, warn, info, debug, trace), or filters such as `info,assay_worker=debug`
    #[arg(long, value_name = "FILTER", default_value = "info")]
    pub log: String,
}

/// Settings of the log, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogConfig {
    /// The format of lines.
    pub format: LogFormat,
    /// What is logged: a filter that parses.
    pub filter: String,
}

impl LogConfig {
    /// Checks what was written.
    ///
    /// # Errors
    /// [`SettingsError::Value`] for a filter that does not parse.
    pub fn check<R: Args>(settings: &Settings<R>, raw: &RawLogging) -> Result<Self, SettingsError> {
        let wrong = |error: tracing_subscriber::filter::ParseError| {
            settings.wrong("log", format!("expected a level, or target=level with commas between: {error}"))
        };
        EnvFilter::builder().parse(&raw.log).map_err(wrong)?;
        Ok(Self { format: raw.log_format, filter: raw.log.clone() })
    }

    /// Starts logging. Colours come on a terminal only, and not where `NO_COLOR` is set. Once in a process:
    /// later calls change nothing.
    pub fn start(&self) {
        let lines = tracing_subscriber::fmt()
            .with_env_filter(EnvFilter::builder().parse_lossy(&self.filter))
            .with_ansi(colour(&io::stderr()))
            .with_writer(io::stderr);
        // An error means that a logger stands already.
        let _ = match self.format {
            LogFormat::Human => lines.try_init(),
            LogFormat::Json => lines.json().flatten_event(true).try_init(),
        };
    }
}

/// Whether colours suit a stream: a terminal, and no `NO_COLOR` (<https://no-color.org>).
#[must_use]
pub fn colour(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
