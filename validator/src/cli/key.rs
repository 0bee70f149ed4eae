//! Arguments of `key`.

use assay_client::cli::server::ControlFlags;
use assay_program::settings::RotateArgs;
use clap::Subcommand;

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
