//! `assay-miner work`.

use std::cmp::Reverse;
use std::path::Path;
use std::time::Instant;

use anyhow::Context;
use assay_device::host::{FitTask, Host, wait_for_all};
use assay_device::linked::{self, LinkedPart};
use assay_device::run::ShareTask;
use assay_device::{Device, DeviceError, Handle};
use assay_program::exit::{Exit, Failure, print};
use assay_program::render::units::counted;
use assay_program::{file, progress};
use assay_protocol::identity::Identity;
use assay_protocol::message::MATRIX_SIZES;
use assay_transport::own_key;
use assay_work::commitment::{Evidence, commitment_message};
use assay_work::probe::{Answer, Link, MemoryProbe, Probe, Sweep, UncheckedProbe, UncheckedSweep, probe_message};
use assay_work::{Challenge, DeviceId, Digest, Root, UncheckedChallenge};
use serde::Serialize;

use crate::cli::WorkArgs;
use crate::config::MinerConfig;
use crate::engine::cancel_on_error;

/// Evidence, answer and openings of the work, in the form of the vectors.
#[derive(Debug, Serialize)]
struct WorkOutput {
    evidence: Evidence,
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<Answer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sweep_answer: Option<Answer>,
}

/// The probes to answer after the work.
#[derive(Debug, Clone, Copy, Default)]
struct AskedProbes {
    probe: Option<Probe>,
    sweep: Option<Sweep>,
}

/// Results of one share.
#[derive(Debug)]
struct ShareProduct {
    /// Of every iteration.
    roots: Vec<Root>,
    /// Of every round of the probe.
    probe: Vec<Digest>,
    /// Of every round of the sweep.
    sweep: Vec<Digest>,
}

/// Does every share of a challenge on the devices present, and answers the probe and the sweep when there are. The result is
/// signed when the challenge names this miner's key.
///
/// # Errors
/// A file that is unreadable or invalid, devices that are missing or fail.
pub fn execute(config: &MinerConfig, args: &WorkArgs) -> anyhow::Result<Exit> {
    check(args)?;
    let challenges = args.challenge.iter().map(|path| read_challenge(path)).collect::<Result<Vec<_>, _>>()?;
    let sweep = args.sweep.as_deref().map(read_sweep).transpose()?;
    let asked = |challenge| {
        let probe = args.probe.as_deref().map(|path| read_probe(path, challenge)).transpose();
        probe.map(|probe| AskedProbes { probe, sweep })
    };
    let asked = challenges.iter().map(asked).collect::<Result<Vec<_>, _>>()?;
    for path in [&args.out, &args.answer_out, &args.slot_out, &args.sums_out].into_iter().flatten() {
        file::check_writable(path)?;
    }
    let identity = own_key::identity(&config.key_file)?;
    if let (Some(slot), Some(path), [challenge]) = (args.slot, &args.slot_out, &challenges[..]) {
        let host = config.devices.host(&identity.origin());
        let (roots, bytes, sums) = super::work_slot::compute(host, challenge, slot, args.sums_out.is_some())?;
        file::write(path, &bytes)?;
        args.sums_out.as_deref().map_or(Ok(()), |path| file::write(path, &sums))?;
        let product = ShareProduct { roots, probe: Vec::new(), sweep: Vec::new() };
        return finish(challenge, AskedProbes::default(), vec![product], &identity, args);
    }
    let chosen = config.devices.open(&identity.origin()).map_err(Failure::from)?;
    for (challenge, asked) in challenges.iter().zip(asked) {
        let start = Instant::now();
        let results = compute(&chosen.host, challenge, asked)?;
        let (shares, seconds) = (counted(results.len() as u64, "share"), start.elapsed().as_secs_f64());
        tracing::info!("{shares} in {seconds:.2} s on backend {}", chosen.backend);
        finish(challenge, asked, results, &identity, args)?;
    }
    Ok(Exit::Done)
}

/// Checks that options for one file or one slot come with one challenge.
fn check(args: &WorkArgs) -> Result<(), Failure> {
    let of_one = args.out.is_some() || args.slot.is_some() || !args.json;
    if args.challenge.len() > 1 && of_one {
        let text = "several --challenge need --json, and neither --out nor --slot";
        return Err(Failure::new(Exit::Usage, text.to_owned()));
    }
    Ok(())
}

