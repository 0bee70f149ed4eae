//! Openings of the challenge held: each device opens its items on its own thread, part by part.

use std::collections::BTreeMap;
use std::sync::{Arc, mpsc};

use assay_device::host::{Host, wait_for_all};
use assay_device::open::{AuditedPass, ProbedDevice, SamplePlan, SegmentPlan, SumPlan, SweptDevice};
use assay_device::{Device, DeviceError, Handle};
use assay_protocol::message::{OpenItem, OpenTarget, OpeningsPart};
use assay_work::audit::roots_at;
use assay_work::opening::PassSample;
use assay_work::probe::{Probe, SweepSample, probe_key};
use assay_work::segment::Segment;
use assay_work::{DeviceId, Digest, Root};

use super::{HeldChallenge, HeldDevice, MAX_PARTS_AHEAD, MAX_PLANNED_LINES, MAX_PLANNED_SAMPLES, Result, last_root};

/// Digests in one chunk, 32 KiB: on a slow link nothing else arrives while one is on its way.
const DIGESTS_PER_CHUNK: usize = 1024;

/// Where a device gives the parts of its openings, until they are given up.
struct OpenedParts {
    parts: mpsc::SyncSender<OpeningsPart>,
    handle: Handle,
}

impl OpenedParts {
    /// Waits for room; the other side is gone only when the opening was given up.
    fn give(&self, part: OpeningsPart) -> Result<()> {
        self.parts.send(part).map_err(|_| DeviceError::Cancelled)
    }

    fn give_digests(&self, digests: &[Digest]) -> Result<()> {
        digest_parts(digests).try_for_each(|part| self.give(part))
    }

    /// Gives the parts of a plan, each opened once there was room for the one before.
    fn give_each(&self, count: usize, mut open: impl FnMut(usize) -> Result<OpeningsPart>) -> Result<()> {
        (0..count).try_for_each(|index| {
            self.handle.check()?;
            self.give(open(index)?)
        })
    }
}

/// Opens items that devices open alone: each in one job, so that it is a few parts ahead of the connection, however many
/// items it has.
pub(super) fn open_own_items(
    host: &Host,
    held: &Arc<HeldChallenge>,
    items: &[OpenItem],
    handle: &Handle,
    give: &mut impl FnMut(OpeningsPart) -> Result<()>,
) -> Result<()> {
    let mut by_device: BTreeMap<DeviceId, Vec<OpenItem>> = BTreeMap::new();
    for item in items {
        by_device.entry(item.device_id).or_default().push(item.clone());
    }
    let (mut streams, mut jobs) = (BTreeMap::new(), Vec::new());
    for (id, items) in by_device {
        let (parts, stream) = mpsc::sync_channel(MAX_PARTS_AHEAD);
        let (held, out) = (held.clone(), OpenedParts { parts, handle: handle.clone() });
        let open = move |device: &mut dyn Device| {
            let opened = items.iter().try_for_each(|item| held.open_item(device, item, &out));
            distrust_if_sick(device, opened)
        };
        jobs.push(host.submit(id, open)?);
        streams.insert(id, stream);
    }
    for item in items {
        if !give_item(&streams[&item.device_id], give)? {
            // Its device failed.
            handle.cancel();
            break;
        }
    }
    // Devices that have more to give stop.
    drop(streams);
    wait_for_all(jobs).map(drop)
}

/// Tells a device that its slots did not come out as before.
pub(super) fn distrust_if_sick<T>(device: &mut dyn Device, result: Result<T>) -> Result<T> {
    if let Err(error @ DeviceError::Sick(_)) = &result {
        device.distrust(error);
    }
    result
}

/// Gives the parts of the next item of a device; `false` when they end before the item does.
fn give_item(stream: &mpsc::Receiver<OpeningsPart>, give: &mut impl FnMut(OpeningsPart) -> Result<()>) -> Result<bool> {
    for part in stream {
        let is_end = matches!(part, OpeningsPart::End);
        give(part)?;
        if is_end {
            return Ok(true);
        }
    }
    Ok(false)
}

