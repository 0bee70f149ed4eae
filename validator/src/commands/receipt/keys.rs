//! `assay-validator receipt keys` and `receipt rotate`.

use std::io::Write;

use assay_program::exit::{Exit, Failure, print};
use assay_program::utc;
use assay_protocol::key_file::Rotated;
use assay_protocol::successor::MAX_OVERLAP_S;
use assay_receipts::{Signer, key_id};
use serde_json::json;

use super::failure;
use crate::cli::receipt::RotateReceiptArgs;
use crate::clock::unix_seconds;
use crate::config::ValidatorConfig;
use crate::receipt;

/// Prints the JWK set. The key is made on first use.
///
/// # Errors
/// The key file, or standard output.
pub fn print_set(config: &ValidatorConfig) -> anyhow::Result<Exit> {
    let signer = receipt::signer(config).map_err(failure)?;
    print(&format!("{:#}", signer.key_set().to_json()))?;
    Ok(Exit::Done)
}

/// Replaces the key.
///
/// # Errors
/// The overlap, the key file, or standard output.
pub fn rotate(config: &ValidatorConfig, args: &RotateReceiptArgs) -> anyhow::Result<Exit> {
    if args.overlap.seconds > MAX_OVERLAP_S {
        return Err(Failure::new(Exit::Usage, format!("--overlap: must be at most {}d", MAX_OVERLAP_S / 86_400)).into());
    }
    let rotated = Signer::rotate(&config.receipt_key_file(), args.overlap.into(), unix_seconds()).map_err(failure)?;
    let Rotated { old_key, new_key, until_unix_seconds, dropped } = rotated;
    let (old, new) = (key_id(&old_key), key_id(&new_key));
    if args.json {
        let shown = json!({ "old_key_id": old, "key_id": new, "until_unix_seconds": until_unix_seconds });
        print(&format!("{shown:#}"))?;
    } else {
        print(&new)?;
    }
    let mut said = vec![format!("The receipt key {old} was replaced by {new}; the old secret key is gone.")];
    said.push(match until_unix_seconds {
        Some(until) => format!(
            "Receipts signed with the old key can be checked until {}: give out the new set (assay-validator receipt \
             keys).",
            utc::text(until)
        ),
        None => "Receipts signed with the old key are given up: give out the new set (assay-validator receipt keys)."
            .to_owned(),
    });
    said.extend(dropped.map(|key| format!("The key {} is no longer in the set: that is too long ago.", key_id(&key))));
    said.push("A running validator signs with the new key after `assay-validator reload`.".into());
    // Standard output has the key alone, for scripts. Nobody is left to tell when standard error is closed.
    let _ = writeln!(std::io::stderr(), "{}", said.join("\n"));
    Ok(Exit::Done)
}
