//! The linked probe of a challenge: all devices walk over the slots of all of them, and open their lines together.

use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use assay_device::host::{Host, PendingResult, wait_for_all};
use assay_device::linked::{self, LinkedPart};
use assay_device::open::{LinkedPlan, LinkedSegment, OpenedLinkedProbe, SegmentPiece, join_segment};
use assay_device::{Device, DeviceError, Handle};
use assay_protocol::message::{OpenItem, OpenTarget, OpeningsPart};
use assay_work::probe::{LinkedSlots, Probe};
use assay_work::segment::{Segment, SegmentOpenings};
use assay_work::{Digest, Root};

use super::opening::{digest_parts, distrust_if_sick, segments_at_a_time};
use super::{HeldChallenge, HeldDevice, MAX_PARTS_AHEAD, Result, cancel_on_error, last_root};

/// A device's part of the linked segments of an open: its digests, then its piece of each segment in order.
enum LinkedOpeningPart {
    Digests(Arc<Vec<Digest>>),
    Piece(SegmentPiece),
}

/// One device's part of an opening under way.
struct OpeningDevice {
    opened: mpsc::Receiver<LinkedOpeningPart>,
    done: PendingResult<Result<()>>,
}

/// Linked segments that all devices open together.
struct LinkedOpening {
    /// In the order of the shares.
    devices: Vec<OpeningDevice>,
    /// Cancels the open.
    handle: Handle,
}

/// Opens items of linked segments, on all devices: as many segments at a time as may be planned.
pub(super) fn open_linked_items(
    host: &Host,
    held: &Arc<HeldChallenge>,
    items: &[OpenItem],
    handle: &Handle,
    give: &mut impl FnMut(OpeningsPart) -> Result<()>,
) -> Result<()> {
    let (probe, _) = held.answered_linked()?;
    let mut segments = Vec::new();
    for item in items {
        let device = held.index_of(item.device_id)?;
        segments.extend(linked_segments(item).iter().map(|&segment| LinkedSegment { device, segment }));
    }
    let slots = LinkedSlots::new(&held.challenge);
    let at_a_time = segments_at_a_time(&probe, 1);
    let mut opening = LinkedOpening::start(host, held, &probe, &segments[..segments.len().min(at_a_time)], handle)?;
    digest_parts(&opening.digests()?).try_for_each(&mut *give)?;
    let mut index = 0;
    for item in items {
        for _ in linked_segments(item) {
            if index > 0 && index % at_a_time == 0 {
                opening.finish()?;
                let end = segments.len().min(index + at_a_time);
                opening = LinkedOpening::start(host, held, &probe, &segments[index..end], handle)?;
                opening.digests()?;
            }
            give(OpeningsPart::Segment(cancel_on_error(
                handle,
                opening.next_segment(&slots, segments[index].segment),
            )?))?;
            index += 1;
        }
        give(OpeningsPart::End)?;
    }
    opening.finish()
}

fn linked_segments(item: &OpenItem) -> &[Segment] {
    match &item.what {
        OpenTarget::LinkedSegments(segments) => segments,
        _ => &[],
    }
}

impl HeldChallenge {
    /// Walks a linked probe on all devices at once: the digests of each, and how long it took.
    pub(super) fn walk_linked(
        &self,
        host: &Host,
        probe: &Probe,
        handle: &Handle,
    ) -> Result<Vec<(Vec<Digest>, Duration)>> {
        let walk = |(of, part): (&HeldDevice, LinkedPart)| {
            let handle = handle.clone();
            host.submit(of.task.share.device_id, move |device| {
                let began = Instant::now();
                cancel_on_error(&handle, part.walk(device, &handle).map(|digests| (digests, began.elapsed())))
            })
        };
        let parts = linked::parts(&self.challenge, probe, &self.last_roots())?;
        wait_for_all(self.devices.iter().zip(parts).map(walk).collect::<Result<Vec<_>, _>>()?)
    }

    fn last_roots(&self) -> Vec<Root> {
        self.devices.iter().map(|of| last_root(self.roots(&of.task))).collect()
    }

