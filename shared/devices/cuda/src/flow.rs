//! Pending launches: bounded, in order, with a timeout.
//!
//! A [`Flow`] has two lanes, each a stream with marks in it: one for products, one for digests, which run beside the
//! next product. Nothing here waits for a single product; it only keeps the lanes from growing.

use std::collections::VecDeque;
use std::time::Duration;

use super::driver::{Context, CudaEvent, Stream};
use super::error::Fault;
use super::wait;
use assay_device::pace::{DeviceRates, WorkKind, Workload, may_enqueue};
use assay_device::{DeviceError, Handle};

/// Marks of a lane, and so its pending launches at most: short ones reach this limit, long ones the limit in time.
pub(super) const DEPTH: usize = 128;
/// One of so many launches is timed, once one as large was: each mark before a product delays it, and lets a digest on the
/// multiprocessors first.
const TIMED_EVERY: usize = 16;

/// The purpose of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LaunchPurpose {
    Leaf(u32),
    /// The operands of a slot's product.
    Operands(u32),
    /// Tiles of a slot's product.
    Product(u32),
    /// All of a slot's product, and the digest of the slot before it.
    ProductAndDigest(u32),
    Digest(u32),
    /// Steps of a round of the probe.
    Steps,
    /// Sums of a round of the sweep.
    Sums,
}

impl std::fmt::Display for LaunchPurpose {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Leaf(u) => write!(f, "filling leaf {u}"),
            Self::Operands(u) => write!(f, "expanding operands for slot {u}"),
            Self::Product(u) | Self::ProductAndDigest(u) => write!(f, "multiplying for slot {u}"),
            Self::Digest(u) => write!(f, "hashing slot {u}"),
            Self::Steps => write!(f, "walking the probe"),
            Self::Sums => write!(f, "summing the rows of slots"),
        }
    }
}

/// The marks of a lane: where a launch starts, where it ends.
#[derive(Debug)]
pub(super) struct LaunchMarks(Vec<(CudaEvent, CudaEvent)>);

impl LaunchMarks {
    /// Makes the marks of a lane; the context is bound.
    pub(super) fn new(context: &std::sync::Arc<Context>) -> Result<Self, Fault> {
        let pair = |_| Ok((CudaEvent::new(context)?, CudaEvent::new(context)?));
        (0..DEPTH).map(pair).collect::<Result<_, _>>().map(Self)
    }
}

struct PendingLaunch {
    what: LaunchPurpose,
    /// The index of its marks.
    mark: usize,
    /// The amount of work, where it is timed.
    work: Option<Workload>,
    estimate: Duration,
}

/// A stream and its pending launches.
pub(super) struct Lane<'a> {
    pub(super) stream: &'a Stream,
    marks: &'a [(CudaEvent, CudaEvent)],
    next: usize,
    /// Launches of an amount of work.
    measurable: usize,
    entries: VecDeque<PendingLaunch>,
    queued: Duration,
}

impl<'a> Lane<'a> {
    pub(super) fn new(stream: &'a Stream, marks: &'a LaunchMarks) -> Self {
        Self {
            stream,
            marks: &marks.0,
            next: 0,
            measurable: 0,
            entries: VecDeque::with_capacity(DEPTH),
            queued: Duration::ZERO,
        }
    }

    /// Whether no mark is free.
    fn is_full(&self) -> bool {
        self.entries.len() == self.marks.len()
    }

    /// Removes the oldest launch if it is done.
    fn reap(&mut self) -> Result<Option<PendingLaunch>, Fault> {
        let Some(oldest) = self.entries.front() else { return Ok(None) };
        if !self.marks[oldest.mark].1.is_done(|| oldest.what.to_string())? {
            return Ok(None);
        }
        let done = self.entries.pop_front();
        if let Some(done) = &done {
            self.queued = self.queued.saturating_sub(done.estimate);
        }
        Ok(done)
    }
}

/// Both lanes of a device while it works on one call.
pub(super) struct Flow<'a> {
    /// The device's context, which is bound.
    pub(super) context: &'a Context,
    /// Products, leaves, steps of a probe.
    pub(super) compute: Lane<'a>,
    pub(super) hash: Lane<'a>,
    pub(super) rates: &'a mut DeviceRates,
    /// Progress out, cancellation in.
    pub(super) handle: &'a Handle,
    /// How long may pass without a finished launch.
    pub(super) stall_limit: Duration,
}

impl<'a> Flow<'a> {
    /// How many pieces of `piece_units` each, of `left`, the next launch takes; `first` while nothing was measured.
    pub(super) fn pieces(&self, kind: WorkKind, left: u32, piece_units: u64, first: u32) -> u32 {
        let pieces = self.rates.pieces(kind, left.into(), piece_units, first.into());
        u32::try_from(pieces).unwrap_or(left).min(left)
    }

