//! The work of one challenge on a device of the load: the work of the miner's engine, on the thread that it is called
//! from, since a thread for each part of an answer would cost more than the answer.

use std::sync::Arc;
use std::time::Instant;

use assay_device::open::{AuditedPass, ProbedDevice, SamplePlan, SegmentPlan};
use assay_device::run::ShareTask;
use assay_device::{Device, DeviceError, Handle};
use assay_protocol::identity::Identity;
use assay_protocol::message::{
    DeviceDigests, DeviceRoots, MinerMessage, OpenItem, OpenTarget, OpeningsChunk, OpeningsPart, SignedChecksum,
};
use assay_work::audit::roots_at;
use assay_work::commitment::{Evidence, commitment_message};
use assay_work::probe::{Answer, MemoryProbe, Probe, probe_key, probe_message};
use assay_work::{Challenge, Digest, PassSample, Root, Segment};

use super::devices::LentDevice;

/// A challenge of one device, from its commitment on.
pub struct Worked {
    device: LentDevice,
    identity: Identity,
    challenge: Arc<Challenge>,
    task: ShareTask,
    evidence: Evidence,
    digests: Vec<Digest>,
    answered: Option<(Probe, Answer)>,
}

impl Worked {
    /// Computes the device's share: gives the signed commitment and the roots.
    ///
    /// # Errors
    /// The device's, and [`DeviceError::Unsupported`] for a challenge of several devices.
    pub fn new(
        mut device: LentDevice,
        identity: Identity,
        challenge: Arc<Challenge>,
    ) -> Result<(Self, Vec<MinerMessage>), DeviceError> {
        let start = Instant::now();
        let [task] = &ShareTask::of(&challenge)[..] else {
            return Err(DeviceError::Unsupported("the load has one device".into()));
        };
        let task = task.clone();
        let result = task.run(&mut device, &Handle::default())?;
        let evidence = Evidence::assemble(&challenge, vec![result.roots]);
        let (challenge_id, checksum) = (challenge.id(), evidence.checksum);
        let signature = identity.sign(&commitment_message(challenge.work_key(), &checksum));
        let claimed = start.elapsed();
        let commitment = MinerMessage::Commitment(SignedChecksum { challenge_id, checksum, signature, claimed });
        let evidence_of_device = evidence.devices[0].clone();
        let (claimed, claimed_telemetry) = (result.elapsed, None);
        let roots = DeviceRoots { challenge_id, evidence: evidence_of_device, claimed, claimed_telemetry };
        let digests = result.last_digests;
        let worked = Self { device, identity, challenge, task, evidence, digests, answered: None };
        Ok((worked, vec![commitment, MinerMessage::DeviceRoots(roots)]))
    }

    /// Walks a probe: gives the signed answer and the digests.
    ///
    /// # Errors
    /// The device's, and [`DeviceError::Unsupported`] for a sweep.
    pub fn probe(&mut self, probe: &MemoryProbe) -> Result<Vec<MinerMessage>, DeviceError> {
        let MemoryProbe::Walks(probe) = probe else {
            return Err(DeviceError::Unsupported("the load answers no sweep".into()));
        };
        let start = Instant::now();
        let last = self.last_root();
        let digests = self.task.run_probe(&mut self.device, probe, &last, &Handle::default())?;
        let answer = Answer::assemble(&self.challenge, probe, vec![digests]);
        let (challenge_id, checksum) = (self.challenge.id(), answer.checksum);
        let message = probe_message(self.challenge.work_key(), &self.evidence.checksum, probe, &checksum);
        let (signature, claimed) = (self.identity.sign(&message), start.elapsed());
        let digests = DeviceDigests { challenge_id, answer: answer.devices[0].clone(), claimed };
        self.answered = Some((*probe, answer));
        let answer = MinerMessage::ProbeAnswer(SignedChecksum { challenge_id, checksum, signature, claimed });
        Ok(vec![answer, MinerMessage::DeviceDigests(digests)])
    }

    /// Opens items, in their order.
    ///
    /// # Errors
    /// The device's error, and [`DeviceError::Unsupported`] for an iteration that is no longer there.
    pub fn open(&mut self, items: &[OpenItem]) -> Result<Vec<OpeningsChunk>, DeviceError> {
        let mut chunks = Vec::new();
        for (item, asked) in (0..).zip(items) {
            let parts = match &asked.what {
                OpenTarget::Sums(_) => return Err(DeviceError::Unsupported("the load answers no sweep".into())),
                OpenTarget::Segments(segments) | OpenTarget::LinkedSegments(segments) => self.segments(segments)?,
                OpenTarget::Samples { iteration, samples } => self.samples(*iteration, samples)?,
            };
            let digests = OpeningsPart::SlotDigests(self.digests.clone());
            let parts = std::iter::once(digests).chain(parts).chain([OpeningsPart::End]);
            let challenge_id = self.challenge.id();
            chunks.extend(parts.map(|part| OpeningsChunk { challenge_id, item, part }));
        }
        Ok(chunks)
    }

    fn segments(&mut self, segments: &[Segment]) -> Result<Vec<OpeningsPart>, DeviceError> {
        let last = self.last_root();
        let Some((probe, answer)) = &self.answered else {
            return Err(DeviceError::Unsupported("no probe was answered".into()));
        };
        let id = self.task.share.device_id;
        let probed = ProbedDevice {
            challenge: &self.challenge,
            probe,
            device_id: id,
            probe_key: &probe_key(probe, &self.task.work_key, id, &last),
            digests: &answer.devices[0].digests,
            slot_digests: &self.digests,
        };
        let device: &mut dyn Device = &mut self.device;
        let plan = SegmentPlan::new(device, &probed, segments, &Handle::default())?;
        (0..plan.len()).map(|index| plan.open(device, index).map(OpeningsPart::Segment)).collect()
    }

    fn samples(&mut self, iteration: u32, samples: &[PassSample]) -> Result<Vec<OpeningsPart>, DeviceError> {
        if iteration + 1 != self.task.iterations {
            return Err(DeviceError::Unsupported("the load keeps the last iteration alone".into()));
        }
        let (previous_root, root) = roots_at(&self.evidence.devices[0].roots, iteration);
        let pass = AuditedPass {
            challenge: &self.challenge,
            device_id: self.task.share.device_id,
            iteration,
            previous_root,
            root,
            slot_digests: &self.digests,
        };
        let device: &mut dyn Device = &mut self.device;
        let plan = SamplePlan::new(device, &pass, samples, &Handle::default())?;
        (0..plan.len()).map(|index| plan.open(device, index).map(OpeningsPart::Sample)).collect()
    }

    fn last_root(&self) -> Root {
        self.evidence.devices[0].roots.last().copied().unwrap_or(Root::BEFORE_FIRST)
    }
}
