//! Symmetric re-execution: the miner's passes again, on whatever devices the validator has.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use assay_device::host::{FitTask, Host};
use assay_device::run::ShareTask;
use assay_device::{Device, DeviceError, Handle};
use assay_protocol::message::MATRIX_SIZES;
use assay_protocol::verdict::{Reason, ReasonCode};
use assay_work::audit::roots_at;
use assay_work::commitment::Evidence;
use assay_work::{Challenge, PassKey, Root};

use crate::history::SecondComputation;

/// A matrix size and a slot count whose pass takes milliseconds: enough to tell how fast a device is.
const CALIBRATION: (u32, u32) = (1024, 10);

/// The validator's own devices. Whoever calls [`Replayer::replay`] runs one at a time.
pub struct Replayer {
    host: Host,
    /// Multiply-accumulates a second of all devices together.
    speed: f64,
    /// The most slots that any device holds, for each of [`MATRIX_SIZES`].
    room: Vec<u32>,
}

/// Which iterations of each device are replayed.
#[derive(Debug, Clone, PartialEq, Eq)]
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
        let room = (0..MATRIX_SIZES.len()).map(most).collect();
        let ids: Vec<_> = host.ids().collect();
        let jobs = ids.into_iter().map(|id| host.submit(id, calibrate_device)).collect::<Result<Vec<_>, _>>()?;
        let speed = jobs.into_iter().map(|job| job.wait()?).sum::<Result<f64, _>>()?;
        Ok(Self { host, speed, room })
    }

    /// How many devices it has.
    #[must_use]
    pub fn devices(&self) -> usize {
        self.host.len()
    }

    /// The most slots of a share that can be replayed, for each of [`MATRIX_SIZES`].
    #[must_use]
    pub fn room(&self) -> &[u32] {
        &self.room
    }

    /// How long a full replay takes about; `None` when a share fits no device.
    #[must_use]
    pub fn estimate(&self, challenge: &Challenge) -> Option<Duration> {
        let size = MATRIX_SIZES.iter().position(|n| *n == challenge.n())?;
        if self.speed <= 0.0 || challenge.shares().iter().any(|s| s.count > self.room[size]) {
            return None;
        }
        let work: u128 = challenge.shares().iter().map(|s| challenge.multiply_accumulates(s)).sum();
        Duration::try_from_secs_f64(work as f64 / self.speed).ok()
    }

    /// Computes what the extent asks for and compares every root. One that differs is computed a second time where
    /// `second` says so.
    pub fn replay(
        &self,
        challenge: &Challenge,
        evidence: &Evidence,
        extent: &Extent,
        second: SecondComputation,
        handle: &Handle,
    ) -> Replayed {
        let pieces = pieces(challenge, evidence, extent);
        let found = Arc::new(Found { second, ..Found::default() });
        let run = {
            let (handle, found) = (handle.clone(), found.clone());
            move |device: &mut dyn Device, piece: ReplayPiece| piece.compare(device, &handle, &found)
        };
        let result = self.host.run_anywhere(pieces, run);
        self.host.release();
        let mismatch = found.mismatch.lock().unwrap_or_else(PoisonError::into_inner).take();
        let result = match mismatch {
            Some(reason) => Err(reason),
            None => result.map(|_| ()).map_err(|error| Reason::new(ReasonCode::ValidatorDevices, error.to_string())),
        };
        Replayed { result, computed_again: *found.computed_again.lock().unwrap_or_else(PoisonError::into_inner) }
    }
}

/// What a replay gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replayed {
    /// A reason of class `forged` for the first root that differs, of class `ours` when the devices fail, do not
    /// suffice, or the handle was cancelled.
    pub result: Result<(), Reason>,
    /// What a second computation gave, where one was made.
    pub computed_again: Option<SecondComputation>,
}

/// What the pieces of a replay found so far.
#[derive(Debug)]
struct Found {
    /// Whether a root that differs is computed again.
    second: SecondComputation,
    /// Set by the first root that differs: the others are not needed.
    is_found: AtomicBool,
    mismatch: Mutex<Option<Reason>>,
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
                let again = self.compute_again(device, iteration, &root, handle, found)?;
                let detail =
                    format!("iteration {iteration}: the miner's root is {committed}, re-execution gives {root}{again}");
                let reason = Reason::on_device(ReasonCode::RootMismatch, self.task.share.device_id, detail);
                *found.mismatch.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
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
    ) -> Result<&'static str, DeviceError> {
        match found.second {
            SecondComputation::Confirmed => return Ok(" (computed once: within the hour another was confirmed)"),
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
            Ok(", twice")
        } else {
            Err(DeviceError::Sick(format!("iteration {iteration} gave {root}, and then {again}")))
        }
    }
}

/// Multiply-accumulates a second of one device, 0 when it has no room for the calibration.
fn calibrate_device(device: &mut dyn Device) -> Result<f64, DeviceError> {
    let (n, count) = CALIBRATION;
    if device.slots_that_fit(n) < count {
        return Ok(0.0);
    }
    let pass = assay_device::Pass { key: PassKey([0; 32]), n, offset: 0, count };
    // The first pass touches the memory; the second one is timed.
    device.fill(&pass, &Handle::default())?;
    let start = Instant::now();
    device.fill(&pass, &Handle::default())?;
    let elapsed = start.elapsed();
    device.release();
    Ok(f64::from(count - 2) * f64::from(n).powi(3) / elapsed.as_secs_f64().max(1e-9))
}