    /// Gives a device's part of linked segments: the last pass resident, the rounds that were drawn walked again with
    /// all other devices, then its piece of each segment.
    fn open_linked(
        &self,
        device: &mut dyn Device,
        (index, part): (usize, LinkedPart),
        segments: &[LinkedSegment],
        handle: &Handle,
        opened: &mpsc::SyncSender<LinkedOpeningPart>,
    ) -> Result<()> {
        let of = &self.devices[index];
        let (probe, answer) = self.answered_linked()?;
        let slot_digests = of.make_resident(device, self.roots(&of.task), of.task.iterations - 1, handle)?;
        let probed =
            OpenedLinkedProbe { n: self.challenge.n(), probe: &probe, answer: &answer, slot_digests: &slot_digests };
        let plan = LinkedPlan::new(device, part, &probed, segments, handle)?;
        let give = |part| opened.send(part).map_err(|_| DeviceError::Cancelled);
        give(LinkedOpeningPart::Digests(slot_digests.clone()))?;
        for segment in 0..plan.len() {
            handle.check()?;
            give(LinkedOpeningPart::Piece(plan.piece(device, segment)?))?;
        }
        Ok(())
    }
}

impl LinkedOpening {
    /// Has all devices open linked segments.
    ///
    /// # Errors
    /// The devices'.
    fn start(
        host: &Host,
        held: &Arc<HeldChallenge>,
        probe: &Probe,
        segments: &[LinkedSegment],
        handle: &Handle,
    ) -> Result<Self> {
        let parts = linked::parts(&held.challenge, probe, &held.last_roots())?;
        let mut devices = Vec::with_capacity(parts.len());
        for (index, part) in parts.into_iter().enumerate() {
            let (give, opened) = mpsc::sync_channel(MAX_PARTS_AHEAD);
            let (job, handle, segments) = (held.clone(), handle.clone(), segments.to_vec());
            let done = host.submit(held.devices[index].task.share.device_id, move |device| {
                let opened = job.open_linked(device, (index, part), &segments, &handle, &give);
                cancel_on_error(&handle, distrust_if_sick(device, opened))
            })?;
            devices.push(OpeningDevice { opened, done });
        }
        Ok(Self { devices, handle: handle.clone() })
    }

    /// The digests of the last pass of every device, which come before the first segment.
    fn digests(&mut self) -> Result<Vec<Digest>> {
        let of_device = |device: &OpeningDevice| match device.opened.recv() {
            Ok(LinkedOpeningPart::Digests(digests)) => Some(digests),
            Ok(LinkedOpeningPart::Piece(_)) | Err(_) => None,
        };
        let all: Option<Vec<_>> = self.devices.iter().map(of_device).collect();
        all.map_or_else(
            || Err(self.failure()),
            |all| Ok(all.iter().flat_map(|digests| digests.iter().copied()).collect()),
        )
    }

    /// The next segment, which is this one.
    fn next_segment(&mut self, slots: &LinkedSlots, segment: Segment) -> Result<SegmentOpenings> {
        let of_device = |device: &OpeningDevice| match device.opened.recv() {
            Ok(LinkedOpeningPart::Piece(piece)) => Some(piece),
            Ok(LinkedOpeningPart::Digests(_)) | Err(_) => None,
        };
        let pieces: Option<Vec<_>> = self.devices.iter().map(of_device).collect();
        let Some(pieces) = pieces else { return Err(self.failure()) };
        join_segment(slots, segment, pieces)
    }

    /// Waits for the devices, once every segment was taken.
    fn finish(self) -> Result<()> {
        wait_for_all(self.devices.into_iter().map(|device| device.done).collect()).map(drop)
    }

    /// Why a device gave less than it should: its own error, before that of those that stopped for it. All of them end.
    fn failure(&mut self) -> DeviceError {
        self.handle.cancel();
        let devices = std::mem::take(&mut self.devices);
        let jobs = devices.into_iter().map(|device| {
            // Senders that have more to send find the channel closed.
            drop(device.opened);
            device.done
        });
        wait_for_all(jobs.collect()).err().unwrap_or(DeviceError::Cancelled)
    }
}
