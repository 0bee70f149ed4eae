//! `assay-validator challenge --devices`: a challenge in a file.

use std::path::Path;

use assay_program::exit::{Exit, Failure, print};
use assay_program::file::write_text;
use assay_protocol::identity::random_bytes;
use assay_transport::own_key;
use assay_work::challenge::WORK_VERSION;
use assay_work::{Challenge, ChallengeId, Nonce, UncheckedChallenge};

use crate::cli::challenge::ChallengeArgs;
use crate::config::ValidatorConfig;
use crate::device_spec;

/// Writes a challenge over the given devices.
///
/// # Errors
/// Invalid arguments, a file that cannot be written, no key.
pub fn make(config: &ValidatorConfig, args: &ChallengeArgs) -> anyhow::Result<Exit> {
    let challenge = challenge(config, args)?;
    let text = serde_json::to_string_pretty(&challenge)?;
    let Some(path) = args.file.out.as_deref().filter(|path| *path != Path::new("-")) else {
        print(&text)?;
        return Ok(Exit::Done);
    };
    write_text(path, &(text + "\n"))?;
    let id = challenge.id();
    if args.json {
        print(&serde_json::json!({ "challenge_id": id, "file": path }).to_string())?;
    } else {
        print(&format!("challenge {id} in {}", path.display()))?;
    }
    Ok(Exit::Done)
}

/// A new challenge over the given devices.
fn challenge(config: &ValidatorConfig, args: &ChallengeArgs) -> anyhow::Result<Challenge> {
    let usage = |error: &dyn std::error::Error| Failure::new(Exit::Usage, format!("invalid challenge: {error}"));
    let miner_key = args.file.miner_key.ok_or_else(|| Failure::new(Exit::Usage, "--miner-key is missing"))?;
    let shares = device_spec::shares(&args.devices).map_err(|error| usage(&error))?;
    let random = |error| Failure::new(Exit::Internal, format!("the operating system gave no random bytes: {error}"));
    let validator_key = match args.file.validator_key {
        Some(key) => key,
        None => own_key::identity(&config.key_file)?.public_key(),
    };
    let precision = args.kind.unwrap_or_default();
    let unchecked = UncheckedChallenge {
        version: WORK_VERSION,
        challenge_id: ChallengeId(random_bytes().map_err(random)?),
        nonce: Nonce(random_bytes().map_err(random)?),
        validator_key,
        miner_key,
        precision: precision.code(),
        n: args.n.unwrap_or_else(|| config.policy.sizes(precision, 0.0).0),
        iterations: args.iterations.unwrap_or(config.policy.iterations),
        shares,
    };
    Ok(Challenge::try_from(unchecked).map_err(|error| usage(&error))?)
}
