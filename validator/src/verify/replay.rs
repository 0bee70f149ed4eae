//! Symmetric re-execution: the miner's passes again, on whatever devices a machine of the operator has.

pub mod capacity;
pub mod job;
pub mod pool;
pub mod shared;
pub mod worker;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
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
use serde::{Deserialize, Serialize};

use self::capacity::MachineCapacity;
use self::job::ReplayJob;
use crate::history::SecondComputation;

/// A matrix size and a slot count whose pass takes milliseconds: enough to tell how fast a device is.
const CALIBRATION: (u32, u32) = (1024, 10);

/// The devices of this machine. Whoever calls [`Replayer::replay`] runs one at a time.
pub struct Replayer {
    host: Host,
    capacity: MachineCapacity,
}

/// Which iterations of each device are replayed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Extent {
    /// Every pass.
    Everything,
    /// For each share, in order, these iterations, each alone from the root before it.
    Sampled(Vec<Vec<u32>>),
}

/// One thing to compute: a share's whole chain, or one pass of it.
#[derive(Debug, Clone)]
struct ReplayPiece {
    task: ShareTask,
    roots: Vec<Root>,
    only: Option<u32>,
}

impl Replayer {
    /// A replayer over these devices, whose speed and room it measures: milliseconds of each.
    ///
    /// # Errors
    /// The first device's that failed.
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
        // A host has at most `MAX_HOST_DEVICES`.
        let capacity = MachineCapacity { devices: host.len() as u32, macs_per_s, room };
        Ok(Self { host, capacity })
    }

    /// What its devices can replay.
    #[must_use]
    pub const fn capacity(&self) -> &MachineCapacity {
        &self.capacity
    }

    /// Computes what the extent asks for and compares every root. One that differs is computed a second time where the
    /// job says so.
    pub fn replay(&self, job: &ReplayJob, handle: &Handle) -> Replayed {
        let pieces = pieces(&job.challenge, &job.evidence, &job.extent);
        let found = Arc::new(Found { second: job.second, ..Found::default() });
        let run = {
            let (handle, found) = (handle.clone(), found.clone());
            move |device: &mut dyn Device, piece: ReplayPiece| piece.compare(device, &handle, &found)
        };
        let result = self.host.run_anywhere(pieces, run);
        self.host.release();
        let mismatch = found.mismatch.lock().unwrap_or_else(PoisonError::into_inner).take();
        let finding = match (mismatch, result) {
            (Some(mismatch), _) => Finding::Differs(mismatch),
            (None, Ok(_)) => Finding::Equal,
            (None, Err(error)) => Finding::Unknown { detail: error.to_string() },
        };
        let computed_again = *found.computed_again.lock().unwrap_or_else(PoisonError::into_inner);
        Replayed { finding, computed_again }
    }
}

/// What a replay gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replayed {
    /// What it says of the work.
    pub finding: Finding,
    /// What a second computation gave, where one was made.
    pub computed_again: Option<SecondComputation>,
}

/// What a replay says of the work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// Every root that was computed is the one committed to.
    Equal,
    /// One is not.
    Differs(Mismatch),
    /// Nothing: the devices failed or do not suffice, or the replay was cancelled.
    Unknown {
        /// Why.
        detail: String,
    },
}

/// A root that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mismatch {
    /// The device of the miner.
    pub device_id: DeviceId,
    /// Which pass of it.
    pub iteration: u32,
    /// What the miner committed to.
    pub committed: Root,
    /// What re-execution gives.
    pub computed: Root,
    /// Why it is no fault of the device that computed it.
    pub confirmation: Confirmation,
}

/// Why a root that differs is held against the miner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Confirmation {
    /// It was computed twice.
    Twice,
    /// Another one of this miner was, within the hour.
    Earlier,
}

impl Replayed {
    /// A replay that says nothing of the work.
    #[must_use]
    pub fn unknown(detail: impl Into<String>) -> Self {
        Self { finding: Finding::Unknown { detail: detail.into() }, computed_again: None }
    }
}

impl Finding {
    /// As the end of a replay.
    ///
    /// # Errors
    /// A reason of class `forged` for a root that differs, of class `ours` where nothing was found.
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

/// What the pieces of a replay found so far.
#[derive(Debug)]
struct Found {
    /// Whether a root that differs is computed again.
    second: SecondComputation,
    /// Set by the first root that differs: the others are not needed.
    is_found: AtomicBool,
    mismatch: Mutex<Option<Mismatch>>,
    computed_again: Mutex<Option<SecondComputation>>,
}

impl Default for Found {
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
    fn compare(&self, device: &mut dyn Device, handle: &Handle, found: &Found) -> Result<(), DeviceError> {
        let iterations = self.only.map_or(0..self.task.iterations, |i| i..i + 1);
        for iteration in iterations {
            // After a mismatch, what is left need not be known.
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
                *found.mismatch.lock().unwrap_or_else(PoisonError::into_inner) = Some(mismatch);
                return Ok(());
            }
        }
        Ok(())
    }

    /// Before it accuses anyone, a device does it again: a bit may flip here as well as there. A miner has that once
    /// an hour, or it would cost the validator twice as much as the miner each time.
    fn compute_again(
        &self,
        device: &mut dyn Device,
        iteration: u32,
        root: &Root,
        handle: &Handle,
        found: &Found,
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
        *found.computed_again.lock().unwrap_or_else(PoisonError::into_inner) = Some(what);
        if is_same {
            Ok(Confirmation::Twice)
        } else {
            Err(DeviceError::Sick(format!("iteration {iteration} gave {root}, and then {again}")))
        }
    }
}

/// Multiply-accumulates a second of one device in each kind of work that it computes, 0 when it has no room for the
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
