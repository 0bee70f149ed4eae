//! Arguments of the commands on settings and keys that both programs have.

use clap::{Args, Subcommand};

use super::Flags;
use crate::span::Span;

/// Arguments of `config check`.
#[derive(Debug, Args)]
pub struct CheckConfigArgs<R: Args> {
    /// The settings.
    #[command(flatten)]
    pub settings: Flags<R>,
}

/// Arguments of `config show`.
#[derive(Debug, Args)]
pub struct ShowArgs<R: Args> {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// The settings.
    #[command(flatten)]
    pub settings: Flags<R>,
}

/// Arguments of `key`, with the commands below it.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct KeyArgs<R: Args, C: Subcommand> {
    /// What to do, beside showing the key.
    #[command(subcommand)]
    pub command: Option<C>,
    /// Print JSON, with the path of the key file
    #[arg(long)]
    pub json: bool,
    /// The settings.
    #[command(flatten)]
    pub settings: Flags<R>,
}

/// Arguments of `key rotate`.
#[derive(Debug, Args)]
pub struct RotateArgs<R: Args> {
    /// Seconds, minutes, hours, days or weeks (s, m, h, d, w) that the old key vouches for the new one; 0: it does not
    #[arg(long, value_name = "TIME", default_value = "30d")]
    pub overlap: Span,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// The settings.
    #[command(flatten)]
    pub settings: Flags<R>,
}
