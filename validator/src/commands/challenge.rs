//! `assay-validator challenge`: of a connected miner, or into a file.

use std::fs;
use std::path::Path;

use anyhow::Context;
use assay_program::exit::{Exit, Failure, print};
use assay_program::progress;
use assay_program::render::Screen;
use assay_protocol::identity::random_bytes;
use assay_protocol::verdict::{Mode, Verdict};
use assay_protocol::wire::mode_code;
use assay_protocol::wire::v1::RunChallengeRequest;
use assay_protocol::wire::v1::run_challenge_response::Message;
use assay_work::challenge::WORK_VERSION;
use assay_work::{Challenge, ChallengeId, Nonce, Precision, PublicKey, UncheckedChallenge};

use super::control;
use crate::cli::{ChallengeArgs, MinerChoice};
use crate::config::ValidatorConfig;
use crate::device_spec;
use crate::policy::{MAX_FILL_PERCENT, MAX_SAMPLES};
use crate::render;

/// A challenge to request from a running validator. Fields that are `None` follow its policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LiveRequest {
    /// The miner; `None`: the only one.
    pub miner_key: Option<PublicKey>,
    /// How the work is checked.
    pub mode: Option<Mode>,
    /// The matrix size.
    pub n: Option<u32>,
    /// How many passes.
    pub iterations: Option<u32>,
    /// Samples of each device and iteration.
    pub samples: Option<u32>,
    /// How much of the free memory is filled.
    pub fill_percent: Option<u32>,
}

/// Requests a challenge of a connected miner, or writes a challenge file.
///
/// # Errors
/// Arguments out of bounds, a file that cannot be written, no validator on the socket.
pub fn execute(config: &ValidatorConfig, args: &ChallengeArgs) -> anyhow::Result<Exit> {
    match args.miner {
        Some(miner) => {
            let verdict = ask(&config.control_socket, &live_request(miner, args)?)?;
            show(&verdict, args.json)
        }
        None => make(config, args),
    }
}

/// Requests a challenge, shows its progress and returns the verdict.
fn ask(socket: &Path, request: &LiveRequest) -> anyhow::Result<Verdict> {
    let bar = progress::bar("work", 0);
    let verdict = control::block_on(async {
        let client = control::connect(socket).await?;
        let mode = mode_code(request.mode);
        let message = RunChallengeRequest {
            miner_key: request.miner_key.map_or_else(Vec::new, |key| key.0.to_vec()),
            mode,
            n: request.n,
            iterations: request.iterations,
            samples: request.samples,
            fill_percent: request.fill_percent,
        };
        let mut updates = client.ask(|mut rpc| async move { rpc.run_challenge(message).await }).await?;
        while let Some(update) = updates.message().await.map_err(|status| client.broken(&status))? {
            match update.message {
                Some(Message::Progress(progress)) => {
                    bar.set_length(progress.all_slots);
                    bar.set_position(progress.done_slots);
                }
                Some(Message::Phase(phase)) => bar.set_prefix(phase),
                Some(Message::Verdict(verdict)) => return Ok(Verdict::try_from(verdict)?),
                None => {}
            }
        }
        Err(Failure::new(Exit::Inconclusive, "the validator closed the request without a verdict: see its log").into())
    });
    bar.finish_and_clear();
    verdict
}

fn show(verdict: &Verdict, json: bool) -> anyhow::Result<Exit> {
    if json {
        print(&serde_json::to_string_pretty(verdict)?)?;
    } else {
        print(&render::text(verdict, &Screen::stdout()))?;
    }
    Ok(super::exit_of(verdict.outcome))
}

fn live_request(miner: MinerChoice, args: &ChallengeArgs) -> Result<LiveRequest, Failure> {
    let check = |flag: &str, value: Option<u32>, most: u32| match value {
        Some(value) if !(1..=most).contains(&value) => {
            Err(Failure::new(Exit::Usage, format!("--{flag} {value}: must be from 1 to {most}")))
        }
        value => Ok(value),
    };
    Ok(LiveRequest {
        miner_key: match miner {
            MinerChoice::Only => None,
            MinerChoice::Key(key) => Some(key),
        },
        mode: args.live.mode,
        n: args.n,
        iterations: args.iterations,
        samples: check("samples", args.live.samples, MAX_SAMPLES)?,
        fill_percent: check("fill-percent", args.live.fill_percent, MAX_FILL_PERCENT)?,
    })
}

fn make(config: &ValidatorConfig, args: &ChallengeArgs) -> anyhow::Result<Exit> {
    let challenge = challenge(config, args)?;
    let text = serde_json::to_string_pretty(&challenge)?;
    let Some(path) = args.file.out.as_deref().filter(|path| *path != Path::new("-")) else {
        print(&text)?;
        return Ok(Exit::Done);
    };
    fs::write(path, text + "\n").with_context(|| format!("cannot write {}", path.display()))?;
    let id = challenge.id();
    if args.json {
        print(&serde_json::json!({ "challenge_id": id, "file": path }).to_string())?;
    } else {
        print(&format!("challenge {id} in {}", path.display()))?;
    }
    Ok(Exit::Done)
}

/// A new challenge over the devices that were given.
fn challenge(config: &ValidatorConfig, args: &ChallengeArgs) -> anyhow::Result<Challenge> {
    let usage = |error: &dyn std::error::Error| Failure::new(Exit::Usage, format!("invalid challenge: {error}"));
    let miner_key = args.file.miner_key.ok_or_else(|| Failure::new(Exit::Usage, "--miner-key is missing"))?;
    let shares = device_spec::shares(&args.devices).map_err(|error| usage(&error))?;
    let random = |error| Failure::new(Exit::Internal, format!("the operating system gave no random bytes: {error}"));
    let validator_key = match args.file.validator_key {
        Some(key) => key,
        None => super::identity(&config.key_file)?.public_key(),
    };
    let unchecked = UncheckedChallenge {
        version: WORK_VERSION,
        challenge_id: ChallengeId(random_bytes().map_err(random)?),
        nonce: Nonce(random_bytes().map_err(random)?),
        validator_key,
        miner_key,
        precision: Precision::Int8.code(),
        n: args.n.unwrap_or_else(|| config.policy.sizes(0.0).0),
        iterations: args.iterations.unwrap_or(config.policy.iterations),
        shares,
    };
    Ok(Challenge::try_from(unchecked).map_err(|error| usage(&error))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use crate::config::RawConfig;
    use assay_program::settings::{Environment, Settings};
    use assay_protocol::identity::Identity;
    use clap::Parser;

    fn parsed(line: &[&str]) -> (ValidatorConfig, ChallengeArgs) {
        let line = ["assay-validator", "challenge"].iter().chain(line);
        let Command::Challenge(args) = Cli::try_parse_from(line).unwrap().command else { panic!() };
        let settings = Settings::<RawConfig>::resolve(&args.settings, &Environment::default()).unwrap();
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
        let (_, args) = parsed(&["--miner", "only", "--samples=9", "--mode=audit"]);
        let request = live_request(args.miner.unwrap(), &args).unwrap();
        let expected = LiveRequest {
            miner_key: None,
            mode: Some(Mode::Audit),
            n: None,
            iterations: None,
            samples: Some(9),
            fill_percent: None,
        };
        assert_eq!(request, expected);
        let (_, args) = parsed(&["--miner", "only", "--fill-percent=98"]);
        assert!(live_request(args.miner.unwrap(), &args).unwrap_err().to_string().contains("from 1 to 97"));
    }
}
