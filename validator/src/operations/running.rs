//! What a validator does now: who is connected, which challenges run; and beginning and ending one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use assay_api::{
    BeginChallenge, ClaimedDevice, Connected, Counts, Forgotten, Listed, ProblemCode, ReplayWorker, Running, Status,
    VerdictCounts,
};
use assay_protocol::message::{DeviceClaim, MATRIX_SIZES};
use assay_receipts::EatNonce;
use assay_records::Actor;
use assay_work::challenge::MAX_ITERATIONS;
use assay_work::{ChallengeId, Precision, PublicKey};
use tokio::sync::{mpsc, oneshot};

use super::{OperationError, find};
use crate::order::Order;
use crate::policy::{MAX_FILL_PERCENT, MAX_SAMPLES, Policy};
use crate::registry::{Miner, RunningChallenge, SessionCommand, Update};
use crate::running::Running as Serving;
use crate::session::StartError;
use crate::validator::Validator;
use crate::verify::replay::shared::SharedReplays;

/// Updates kept for a slow watcher; progress comes once per second.
const UPDATES: usize = 64;
/// How long the records may take to have a challenge that began.
const NOTED_LIMIT: Duration = Duration::from_secs(5);
/// Models that are counted.
const MAX_MODELS: u32 = 256;

/// What a validator does, and what it has done since its start.
#[must_use]
pub fn status(serving: &Serving) -> Status {
    let Serving { validator, address, target, verdict_log, max_miners, since, started_unix_seconds, .. } = serving;
    let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let counts = &validator.verdict_counts;
    let workers = validator.replays.shared().map(SharedReplays::workers).unwrap_or_default();
    let worker = |worker: &crate::verify::replay::shared::ReplayWorker| ReplayWorker {
        name: worker.name.clone(),
        machine: worker.address.clone(),
        devices: worker.capacity.devices,
        macs_per_s: worker.capacity.macs_per_s.get(&Precision::Int8).copied().unwrap_or(0.0),
    };
    Status {
        validator_key: validator.admission.identity.public_key(),
        agent: concat!("assay-validator/", env!("CARGO_PKG_VERSION")).to_owned(),
        process_id: std::process::id(),
        address: address.to_string(),
        target: target.to_string(),
        tls_certificate_expires_unix_seconds: validator.tls.issued().map(|issued| issued.not_after_unix_seconds),
        started_unix_seconds: *started_unix_seconds,
        uptime_seconds: since.elapsed().as_secs(),
        state: if validator.shutdown.is_draining() { "draining" } else { "serving" }.to_owned(),
        miners: validator.registry.miners().len() as u32,
        max_miners: *max_miners,
        devices: validator.replays.local_devices(),
        replay_workers: workers.iter().map(worker).collect(),
        verdicts: VerdictCounts {
            pass: count(&counts.passed),
            fail: count(&counts.failed),
            inconclusive: count(&counts.inconclusive),
        },
        verdict_log: verdict_log.as_ref().map(|path| path.display().to_string()),
        verdict_log_problem: validator.verdicts.check().err().map(|error| error.to_string()),
        records: validator.records.location().to_string(),
        records_problem: validator.records.trouble(),
        challenges: challenges(validator),
    }
}

/// The fleet in numbers.
///
/// # Errors
/// [`OperationError::Records`].
pub async fn counts(validator: &Validator) -> Result<Counts, OperationError> {
    let records = &validator.records;
    Ok(Counts { miners: records.miner_counts().await?, models: records.model_counts(MAX_MODELS).await? })
}

/// Every challenge that runs, in order of the miners' keys.
#[must_use]
pub fn challenges(validator: &Validator) -> Vec<Running> {
    let miners = validator.registry.miners();
    miners.into_iter().filter_map(|miner| Some(running(miner.key, miner.running?))).collect()
}

/// The challenge of a miner's session, if it is this one.
#[must_use]
pub fn challenge(validator: &Validator, key: &str, id: &str) -> Option<Running> {
    let key: PublicKey = key.parse().ok()?;
    let found = validator.registry.running(key).filter(|running| running.id.to_string() == id);
    // The records know a miner by its first key, the registry by that of its session.
    let found = found.map(|found| running(key, found));
    found.or_else(|| challenges(validator).into_iter().find(|running| running.challenge_id.to_string() == id))
}

fn running(miner_key: PublicKey, running: RunningChallenge) -> Running {
    let RunningChallenge { id, since, phase, done_slots, all_slots } = running;
    Running {
        challenge_id: id,
        miner_key,
        phase: phase.to_owned(),
        done_slots,
        all_slots,
        seconds: since.elapsed().as_secs(),
    }
}

/// Who is connected, in order of key.
#[must_use]
pub fn connected(validator: &Validator) -> Listed<Connected> {
    let miners = validator.registry.miners();
    Listed::all(miners.into_iter().map(|miner| connected_miner(validator, miner)).collect())
}