/// Signs the result where the challenge names this miner, and writes it.
fn finish(
    challenge: &Challenge,
    asked: AskedProbes,
    results: Vec<ShareProduct>,
    identity: &Identity,
    args: &WorkArgs,
) -> anyhow::Result<Exit> {
    let mut product = assemble(challenge, asked, results);
    if challenge.fields().miner_key == identity.public_key() {
        sign(&mut product, challenge, asked, identity);
    }
    write(&product, args)?;
    Ok(Exit::Done)
}

fn read_challenge(path: &Path) -> Result<Challenge, Failure> {
    let unchecked: UncheckedChallenge = file::read(path, assay_work::from_json_under("challenge"))?;
    Challenge::try_from(unchecked).map_err(|error| broken(path, "challenge", error.code(), &error))
}

fn read_probe(path: &Path, challenge: &Challenge) -> Result<Probe, Failure> {
    let unchecked: UncheckedProbe = file::read(path, assay_work::from_json_under("probe"))?;
    let probe = Probe::try_from(unchecked);
    let probe = probe.and_then(|probe| probe.check_devices(challenge.shares().len()).map(|()| probe));
    probe.map_err(|error| broken(path, "probe", error.code(), &error))
}

fn read_sweep(path: &Path) -> Result<Sweep, Failure> {
    let unchecked: UncheckedSweep = file::read(path, assay_work::from_json_under("sweep"))?;
    Sweep::try_from(unchecked).map_err(|error| broken(path, "sweep", error.code(), &error))
}

/// The failure of a file whose content breaks a rule of WORK.md.
fn broken(path: &Path, what: &str, code: &str, error: &dyn std::fmt::Display) -> Failure {
    Failure::new(Exit::Data, format!("{}: the {what} breaks rule {code}: {error}", path.display()))
}

fn compute(host: &Host, challenge: &Challenge, asked: AskedProbes) -> anyhow::Result<Vec<ShareProduct>> {
    let handle = Handle::default();
    let rounds = asked.probe.map_or(0, |p| u64::from(p.rounds())) + asked.sweep.map_or(0, |s| u64::from(s.rounds()));
    let steps = challenge.filled_slots() + rounds * challenge.shares().len() as u64;
    let compute = || match asked.probe.filter(|probe| probe.link() == Link::All) {
        Some(probe) => compute_linked(host, challenge, (&probe, asked.sweep), &handle),
        None => compute_anywhere(host, challenge, asked, &handle).map_err(anyhow::Error::from),
    };
    progress::watch("work", steps, || handle.done_steps(), compute).context("the work could not be done")
}

/// Computes each share on the first device with room, several on one where there are more shares than devices.
fn compute_anywhere(
    host: &Host,
    challenge: &Challenge,
    asked: AskedProbes,
    handle: &Handle,
) -> Result<Vec<ShareProduct>, DeviceError> {
    let tasks: Vec<_> = ShareTask::of(challenge)
        .into_iter()
        .map(|task| FitTask { n: task.n, slots: task.share.count, what: task })
        .collect();
    let handle = handle.clone();
    host.run_anywhere(tasks, move |device: &mut dyn Device, task| compute_share(device, &task, asked, &handle))
}

