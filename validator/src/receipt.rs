//! The validator's signer of receipts.

use assay_receipts::{Signer, SignerError};

use crate::config::ValidatorConfig;

/// Program and version, as receipts name them.
const BUILD: &str = concat!("assay-validator/", env!("CARGO_PKG_VERSION"));

/// Opens the signer with the key beside the session key; the key is made on first use.
pub fn signer(config: &ValidatorConfig) -> Result<Signer, SignerError> {
    Signer::open(&config.receipt_key_file(), BUILD)
}
