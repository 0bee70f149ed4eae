//! The state of a running miner, for `status`: the daemon writes it into a file beside its key, where the command reads
//! it.

pub mod file;
mod line;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use assay_backends::start::{WorkerHealth, WorkerMonitor};
use assay_device::DeviceError;
use assay_program::clock::unix_seconds;
use assay_protocol::message::Stop;
use assay_protocol::verdict::{Class, Outcome, Verdict};
use assay_telemetry::Reading;
use assay_work::{Challenge, ChallengeId, DeviceId, PublicKey};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::driver::ChallengePart;
use crate::engine::{Engine, ReportedDevice};
use crate::limits::{Limits, SharedLimits};

/// The outcome of a verdict that did not come.
pub const UNKNOWN: &str = "unknown";
/// The most reasons of a verdict that are kept and logged: a person reads no more.
pub const MAX_REASONS: usize = 16;

/// The state of a miner. Moments are in seconds since 1970.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct MinerStatus {
    /// The program and its version.
    pub program: String,
    /// Its process id.
    pub pid: u32,
    /// Start, in seconds since 1970.
    pub started: u64,
    /// When this was written; at least every ten seconds.
    pub written: u64,
    pub miner_key: String,
    /// The validators' addresses, with commas between.
    pub validator: String,
    /// The connection of the first validator that is connected; of the first of all where no validator is.
    pub connection: ConnectionStatus,
    #[serde(default)]
    pub validators: Vec<ValidatorStatus>,
    pub challenge: Option<RunningStatus>,
    pub last_verdict: Option<VerdictStatus>,
    /// The last challenge that this miner declined or broke off.
    pub last_stop: Option<StopStatus>,
    /// Verdicts since the start.
    pub verdicts: VerdictTotals,
    pub limits: LimitsStatus,
    pub devices: Vec<DeviceStatus>,
    /// When and why the miner ended; `None` while it runs, and of one that was killed.
    pub ended: Option<TimedReason>,
}

/// One of the validators that the miner serves.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ValidatorStatus {
    pub address: String,
    pub connection: ConnectionStatus,
    pub last_verdict: Option<VerdictStatus>,
    /// Its verdicts since the start.
    pub verdicts: VerdictTotals,
    /// When and why it is not served any more, until the miner is started again.
    pub ended: Option<TimedReason>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ConnectionStatus {
    /// Since when the session stands.
    pub connected_since: Option<u64>,
    /// The validator's key, once there was a session.
    pub validator_key: Option<String>,
    /// How many sessions there were.
    pub sessions: u64,
    /// Why the last session ended or did not come about, and when.
    pub last_error: Option<TimedReason>,
    /// When the next attempt is made, where one is waited for.
    pub next_attempt: Option<u64>,
}

/// An event with its time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimedReason {
    pub at: u64,
    pub why: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningStatus {
    pub challenge_id: String,
    /// The address of its validator.
    #[serde(default)]
    pub validator: String,
    pub n: u32,
    pub iterations: u32,
    pub devices: usize,
    /// `work`, `probe`, `linked probe` or `openings`.
    pub stage: String,
    /// Start, in seconds since 1970.
    pub since: u64,
    /// Slots filled, over all iterations.
    pub done_slots: u64,
    /// Slots to fill.
    pub all_slots: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VerdictStatus {
    pub challenge_id: String,
    /// Arrival, in seconds since 1970.
    pub at: u64,
    /// pass, fail or inconclusive; [`UNKNOWN`] where it did not come.
    pub outcome: String,
    /// The rate shown, in 10¹² operations a second.
    pub tops: f64,
    pub reasons: Vec<ReasonStatus>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReasonStatus {
    pub code: String,
    /// The party to blame.
    pub class: String,
    pub detail: String,
}

/// A challenge that this miner did not take up, or did not go on with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopStatus {
    pub challenge_id: String,
    pub at: u64,
    pub why: String,
}

/// How many verdicts there were.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct VerdictTotals {
    pub pass: u64,
    pub fail: u64,
    pub inconclusive: u64,
}

impl VerdictTotals {
    const fn add(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Pass => self.pass += 1,
            Outcome::Fail => self.fail += 1,
            Outcome::Inconclusive => self.inconclusive += 1,
        }
    }
}

/// The operator's limits in force.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LimitsStatus {
    /// The share of free memory that is offered.
    pub max_memory_percent: u32,
    /// How long a challenge may take, in seconds.
    pub max_challenge_s: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceStatus {
    pub device_id: String,
    /// The index by which settings name it.
    pub index: Option<usize>,
    pub name: String,
    pub backend: String,
    pub total_bytes: u64,
    /// Memory that a challenge could take when the device was last asked.
    pub free_bytes: u64,
    /// How much of that was offered to the validator.
    pub offered_bytes: u64,
    /// Why it can take no work now.
    pub fault: Option<String>,
    /// The process that drives it.
    pub worker_pid: Option<u32>,
    /// How often that process was started again.
    pub worker_restarts: u64,
}

