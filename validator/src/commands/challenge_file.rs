//! `assay-validator challenge --devices`: a challenge in a file.

use std::path::Path;

use assay_client::cli::challenge::ChallengeArgs;
use assay_client::device_spec;
use assay_program::exit::{Exit, Failure, print};
use assay_program::file::write_text;
use assay_protocol::identity::random_bytes;
use assay_work::challenge::WORK_VERSION;
use assay_work::{Challenge, ChallengeId, Nonce, UncheckedChallenge};

use crate::config::ValidatorConfig;
use crate::preflight::own_identity;

/// Writes a challenge over the given devices.
///
/// # Errors
/// Invalid arguments, a file that cannot be written, no key.
pub fn execute(config: &ValidatorConfig, args: &ChallengeArgs) -> anyhow::Result<Exit> {
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
        None => own_identity(config)?.public_key(),
    };
    let precision = args.work.kind.unwrap_or_default();
    let unchecked = UncheckedChallenge {
        version: WORK_VERSION,
        challenge_id: ChallengeId(random_bytes().map_err(random)?),
        nonce: Nonce(random_bytes().map_err(random)?),
        validator_key,
        miner_key,
        precision: precision.code(),
        n: args.work.n.unwrap_or_else(|| config.policy.sizes(precision, 0.0).0),
        iterations: args.work.iterations.unwrap_or(config.policy.iterations),
        shares,
    };
    Ok(Challenge::try_from(unchecked).map_err(|error| usage(&error))?)
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;
    use crate::cli::{Cli, Command};
    use crate::config::RawConfig;
    use assay_program::settings::{Environment, Settings};
    use assay_protocol::identity::Identity;
    use assay_work::{Challenge, UncheckedChallenge};
    use clap::Parser;

    fn parsed(line: &[&str]) -> (ValidatorConfig, ChallengeArgs) {
        let line = ["assay-validator", "challenge"].iter().chain(line);
        let Command::Challenge(args) = Cli::try_parse_from(line).unwrap().command else { panic!() };
        let settings = Settings::<RawConfig>::resolve(&args.at.settings, &Environment::default()).unwrap();
        (ValidatorConfig::check(&settings).unwrap(), args)
    }

    #[test]
    fn a_challenge_file_holds_a_valid_challenge() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("challenge.json");
        let key_file = folder.path().join("validator.key");
        let miner_key = "cd".repeat(32);
        let (out, key_file) = (out.to_str().unwrap(), key_file.to_str().unwrap());
        let line = ["--devices", "3x64", "--n=512", "--miner-key", &miner_key, "--out", out, "--key-file", key_file];
        let (config, args) = parsed(&line);
        assert_eq!(execute(&config, &args).unwrap(), Exit::Done);
        let text = fs::read_to_string(out).unwrap();
        let challenge = Challenge::try_from(serde_json::from_str::<UncheckedChallenge>(&text).unwrap()).unwrap();
        assert_eq!((challenge.n(), challenge.iterations(), challenge.shares().len()), (512, 1, 3));
        assert_eq!(challenge.fields().miner_key.to_string(), miner_key);
        let identity = Identity::load_or_create(Path::new(key_file)).unwrap();
        assert_eq!(challenge.fields().validator_key, identity.public_key());
        // No other key is made beside its records.
        fs::write(folder.path().join("validator.db"), "x").unwrap();
        fs::remove_file(key_file).unwrap();
        let refused = execute(&config, &args).unwrap_err();
        assert!(refused.to_string().contains("restore it") && !Path::new(key_file).exists(), "{refused}");
    }

    #[test]
    fn a_challenge_that_breaks_a_rule_is_wrong_usage() {
        let key = "cd".repeat(32);
        for flag in ["--n=300", "--iterations=0"] {
            let (config, args) = parsed(&["--devices", "64", flag, "--miner-key", &key, "--validator-key", &key]);
            let error = execute(&config, &args).unwrap_err();
            assert_eq!(assay_program::exit::of_error(error.as_ref()), Exit::Usage, "{error}");
        }
    }
}
