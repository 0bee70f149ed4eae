//! The validator's signer of receipts.

use assay_receipts::{Signer, SignerError};

use crate::config::ValidatorConfig;

/// The program and its version, as receipts name it.
const BUILD: &str = concat!("assay-validator/", env!("CARGO_PKG_VERSION"));

/// The signer with the key beside that of sessions, which is made on first use.
///
/// # Errors
/// [`SignerError`].
pub fn signer(config: &ValidatorConfig) -> Result<Signer, SignerError> {
    Signer::open(&config.receipt_key_file(), BUILD)
}
