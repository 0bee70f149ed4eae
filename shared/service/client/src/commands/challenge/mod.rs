//! `assay-validator challenge`: of connected miners.

mod live;
mod plan;
mod target;

use assay_api::BeginChallenge;
use assay_policy::Overrides;
use assay_program::exit::{Exit, Failure};

use self::plan::ChallengePlan;
use self::target::ChallengeTarget;
use crate::Client;
use crate::cli::challenge::{ChallengeArgs, MinerChoice};
use crate::place::ApiLocation;

/// Requests challenges of connected miners.
///
/// # Errors
/// Arguments out of bounds, a receipt's file that cannot be written, no validator at the place.
pub fn execute(place: &ApiLocation, args: &ChallengeArgs) -> anyhow::Result<Exit> {
    args.live.receipt.as_deref().map(assay_program::file::check_writable).transpose()?;
    let plan = ChallengePlan {
        target: target(args),
        request: live_request(args)?,
        receipt: args.live.receipt.clone(),
        wait: args.live.wait.map(target::WaitLimit::new),
        detach: args.live.detach,
        json: args.json,
    };
    crate::block_on(async { plan::run(&Client::of(place), &plan).await })
}

fn target(args: &ChallengeArgs) -> ChallengeTarget {
    match &args.miner {
        _ if args.all => ChallengeTarget::All,
        Some(MinerChoice::Key(prefix)) => ChallengeTarget::Key(prefix.clone()),
        Some(MinerChoice::Only) | None => ChallengeTarget::Only,
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
        precision: args.work.kind,
        mode: args.live.mode,
        n: args.work.n,
        iterations: args.work.iterations,
        samples,
        fill_percent,
        eat_nonce: args.live.eat_nonce.clone().map(Into::into),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use assay_protocol::verdict::Mode;
    use assay_work::Precision;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: ChallengeArgs,
    }

    /// Regression test: the file was opened after the challenge, whose receipt was lost.
    #[test]
    fn a_receipt_that_cannot_be_written_begins_no_challenge() {
        let folder = tempfile::tempdir().unwrap();
        let receipt = folder.path().join("no/receipt.jwt");
        let args = Line::try_parse_from(["challenge", "--receipt", receipt.to_str().unwrap()]).unwrap().args;
        let refused = execute(&ApiLocation::Socket(folder.path().join("none")), &args).unwrap_err().to_string();
        assert!(refused.contains("no is missing"), "{refused}");
    }

    #[test]
    fn what_is_not_given_is_left_to_the_policy() {
        let parsed = |line: &[&str]| Line::try_parse_from(["challenge"].iter().chain(line)).unwrap().args;
        let request = live_request(&parsed(&["--miner", "only", "--samples=9", "--mode=audit", "--kind=fp8"])).unwrap();
        let expected = BeginChallenge {
            precision: Some(Precision::Fp8),
            mode: Some(Mode::Audit),
            samples: Some(9),
            ..BeginChallenge::default()
        };
        assert_eq!(request, expected);
        let refused = live_request(&parsed(&["--fill-percent=98"])).unwrap_err();
        assert!(refused.to_string().contains("from 1 to 97"));
    }
}
