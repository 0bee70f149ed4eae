//! State of a validator that serves: connected miners and running challenges; and beginning and ending a challenge.

use std::sync::Arc;
use std::time::Duration;

use assay_api::{
    BeginChallenge, ChallengeProgress, ClaimedDevice, FleetCounts, ForgottenDevices, ListPage, MinerConnection,
    ProblemCode, ReplayWorkerStatus, ServerStatus, VerdictCounts,
};
use assay_policy::fields::{ModeChoice, OutOfBounds};
use assay_policy::{Overrides, Policy};
use assay_protocol::message::DeviceClaim;
use assay_protocol::verdict::Outcome;
use assay_receipts::EatNonce;
use assay_records::Actor;
use assay_work::{ChallengeId, Precision, PublicKey};
use tokio::sync::oneshot;

use super::{OperationError, Result, find};
use crate::course::ChallengeSnapshot;
use crate::order::Order;
use crate::registry::{ConnectedMiner, SessionCommand};
use crate::running::RunningValidator as Serving;
use crate::validator::Validator;
use assay_judge::session::StartError;
use assay_replay::shared::SharedReplays;

/// The longest wait until a begun challenge is in the records.
const NOTED_LIMIT: Duration = Duration::from_secs(5);
/// The most models counted.
const MAX_MODELS: u32 = 256;

/// Status of a validator, and its counters since its start.
pub fn status(serving: &Serving) -> ServerStatus {
    let Serving { validator, address, http, control_socket, target, max_miners, since, .. } = serving;
    let count = |outcome| validator.reports.metrics.families.verdicts(outcome);
    let workers = validator.capacity.replays.shared().map(SharedReplays::workers).unwrap_or_default();
    let worker = |worker: &assay_replay::shared::LiveReplayWorker| ReplayWorkerStatus {
        name: worker.name.clone(),
        machine: worker.address.clone(),
        devices: worker.capacity.devices,
        macs_per_s: worker.capacity.macs_per_s.get(&Precision::Int8).copied().unwrap_or(0.0),
    };
    let issued = validator.listening.tls.issued();
    ServerStatus {
        validator_key: validator.access.admission.identity.public_key(),
        agent: concat!("assay-validator/", env!("CARGO_PKG_VERSION")).to_owned(),
        process_id: std::process::id(),
        address: address.to_string(),
        target: target.to_string(),
        http_address: http.map(|http| http.to_string()),
        control_socket: control_socket.display().to_string(),
        tls_certificate_begins_unix_seconds: issued.as_ref().map(|issued| *issued.valid_unix_seconds.start()),
        tls_certificate_expires_unix_seconds: issued.as_ref().map(|issued| *issued.valid_unix_seconds.end()),
        started_unix_seconds: serving.started_unix_seconds,
        uptime_seconds: since.elapsed().as_secs(),
        state: match validator.check_recording() {
            _ if validator.shutdown.is_draining() => "draining",
            Ok(()) => "serving",
            Err(_) => "not_serving",
        }
        .to_owned(),
        miners: validator.registry.miners().len() as u32,
        max_miners: *max_miners,
        devices: validator.capacity.replays.local_devices(),
        replay_workers: workers.iter().map(worker).collect(),
        verdicts: VerdictCounts {
            pass: count(Outcome::Pass),
            fail: count(Outcome::Fail),
            inconclusive: count(Outcome::Inconclusive),
        },
        records: validator.records.location().to_string(),
        records_problem: validator.records.trouble(),
        log_problem: validator.reports.log.trouble(),
        evidence_lost: validator.evidence.lost(),
        challenges: challenges(validator),
    }
}

/// Counts of the fleet.
///
/// # Errors
/// [`OperationError::Records`].
pub async fn counts(validator: &Validator) -> Result<FleetCounts> {
    let records = &validator.records;
    Ok(FleetCounts { miners: records.miner_counts().await?, models: records.model_counts(MAX_MODELS).await? })
}

/// Every running challenge, in order of the miners' keys.
pub fn challenges(validator: &Validator) -> Vec<ChallengeProgress> {
    let miners = validator.registry.miners();
    miners.into_iter().filter_map(|miner| Some(running(miner.running?.borrow().now()))).collect()
}

/// The challenge of a miner's session, if it has this id.
pub fn challenge(validator: &Validator, key: &str, id: &str) -> Option<ChallengeProgress> {
    let key: PublicKey = key.parse().ok()?;
    validator.registry.running(key).filter(|running| running.id.to_string() == id).as_ref().map(running)
}

fn running(challenge: &ChallengeSnapshot) -> ChallengeProgress {
    ChallengeProgress { seconds: challenge.since.elapsed().as_secs(), ..so_far(challenge) }
}

/// Progress of a challenge.
pub fn so_far(challenge: &ChallengeSnapshot) -> ChallengeProgress {
    let ChallengeSnapshot { id, miner, since: _, after, phase, done_slots, all_slots } = *challenge;
    ChallengeProgress {
        challenge_id: id,
        miner_key: miner,
        phase: phase.to_owned(),
        done_slots,
        all_slots,
        seconds: after.as_secs(),
    }
}

