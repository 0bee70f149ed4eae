//! `assay-miner work`.

use std::path::Path;
use std::time::Instant;

use anyhow::Context;
use assay_device::host::{FitTask, Host};
use assay_device::run::ShareTask;
use assay_device::{Device, DeviceError, Handle};
use assay_program::exit::{Exit, Failure, print};
use assay_program::{file, progress};
use assay_protocol::identity::Identity;
use assay_transport::own_key;
use assay_work::commitment::{Evidence, commitment_message};
use assay_work::probe::{Answer, Probe, UncheckedProbe, probe_message};
use assay_work::{Challenge, Digest, Root, UncheckedChallenge};
use serde::Serialize;

use crate::cli::WorkArgs;
use crate::config::MinerConfig;

/// What the work gave, in the vectors' form.
#[derive(Debug, Serialize)]
struct WorkOutput {
    evidence: Evidence,
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<Answer>,
}

/// Does every share of a challenge on whatever devices there are, and answers the probe when there is one.
/// The result is signed when the challenge names this miner's key.
///
/// # Errors
/// A file that is unreadable or invalid, devices that are missing or fail.
pub fn execute(config: &MinerConfig, args: &WorkArgs) -> anyhow::Result<Exit> {
    let challenge = read_challenge(&args.challenge)?;
    let probe = args.probe.as_deref().map(|path| read_probe(path, &challenge)).transpose()?;
    for path in [&args.out, &args.answer_out].into_iter().flatten() {
        file::check_writable(path)?;
    }
    let identity = own_key::identity(&config.key_file)?;
    let chosen = config.devices.open(&identity.origin()).map_err(|e| Failure::because(Exit::Config, "devices", e))?;
    let start = Instant::now();
    let results = compute(&chosen.host, &challenge, probe)?;
    tracing::info!(
        "{} share(s) in {:.2} s on backend {}",
        results.len(),
        start.elapsed().as_secs_f64(),
        chosen.backend
    );
    let mut product = assemble(&challenge, probe, results);
    if challenge.fields().miner_key == identity.public_key() {
        sign(&mut product, &challenge, probe, &identity);
    }
    write(&product, args)?;
    Ok(Exit::Done)
}

fn read_challenge(path: &Path) -> Result<Challenge, Failure> {
    let unchecked: UncheckedChallenge = file::read(path, assay_work::from_json_under("challenge"))?;
    Challenge::try_from(unchecked).map_err(|error| {
        Failure::new(Exit::Data, format!("{}: the challenge breaks rule {}: {error}", path.display(), error.code()))
    })
}

fn read_probe(path: &Path, challenge: &Challenge) -> Result<Probe, Failure> {
    let unchecked: UncheckedProbe = file::read(path, assay_work::from_json_under("probe"))?;
    let probe = Probe::try_from(unchecked);
    let probe = probe.and_then(|probe| probe.check_devices(challenge.shares().len()).map(|()| probe));
    probe.map_err(|error| {
        Failure::new(Exit::Data, format!("{}: the probe breaks rule {}: {error}", path.display(), error.code()))
    })
}

type ShareProduct = (Vec<Root>, Vec<Digest>);

fn compute(host: &Host, challenge: &Challenge, probe: Option<Probe>) -> anyhow::Result<Vec<ShareProduct>> {
    let handle = Handle::default();
    let tasks: Vec<_> = ShareTask::of(challenge)
        .into_iter()
        .map(|task| FitTask { n: task.n, slots: task.share.count, what: task })
        .collect();
    let slots: u64 = challenge.shares().iter().map(|s| u64::from(s.count)).sum();
    let rounds = probe.map_or(0, |p| u64::from(p.rounds())) * challenge.shares().len() as u64;
    let steps = slots * u64::from(challenge.iterations()) + rounds;
    let run = {
        let handle = handle.clone();
        move |device: &mut dyn Device, task: ShareTask| compute_share(device, &task, probe, &handle)
    };
    progress::watch("work", steps, || handle.done_steps(), || host.run_anywhere(tasks, run))
        .context("the work could not be done")
}

fn compute_share(
    device: &mut dyn Device,
    task: &ShareTask,
    probe: Option<Probe>,
    handle: &Handle,
) -> Result<ShareProduct, DeviceError> {
    let roots = task.run(device, handle)?.roots;
    let last = roots.last().copied().unwrap_or(Root::BEFORE_FIRST);
    let digests = probe.map(|probe| task.run_probe(device, &probe, &last, handle)).transpose()?;
    Ok((roots, digests.unwrap_or_default()))
}

fn assemble(challenge: &Challenge, probe: Option<Probe>, results: Vec<ShareProduct>) -> WorkOutput {
    let (roots, digests) = results.into_iter().unzip();
    let answer = probe.map(|probe| Answer::assemble(challenge, &probe, digests));
    WorkOutput { evidence: Evidence::assemble(challenge, roots), answer }
}

fn sign(product: &mut WorkOutput, challenge: &Challenge, probe: Option<Probe>, identity: &Identity) {
    let work_key = challenge.work_key();
    let evidence = &mut product.evidence;
    evidence.signature = Some(identity.sign(&commitment_message(work_key, &evidence.checksum)));
    if let (Some(answer), Some(probe)) = (&mut product.answer, probe) {
        let message = probe_message(work_key, &evidence.checksum, &probe, &answer.checksum);
        answer.signature = Some(identity.sign(&message));
    }
}

fn write(product: &WorkOutput, args: &WorkArgs) -> anyhow::Result<()> {
    let to_file = |path: &Path, text: String| file::write_text(path, &(text + "\n"));
    if let Some(path) = &args.out {
        to_file(path, serde_json::to_string_pretty(&product.evidence)?)?;
    }
    if let (Some(path), Some(answer)) = (&args.answer_out, &product.answer) {
        to_file(path, serde_json::to_string_pretty(answer)?)?;
    }
    if args.out.is_none() || args.json {
        let text = if args.json { serde_json::to_string(product)? } else { serde_json::to_string_pretty(product)? };
        print(&text)?;
    }
    Ok(())
}