/// A device at a moment, with facts that the status leaves out.
#[derive(Debug, Clone)]
pub struct SeenDevice {
    /// The index by which settings name it.
    pub index: Option<usize>,
    pub name: String,
    pub total_bytes: u64,
    /// Memory that a challenge could take when the device was last asked.
    pub free_bytes: u64,
    /// How much of that was offered.
    pub offered_bytes: u64,
    /// Why it can take no work now.
    pub fault: Option<DeviceError>,
    /// The process that drives it.
    pub worker: Option<WorkerHealth>,
    /// Its sensors, where they are read.
    pub reading: Option<Reading>,
}

/// Notes the events of one of the miner's validators. Clones share the state.
#[derive(Clone)]
pub struct StatusBoard {
    status: Arc<Mutex<MinerStatus>>,
    /// The validator, by its place among them.
    validator: usize,
    devices: Arc<OnceLock<DeviceWatch>>,
    limits: SharedLimits,
}

/// Where the state of the devices comes from.
pub struct DeviceWatch {
    /// The engine, which has the devices' last reports.
    pub engine: Arc<Engine>,
    pub workers: BTreeMap<DeviceId, WorkerMonitor>,
    /// The indices by which settings name them.
    pub indices: BTreeMap<DeviceId, usize>,
}

impl DeviceWatch {
    fn devices(&self) -> Vec<DeviceStatus> {
        let status = |asked: ReportedDevice| {
            let (device_id, backend) = (asked.info.id.to_string(), asked.info.backend.to_string());
            let SeenDevice { index, name, total_bytes, free_bytes, offered_bytes, fault, worker, .. } = self.see(asked);
            DeviceStatus {
                device_id,
                index,
                name,
                backend,
                total_bytes,
                free_bytes,
                offered_bytes,
                fault: fault.map(|fault| fault.to_string()),
                worker_pid: worker.as_ref().and_then(|worker| worker.process),
                worker_restarts: worker.map_or(0, |worker| worker.restarts),
            }
        };
        self.engine.asked().into_iter().map(status).collect()
    }

    fn see(&self, ReportedDevice { info, offered_bytes, fault }: ReportedDevice) -> SeenDevice {
        let worker = self.workers.get(&info.id).map(WorkerMonitor::health);
        SeenDevice {
            index: self.indices.get(&info.id).copied(),
            reading: self.engine.latest_reading(info.id),
            name: info.name,
            total_bytes: info.total_bytes,
            free_bytes: info.free_bytes,
            offered_bytes,
            // The device may have failed since it was asked.
            fault: worker.as_ref().map_or(fault, |worker| worker.fault.clone()),
            worker,
        }
    }
}

impl From<Limits> for LimitsStatus {
    fn from(Limits { max_memory_percent, max_challenge }: Limits) -> Self {
        Self { max_memory_percent, max_challenge_s: max_challenge.map(|limit| limit.as_secs()) }
    }
}

impl StatusBoard {
    /// The board of a miner that starts now.
    pub fn new(miner_key: &PublicKey, validators: &[String], limits: SharedLimits) -> Self {
        let validator = |address: &String| ValidatorStatus { address: address.clone(), ..ValidatorStatus::default() };
        let status = Arc::new(Mutex::new(MinerStatus {
            program: concat!("assay-miner ", env!("CARGO_PKG_VERSION")).into(),
            pid: std::process::id(),
            started: unix_seconds(),
            miner_key: miner_key.to_string(),
            validator: validators.join(", "),
            validators: validators.iter().map(validator).collect(),
            ..MinerStatus::default()
        }));
        Self { status, validator: 0, devices: Arc::default(), limits }
    }

    /// The board for another validator.
    pub fn of(&self, validator: usize) -> Self {
        Self { validator, ..self.clone() }
    }

    /// Takes over the last verdicts that the miner with this key received before it was started again.
    pub fn recall(&self, earlier: MinerStatus) {
        let mut status = self.status.lock();
        if earlier.miner_key == status.miner_key {
            // One that was killed has a challenge without a verdict.
            let lost = earlier.challenge.map(|challenge| lost(challenge.challenge_id));
            status.last_verdict = lost.or(earlier.last_verdict);
        }
    }

    /// From now on the devices are shown.
    pub fn watch(&self, devices: DeviceWatch) {
        // Once in a miner.
        let _ = self.devices.set(devices);
    }

    /// The devices, with facts that the status leaves out; empty before they are watched. Never waits for a device.
    pub fn seen_devices(&self) -> Vec<SeenDevice> {
        let Some(watch) = self.devices.get() else { return Vec::new() };
        watch.engine.asked().into_iter().map(|asked| watch.see(asked)).collect()
    }

    /// The state now, with the devices. Never waits for a device.
    pub fn get(&self) -> MinerStatus {
        let devices = self.devices.get().map(DeviceWatch::devices).unwrap_or_default();
        let limits = self.limits.get().into();
        let status = self.status.lock().clone();
        let is_connected = |validator: &&ValidatorStatus| validator.connection.connected_since.is_some();
        let shown = status.validators.iter().find(is_connected).or(status.validators.first());
        let connection = shown.map(|validator| validator.connection.clone()).unwrap_or_default();
        MinerStatus { devices, limits, connection, ..status }
    }