/// Connected miners, in order of key.
pub fn connected(validator: &Validator) -> ListPage<MinerConnection> {
    let miners = validator.registry.miners();
    ListPage::all(miners.into_iter().map(connected_miner).collect())
}

/// The connection of a miner with these keys.
pub(super) fn connection(validator: &Validator, keys: &[String]) -> Option<MinerConnection> {
    let miners = validator.registry.miners();
    miners.into_iter().find(|miner| keys.contains(&miner.who.miner.to_string())).map(connected_miner)
}

fn connected_miner(miner: ConnectedMiner) -> MinerConnection {
    let devices = miner.inventory.devices;
    MinerConnection {
        miner_key: miner.who.miner,
        agent: miner.who.agent,
        address: miner.who.address.map_or_else(String::new, |address| address.to_string()),
        devices: devices.len() as u32,
        free_bytes: devices.iter().map(|device| device.free_bytes).fold(0, u64::saturating_add),
        claimed_devices: devices.into_iter().map(claimed).collect(),
        challenged_now: miner.challenged,
        challenge: miner.running.map(|course| running(course.borrow().now())),
        connected_seconds: miner.who.since.elapsed().as_secs(),
        missing_devices: miner.missing,
        round_trip_ms: miner.round_trip.map(|time| time.as_secs_f64() * 1e3),
    }
}

fn claimed(device: DeviceClaim) -> ClaimedDevice {
    let DeviceClaim { id, name, backend, detail: _, total_bytes, free_bytes, slots, precisions: _, claimed_hardware } =
        device;
    let slots = slots.to_vec();
    ClaimedDevice { device_id: id, name, backend, total_bytes, free_bytes, slots, hardware: claimed_hardware }
}

/// Begins a challenge; returns it once it is in the records.
pub async fn begin(validator: &Validator, asked: BeginChallenge) -> Result<ChallengeProgress> {
    if validator.shutdown.is_draining() {
        let why = "the validator is draining: it starts no challenge".to_owned();
        return Err(OperationError::Refused(ProblemCode::Draining, why));
    }
    let key = meant(validator, asked.miner.as_deref()).await?;
    let fleet = &validator.fleet;
    // Without a record it is a new one, whose session is being recorded.
    let group = fleet.group_of(fleet.records.miner(&key.to_string()).await?.as_ref()).await?;
    let light = group.over(&validator.policy(), &group.light);
    let of_group = group.heavy.as_ref().map_or(light.clone(), |heavy| group.over(&validator.policy(), &heavy.kind));
    let policy = Arc::new(policy_of(&of_group, &asked)?);
    let nonce = asked.eat_nonce.map(|text| text.parse::<EatNonce>()).transpose();
    let eat_nonce = nonce.map_err(|error| OperationError::Invalid(format!("eat_nonce: {error}")))?;
    let gone = || OperationError::Refused(ProblemCode::MinerLeft, format!("miner {key} is no longer connected"));
    let commands = validator.registry.commands(key).ok_or_else(gone)?;
    let (started, answer) = oneshot::channel();
    // Of another size, or of a kind that the group does not ask for, it shows something else than the attestation says.
    let counts = [asked.n, asked.iterations, asked.samples, asked.fill_percent].iter().all(Option::is_none)
        && asked.precision.is_none_or(|kind| of_group.kinds.contains(&kind) || light.kinds.contains(&kind));
    let order = Order { eat_nonce, counts, ..Order::manual(policy) };
    let run = SessionCommand::Run { order: Box::new(order), place: None, started };
    commands.send(run).await.map_err(|_| gone())?;
    let mut course = answer.await.map_err(|_| gone())?.map_err(|error| not_started(validator, key, &error))?;
    // A caller may read the challenge as soon as it has its id. If the records take longer, it is found later.
    let _ = tokio::time::timeout(NOTED_LIMIT, course.wait_for(|course| course.is_noted)).await;
    Ok(running(course.borrow().now()))
}

/// Finds the session: of the named miner, or the only one.
async fn meant(validator: &Validator, text: Option<&str>) -> Result<PublicKey> {
    let miners = validator.registry.miners();
    let refused = |code, why: String| Err(OperationError::Refused(code, why));
    let Some(text) = text else {
        return match &miners[..] {
            [miner] => Ok(miner.who.miner),
            [] => refused(ProblemCode::NoMiner, "no miner is connected".to_owned()),
            _ => {
                let why = format!("{} miners are connected: choose one by key", miners.len());
                refused(ProblemCode::SeveralMiners, why)
            }
        };
    };
    let prefix = find::digits(text)?;
    let mut found = miners.iter().filter(|miner| miner.who.miner.to_string().starts_with(&prefix));
    match (found.next(), found.next()) {
        (Some(miner), None) => return Ok(miner.who.miner),
        (Some(_), Some(_)) => {
            return Err(OperationError::Invalid(format!("several keys begin with {prefix}: give more digits")));
        }
        (None, _) => {}
    }
    // The miner is named by a key other than its session's.
    let keys = match find::miner(&validator.records, text).await {
        Ok(id) => validator.records.miner(&id).await?.map(|record| record.keys).unwrap_or_default(),
        Err(OperationError::NotFound(_)) => Vec::new(),
        Err(error) => return Err(error),
    };
    match miners.iter().find(|miner| keys.contains(&miner.who.miner.to_string())) {
        Some(miner) => Ok(miner.who.miner),
        None => refused(ProblemCode::NoMiner, format!("miner {prefix} is not connected")),
    }
}