impl HeldDevice {
    /// The digests of an iteration, which is resident after it: computed again when another one was.
    pub(super) fn make_resident(
        &self,
        device: &mut dyn Device,
        roots: &[Root],
        iteration: u32,
        handle: &Handle,
    ) -> Result<Arc<Vec<Digest>>> {
        let mut resident = self.resident.lock();
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
    fn open_item(&self, device: &mut dyn Device, item: &OpenItem, out: &OpenedParts) -> Result<()> {
        match &item.what {
            OpenTarget::Segments(segments) => self.open_segments(device, item.device_id, segments, out),
            // All devices open those together.
            OpenTarget::LinkedSegments(_) => {
                Err(DeviceError::Unsupported("linked segments of one device alone".into()))
            }
            OpenTarget::Sums(samples) => self.open_sums(device, item.device_id, samples, out),
            OpenTarget::Samples { iteration, samples } => {
                self.open_samples(device, item.device_id, *iteration, samples, out)
            }
        }?;
        out.give(OpeningsPart::End)
    }

    fn open_segments(
        &self,
        device: &mut dyn Device,
        id: DeviceId,
        segments: &[Segment],
        out: &OpenedParts,
    ) -> Result<()> {
        let of = self.device(id)?;
        let answered = self.answered.lock().own.clone();
        let (probe, answer) = answered.ok_or_else(|| DeviceError::Unsupported("no probe was answered".into()))?;
        let roots = self.roots(&of.task);
        let slot_digests = of.make_resident(device, roots, of.task.iterations - 1, &out.handle)?;
        let probed = ProbedDevice {
            challenge: &self.challenge,
            probe: &probe,
            device_id: id,
            probe_key: &probe_key(&probe, &of.task.work_key, id, &last_root(roots)),
            digests: answer.device(id).map_or(&[], |device| &device.digests),
            slot_digests: &slot_digests,
        };
        out.give_digests(&slot_digests)?;
        for segments in segments.chunks(segments_at_a_time(&probe, self.devices.len())) {
            let plan = SegmentPlan::new(device, &probed, segments, &out.handle)?;
            out.give_each(plan.len(), |index| plan.open(device, index).map(OpeningsPart::Segment))?;
        }
        Ok(())
    }

    fn open_sums(
        &self,
        device: &mut dyn Device,
        id: DeviceId,
        samples: &[SweepSample],
        out: &OpenedParts,
    ) -> Result<()> {
        let of = self.device(id)?;
        let answered = self.answered.lock().sweep.clone();
        let (sweep, answer) = answered.ok_or_else(|| DeviceError::Unsupported("no sweep was answered".into()))?;
        let roots = self.roots(&of.task);
        let slot_digests = of.make_resident(device, roots, of.task.iterations - 1, &out.handle)?;
        let swept = SweptDevice {
            rounds: of.task.sweep_rounds(&sweep, &last_root(roots)),
            digests: answer.device(id).map_or(&[], |device| &device.digests),
            slot_digests: &slot_digests,
        };
        let plan = SumPlan::new(device, &swept, samples, &out.handle)?;
        out.give_digests(&slot_digests)?;
        out.give_each(plan.len(), |index| plan.open(device, index).map(OpeningsPart::Sum))
    }

    fn open_samples(
        &self,
        device: &mut dyn Device,
        id: DeviceId,
        iteration: u32,
        samples: &[PassSample],
        out: &OpenedParts,
    ) -> Result<()> {
        let of = self.device(id)?;
        if iteration >= of.task.iterations {
            return Err(DeviceError::Unsupported(format!("the challenge has no iteration {iteration}")));
        }
        let roots = self.roots(&of.task);
        let slot_digests = of.make_resident(device, roots, iteration, &out.handle)?;
        let (previous_root, root) = roots_at(roots, iteration);
        let pass = AuditedPass {
            challenge: &self.challenge,
            device_id: id,
            iteration,
            previous_root,
            root,
            slot_digests: &slot_digests,
        };
        out.give_digests(&slot_digests)?;
        for samples in samples.chunks((MAX_PLANNED_SAMPLES / self.devices.len().max(1)).max(1)) {
            let plan = SamplePlan::new(device, &pass, samples, &out.handle)?;
            out.give_each(plan.len(), |index| plan.open(device, index).map(OpeningsPart::Sample))?;
        }
        Ok(())
    }
}

/// Segments that each of several devices plans at a time.
pub(super) fn segments_at_a_time(probe: &Probe, devices: usize) -> usize {
    (MAX_PLANNED_LINES / devices.max(1) / probe.steps() as usize).max(1)
}

/// Digests in the parts that carry them.
pub(super) fn digest_parts(digests: &[Digest]) -> impl Iterator<Item = OpeningsPart> {
    digests.chunks(DIGESTS_PER_CHUNK).map(|chunk| OpeningsPart::SlotDigests(chunk.to_vec()))
}

/// Items of linked segments must stand together: a device that has other work between two of them would keep the others
/// waiting.
pub(super) fn check_linked_items(items: &[OpenItem]) -> Result<()> {
    let groups = items.chunk_by(|a, b| is_linked(a) == is_linked(b));
    if groups.filter(|group| is_linked(&group[0])).count() > 1 {
        return Err(DeviceError::Unsupported("items of linked segments that do not stand together".into()));
    }
    Ok(())
}

pub(super) const fn is_linked(item: &OpenItem) -> bool {
    matches!(item.what, OpenTarget::LinkedSegments(_))
}
