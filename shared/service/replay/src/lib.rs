//! A challenge again: the miner's passes, on the devices of any machine of the operator, or the judgement of its case.

#![forbid(unsafe_code)]

pub mod alternate;
pub mod job;
pub mod pool;
pub mod rejudge;
pub mod shared;
pub mod turns;
pub mod worker;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use std::collections::BTreeMap;

use assay_device::host::{FitTask, Host};
use assay_device::run::ShareTask;
use assay_device::{Device, DeviceError, Handle};
use assay_protocol::message::MATRIX_SIZES;
use assay_protocol::verdict::{Reason, ReasonCode};
use assay_work::audit::roots_at;
use assay_work::commitment::Evidence;
use assay_work::{Challenge, DeviceId, PassKey, Precision, Root};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use self::job::ReplayJob;
use assay_judge::history::SecondComputation;
use assay_judge::replay::{Extent, MachineCapacity};

/// A matrix size and a slot count whose pass takes milliseconds: enough to measure a device's speed.
const CALIBRATION: (u32, u32) = (1024, 10);

/// The devices of this machine. Callers of [`Replayer::replay`] run one at a time.
pub struct Replayer {
    host: Host,
    capacity: MachineCapacity,
}

/// A unit of computation: a share's whole chain, or one pass of it.
#[derive(Debug, Clone)]
struct ReplayPiece {
    task: ShareTask,
    roots: Vec<Root>,
    only: Option<u32>,
}

impl Replayer {
    /// Creates a replayer over these devices, and measures their speed and room: milliseconds of each.
    ///
    /// # Errors
    /// The error of the first device that failed.
    pub fn new(host: Host) -> Result<Self, DeviceError> {
        let reports = host.report(&MATRIX_SIZES)?;
        let most = |size: usize| reports.iter().map(|r| r.slots[size]).max().unwrap_or(0);
        let room = std::array::from_fn(most);
        let ids: Vec<_> = host.ids().collect();
        let jobs = ids.into_iter().map(|id| host.submit(id, calibrate_device)).collect::<Result<Vec<_>, _>>()?;
        let rates = jobs.into_iter().map(|job| job.wait()?).collect::<Result<Vec<_>, _>>()?;
        let of_all = |precision: &Precision| rates.iter().map(|of_one| of_one.get(precision)).sum::<Option<f64>>();
        let known = Precision::ALL.into_iter().filter(|_| !rates.is_empty());
        let macs_per_s = known.filter_map(|precision| Some((precision, of_all(&precision)?))).collect();
        // At most `MAX_HOST_DEVICES`.
        let capacity = MachineCapacity { devices: host.len() as u32, macs_per_s, room };
        Ok(Self { host, capacity })
    }

    /// Capacity of its devices.
    pub const fn capacity(&self) -> &MachineCapacity {
        &self.capacity
    }

