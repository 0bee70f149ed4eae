//! `assay-miner run`.

use assay_shared::program::exit::{Exit, Failure};

use crate::config::MinerConfig;

/// Serves the validator until a signal, then drains.
///
/// # Errors
/// What keeps the miner from starting: its key, its devices.
pub fn execute(_config: &MinerConfig) -> anyhow::Result<Exit> {
    Err(Failure::new(Exit::Internal, "this build has no miner").into())
}
