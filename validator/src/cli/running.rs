//! What commands to a running validator take.

use assay_program::prefix::Prefix;
use assay_program::settings::Flags;
use clap::Args;

use crate::config::ControlFlags;
use crate::operations::parse_label;

/// Arguments of commands about the whole validator.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// The settings.
    #[command(flatten)]
    pub settings: Flags<ControlFlags>,
}

/// Arguments of `miners`.
#[derive(Debug, Args)]
pub struct MinersArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Show all columns and whole keys
    #[arg(long, conflicts_with = "json")]
    pub wide: bool,
    /// List all miners that the records know, connected or not
    #[arg(long)]
    pub all: bool,
    /// Of these, those with a label; several are given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_label)]
    pub label: Vec<(String, String)>,
    /// Of these, those with a status
    #[arg(long, value_parser = ["pending", "approved", "suspended", "revoked"])]
    pub status: Option<String>,
    /// Of these, those in an attestation state
    #[arg(long)]
    pub state: Option<String>,
    /// The settings.
    #[command(flatten)]
    pub settings: Flags<ControlFlags>,
}

/// Arguments of `forget`.
#[derive(Debug, Args)]
pub struct ForgetArgs {
    /// The miner's key; the first digits suffice while it is connected
    #[arg(value_name = "KEY")]
    pub miner: Prefix,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// The settings.
    #[command(flatten)]
    pub settings: Flags<ControlFlags>,
}
