//! Selection of the running validator for a command.

use assay_program::settings::Flags;
use clap::Args;

use crate::client::place::ServerFlags;
use crate::config::ControlFlags;

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
