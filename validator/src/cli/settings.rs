//! Arguments of commands on the configuration and the policy.

use std::path::PathBuf;

use assay_program::settings::{CheckConfigArgs, Flags, ShowArgs};
use clap::{Args, Subcommand};

use crate::config::RawConfig;

/// Commands about the configuration.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Check all settings, and say where they come from; nothing is started
    ///
    /// Checks what `serve` checks before it makes a file or opens a device: the configuration file, the environment and
    /// the flags, and the files that these name. Exit codes: 0 when the configuration is valid, 78 when it is not.
    #[command(after_help = "Examples:
  assay-validator config check
  assay-validator config check --config new.toml && mv new.toml /etc/assay/validator.toml")]
    Check(CheckConfigArgs<RawConfig>),
    /// Check all settings and print each with its value and origin
    Show(ShowArgs<RawConfig>),
}

/// What is asked about the policy of a fleet.
#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    /// Check a policy file beside the settings: every problem with its line and field, or the groups that it has
    #[command(after_help = "Examples:
  assay-validator policy check /etc/assay/fleet.toml
  assay-validator policy check fleet.toml --json | jq '.groups[].name'")]
    Check(PolicyCheckArgs),
}

/// Arguments of `policy check`.
#[derive(Debug, Args)]
pub struct PolicyCheckArgs {
    /// Policy file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// The configuration file.
    #[command(flatten)]
    pub settings: Flags<NoSettings>,
}

/// No setting on the command line.
#[derive(Debug, Args)]
pub struct NoSettings {}