    /// Enqueues on the compute lane; gives the mark of its end. There must be room.
    pub(super) fn compute(
        &mut self,
        what: LaunchPurpose,
        work: Option<Workload>,
        enqueue: impl FnOnce(&Stream) -> Result<(), Fault>,
    ) -> Result<&'a CudaEvent, Fault> {
        let estimate = work.and_then(|work| self.rates.estimate(work)).unwrap_or_default();
        self.compute.measurable += usize::from(work.is_some());
        let is_due = self.compute.measurable.is_multiple_of(TIMED_EVERY);
        let work = work.filter(|work| is_due || !self.rates.is_measured(*work));
        push(&mut self.compute, PendingLaunch { what, mark: 0, work, estimate }, enqueue)
    }

    /// Enqueues a digest on the hash lane. There must be room.
    pub(super) fn hash(&mut self, slot: u32, enqueue: impl FnOnce(&Stream) -> Result<(), Fault>) -> Result<(), Fault> {
        let entry = PendingLaunch { what: LaunchPurpose::Digest(slot), mark: 0, work: None, estimate: Duration::ZERO };
        push(&mut self.hash, entry, enqueue).map(drop)
    }

    /// Waits until `work` may be enqueued as well.
    pub(super) fn make_way(&mut self, work: Workload) -> Result<(), DeviceError> {
        self.handle.check()?;
        // Finished launches cost one poll, and update the rates.
        while self.reap()? {}
        while self.compute.is_full()
            || self.hash.is_full()
            || !may_enqueue(self.compute.queued, self.compute.entries.len(), self.rates.estimate(work))
        {
            self.wait_for_one(Some(self.handle))?;
        }
        Ok(())
    }

    /// Waits until no launch is pending.
    pub(super) fn finish(&mut self) -> Result<(), DeviceError> {
        self.finish_with(Some(self.handle))
    }

    /// Whether pending launches will never end.
    pub(super) fn is_lost(&self) -> bool {
        self.context.is_lost()
    }

    /// Waits for all pending launches, cancelled or not. Afterwards nothing uses the device's memory.
    pub(super) fn drain(&mut self) -> Result<(), DeviceError> {
        self.finish_with(None)
    }

    fn finish_with(&mut self, handle: Option<&Handle>) -> Result<(), DeviceError> {
        while !(self.compute.entries.is_empty() && self.hash.entries.is_empty()) {
            self.wait_for_one(handle)?;
        }
        Ok(())
    }

    /// Waits until at least one entry is done.
    fn wait_for_one(&mut self, handle: Option<&Handle>) -> Result<(), DeviceError> {
        let (context, limit) = (self.context, self.stall_limit);
        let oldest = self.compute.entries.front().or(self.hash.entries.front()).map(|entry| entry.what);
        let doing = || oldest.map_or_else(|| "nothing".into(), |what| what.to_string());
        wait::until(context, limit, handle, doing, || self.reap())
    }

    /// Removes a finished launch from each lane; advances the handle and updates the rates.
    fn reap(&mut self) -> Result<bool, Fault> {
        let computed = self.compute.reap()?;
        if let Some(PendingLaunch { work: Some(work), mark, .. }) = &computed {
            let (start, end) = &self.compute.marks[*mark];
            self.rates.learn(&[*work], end.since(start)?);
        }
        let hashed = self.hash.reap()?;
        let is_digest =
            |done: &PendingLaunch| matches!(done.what, LaunchPurpose::ProductAndDigest(_) | LaunchPurpose::Digest(_));
        self.handle.advance(computed.iter().chain(&hashed).filter(|done| is_digest(done)).count() as u64);
        Ok(computed.is_some() || hashed.is_some())
    }
}

fn push<'a>(
    lane: &mut Lane<'a>,
    mut entry: PendingLaunch,
    enqueue: impl FnOnce(&Stream) -> Result<(), Fault>,
) -> Result<&'a CudaEvent, Fault> {
    debug_assert!(!lane.is_full(), "make_way comes first");
    let marks = lane.marks;
    let (start, end) = &marks[lane.next];
    if entry.work.is_some() {
        start.record(lane.stream)?;
    }
    let enqueued = enqueue(lane.stream);
    if enqueued.is_err() {
        // Its launches before the refused one run, and are waited for.
        if lane.stream.context().is_lost() {
            return enqueued.map(|()| end);
        }
        entry.work = None;
    }
    end.record(lane.stream)?;
    entry.mark = lane.next;
    lane.queued = lane.queued.saturating_add(entry.estimate);
    lane.entries.push_back(entry);
    lane.next = (lane.next + 1) % lane.marks.len();
    enqueued.map(|()| end)
}
