//! `assay-validator key` and `assay-validator key rotate`.

use std::io::Write;

use assay_program::exit::{Exit, Failure, print};
use assay_program::lock::StateLock;
use assay_program::utc;
use assay_protocol::key_file::{Rotated, Rotation};
use assay_protocol::successor::MAX_OVERLAP_S;
use assay_work::PublicKey;
use serde_json::json;

use crate::cli::{KeyArgs, RotateArgs};
use crate::clock::unix_seconds;
use crate::config::ValidatorConfig;
use crate::preflight::{identity, key_failure};

/// Prints the public key, which is made on first use, and says on standard error how a miner comes to pin it.
///
/// # Errors
/// The key file, or standard output.
pub fn execute(config: &ValidatorConfig, args: &KeyArgs) -> anyhow::Result<Exit> {
    let identity = identity(&config.key_file)?;
    let key = identity.public_key();
    if args.json {
        let key_file = config.key_file.display().to_string();
        let follows: Vec<_> = identity.successors().iter().map(|s| s.old_key).collect();
        let shown = json!({ "validator_key": key, "key_file": key_file, "follows": follows });
        print(&serde_json::to_string_pretty(&shown)?)?;
        return Ok(Exit::Done);
    }
    print(&key.to_string())?;
    // Standard output has the key alone, for scripts. Nobody is left to tell when standard error is closed.
    let mut errors = std::io::stderr();
    let _ = writeln!(
        errors,
        "Miners pin it: `assay-validator address` prints what they need. To have one serve this validator only:\n  \
         validator_key = \"{key}\"   in its configuration file, or\n  \
         --validator-key {key}"
    );
    for statement in identity.successors() {
        let until = utc::text(statement.until_unix_seconds);
        let _ = writeln!(errors, "A miner that pins {} follows it to this key, until {until}", statement.old_key);
    }
    if let Some(restart) = restart(config, key) {
        let _ = writeln!(errors, "{restart}");
    }
    Ok(Exit::Done)
}

/// Replaces the key by a new one that the old one vouches for.
///
/// # Errors
/// The key file, or standard output.
pub fn rotate(config: &ValidatorConfig, args: &RotateArgs) -> anyhow::Result<Exit> {
    if args.overlap.seconds > MAX_OVERLAP_S {
        return Err(Failure::new(Exit::Usage, format!("--overlap: must be at most {}d", MAX_OVERLAP_S / 86_400)).into());
    }
    let now = unix_seconds();
    let rotated = Rotation::begin(&config.key_file, now).and_then(|rotation| rotation.finish(args.overlap.into(), now));
    let Rotated { old_key, new_key, until_unix_seconds, dropped } = rotated.map_err(key_failure)?;
    if args.json {
        let shown = json!({ "old_key": old_key, "new_key": new_key, "until_unix_seconds": until_unix_seconds });
        print(&serde_json::to_string_pretty(&shown)?)?;
    } else {
        print(&new_key.to_string())?;
    }
    let mut said = vec![format!("The key {old_key} was replaced by {new_key}; the old secret key is gone.")];
    said.push(match until_unix_seconds {
        Some(until) => format!(
            "Miners that pin the old key follow it to the new one, until {}. By then give them the new key.",
            utc::text(until)
        ),
        None => "No miner that pins the old key takes the new one: give them the new key.".into(),
    });
    said.extend(dropped.map(|key| format!("Whoever still pins {key} does not follow any more: that is too long ago.")));
    said.extend(restart(config, new_key));
    // Standard output has the key alone, for scripts.
    let _ = writeln!(std::io::stderr(), "{}", said.join("\n"));
    Ok(Exit::Done)
}

/// What to do where a validator runs with another key than the one in its file.
fn restart(config: &ValidatorConfig, key: PublicKey) -> Option<String> {
    let holder = StateLock::holder(&config.key_file).filter(|holder| holder.who != key.to_string())?;
    Some(format!(
        "The running validator, process {}, goes on with the key that it started with: restart it to use the new one.",
        holder.pid
    ))
}
