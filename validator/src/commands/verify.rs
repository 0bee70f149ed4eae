//! `assay-validator verify`.

use std::collections::BTreeMap;

use assay_client::commands::exit_of;
use assay_client::render;
use assay_device::Handle;
use assay_program::clock::unix_seconds;
use assay_program::exit::{Exit, Failure, print};
use assay_program::render::Screen;
use assay_program::{file, progress};
use assay_protocol::identity;
use assay_protocol::message::Inventory;
use assay_protocol::verdict::{Mode, Reason, ReasonCode, Verdict};
use assay_work::bounds::IterationDraw;
use assay_work::commitment::{Evidence, commitment_message};
use assay_work::{Challenge, UncheckedChallenge};

use crate::cli::files::VerifyArgs;
use crate::config::ValidatorConfig;
use assay_judge::entropy::{EntropyError, OsEntropy};
use assay_judge::history::devices::Difference;
use assay_judge::history::{AbandonedCount, SecondComputation};
use assay_judge::replay::Extent;
use assay_judge::run::commitment_reason;
use assay_judge::verify::draw;
use assay_judge::verify::judge::{Findings, Gaps};
use assay_replay::Replayer;
use assay_replay::job::ReplayJob;

/// Checks evidence by computing the work again, on this machine's devices.
///
/// # Errors
/// A file that is unreadable or invalid. Devices that are missing or fail give an
/// inconclusive verdict instead.
pub fn execute(config: &ValidatorConfig, args: &VerifyArgs) -> anyhow::Result<Exit> {
    let unchecked: UncheckedChallenge = file::read(&args.challenge, assay_work::from_json_under("challenge"))?;
    let challenge = Challenge::try_from(unchecked).map_err(|error| {
        let path = args.challenge.display();
        Failure::new(Exit::Data, format!("{path}: the challenge breaks rule {}: {error}", error.code()))
    })?;
    let evidence: Evidence = file::read(&args.evidence, assay_work::from_json_under("evidence"))?;
    let drawn = args.sampled_iterations.unwrap_or(config.policy.sampled_iterations);
    let extent = extent(&challenge, (args.mode == Mode::ReplaySample).then_some(drawn))?;
    let result = judge(config, &challenge, &evidence, &extent);
    let verdict = sum_up(config, &challenge, args.mode, &extent, result.err());
    if args.json {
        print(&serde_json::to_string_pretty(&verdict)?)?;
    } else {
        print(&render::text(&verdict, &Screen::stdout()))?;
        if evidence.signature.is_none() {
            print("The evidence is not signed: the verdict covers the work, not who did it.")?;
        }
    }
    Ok(exit_of(verdict.outcome, verdict.lacks_memory()))
}

/// All iterations, or a draw of this number for each device.
fn extent(challenge: &Challenge, drawn: Option<u32>) -> Result<Extent, EntropyError> {
    let Some(drawn) = drawn else { return Ok(Extent::Everything) };
    let of = IterationDraw::new(challenge.iterations(), drawn);
    let draw = |_| draw::iterations(of, &mut OsEntropy);
    Ok(Extent::Sampled(challenge.shares().iter().map(draw).collect::<Result<_, _>>()?))
}

/// Checks the checksums, the signature if there is one, then the work itself.
fn judge(config: &ValidatorConfig, challenge: &Challenge, evidence: &Evidence, extent: &Extent) -> Result<(), Reason> {
    evidence.check(challenge).map_err(|error| commitment_reason(&error))?;
    if let Some(signature) = &evidence.signature {
        let message = commitment_message(challenge.work_key(), &evidence.checksum);
        if !identity::verify(&challenge.fields().miner_key, &message, signature) {
            let detail = "it does not hold for the challenge's miner_key";
            return Err(Reason::new(ReasonCode::CommitmentSignature, detail));
        }
    }
    let ours = |error: &dyn std::error::Error| Reason::new(ReasonCode::ValidatorDevices, error.to_string());
    // Device ids are for this run only.
    let chosen = config.devices.open(&challenge.fields().validator_key).map_err(|error| ours(&error))?;
    let replayer = Replayer::new(chosen.host).map_err(|error| ours(&error))?;
    let handle = Handle::default();
    let job = ReplayJob {
        challenge: challenge.clone().into(),
        evidence: evidence.clone().into(),
        extent: extent.clone(),
        second: SecondComputation::Due,
    };
    let replay = || replayer.replay(&job, &handle).finding.into_result();
    progress::watch("replay", job.slots(), || handle.done_steps(), replay)
}

fn sum_up(
    config: &ValidatorConfig,
    challenge: &Challenge,
    mode: Mode,
    extent: &Extent,
    reason: Option<Reason>,
) -> Verdict {
    let checked = match extent {
        Extent::Everything => challenge.iterations(),
        Extent::Sampled(drawn) => drawn.iter().map(|d| d.len() as u32).min().unwrap_or(0),
    };
    Findings {
        challenge,
        inventory: &Inventory::default(),
        mode: Some(mode),
        iterations_checked: if reason.is_none() { checked } else { 0 },
        work_time: None,
        finished: &BTreeMap::new(),
        probed: &BTreeMap::new(),
        probe: None,
        linked: None,
        linked_policy: None,
        sweep: None,
        wants_sweep: false,
        samples: 0,
        segments: 0,
        claimed: Vec::new(),
        claimed_whole: None,
        round_trip: None,
        gaps: Gaps::default(),
        hiding: config.policy.hiding,
        not_challenged: Vec::new(),
        difference: Difference::default(),
        rates: BTreeMap::new(),
        device_missing: config.policy.device_missing,
        expectation: None,
        recent: AbandonedCount::default(),
        reasons: reason.into_iter().collect(),
        unix_seconds: unix_seconds(),
    }
    .verdict()
}
