//! Arguments of `key`.

use assay_client::cli::server::ControlFlags;
use assay_program::settings::{Flags, RotateArgs};
use clap::{Args, Subcommand};

/// Arguments of `key`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct KeyArgs {
    /// What to do, beside showing the key.
    #[command(subcommand)]
    pub command: Option<KeyCommand>,
    /// Print JSON, with the path of the key file
    #[arg(long)]
    pub json: bool,
    /// The settings.
    #[command(flatten)]
    pub settings: Flags<ControlFlags>,
}

/// What else is done with the key.
#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Replace the key by a new one, for which the old one vouches for a while
    ///
    /// Miners that pin the old key follow it to the new one until the overlap is over. By then give them the new key. A
    /// running validator goes on with the old key until it is restarted. The old secret key is not kept.
    #[command(after_help = "Examples:
  assay-validator key rotate
  assay-validator key rotate --overlap 12h --key-file /var/lib/assay/validator.key")]
    Rotate(RotateArgs<ControlFlags>),
}
