//! `assay-miner work`.

use assay_shared::program::exit::{Exit, Failure};

use crate::cli::WorkArgs;
use crate::config::MinerConfig;

/// Does the work of a challenge file, and answers the probe when there is one.
///
/// # Errors
/// A file that cannot be read or is not what it should be, devices that are not there or fail.
pub fn execute(_config: &MinerConfig, _args: &WorkArgs) -> anyhow::Result<Exit> {
    Err(Failure::new(Exit::Internal, "this build has no devices").into())
}