    /// Notes an established session.
    pub fn connected(&self, validator_key: &PublicKey) {
        self.change(|validator| {
            let sessions = validator.connection.sessions + 1;
            let last_error = validator.connection.last_error.take();
            let validator_key = Some(validator_key.to_string());
            validator.connection = ConnectionStatus {
                connected_since: Some(unix_seconds()),
                validator_key,
                sessions,
                last_error,
                next_attempt: None,
            };
        });
    }

    /// A session ended or did not come about; another attempt follows.
    pub fn disconnected(&self, why: &str, again_in: Duration) {
        self.released();
        self.change(|ValidatorStatus { connection, .. }| {
            connection.connected_since = None;
            connection.last_error = Some(TimedReason { at: unix_seconds(), why: why.to_owned() });
            connection.next_attempt = Some(unix_seconds() + again_in.as_secs());
        });
    }

    /// The validator is not served any more.
    pub fn not_served(&self, why: &str) {
        self.released();
        self.change(|ValidatorStatus { connection, ended, .. }| {
            connection.connected_since = None;
            connection.next_attempt = None;
            *ended = Some(TimedReason { at: unix_seconds(), why: why.to_owned() });
        });
    }

    /// Notes the start of a challenge.
    pub fn challenged(&self, challenge: &Challenge) {
        let mut status = self.status.lock();
        let validator = status.validators.get(self.validator).map(|validator| validator.address.clone());
        status.challenge = Some(RunningStatus {
            challenge_id: challenge.id().to_string(),
            validator: validator.unwrap_or_default(),
            n: challenge.n(),
            iterations: challenge.iterations(),
            devices: challenge.shares().len(),
            stage: ChallengePart::Fill.about().0.into(),
            since: unix_seconds(),
            done_slots: 0,
            all_slots: challenge.filled_slots(),
        });
    }

    /// The challenge goes on to another stage.
    pub fn stage(&self, stage: &str) {
        if let Some(challenge) = &mut self.status.lock().challenge {
            challenge.stage = stage.to_owned();
            challenge.done_slots = challenge.all_slots;
        }
    }

    /// Notes the count of filled slots.
    pub fn progress(&self, done_slots: u64) {
        if let Some(challenge) = &mut self.status.lock().challenge {
            challenge.done_slots = done_slots.min(challenge.all_slots);
        }
    }

    /// The miner declined a challenge, or broke one off.
    pub fn stopped(&self, stop: &Stop) {
        let stopped =
            StopStatus { challenge_id: stop.challenge_id.to_string(), at: unix_seconds(), why: stop.detail.clone() };
        self.status.lock().last_stop = Some(stopped);
    }

    /// No challenge of this validator runs any more.
    pub fn released(&self) {
        let mut status = self.status.lock();
        let Some(own) = status.validators.get(self.validator).map(|validator| validator.address.clone()) else {
            return;
        };
        status.challenge.take_if(|challenge| challenge.validator == own);
    }

    pub fn verdict(&self, verdict: &Verdict) {
        let reason = |reason: &assay_protocol::verdict::Reason| ReasonStatus {
            code: reason.code.name().to_owned(),
            class: reason.code.class().name().to_owned(),
            detail: reason.detail.clone(),
        };
        let shown = VerdictStatus {
            challenge_id: verdict.challenge_id.to_string(),
            at: unix_seconds(),
            outcome: verdict.outcome.to_string(),
            tops: verdict.whole.tops,
            reasons: verdict.reasons.iter().take(MAX_REASONS).map(reason).collect(),
        };
        self.show(shown);
        self.change(|validator| validator.verdicts.add(verdict.outcome));
        self.status.lock().verdicts.add(verdict.outcome);
    }

    /// The session ended before the verdict on this challenge: the one before it is not the last.
    pub fn lost_verdict(&self, challenge: ChallengeId) {
        self.show(lost(challenge.to_string()));
    }

    fn show(&self, verdict: VerdictStatus) {
        self.change(|validator| validator.last_verdict = Some(verdict.clone()));
        self.status.lock().last_verdict = Some(verdict);
    }

    /// Notes the end of the miner.
    pub fn ended(&self, why: &str) {
        let mut status = self.status.lock();
        status.challenge = None;
        for ValidatorStatus { connection, .. } in &mut status.validators {
            connection.connected_since = None;
            connection.next_attempt = None;
        }
        status.ended = Some(TimedReason { at: unix_seconds(), why: why.to_owned() });
    }

    fn change(&self, change: impl FnOnce(&mut ValidatorStatus)) {
        self.status.lock().validators.get_mut(self.validator).map(change);
    }
}

/// In place of a verdict that did not come.
fn lost(challenge_id: String) -> VerdictStatus {
    let detail = "the session ended before the verdict came: the validator's operator knows it".to_owned();
    let reasons = vec![ReasonStatus { code: "no_verdict".into(), class: Class::Network.name().into(), detail }];
    VerdictStatus { challenge_id, at: unix_seconds(), outcome: UNKNOWN.to_owned(), tops: 0.0, reasons }
}
