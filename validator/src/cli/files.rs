//! Arguments of commands on files: challenges, evidence, openings.

use std::path::PathBuf;

use assay_client::cli::mode_parser;
use assay_program::settings::Flags;
use assay_protocol::verdict::Mode;
use clap::Args;

use crate::config::LocalFlags;

/// Modes of `verify`: those that need no answer of the miner.
const FILE_MODES: [Mode; 2] = [Mode::Replay, Mode::ReplaySample];

/// Arguments of `verify`.
#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// Challenge as JSON
    #[arg(long, value_name = "FILE")]
    pub challenge: PathBuf,
    /// Evidence as JSON
    #[arg(long, value_name = "FILE")]
    pub evidence: PathBuf,
    /// Verification mode
    #[arg(long, value_parser = mode_parser(&FILE_MODES))]
    pub mode: Mode,
    /// Iterations per device checked by replay-sample [default: the policy's]
    #[arg(long, value_name = "COUNT")]
    pub sampled_iterations: Option<u32>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// The settings.
    #[command(flatten)]
    pub settings: Flags<LocalFlags>,
}

/// Arguments of `check-openings`.
#[derive(Debug, Args)]
pub struct CheckOpeningsArgs {
    /// Openings as JSON; - for standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
