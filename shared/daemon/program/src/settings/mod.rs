//! Layered settings: a default, over it a TOML file, over it the environment, over it flags.
//!
//! A program defines its settings once, as a [`clap::Args`] whose arguments all have a default or may be
//! absent. From that come the flags and their help, the keys of the file (`cpu_devices` for
//! `--cpu-devices`), the environment variables (`ASSAY_MINER_CPU_DEVICES`), and the parsing of all of
//! them: a value means the same wherever it is written. Each layer that names a key replaces the whole
//! value of the layers below, lists included. A variable that is empty counts as not set.

mod arguments;
mod check;
mod file;
mod flags;
mod layers;
mod number;
mod show;
mod switch;

use std::fmt;
use std::io;
use std::path::PathBuf;

pub use arguments::{CheckConfigArgs, KeyArgs, RotateArgs, ShowArgs};
pub use check::AUTO;
pub use flags::Flags;
pub use layers::{Environment, Setting, Settings};
pub use switch::{Switch, parse};

/// Why a key that is unknown here would be known elsewhere, such as in a build with another feature or an earlier release.
pub type AbsenceReason = fn(&str) -> Option<String>;

/// The layer that a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Not given: the default.
    Default,
    /// The configuration file.
    File {
        path: PathBuf,
        /// The line that the value starts on, from 1.
        line: usize,
    },
    /// An environment variable of this name.
    Environment(String),
    /// A flag of this name, without dashes.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.pad("default"),
            Self::File { path, line } => write!(f, "file {}, line {line}", path.display()),
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::Flag(name) => write!(f, "flag --{name}"),
        }
    }
}

/// Settings are refused.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The configuration file cannot be read.
    #[error("cannot read the configuration file {path}")]
    Read {
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The configuration file is not TOML.
    #[error("the configuration file {path} is not valid TOML: {message}")]
    Syntax {
        path: PathBuf,
        /// The parser's error, with the place.
        message: String,
    },
    /// No setting has this name.
    #[error("{origin}: unknown setting `{key}`{}", hint(.nearest))]
    Unknown {
        /// The key as it would be in a file.
        key: String,
        origin: Origin,
        /// A setting of a similar name.
        nearest: Option<String>,
    },
    /// The setting is of a part that this build lacks, or of an earlier release.
    #[error("{origin}: `{key}` is not available: {why}")]
    Absent {
        /// The key as it would be in a file.
        key: String,
        origin: Origin,
        /// The reason and the remedy.
        why: String,
    },
    /// The value is not one for this setting.
    #[error("{key} = {value} ({origin}): {reason}")]
    Value {
        key: String,
        /// The value, as written.
        value: String,
        origin: Origin,
        /// The bound, and why it is there.
        reason: String,
    },
    /// Settings that exclude each other.
    #[error("conflicting settings: {0}")]
    Together(String),
}

fn hint(nearest: &Option<String>) -> String {
    nearest.as_ref().map_or_else(String::new, |key| format!("; did you mean `{key}`?"))
}

#[cfg(test)]
mod tests;
