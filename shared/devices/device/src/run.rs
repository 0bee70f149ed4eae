//! A device's part of a challenge: passes one after another, then the probe.

use std::time::{Duration, Instant};

use super::device::{Device, Handle, Pass, ProbeRounds, SweepRounds};
use super::error::DeviceError;
use assay_work::digest::pass_root;
use assay_work::keys::pass_key;
use assay_work::probe::{Link, Probe, Sweep, probe_key, sweep_key};
use assay_work::{Challenge, Digest, Precision, Root, Share, WorkKey};

/// One device's part of a challenge.
#[derive(Debug, Clone)]
pub struct ShareTask {
    pub precision: Precision,
    /// The key that binds the work to its challenge.
    pub work_key: WorkKey,
    pub n: u32,
    pub iterations: u32,
    pub share: Share,
}

/// The result of a share.
#[derive(Debug, Clone)]
pub struct ShareResult {
    /// One for each iteration.
    pub roots: Vec<Root>,
    /// The slots' digests of the last iteration, which is resident.
    pub last_digests: Vec<Digest>,
    pub elapsed: Duration,
}

impl ShareTask {
    /// The tasks of a challenge, in order of its shares.
    pub fn of(challenge: &Challenge) -> Vec<Self> {
        let work_key = *challenge.work_key();
        let task = |share: &Share| Self {
            precision: challenge.precision(),
            work_key,
            n: challenge.n(),
            iterations: challenge.iterations(),
            share: *share,
        };
        challenge.shares().iter().map(task).collect()
    }

    /// The pass of one iteration, after `previous_root`.
    pub fn pass(&self, iteration: u32, previous_root: &Root) -> Pass {
        let key = pass_key(&self.work_key, self.share.device_id, iteration, previous_root);
        Pass { precision: self.precision, key, n: self.n, offset: self.share.offset, count: self.share.count }
    }

    /// Computes one iteration and leaves its slots resident.
    pub fn run_pass(
        &self,
        device: &mut dyn Device,
        iteration: u32,
        previous_root: &Root,
        handle: &Handle,
    ) -> Result<(Root, Vec<Digest>), DeviceError> {
        let digests = device.fill(&self.pass(iteration, previous_root), handle)?;
        Ok((pass_root(&digests), digests))
    }

    /// Computes every iteration and leaves the last one's slots resident.
    pub fn run(&self, device: &mut dyn Device, handle: &Handle) -> Result<ShareResult, DeviceError> {
        let start = Instant::now();
        let mut roots = Vec::with_capacity(self.iterations as usize);
        let mut root = Root::BEFORE_FIRST;
        let mut last_digests = Vec::new();
        for iteration in 0..self.iterations {
            (root, last_digests) = self.run_pass(device, iteration, &root, handle)?;
            roots.push(root);
        }
        Ok(ShareResult { roots, last_digests, elapsed: start.elapsed() })
    }

    /// Walks the probe over the resident slots of the last iteration.
    ///
    /// # Errors
    /// The device's own; [`DeviceError::Unsupported`] for a linked probe, which no device walks alone.
    pub fn run_probe(
        &self,
        device: &mut dyn Device,
        probe: &Probe,
        last_root: &Root,
        handle: &Handle,
    ) -> Result<Vec<Digest>, DeviceError> {
        if probe.link() == Link::All {
            return Err(DeviceError::Unsupported("a linked probe on one device alone".into()));
        }
        let key = probe_key(probe, &self.work_key, self.share.device_id, last_root);
        let (walks, steps, rounds) = (probe.walks(), probe.steps(), probe.rounds());
        device.probe_rounds(&ProbeRounds { key, walks, steps, rounds }, handle)
    }

    /// The rounds of a sweep over the slots of the last iteration.
    pub fn sweep_rounds(&self, sweep: &Sweep, last_root: &Root) -> SweepRounds {
        let key = sweep_key(sweep, &self.work_key, self.share.device_id, last_root);
        SweepRounds { key, n: self.n, count: self.share.count, rounds: sweep.rounds() }
    }

    /// Sums over the resident slots of the last iteration.
    pub fn run_sweep(
        &self,
        device: &mut dyn Device,
        sweep: &Sweep,
        last_root: &Root,
        handle: &Handle,
    ) -> Result<Vec<Digest>, DeviceError> {
        device.sweep_rounds(&self.sweep_rounds(sweep, last_root), handle)
    }
}