    /// Computes the passes of the extent and compares every root. A root that differs is computed a second time if the
    /// job requires it.
    pub fn replay(&self, job: &ReplayJob, handle: &Handle) -> ReplayOutcome {
        let pieces = pieces(&job.challenge, &job.evidence, &job.extent);
        let found = Arc::new(ReplayState { second: job.second, ..ReplayState::default() });
        let run = {
            let (handle, found) = (handle.clone(), found.clone());
            move |device: &mut dyn Device, piece: ReplayPiece| piece.compare(device, &handle, &found)
        };
        let result = self.host.run_anywhere(pieces, run);
        self.host.release();
        let mismatch = found.mismatch.lock().take();
        let finding = match (mismatch, result) {
            (Some(mismatch), _) => ReplayFinding::Differs(mismatch),
            (None, Ok(_)) => ReplayFinding::Equal,
            (None, Err(error)) => ReplayFinding::Unknown { detail: error.to_string() },
        };
        let computed_again = *found.computed_again.lock();
        ReplayOutcome { finding, computed_again }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayOutcome {
    /// The finding about the work.
    pub finding: ReplayFinding,
    /// Result of the second computation, if one was made.
    pub computed_again: Option<SecondComputation>,
}

/// A replay's finding about the work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplayFinding {
    /// Every computed root equals the committed one.
    Equal,
    /// A root differs.
    Differs(Mismatch),
    /// No finding: the devices failed or do not suffice, or the replay was cancelled.
    Unknown {
        /// The reason.
        detail: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mismatch {
    /// Device of the miner.
    pub device_id: DeviceId,
    /// Index of the pass.
    pub iteration: u32,
    /// The committed root.
    pub committed: Root,
    /// The root of the re-execution.
    pub computed: Root,
    /// The check that rules out a fault of the computing device.
    pub confirmation: Confirmation,
}

/// Reason to attribute a differing root to the miner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Confirmation {
    /// It was computed twice.
    Twice,
    /// Another mismatch of this miner was computed twice within the hour.
    Earlier,
}

impl ReplayOutcome {
    /// A replay without a finding about the work.
    pub fn unknown(detail: impl Into<String>) -> Self {
        Self { finding: ReplayFinding::Unknown { detail: detail.into() }, computed_again: None }
    }
}

impl ReplayFinding {
    /// The finding as the end of a replay.
    ///
    /// # Errors
    /// A reason of class `forged` for a root that differs, of class `ours` without a finding.
    pub fn into_result(self) -> Result<(), Reason> {
        match self {
            Self::Equal => Ok(()),
            Self::Differs(Mismatch { device_id, iteration, committed, computed, confirmation }) => {
                let again = match confirmation {
                    Confirmation::Twice => ", twice",
                    Confirmation::Earlier => " (computed once: within the hour another was confirmed)",
                };
                let detail = format!(
                    "iteration {iteration}: the miner's root is {committed}, re-execution gives {computed}{again}"
                );
                Err(Reason::on_device(ReasonCode::RootMismatch, device_id, detail))
            }
            Self::Unknown { detail } => Err(Reason::new(ReasonCode::ValidatorDevices, detail)),
        }
    }
}

/// State that the pieces of a replay share.
#[derive(Debug)]
struct ReplayState {
    /// Whether a differing root is computed again.
    second: SecondComputation,
    /// Set by the first root that differs: the others are not needed.
    is_found: AtomicBool,
    mismatch: Mutex<Option<Mismatch>>,
    computed_again: Mutex<Option<SecondComputation>>,
}

impl Default for ReplayState {
    fn default() -> Self {
        Self {
            second: SecondComputation::Due,
            is_found: AtomicBool::new(false),
            mismatch: Mutex::default(),
            computed_again: Mutex::default(),
        }
    }
}

fn pieces(challenge: &Challenge, evidence: &Evidence, extent: &Extent) -> Vec<FitTask<ReplayPiece>> {
    let mut pieces = Vec::new();
    for (index, task) in ShareTask::of(challenge).into_iter().enumerate() {
        // The evidence was checked against the challenge: a device for each share, a root for each iteration.
        let roots = evidence.devices[index].roots.clone();
        let only: Vec<Option<u32>> = match extent {
            Extent::Everything => vec![None],
            Extent::Sampled(drawn) => drawn[index].iter().copied().map(Some).collect(),
        };
        for only in only {
            let what = ReplayPiece { task: task.clone(), roots: roots.clone(), only };
            pieces.push(FitTask { n: challenge.n(), slots: task.share.count, what });
        }
    }
    // The longest first, so that the devices end at about the same time.
    pieces.sort_by_key(|p| std::cmp::Reverse(p.slots));
    pieces
}

impl ReplayPiece {
    /// Computes, and compares each root as it comes.
    fn compare(&self, device: &mut dyn Device, handle: &Handle, found: &ReplayState) -> Result<(), DeviceError> {
        let iterations = self.only.map_or(0..self.task.iterations, |i| i..i + 1);
        for iteration in iterations {
            // After a mismatch the remaining roots are not needed.
            if found.is_found.load(Ordering::Relaxed) {
                return Ok(());
            }
            let (before, committed) = roots_at(&self.roots, iteration);
            let (root, _) = self.task.run_pass(device, iteration, &before, handle)?;
            if root != committed {
                if found.is_found.swap(true, Ordering::Relaxed) {
                    return Ok(());
                }
                let confirmation = self.compute_again(device, iteration, &root, handle, found)?;
                let device_id = self.task.share.device_id;
                let mismatch = Mismatch { device_id, iteration, committed, computed: root, confirmation };
                *found.mismatch.lock() = Some(mismatch);
                return Ok(());
            }
        }
        Ok(())
    }

    /// Computes a differing root a second time before it accuses the miner: a bit may flip here as well as there. Each
    /// miner has that once an hour, or it would cost the validator twice as much as the miner each time.
    fn compute_again(
        &self,
        device: &mut dyn Device,
        iteration: u32,
        root: &Root,
        handle: &Handle,
        found: &ReplayState,
    ) -> Result<Confirmation, DeviceError> {
        match found.second {
            SecondComputation::Confirmed => return Ok(Confirmation::Earlier),
            SecondComputation::Unreliable => {
                let detail = format!("iteration {iteration} differs, and within the hour a device gave two results");
                return Err(DeviceError::Sick(detail));
            }
            SecondComputation::Due => {}
        }
        let (before, _) = roots_at(&self.roots, iteration);
        let (again, _) = self.task.run_pass(device, iteration, &before, handle)?;
        let is_same = again == *root;
        let what = if is_same { SecondComputation::Confirmed } else { SecondComputation::Unreliable };
        *found.computed_again.lock() = Some(what);
        if is_same {
            Ok(Confirmation::Twice)
        } else {
            Err(DeviceError::Sick(format!("iteration {iteration} gave {root}, and then {again}")))
        }
    }
}

/// Multiply-accumulates per second of one device in each kind of work that it computes, 0 without room for the
/// calibration.
fn calibrate_device(device: &mut dyn Device) -> Result<BTreeMap<Precision, f64>, DeviceError> {
    let kinds = device.info().precisions;
    kinds.into_iter().map(|precision| Ok((precision, calibrate_kind(device, precision)?))).collect()
}

fn calibrate_kind(device: &mut dyn Device, precision: Precision) -> Result<f64, DeviceError> {
    let (n, count) = CALIBRATION;
    if device.slots_that_fit(n) < count {
        return Ok(0.0);
    }
    let pass = assay_device::Pass { precision, key: PassKey([0; 32]), n, offset: 0, count };
    // The first pass touches the memory; the second one is timed.
    device.fill(&pass, &Handle::default())?;
    let start = Instant::now();
    device.fill(&pass, &Handle::default())?;
    let elapsed = start.elapsed();
    device.release();
    Ok(f64::from(count - 2) * pass.multiply_accumulates_of_product() as f64 / elapsed.as_secs_f64().max(1e-9))
}