/// The validator's policy with the overrides of a request.
fn policy_of(policy: &Policy, asked: &BeginChallenge) -> Result<Policy> {
    let BeginChallenge { precision, mode, n, iterations, samples, fill_percent, .. } = *asked;
    let asked = Overrides {
        kinds: precision.map(|precision| vec![precision]),
        mode: mode.map(ModeChoice::Mode),
        n,
        iterations,
        samples,
        fill_percent,
        ..Overrides::default()
    };
    let wrong = |wrong: OutOfBounds| OperationError::Invalid(format!("{}: {wrong}", wrong.name));
    policy.checked(&asked).map_err(wrong)
}

fn not_started(validator: &Validator, key: PublicKey, error: &StartError) -> OperationError {
    let (code, why) = match error {
        StartError::NotConnected => (ProblemCode::MinerLeft, error.to_string()),
        StartError::Busy => (ProblemCode::Busy, busy(validator.registry.running(key).as_ref())),
        StartError::TooMany => (ProblemCode::Overloaded, error.to_string()),
        StartError::Records(_) | StartError::Issue(_) => (ProblemCode::NotPossible, error.to_string()),
    };
    OperationError::Refused(code, why)
}

/// Describes the challenge that keeps a miner busy.
fn busy(running: Option<&ChallengeSnapshot>) -> String {
    let Some(ChallengeSnapshot { id, since, phase, done_slots, all_slots, .. }) = running else {
        return "a challenge of this miner is about to begin or to end".to_owned();
    };
    let seconds = since.elapsed().as_secs();
    let progress = if *phase == "work" { format!(", {done_slots} of {all_slots} slots") } else { String::new() };
    format!(
        "this miner works on challenge {id}, since {seconds} s: phase {phase}{progress}. Wait for it (--wait), or end \
         it (assay-validator cancel {id})"
    )
}

/// Ends a running challenge, by its id or its first digits; returns it.
///
/// # Errors
/// [`ProblemCode::NoChallenge`], or several with these digits.
pub async fn cancel(validator: &Validator, text: &str, actor: &Actor) -> Result<ChallengeProgress> {
    let prefix = find::digits(text)?;
    let none = || {
        let why = format!("no challenge whose id begins with {prefix} runs");
        OperationError::Refused(ProblemCode::NoChallenge, why)
    };
    let begins_so = |running: &ChallengeProgress| running.challenge_id.to_string().starts_with(&prefix);
    let mut found = challenges(validator).into_iter().filter(begins_so);
    let running = found.next().ok_or_else(none)?;
    if found.next().is_some() {
        return Err(OperationError::Invalid(format!("several ids begin with {prefix}: give more digits")));
    }
    let id: ChallengeId = running.challenge_id;
    let commands = validator.registry.commands(running.miner_key).ok_or_else(none)?;
    let (cancelled, answer) = oneshot::channel();
    commands.send(SessionCommand::Cancel { id, cancelled }).await.map_err(|_| none())?;
    answer.await.ok().flatten().ok_or_else(none)?;
    tracing::info!(challenge = %id, miner = %running.miner_key, by = actor.name, "an operator cancelled a challenge");
    Ok(running)
}

/// Forgets the devices that a miner showed, so that their absence is no longer reported.
pub async fn forget(validator: &Validator, text: &str, actor: &Actor) -> Result<ForgottenDevices> {
    let id = find::miner_or_key(&validator.records, text).await?;
    let record = validator.records.miner(&id).await?;
    // An unknown key has no devices.
    let Some(record) = record else { return Ok(ForgottenDevices { miner: id, devices: 0 }) };
    let devices = validator.records.forget_devices(&id, actor).await?;
    validator.registry.forget_devices(&record.keys);
    tracing::info!(
        miner = record.key,
        devices,
        by = actor.name,
        "an operator made the validators forget a miner's devices"
    );
    Ok(ForgottenDevices { miner: record.key, devices })
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_busy_miner_names_its_challenge() {
        let id = ChallengeId([0xab; 16]);
        let (miner, since, after) = (PublicKey([1; 32]), Instant::now(), Duration::ZERO);
        let running = |phase| ChallengeSnapshot { id, miner, since, after, phase, done_slots: 3, all_slots: 12 };
        let said = busy(Some(&running("work")));
        assert!(said.contains(&id.to_string()) && said.contains("phase work, 3 of 12 slots"), "{said}");
        assert!(busy(Some(&running("replay"))).contains("phase replay. Wait"));
    }
}