/// The connection of a miner with these keys.
#[must_use]
pub(super) fn connection(validator: &Validator, keys: &[String]) -> Option<Connected> {
    let miners = validator.registry.miners();
    let miner = miners.into_iter().find(|miner| keys.contains(&miner.key.to_string()))?;
    Some(connected_miner(validator, miner))
}

fn connected_miner(validator: &Validator, miner: Miner) -> Connected {
    let missing_devices = validator.missing_devices(&miner);
    let Miner { key, agent, address, inventory, challenged, running: challenge, since, round_trip, .. } = miner;
    Connected {
        miner_key: key,
        agent,
        address: address.map_or_else(String::new, |address| address.to_string()),
        devices: inventory.devices.len() as u32,
        free_bytes: inventory.devices.iter().map(|device| device.free_bytes).fold(0, u64::saturating_add),
        claimed_devices: inventory.devices.into_iter().map(claimed).collect(),
        challenged_now: challenged,
        challenge: challenge.map(|challenge| running(key, challenge)),
        connected_seconds: since.elapsed().as_secs(),
        missing_devices,
        round_trip_ms: round_trip.map(|time| time.as_secs_f64() * 1e3),
    }
}

fn claimed(device: DeviceClaim) -> ClaimedDevice {
    let DeviceClaim { id, name, backend, detail: _, total_bytes, free_bytes, slots, precisions: _, claimed_hardware } =
        device;
    let slots = slots.to_vec();
    ClaimedDevice { device_id: id, name, backend, total_bytes, free_bytes, slots, hardware: claimed_hardware }
}

/// Begins a challenge; gives what began, and what happens to it: that need not be read.
///
/// # Errors
/// [`OperationError`].
pub async fn begin(
    validator: &Validator,
    asked: BeginChallenge,
) -> Result<(Running, mpsc::Receiver<Update>), OperationError> {
    if validator.shutdown.is_draining() {
        let why = "the validator is draining: it starts no challenge".to_owned();
        return Err(OperationError::Refused(ProblemCode::Draining, why));
    }
    let key = meant(validator, asked.miner.as_deref()).await?;
    let policy = Arc::new(policy_of(&validator.policy(), &asked)?);
    let eat_nonce = asked.eat_nonce.map(|text| nonce(&text)).transpose()?;
    let gone = || OperationError::Refused(ProblemCode::MinerLeft, format!("miner {key} is no longer connected"));
    let commands = validator.registry.commands(key).ok_or_else(gone)?;
    let (updates, watch) = mpsc::channel(UPDATES);
    let (started, answer) = oneshot::channel();
    let order = Order { eat_nonce, ..Order::manual(policy) };
    let run = SessionCommand::Run { order: Box::new(order), place: None, started, updates };
    commands.send(run).await.map_err(|_| gone())?;
    let began = answer.await.map_err(|_| gone())?.map_err(|error| not_started(validator, key, &error))?;
    noted(validator, &began.id.to_string()).await;
    Ok((running(key, began), watch))
}

/// Waits until the records have a challenge that began, which does not wait for them: whoever is told its id may ask for
/// it at once.
async fn noted(validator: &Validator, id: &str) {
    let records = &validator.records;
    let mut news = records.event_watch();
    let looks = async {
        loop {
            news.mark_unchanged();
            if !matches!(records.challenge(id).await, Ok(None)) {
                return;
            }
            // Its beginning is an event.
            if news.changed().await.is_err() {
                return;
            }
        }
    };
    // Where they take longer, it is found once it is there.
    let _ = tokio::time::timeout(NOTED_LIMIT, looks).await;
}

/// The session that is meant: that of the miner named, or the only one.
async fn meant(validator: &Validator, text: Option<&str>) -> Result<PublicKey, OperationError> {
    let miners = validator.registry.miners();
    let refused = |code, why: String| Err(OperationError::Refused(code, why));
    let Some(text) = text else {
        return match &miners[..] {
            [miner] => Ok(miner.key),
            [] => refused(ProblemCode::NoMiner, "no miner is connected".to_owned()),
            _ => {
                let why = format!("{} miners are connected: choose one by key", miners.len());
                refused(ProblemCode::SeveralMiners, why)
            }
        };
    };
    let prefix = find::digits(text)?;
    let mut found = miners.iter().filter(|miner| miner.key.to_string().starts_with(&prefix));
    match (found.next(), found.next()) {
        (Some(miner), None) => return Ok(miner.key),
        (Some(_), Some(_)) => {
            return Err(OperationError::Invalid(format!("several keys begin with {prefix}: give more digits")));
        }
        (None, _) => {}
    }
    // By another key of it than that of its session.
    let keys = match find::miner(&validator.records, text).await {
        Ok(id) => validator.records.miner(&id).await?.map(|record| record.keys).unwrap_or_default(),
        Err(OperationError::NotFound(_)) => Vec::new(),
        Err(error) => return Err(error),
    };
    match miners.iter().find(|miner| keys.contains(&miner.key.to_string())) {
        Some(miner) => Ok(miner.key),
        None => refused(ProblemCode::NoMiner, format!("miner {prefix} is not connected")),
    }
}

