//! Receipts and keys, as commands take them.

use std::path::Path;

use assay_program::exit::{Exit, Failure};
use assay_program::file;
use assay_receipts::{
    Claims, EatNonce, KeySet, MAX_KEY_SET_BYTES, MAX_TOKEN_BYTES, ReceiptError, ReceiptExpectations, verify,
};

/// Tolerated difference between the validator's clock and this one, in seconds.
pub const LEEWAY_S: u64 = 60;

/// The token itself, or the content of a file. Names of files have no two dots after `eyJ`, as every token has.
pub fn token(argument: &str) -> Result<String, Failure> {
    if argument.starts_with("eyJ") && argument.matches('.').count() == 2 {
        return Ok(argument.to_owned());
    }
    // Room for a line break after the largest token.
    file::read_at_most(Path::new(argument), MAX_TOKEN_BYTES as u64 + 2)
}

/// The keys of a file.
pub fn keys(path: &Path) -> Result<KeySet, Failure> {
    let set = file::read_at_most(path, MAX_KEY_SET_BYTES as u64)?;
    KeySet::parse(&set).map_err(|error| Failure::new(Exit::Data, format!("{}: {error}", path.display())))
}

/// Checks a receipt of the past, with this nonce if any, against any of these sets. It may have expired, its key not.
///
/// # Errors
/// The refusal of the set that has its key.
pub fn verify_past(token: &str, sets: &[KeySet], nonce: Option<&EatNonce>, now_s: u64) -> Result<Claims, ReceiptError> {
    let (may_have_expired, leeway_s) = (true, LEEWAY_S);
    let expect = ReceiptExpectations { nonce, may_have_expired, now_s, leeway_s, ..ReceiptExpectations::default() };
    let mut refusal = None;
    for keys in sets {
        match verify(token.trim(), keys, &expect) {
            Ok(claims) => return Ok(claims),
            // Another set may have the key; the set that has it says more.
            Err(error @ ReceiptError::UnknownKey(_)) => refusal = refusal.or(Some(error)),
            Err(error) => refusal = Some(error),
        }
    }
    Err(refusal.unwrap_or(ReceiptError::NotToken))
}