/// Computes all shares at once, each on a device of its own, walks a linked probe over them, and answers a sweep.
fn compute_linked(
    host: &Host,
    challenge: &Challenge,
    (probe, sweep): (&Probe, Option<Sweep>),
    handle: &Handle,
) -> anyhow::Result<Vec<ShareProduct>> {
    let devices = assign(host, challenge)?;
    let fill = |(task, id): (ShareTask, &DeviceId)| {
        let handle = handle.clone();
        host.submit(*id, move |device| cancel_on_error(&handle, task.run(device, &handle)))
    };
    let jobs = ShareTask::of(challenge).into_iter().zip(&devices).map(fill).collect::<Result<Vec<_>, _>>()?;
    let roots: Vec<_> = wait_for_all(jobs)?.into_iter().map(|result| result.roots).collect();
    let last: Vec<_> = roots.iter().map(|roots| roots.last().copied().unwrap_or(Root::BEFORE_FIRST)).collect();
    let walk = |(part, id): (LinkedPart, &DeviceId)| {
        let handle = handle.clone();
        host.submit(*id, move |device| cancel_on_error(&handle, part.walk(device, &handle)))
    };
    let parts = linked::parts(challenge, probe, &last)?;
    let jobs = parts.into_iter().zip(&devices).map(walk).collect::<Result<Vec<_>, _>>()?;
    let walked = wait_for_all(jobs)?;
    let sum = |((task, last), id): ((ShareTask, &Root), &DeviceId)| {
        let (handle, last) = (handle.clone(), *last);
        host.submit(*id, move |device| cancel_on_error(&handle, sums(device, &task, sweep, &last, &handle)))
    };
    let tasks = ShareTask::of(challenge).into_iter().zip(&last);
    let summed = wait_for_all(tasks.zip(&devices).map(sum).collect::<Result<Vec<_>, _>>()?)?;
    let products = roots.into_iter().zip(walked).zip(summed);
    Ok(products.map(|((roots, probe), sweep)| ShareProduct { roots, probe, sweep }).collect())
}

/// Digests of every round of the sweep, if any, over a share that is resident.
fn sums(
    device: &mut dyn Device,
    task: &ShareTask,
    sweep: Option<Sweep>,
    last_root: &Root,
    handle: &Handle,
) -> Result<Vec<Digest>, DeviceError> {
    sweep.map_or_else(|| Ok(Vec::new()), |sweep| task.run_sweep(device, &sweep, last_root, handle))
}

/// A device of this host for each share, in their order: the one with the most slots for the largest.
fn assign(host: &Host, challenge: &Challenge) -> anyhow::Result<Vec<DeviceId>> {
    let size = MATRIX_SIZES.iter().position(|n| *n == challenge.n());
    let mut devices: Vec<_> = host
        .report(&MATRIX_SIZES)?
        .into_iter()
        .filter(|report| report.fault.is_none())
        // A checked challenge has one of these sizes.
        .map(|report| (size.map_or(0, |size| report.slots[size]), report.info.id))
        .collect();
    devices.sort_by_key(|(slots, _)| Reverse(*slots));
    let mut shares: Vec<_> = challenge.shares().iter().enumerate().collect();
    shares.sort_by_key(|(_, share)| Reverse(share.count));
    let mut assigned = Vec::with_capacity(shares.len());
    let mut devices = devices.into_iter();
    for (index, share) in shares {
        let device = devices.next().filter(|(slots, _)| *slots >= share.count);
        let (_, id) = device.ok_or_else(|| {
            let (count, shares) = (share.count, challenge.shares().len());
            let text =
                format!("a linked probe of {shares} shares needs as many devices: none is left for {count} slots");
            Failure::new(Exit::Config, text)
        })?;
        assigned.push((index, id));
    }
    assigned.sort_by_key(|(index, _)| *index);
    Ok(assigned.into_iter().map(|(_, id)| id).collect())
}

fn compute_share(
    device: &mut dyn Device,
    task: &ShareTask,
    asked: AskedProbes,
    handle: &Handle,
) -> Result<ShareProduct, DeviceError> {
    let roots = task.run(device, handle)?.roots;
    let last = roots.last().copied().unwrap_or(Root::BEFORE_FIRST);
    let probe = asked.probe.map(|probe| task.run_probe(device, &probe, &last, handle)).transpose()?;
    let sweep = sums(device, task, asked.sweep, &last, handle)?;
    Ok(ShareProduct { roots, probe: probe.unwrap_or_default(), sweep })
}