/// A nonce for a receipt, as it was checked.
fn nonce(text: &str) -> Result<String, OperationError> {
    let nonce = text.parse::<EatNonce>().map_err(|error| OperationError::Invalid(format!("eat_nonce: {error}")))?;
    Ok(nonce.into())
}

/// The validator's policy, with what was asked for in place of its own.
fn policy_of(policy: &Policy, asked: &BeginChallenge) -> Result<Policy, OperationError> {
    let mut policy = policy.clone();
    if let Some(precision) = asked.precision {
        policy.kinds = vec![precision];
    }
    if let Some(mode) = asked.mode {
        policy.mode = Some(mode);
    }
    if let Some(n) = asked.n {
        if !MATRIX_SIZES.contains(&n) {
            return Err(OperationError::Invalid(format!("n: {n} is not one of {MATRIX_SIZES:?}")));
        }
        policy.n = Some(n);
        policy.n_min = None;
    }
    let within = |name: &str, value: Option<u32>, most: u32, set: &mut u32| match value {
        None => Ok(()),
        Some(value) if (1..=most).contains(&value) => {
            *set = value;
            Ok(())
        }
        Some(value) => Err(OperationError::Invalid(format!("{name}: {value} is not from 1 to {most}"))),
    };
    within("iterations", asked.iterations, MAX_ITERATIONS, &mut policy.iterations)?;
    within("samples", asked.samples, MAX_SAMPLES, &mut policy.samples)?;
    within("fill_percent", asked.fill_percent, MAX_FILL_PERCENT, &mut policy.fill_percent)?;
    Ok(policy)
}

fn not_started(validator: &Validator, key: PublicKey, error: &StartError) -> OperationError {
    let (code, why) = match error {
        StartError::NotConnected => (ProblemCode::MinerLeft, error.to_string()),
        StartError::Busy => (ProblemCode::Busy, busy(validator.registry.running(key).as_ref())),
        StartError::TooMany => (ProblemCode::Overloaded, error.to_string()),
        StartError::NotRecording(_) | StartError::Records(_) | StartError::Issue(_) => {
            (ProblemCode::NotPossible, error.to_string())
        }
    };
    OperationError::Refused(code, why)
}

/// Which challenge keeps a miner from another one.
fn busy(running: Option<&RunningChallenge>) -> String {
    let Some(RunningChallenge { id, since, phase, done_slots, all_slots }) = running else {
        return "a challenge of this miner is about to begin or to end".to_owned();
    };
    let seconds = since.elapsed().as_secs();
    let progress = if *phase == "work" { format!(", {done_slots} of {all_slots} slots") } else { String::new() };
    format!(
        "this miner works on challenge {id}, since {seconds} s: phase {phase}{progress}. Wait for it (--wait), or end \
         it (assay-validator cancel {id})"
    )
}

/// Ends a challenge that runs, by its id or its first digits; gives what ends.
///
/// # Errors
/// [`ProblemCode::NoChallenge`], or several begin so.
pub async fn cancel(validator: &Validator, text: &str, actor: &Actor) -> Result<Running, OperationError> {
    let prefix = find::digits(text)?;
    let none = || {
        let why = format!("no challenge whose id begins with {prefix} runs");
        OperationError::Refused(ProblemCode::NoChallenge, why)
    };
    let begins_so = |running: &Running| running.challenge_id.to_string().starts_with(&prefix);
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

/// Forgets which devices a miner showed, so that none is missed from now on.
///
/// # Errors
/// [`OperationError`].
pub async fn forget(validator: &Validator, text: &str, actor: &Actor) -> Result<Forgotten, OperationError> {
    let id = find::miner_or_key(&validator.records, text).await?;
    let record = validator.records.miner(&id).await?;
    // All keys of a miner have one history.
    let key = record.as_ref().map_or(id.as_str(), |record| record.key.as_str());
    let key: PublicKey = key.parse().map_err(|_| OperationError::NotFound(format!("{key} is no key")))?;
    let devices = validator.forget_devices(key).await as u32;
    if record.is_some() {
        validator.records.note_action(actor, "forget", Some(&id), &format!("{devices} devices")).await?;
    }
    Ok(Forgotten { miner: key.to_string(), devices })
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_busy_miner_names_its_challenge() {
        let id = ChallengeId([0xab; 16]);
        let running = |phase| RunningChallenge { id, since: Instant::now(), phase, done_slots: 3, all_slots: 12 };
        let said = busy(Some(&running("work")));
        assert!(said.contains(&id.to_string()) && said.contains("phase work, 3 of 12 slots"), "{said}");
        assert!(busy(Some(&running("replay"))).contains("phase replay. Wait"));
    }
}
