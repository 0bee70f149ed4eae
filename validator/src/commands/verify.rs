//! `assay-validator verify`.

use assay_shared::program::exit::{Exit, Failure};

use crate::cli::VerifyArgs;
use crate::config::ValidatorConfig;

/// Checks evidence by computing the work again, on this machine's devices.
///
/// # Errors
/// A file that cannot be read or is not what it should be. Devices that are missing or fail give an
/// inconclusive verdict instead.
pub fn execute(_config: &ValidatorConfig, _args: &VerifyArgs) -> anyhow::Result<Exit> {
    Err(Failure::new(Exit::Internal, "this build has no devices").into())
}