fn assemble(challenge: &Challenge, asked: AskedProbes, results: Vec<ShareProduct>) -> WorkOutput {
    let (mut roots, mut walked, mut summed) = (Vec::new(), Vec::new(), Vec::new());
    for ShareProduct { roots: of_share, probe, sweep } in results {
        roots.push(of_share);
        walked.push(probe);
        summed.push(sweep);
    }
    let evidence = Evidence::assemble(challenge, roots);
    let answer = asked.probe.map(|probe| Answer::assemble(challenge, probe, walked));
    let sweep_answer = asked.sweep.map(|sweep| Answer::assemble(challenge, sweep, summed));
    WorkOutput { evidence, answer, sweep_answer }
}

fn sign(product: &mut WorkOutput, challenge: &Challenge, asked: AskedProbes, identity: &Identity) {
    let work_key = challenge.work_key();
    let WorkOutput { evidence, answer, sweep_answer } = product;
    evidence.signature = Some(identity.sign(&commitment_message(work_key, &evidence.checksum)));
    let probes = [(answer, asked.probe.map(MemoryProbe::from)), (sweep_answer, asked.sweep.map(MemoryProbe::from))];
    for (answer, probe) in probes {
        if let (Some(answer), Some(probe)) = (answer, probe) {
            let message = probe_message(work_key, &evidence.checksum, probe, &answer.checksum);
            answer.signature = Some(identity.sign(&message));
        }
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

#[cfg(test)]
mod tests {
    use assay_kits::naive;
    use assay_kits::reference::ReferenceDevice;
    use assay_work::ProbeSeed;

    use super::*;

    fn challenge(counts: &[u32]) -> Challenge {
        let counts = (1..).map(|id| DeviceId([id; 16])).zip(counts.iter().copied());
        Challenge::try_from(UncheckedChallenge::unasked(256, 2, counts)).unwrap()
    }

    /// Devices that are not those that challenges name.
    fn host(slots: &[u64]) -> Host {
        let device = |(index, slots): (usize, &u64)| {
            let id = DeviceId([0xf0 + index as u8; 16]);
            Box::new(ReferenceDevice::new(id, "a device", slots << 16)) as Box<dyn Device>
        };
        Host::new(slots.iter().enumerate().map(device).collect())
    }

    fn asked(link: u32) -> AskedProbes {
        let probe = UncheckedProbe { seed: ProbeSeed([5; 32]), walks: 64, steps: 4, rounds: 2, link };
        let sweep = UncheckedSweep { seed: ProbeSeed([6; 32]), rounds: 3 };
        AskedProbes { probe: Some(Probe::try_from(probe).unwrap()), sweep: Some(Sweep::try_from(sweep).unwrap()) }
    }

    fn is_of_the_reference(output: &WorkOutput, challenge: &Challenge, asked: AskedProbes) {
        let AskedProbes { probe: Some(probe), sweep: Some(sweep) } = asked else { panic!("both are asked") };
        assert_eq!(output.evidence, naive::evidence(challenge));
        assert_eq!(output.answer, Some(naive::answer(challenge, &probe)));
        assert_eq!(output.sweep_answer, Some(naive::sweep_answer(challenge, &sweep)));
    }

    #[test]
    fn each_share_of_a_linked_probe_has_a_device_of_its_own() {
        for (counts, slots) in [(&[3, 4][..], &[4, 3][..]), (&[4, 3, 6], &[3, 9, 6, 4]), (&[5, 5], &[5, 5])] {
            let (challenge, linked) = (challenge(counts), asked(1));
            let products = compute(&host(slots), &challenge, linked).unwrap();
            is_of_the_reference(&assemble(&challenge, linked, products), &challenge, linked);
        }
    }

    #[test]
    fn shares_without_a_device_of_their_own_are_refused() {
        for slots in [&[20][..], &[20, 2], &[3, 3, 3]] {
            let refused = compute(&host(slots), &challenge(&[3, 4]), asked(1)).unwrap_err();
            assert_eq!(assay_program::exit::of_error(refused.as_ref()), Exit::Config);
            assert!(format!("{refused:#}").contains("a linked probe of 2 shares needs as many devices"), "{refused:#}");
        }
        // One device does both shares of anything else.
        let challenge = challenge(&[3, 4]);
        let products = compute(&host(&[4]), &challenge, asked(0)).unwrap();
        is_of_the_reference(&assemble(&challenge, asked(0), products), &challenge, asked(0));
    }
}
