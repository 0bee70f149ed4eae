//! `assay-validator challenge`: of connected miners, or into a file.

mod file;
mod live;
mod plan;
mod target;

use assay_api::BeginChallenge;
use assay_fleet::Overrides;
use assay_program::exit::{Exit, Failure};

use self::plan::Plan;
use self::target::Target;
use crate::cli::challenge::{ChallengeArgs, MinerChoice};
use crate::client::place::Place;
use crate::client::{self, Client};
use crate::config::ValidatorConfig;

/// Requests challenges of connected miners, or writes a challenge file.
///
/// # Errors
/// Arguments out of bounds, a file that cannot be written, no validator on the socket.
pub fn execute(config: &ValidatorConfig, args: &ChallengeArgs) -> anyhow::Result<Exit> {
    if !args.devices.is_empty() {
        return file::make(config, args);
    }
    let plan = Plan {
        target: target(args),
        request: live_request(args)?,
        receipt: args.live.receipt.clone(),
        wait: args.live.wait.map(target::Wait::new),
        detach: args.live.detach,
        json: args.json,
    };
    let place = Place::of(&config.control_socket, &args.at.server)?;
    client::block_on(async { plan::run(&Client::of(&place), &plan).await })
}

fn target(args: &ChallengeArgs) -> Target {
    match &args.miner {
        _ if args.all => Target::All,
        Some(MinerChoice::Key(prefix)) => Target::Key(prefix.clone()),
        Some(MinerChoice::Only) | None => Target::Only,
    }
}

/// The request for each miner; absent options follow the validator's policy.
fn live_request(args: &ChallengeArgs) -> Result<BeginChallenge, Failure> {
    let (samples, fill_percent) = (args.live.samples, args.live.fill_percent);
    if let Some(wrong) = (Overrides { samples, fill_percent, ..Overrides::default() }).out_of_bounds() {
        return Err(Failure::new(Exit::Usage, format!("--{}: {wrong}", wrong.setting.replace('_', "-"))));
    }
    Ok(BeginChallenge {
        miner: None,
        precision: args.kind,
        mode: args.live.mode,
        n: args.n,
        iterations: args.iterations,
        samples,
        fill_percent,
        eat_nonce: args.live.eat_nonce.clone().map(Into::into),
    })
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;
    use crate::cli::{Cli, Command};
    use crate::config::RawConfig;
    use assay_program::settings::{Environment, Settings};
    use assay_protocol::identity::Identity;
    use assay_protocol::verdict::Mode;
    use assay_work::{Challenge, Precision, UncheckedChallenge};
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

    #[test]
    fn what_is_not_given_is_left_to_the_policy() {
        let (_, args) = parsed(&["--miner", "only", "--samples=9", "--mode=audit", "--kind=fp8"]);
        let request = live_request(&args).unwrap();
        let expected = BeginChallenge {
            precision: Some(Precision::Fp8),
            mode: Some(Mode::Audit),
            samples: Some(9),
            ..BeginChallenge::default()
        };
        assert_eq!(request, expected);
        let (_, args) = parsed(&["--fill-percent=98"]);
        assert!(live_request(&args).unwrap_err().to_string().contains("from 1 to 97"));
    }
}
