//! `assay-validator receipt keys` and `receipt rotate`.

use std::io::Write;

use assay_api::ReloadResult;
use assay_client::cli::receipt::RotateReceiptArgs;
use assay_client::commands::records::ask;
use assay_client::place::ApiLocation;
use assay_program::clock::unix_seconds;
use assay_program::exit::{Exit, Failure, print};
use assay_program::utc;
use assay_protocol::key_file::KeyRotation;
use assay_protocol::successor::MAX_OVERLAP_S;
use assay_receipts::{Signer, SignerError, key_id};
use assay_transport::own_key;
use serde_json::json;

use crate::config::ValidatorConfig;
use crate::receipt;
use crate::reload::RECEIPT_KEY;

/// Prints the JWK set. The key is made on first use.
///
/// # Errors
/// The key file, or standard output.
pub fn print_set(config: &ValidatorConfig) -> anyhow::Result<Exit> {
    let signer = receipt::signer(config).map_err(failure)?;
    print(&format!("{:#}", signer.key_set(unix_seconds()).to_json()))?;
    Ok(Exit::Done)
}

/// Replaces the key, and has the validator on the control socket sign with the new one.
///
/// # Errors
/// The overlap, the key file, or standard output.
pub fn rotate(config: &ValidatorConfig, args: &RotateReceiptArgs) -> anyhow::Result<Exit> {
    if args.overlap.seconds > MAX_OVERLAP_S {
        return Err(Failure::new(Exit::Usage, format!("--overlap: must be at most {}d", MAX_OVERLAP_S / 86_400)).into());
    }
    let rotated = Signer::rotate(&config.receipt_key_file(), args.overlap.into(), unix_seconds()).map_err(failure)?;
    let KeyRotation { old_key, new_key, until_unix_seconds, dropped } = rotated;
    let (old, new) = (key_id(&old_key), key_id(&new_key));
    let in_force = reload(config);
    if args.json {
        let shown = json!({
            "old_key_id": old, "key_id": new, "until_unix_seconds": until_unix_seconds, "in_force": in_force.is_ok(),
        });
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
    let (exit, end) = concluded(in_force, until_unix_seconds.is_none());
    said.push(end);
    // Standard output has the key alone, for scripts. A closed standard error is ignored.
    let _ = writeln!(std::io::stderr(), "{}", said.join("\n"));
    Ok(exit)
}

/// Has the validator on the control socket reload the key; the error is the reason why it does not sign with the new
/// one.
fn reload(config: &ValidatorConfig) -> Result<(), String> {
    let place = ApiLocation::Socket(config.control_socket.clone());
    let answer: anyhow::Result<ReloadResult> = ask(&place, async |client| client.act("/reload").await);
    match answer {
        Ok(reloaded) if reloaded.changed.iter().any(|name| name == RECEIPT_KEY) => Ok(()),
        Ok(_) => Err(format!("the validator at {place} signs with the key of another file")),
        Err(error) => Err(format!("{error:#}")),
    }
}

/// The exit code, and the last line. With an overlap of 0 the old key must not sign: a possible use of it is a failure.
fn concluded(in_force: Result<(), String>, is_given_up: bool) -> (Exit, String) {
    let remedy = "run `assay-validator reload`, or restart it";
    match in_force {
        Ok(()) => (Exit::Done, "The running validator signs with the new key now.".to_owned()),
        Err(why) if is_given_up => {
            let danger =
                "Each validator that runs with this key STILL SIGNS with the one given up, and publishes it as good";
            (Exit::Inconclusive, format!("{danger}: {remedy}. ({why})"))
        }
        Err(why) => (Exit::Done, format!("A validator that runs signs with the old key still: {remedy}. ({why})")),
    }
}

/// The failure when the signing key cannot be used.
fn failure(error: SignerError) -> Failure {
    match error {
        SignerError::Key(error) => own_key::failure(error),
        error => {
            let exit = if matches!(error, SignerError::LostKey { .. }) { Exit::Config } else { Exit::Io };
            let message = error.to_string();
            Failure::because(exit, message, error)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_is_given_up_and_may_sign_still_is_no_success() {
        let gone = || Err("no validator runs at the control socket".to_owned());
        assert_eq!(concluded(Ok(()), true).0, Exit::Done);
        assert_eq!(concluded(gone(), false).0, Exit::Done, "its receipts can be checked while the overlap lasts");
        let (exit, said) = concluded(gone(), true);
        assert_eq!(exit, Exit::Inconclusive);
        assert!(
            said.contains("STILL SIGNS") && said.contains("assay-validator reload") && said.contains("no validator")
        );
    }
}
