//! Arguments of commands to a running validator.

use assay_api::parse_label;
use assay_api::record::Approval;
use assay_program::prefix::Prefix;
use clap::Args;

use super::one_of;
use super::records::CommonArgs;
use super::server::ValidatorFlags;

/// Arguments of `watch`.
#[derive(Debug, Args)]
pub struct WatchArgs {
    /// Show miners that have this in their key, labels, state, models or address; a key in the view changes it
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub filter: String,
    /// Which validator.
    #[command(flatten)]
    pub at: ValidatorFlags,
}

/// Arguments of `miners`.
#[derive(Debug, Args)]
pub struct MinersArgs {
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
    #[arg(long, value_parser = one_of(Approval::ALL, Approval::name))]
    pub status: Option<Approval>,
    /// Of these, those in an attestation state; not_passing: in any but passing, suspended and revoked
    #[arg(long, value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub state: Option<String>,
    /// What all have.
    #[command(flatten)]
    pub common: CommonArgs,
}

/// Arguments of `forget`.
#[derive(Debug, Args)]
pub struct ForgetArgs {
    /// The miner's key, or its first digits
    #[arg(value_name = "KEY")]
    pub miner: Prefix,
    /// What all have.
    #[command(flatten)]
    pub common: CommonArgs,
}
