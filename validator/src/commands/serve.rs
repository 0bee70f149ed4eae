//! `assay-validator serve`.

use assay_shared::program::exit::{Exit, Failure};

use crate::config::ValidatorConfig;

/// Serves miners until a signal, then drains.
///
/// # Errors
/// What keeps the validator from starting: its key, its address, its socket.
pub fn execute(_config: &ValidatorConfig) -> anyhow::Result<Exit> {
    Err(Failure::new(Exit::Internal, "this build has no validator").into())
}
