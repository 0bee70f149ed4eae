//! Selection of the running validator for a command.

use std::path::PathBuf;

use assay_program::logging::RawLogging;
use assay_program::paths;
use assay_program::settings::Flags;
use clap::Args;

use crate::place::ServerFlags;

/// Files that commands find the validator by, as written.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Files")]
pub struct RawClientFiles {
    /// Secret key file, created on first use
    #[arg(long, value_name = "FILE", default_value_os_t = paths::state_file("validator.key"))]
    pub key_file: PathBuf,
    /// Control socket of the running validator
    #[arg(long, value_name = "FILE", default_value_os_t = paths::runtime_file("validator.sock"))]
    pub control_socket: PathBuf,
}

/// The settings of a command that talks to a running validator.
#[derive(Debug, Clone, Args)]
pub struct ControlFlags {
    /// Files.
    #[command(flatten)]
    pub files: RawClientFiles,
    /// The log.
    #[command(flatten)]
    pub logging: RawLogging,
}

/// Which validator answers a command.
#[derive(Debug, Args)]
pub struct ValidatorFlags {
    /// The settings.
    #[command(flatten)]
    pub settings: Flags<ControlFlags>,
    /// One that is reached over HTTP.
    #[command(flatten)]
    pub server: ServerFlags,
}
