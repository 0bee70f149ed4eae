//! Openings of the challenge held: each device opens its items on its own thread, part by part.

use std::sync::{Arc, mpsc};

use assay_device::open::{AuditedPass, ProbedDevice, SamplePlan, SegmentPlan, SumPlan, SweptDevice};
use assay_device::{Device, DeviceError, Handle};
use assay_protocol::message::{OpenItem, OpenTarget, OpeningsPart};
use assay_work::audit::roots_at;
use assay_work::opening::PassSample;
use assay_work::probe::{SweepSample, probe_key};
use assay_work::segment::Segment;
use assay_work::{DeviceId, Digest, Root};

use super::{HeldChallenge, HeldDevice, last_root, lock};

/// Digests in one chunk, 32 KiB: on a slow link nothing else arrives while one is on its way.
const DIGESTS_PER_CHUNK: usize = 1024;

/// Where a device gives its parts.
type Parts = mpsc::SyncSender<OpeningsPart>;

impl HeldDevice {
    /// The digests of an iteration, which is resident after it: computed again when another one was.
    pub(super) fn make_resident(
        &self,
        device: &mut dyn Device,
        roots: &[Root],
        iteration: u32,
        handle: &Handle,
    ) -> Result<Arc<Vec<Digest>>, DeviceError> {
        let mut resident = lock(&self.resident);
        if resident.0 != iteration {
            // Should the pass fail, nothing is resident.
            resident.0 = u32::MAX;
            let (previous, committed) = roots_at(roots, iteration);
            let (root, digests) = self.task.run_pass(device, iteration, &previous, handle)?;
            if root != committed {
                return Err(DeviceError::Sick(format!("iteration {iteration} gave another root than before")));
            }
            *resident = (iteration, Arc::new(digests));
        }
        Ok(resident.1.clone())
    }
}

impl HeldChallenge {
    pub(super) fn open_item(
        &self,
        device: &mut dyn Device,
        item: &OpenItem,
        handle: &Handle,
        parts: &Parts,
    ) -> Result<(), DeviceError> {
        match &item.what {
            OpenTarget::Segments(segments) => self.open_segments(device, item.device_id, segments, handle, parts),
            // All devices open those together.
            OpenTarget::LinkedSegments(_) => {
                Err(DeviceError::Unsupported("linked segments of one device alone".into()))
            }
            OpenTarget::Sums(samples) => self.open_sums(device, item.device_id, samples, handle, parts),
            OpenTarget::Samples { iteration, samples } => {
                self.open_samples(device, item.device_id, *iteration, samples, handle, parts)
            }
        }
    }

    fn open_segments(
        &self,
        device: &mut dyn Device,
        id: DeviceId,
        segments: &[Segment],
        handle: &Handle,
        parts: &Parts,
    ) -> Result<(), DeviceError> {
        let of = self.device(id)?;
        let answered = lock(&self.answered).own.clone();
        let (probe, answer) = answered.ok_or_else(|| DeviceError::Unsupported("no probe was answered".into()))?;
        let roots = self.roots(&of.task);
        let slot_digests = of.make_resident(device, roots, of.task.iterations - 1, handle)?;
        let probed = ProbedDevice {
            challenge: &self.challenge,
            probe: &probe,
            device_id: id,
            probe_key: &probe_key(&probe, &of.task.work_key, id, &last_root(roots)),
            digests: answer.device(id).map_or(&[], |device| &device.digests),
            slot_digests: &slot_digests,
        };
        let plan = SegmentPlan::new(device, &probed, segments, handle)?;
        give_digests(parts, &slot_digests)?;
        for index in 0..plan.len() {
            handle.check()?;
            give(parts, OpeningsPart::Segment(plan.open(device, index)?))?;
        }
        Ok(())
    }

    fn open_sums(
        &self,
        device: &mut dyn Device,
        id: DeviceId,
        samples: &[SweepSample],
        handle: &Handle,
        parts: &Parts,
    ) -> Result<(), DeviceError> {
        let of = self.device(id)?;
        let answered = lock(&self.answered).sweep.clone();
        let (sweep, answer) = answered.ok_or_else(|| DeviceError::Unsupported("no sweep was answered".into()))?;
        let roots = self.roots(&of.task);
        let slot_digests = of.make_resident(device, roots, of.task.iterations - 1, handle)?;
        let swept = SweptDevice {
            rounds: of.task.sweep_rounds(&sweep, &last_root(roots)),
            digests: answer.device(id).map_or(&[], |device| &device.digests),
            slot_digests: &slot_digests,
        };
        let plan = SumPlan::new(device, &swept, samples, handle)?;
        give_digests(parts, &slot_digests)?;
        for index in 0..plan.len() {
            handle.check()?;
            give(parts, OpeningsPart::Sum(plan.open(device, index)?))?;
        }
        Ok(())
    }

    fn open_samples(
        &self,
        device: &mut dyn Device,
        id: DeviceId,
        iteration: u32,
        samples: &[PassSample],
        handle: &Handle,
        parts: &Parts,
    ) -> Result<(), DeviceError> {
        let of = self.device(id)?;
        if iteration >= of.task.iterations {
            return Err(DeviceError::Unsupported(format!("the challenge has no iteration {iteration}")));
        }
        let roots = self.roots(&of.task);
        let slot_digests = of.make_resident(device, roots, iteration, handle)?;
        let (previous_root, root) = roots_at(roots, iteration);
        let pass = AuditedPass {
            challenge: &self.challenge,
            device_id: id,
            iteration,
            previous_root,
            root,
            slot_digests: &slot_digests,
        };
        let plan = SamplePlan::new(device, &pass, samples, handle)?;
        give_digests(parts, &slot_digests)?;
        for index in 0..plan.len() {
            handle.check()?;
            give(parts, OpeningsPart::Sample(plan.open(device, index)?))?;
        }
        Ok(())
    }
}

/// Digests in the parts that carry them.
pub(super) fn digest_parts(digests: &[Digest]) -> impl Iterator<Item = OpeningsPart> {
    digests.chunks(DIGESTS_PER_CHUNK).map(|chunk| OpeningsPart::SlotDigests(chunk.to_vec()))
}

fn give_digests(parts: &Parts, digests: &[Digest]) -> Result<(), DeviceError> {
    digest_parts(digests).try_for_each(|part| give(parts, part))
}

/// Waits for room; the other side is gone only when the opening was given up.
fn give(parts: &Parts, part: OpeningsPart) -> Result<(), DeviceError> {
    parts.send(part).map_err(|_| DeviceError::Cancelled)
}

/// Items of linked segments must stand together: a device that has other work between two of them would keep the others
/// waiting.
pub(super) fn check_linked_items(items: &[OpenItem]) -> Result<(), DeviceError> {
    let groups = items.chunk_by(|a, b| is_linked(a) == is_linked(b));
    if groups.filter(|group| is_linked(&group[0])).count() > 1 {
        return Err(DeviceError::Unsupported("items of linked segments that do not stand together".into()));
    }
    Ok(())
}

pub(super) const fn is_linked(item: &OpenItem) -> bool {
    matches!(item.what, OpenTarget::LinkedSegments(_))
}
