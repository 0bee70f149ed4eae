//! Takes openings chunk by chunk: each is compared with the request before it is kept, and checked before the next one
//! is read.

use std::sync::Arc;

use assay_protocol::message::{OpenItem, OpenTarget, OpeningsChunk, OpeningsPart};
use assay_protocol::verdict::{Reason, ReasonCode};
use assay_work::audit::{Audit, PassCheck, SAMPLE_ELEMENTS};
use assay_work::commitment::Evidence;
use assay_work::fault::{FaultKind, FaultPlace, OpeningFault};
use assay_work::probe::{Answer, Probe, Sweep};
use assay_work::segment::{Segment, SegmentAudit, SegmentCheck, SlotDigests, check_slot_digests};
use assay_work::sums::{SweepAudit, SweepCheck, SweepOpenings};
use assay_work::{Challenge, DeviceId, Digest, Root};
use parking_lot::Mutex;

use super::size::{self, Probes};

/// Values that bind the miner's openings.
#[derive(Debug, Clone)]
pub struct TrustedValues {
    pub challenge: Arc<Challenge>,
    /// The commitment, checked.
    pub evidence: Arc<Evidence>,
    pub probe: Probe,
    /// The answer to it, checked.
    pub answer: Arc<Answer>,
    /// The linked probe and the answer to it, checked, where there was one.
    pub linked: Option<(Probe, Arc<Answer>)>,
    /// The sweep and the answer to it, checked, where there was one.
    pub sweep: Option<(Sweep, Arc<Answer>)>,
}

impl TrustedValues {
    /// The check of a device's segments of the linked probe; `None` without a linked probe.
    fn linked_audit<'a>(&'a self, device_id: DeviceId, drawn: &'a [Segment]) -> Option<SegmentAudit<'a>> {
        let (probe, answer) = self.linked.as_ref()?;
        Some(SegmentAudit::linked(&self.challenge, probe, device_id, &self.last_roots(), answer, drawn))
    }

    /// The committed roots of the last iteration, in the order of the shares.
    fn last_roots(&self) -> Vec<Root> {
        let last = |roots: &[Root]| roots.last().copied().unwrap_or(Root::BEFORE_FIRST);
        self.evidence.devices.iter().map(|device| last(&device.roots)).collect()
    }

    pub fn probes(&self) -> Probes<'_> {
        let linked = self.linked.as_ref().map(|(probe, _)| probe);
        Probes { own: &self.probe, linked, sweep: self.sweep.as_ref().map(|(sweep, _)| sweep) }
    }
}

/// Bytes hashed in the time of a field operation: 12 ns.
const FIELD_OPERATION_BYTES: usize = 100;

/// The items requested, and the progress of the current one: its digests come first, then exactly the samples or
/// segments drawn, in order, then its end. Only the digests are kept; those of a linked probe, which are of all
/// devices, come with its first item and serve them all.
#[derive(Debug)]
pub struct Collector {
    binding: TrustedValues,
    items: Arc<[OpenItem]>,
    current: usize,
    /// Digests of the current item, until it is complete.
    slot_digests: Vec<Digest>,
    /// Check of the current item, once its digests have come.
    check: Option<SharedCheck>,
    /// Digests of all devices, once the first item of linked segments has ended.
    linked_digests: Option<Arc<SlotDigests>>,
}

/// The check of an item, which a [`CheckJob`] and the [`Collector`] take in turn.
type SharedCheck = Arc<Mutex<ItemCheck>>;

/// State of an item's check.
#[derive(Debug)]
enum ItemCheck {
    /// The digests are not checked yet, or are wrong.
    Begun,
    Samples(PassCheck),
    Segments(SegmentCheck),
    Sums(SweepCheck),
}

/// One part of an item, to be checked before the next chunk is taken.
#[derive(Debug)]
pub struct CheckJob {
    binding: TrustedValues,
    items: Arc<[OpenItem]>,
    current: usize,
    check: SharedCheck,
    part: CheckedPart,
}

#[derive(Debug)]
enum CheckedPart {
    SlotDigests(Vec<Digest>),
    /// A sample, segment or sum: the journal has the same one.
    Opened(Arc<OpeningsChunk>),
}

impl Collector {
    /// Creates a collector for these items, in this order.
    pub fn new(binding: TrustedValues, items: Vec<OpenItem>) -> Self {
        let (items, slot_digests) = (items.into(), Vec::new());
        Self { binding, items, current: 0, slot_digests, check: None, linked_digests: None }
    }

    /// The most chunks that may still come.
    pub fn chunks_due(&self) -> u64 {
        // Each chunk of digests has at least one digest; the end is a chunk of its own.
        let due = |index: usize| self.digests_of(index) + size::draws(&self.items[index].what) + 1;
        (self.current..self.items.len()).map(due).sum()
    }

    /// The most bytes that the next chunk may have.
    pub fn next_bytes(&self) -> u64 {
        let Some(item) = self.items.get(self.current) else { return 0 };
        if self.check.is_some() {
            return size::most_draw_bytes(&self.binding.challenge, self.binding.probes(), &item.what);
        }
        size::most_digest_bytes(self.digests_of(self.current).saturating_sub(self.slot_digests.len() as u64))
    }

    fn digests_of(&self, index: usize) -> u64 {
        size::digests_of(&self.binding.challenge, &self.items, index)
    }

    /// Approximate size of the request in bytes.
    pub fn request_bytes(&self) -> u64 {
        size::request_bytes(&self.items)
    }

    pub fn is_complete(&self) -> bool {
        self.current == self.items.len()
    }

    /// The fault in the samples checked so far, named only at the end of their item: a miner that stops before stops
    /// for this.
    pub fn found(&self) -> Option<Reason> {
        let item = self.items.get(self.current)?;
        let ItemCheck::Samples(check) = &*self.check.as_ref()?.lock() else { return None };
        check.first_fault().map(|fault| reason(item, fault))
    }

    /// Takes the next chunk; returns the job that checks it, which must have run before the next chunk is taken.
    ///
    /// # Errors
    /// The reason when the chunk is not one that an honest miner sends next: nothing of it is kept.
    pub fn take(&mut self, chunk: Arc<OpeningsChunk>) -> Result<Option<CheckJob>, Reason> {
        let Some(item) = self.items.get(self.current) else {
            return Err(Reason::new(ReasonCode::AuditRows, "openings came after the last item"));
        };
        if chunk.item as usize != self.current {
            let detail = format!("item {} came where item {} was due", chunk.item, self.current);
            return Err(refusal(item, FaultKind::Rows, detail));
        }
        match &chunk.part {
            OpeningsPart::SlotDigests(digests) => return self.take_digests(digests),
            OpeningsPart::End => return self.finish_item().map(|()| None),
            OpeningsPart::Sample(_) | OpeningsPart::Segment(_) | OpeningsPart::Sum(_) => {}
        }
        let Some(check) = self.check.clone() else { return Err(self.digests_are_due()) };
        check.lock().check_shape(&chunk.part).map_err(|refused| refused.of(item))?;
        Ok(Some(self.job(check, CheckedPart::Opened(chunk))))
    }

    /// Keeps digests until all have come; then they are checked, before any sample or segment of them.
    fn take_digests(&mut self, digests: &[Digest]) -> Result<Option<CheckJob>, Reason> {
        let item = &self.items[self.current];
        // At most all slots of a challenge, which 32 bits count.
        let count = self.digests_of(self.current) as usize;
        if digests.is_empty() {
            return Err(refusal(item, FaultKind::Digests, "a chunk of no digests came".into()));
        }
        if self.check.is_some() || self.slot_digests.len() + digests.len() > count {
            return Err(refusal(item, FaultKind::Digests, format!("more than {count} digests came")));
        }
        self.slot_digests.reserve_exact(count - self.slot_digests.len());
        self.slot_digests.extend_from_slice(digests);
        if self.slot_digests.len() < count {
            return Ok(None);
        }
        let check = Arc::new(Mutex::new(ItemCheck::Begun));
        self.check = Some(check.clone());
        let digests = std::mem::take(&mut self.slot_digests);
        Ok(Some(self.job(check, CheckedPart::SlotDigests(digests))))
    }

    fn finish_item(&mut self) -> Result<(), Reason> {
        let Some(check) = self.check.take() else { return Err(self.digests_are_due()) };
        let check = std::mem::replace(&mut *check.lock(), ItemCheck::Begun);
        let item = &self.items[self.current];
        if let (ItemCheck::Segments(check), OpenTarget::LinkedSegments(_)) = (&check, &item.what) {
            self.linked_digests = Some(check.slot_digests());
        }
        check.finish().map_err(|refused| refused.of(item))?;
        self.current += 1;
        self.check = self.linked_check();
        Ok(())
    }

    /// The check of the current item, where its digests came with another item.
    fn linked_check(&self) -> Option<SharedCheck> {
        let (item, digests) = (self.items.get(self.current)?, self.linked_digests.clone()?);
        let OpenTarget::LinkedSegments(drawn) = &item.what else { return None };
        let audit = self.binding.linked_audit(item.device_id, drawn)?;
        Some(Arc::new(Mutex::new(ItemCheck::Segments(SegmentCheck::linked(&audit, digests)))))
    }

    fn job(&self, check: SharedCheck, part: CheckedPart) -> CheckJob {
        CheckJob { binding: self.binding.clone(), items: self.items.clone(), current: self.current, check, part }
    }

    fn digests_are_due(&self) -> Reason {
        let detail = format!("only {} digests came", self.slot_digests.len());
        refusal(&self.items[self.current], FaultKind::Digests, detail)
    }
}

impl CheckJob {
    /// Approximate bytes that it hashes, or could hash in the time that it takes.
    pub fn bytes(&self) -> usize {
        // A sibling is hashed together with its neighbour: 64 bytes.
        let opened = |bytes: usize, siblings: usize| bytes + 64 * siblings;
        let part = match &self.part {
            CheckedPart::SlotDigests(digests) => return digests.len() * size_of::<Digest>(),
            CheckedPart::Opened(chunk) => &chunk.part,
        };
        match part {
            OpeningsPart::Sample(sample) => {
                let rule = self.binding.challenge.precision().field_operations_of_row(self.binding.challenge.n());
                let hashed: usize = sample.openings.iter().map(|it| opened(it.bytes.len(), it.siblings.len())).sum();
                hashed + FIELD_OPERATION_BYTES * SAMPLE_ELEMENTS * rule as usize
            }
            OpeningsPart::Segment(segment) => {
                let lines = segment.lines.iter().map(|it| opened(it.bytes.len(), it.siblings.len()));
                lines.sum::<usize>() + opened(segment.state.bytes.len(), segment.state.siblings.len())
            }
            OpeningsPart::Sum(SweepOpenings { sum, range, .. }) => {
                opened(sum.bytes.len(), sum.siblings.len()) + opened(range.bytes.len(), range.siblings.len())
            }
            OpeningsPart::SlotDigests(_) | OpeningsPart::End => 0,
        }
    }

    /// Checks the part: at most milliseconds of one core.
    ///
    /// # Errors
    /// The reason for the fault. Faults in samples are named at the end of their item, when the first fault in
    /// WORK.md's order is known.
    pub fn run(self) -> Result<(), Reason> {
        let Self { binding, items, current, check, part } = self;
        let (item, mut check) = (&items[current], check.lock());
        let checked = match (part, &mut *check) {
            (CheckedPart::SlotDigests(digests), check @ ItemCheck::Begun) => {
                begin(&binding, item, digests).map(|begun| *check = begun).map_err(OpeningRefusal::Fault)
            }
            (CheckedPart::Opened(chunk), check) => check.opened(&chunk.part),
            _ => Err(OpeningRefusal::OutOfTurn),
        };
        checked.map_err(|refused| refused.of(item))
    }
}

enum OpeningRefusal {
    Fault(OpeningFault),
    /// A sample where segments or sums were asked for, or the other way round.
    OtherKind,
    /// The driver's mistake, never the miner's: a part was taken before its predecessor was checked.
    OutOfTurn,
}

impl OpeningRefusal {
    fn of(self, item: &OpenItem) -> Reason {
        match self {
            Self::Fault(fault) => reason(item, &fault),
            Self::OtherKind => refusal(item, FaultKind::Rows, "samples, segments and sums were mixed up".into()),
            Self::OutOfTurn => Reason::new(ReasonCode::ValidatorInternal, "openings were not checked in turn"),
        }
    }
}

impl ItemCheck {
    fn opened(&mut self, part: &OpeningsPart) -> Result<(), OpeningRefusal> {
        match (self, part) {
            (Self::Samples(check), OpeningsPart::Sample(sample)) => {
                check.sample(sample);
                Ok(())
            }
            (Self::Segments(check), OpeningsPart::Segment(segment)) => {
                check.segment(segment).map_err(OpeningRefusal::Fault)
            }
            (Self::Sums(check), OpeningsPart::Sum(sum)) => check.sample(sum).map_err(OpeningRefusal::Fault),
            _ => Err(OpeningRefusal::OutOfTurn),
        }
    }

    fn check_shape(&self, part: &OpeningsPart) -> Result<(), OpeningRefusal> {
        match (self, part) {
            (Self::Samples(check), OpeningsPart::Sample(sample)) => {
                check.check_shape(sample).map_err(OpeningRefusal::Fault)
            }
            (Self::Segments(check), OpeningsPart::Segment(segment)) => {
                check.check_shape(segment).map_err(OpeningRefusal::Fault)
            }
            (Self::Sums(check), OpeningsPart::Sum(sum)) => check.check_shape(sum).map_err(OpeningRefusal::Fault),
            (Self::Begun, _) => Err(OpeningRefusal::OutOfTurn),
            (Self::Samples(_) | Self::Segments(_) | Self::Sums(_), _) => Err(OpeningRefusal::OtherKind),
        }
    }

    fn finish(self) -> Result<(), OpeningRefusal> {
        match self {
            Self::Begun => Err(OpeningRefusal::OutOfTurn),
            Self::Samples(check) => check.finish().map_err(OpeningRefusal::Fault),
            Self::Segments(check) => check.finish().map_err(OpeningRefusal::Fault),
            Self::Sums(check) => check.finish().map_err(OpeningRefusal::Fault),
        }
    }
}

/// Checks the digests of an item, and prepares the check of its parts.
fn begin(binding: &TrustedValues, item: &OpenItem, digests: Vec<Digest>) -> Result<ItemCheck, OpeningFault> {
    let TrustedValues { challenge, evidence, probe, answer, .. } = binding;
    let device_id = item.device_id;
    // Evidence and answer were checked: both have every device of the challenge.
    let roots: &[Root] = evidence.device(device_id).map_or(&[], |d| &d.roots);
    match &item.what {
        OpenTarget::Segments(drawn) => {
            let answered: &[Digest] = answer.device(device_id).map_or(&[], |d| &d.digests);
            let last_root = roots.last().copied().unwrap_or(Root::BEFORE_FIRST);
            let audit = SegmentAudit::new(challenge, probe, device_id, last_root, answered, drawn);
            SegmentCheck::begin(&audit, digests).map(ItemCheck::Segments)
        }
        OpenTarget::Sums(drawn) => {
            let fault = OpeningFault { kind: FaultKind::Binding, device_id, place: FaultPlace::Answer };
            let (sweep, answer) = binding.sweep.as_ref().ok_or(fault)?;
            let answered: &[Digest] = answer.device(device_id).map_or(&[], |d| &d.digests);
            let last_root = roots.last().copied().unwrap_or(Root::BEFORE_FIRST);
            let audit = SweepAudit::new(challenge, sweep, device_id, last_root, answered, drawn);
            SweepCheck::begin(&audit, digests).map(ItemCheck::Sums)
        }
        OpenTarget::LinkedSegments(drawn) => {
            let mut rest = digests.as_slice();
            // The list has one digest for each slot of all shares.
            let lists = challenge.shares().iter().map(|share| {
                let (list, after) = rest.split_at(share.count as usize);
                rest = after;
                (share.device_id, list)
            });
            let digests = check_slot_digests(challenge, &binding.last_roots(), lists)?;
            let fault = OpeningFault { kind: FaultKind::Binding, device_id, place: FaultPlace::Answer };
            let audit = binding.linked_audit(device_id, drawn).ok_or(fault)?;
            Ok(ItemCheck::Segments(SegmentCheck::linked(&audit, digests)))
        }
        OpenTarget::Samples { iteration, samples } => {
            let audit = Audit::new(challenge, device_id, *iteration, roots, samples);
            PassCheck::begin(&audit, digests).map(ItemCheck::Samples)
        }
    }
}

/// The reason for a fault. Digests of a linked probe cover all devices: the fault names the device.
fn reason(item: &OpenItem, fault: &OpeningFault) -> Reason {
    let refusal = refusal(item, fault.kind, fault.to_string());
    Reason { device_id: Some(fault.device_id), ..refusal }
}

fn refusal(item: &OpenItem, kind: FaultKind, detail: String) -> Reason {
    let detail = match item.what {
        OpenTarget::LinkedSegments(_) => format!("linked probe: {detail}"),
        OpenTarget::Sums(_) => format!("sweep: {detail}"),
        OpenTarget::Segments(_) | OpenTarget::Samples { .. } => detail,
    };
    Reason::on_device(reason_code(&item.what, kind), item.device_id, detail)
}

/// The reason for a fault in an audit's or a probe's openings.
///
/// Chunks name neither device nor root, so that none can be bound to another: such openings have other digests.
const fn reason_code(what: &OpenTarget, kind: FaultKind) -> ReasonCode {
    let is_audit = matches!(what, OpenTarget::Samples { .. });
    match kind {
        FaultKind::Binding | FaultKind::Digests if is_audit => ReasonCode::AuditDigests,
        FaultKind::Rows if is_audit => ReasonCode::AuditRows,
        FaultKind::Range if is_audit => ReasonCode::AuditRange,
        FaultKind::Siblings if is_audit => ReasonCode::AuditSiblings,
        FaultKind::Path if is_audit => ReasonCode::AuditPath,
        FaultKind::Leaf => ReasonCode::AuditLeaf,
        FaultKind::Element => ReasonCode::AuditElement,
        FaultKind::Binding | FaultKind::Digests => ReasonCode::ResidencyDigests,
        FaultKind::Rows => ReasonCode::ResidencyRows,
        FaultKind::Range => ReasonCode::ResidencyRange,
        FaultKind::Siblings => ReasonCode::ResidencySiblings,
        FaultKind::Path => ReasonCode::ResidencyPath,
        FaultKind::State => ReasonCode::ResidencyState,
        FaultKind::Sum => ReasonCode::ResidencySum,
    }
}

#[cfg(test)]
mod tests {
    use assay_kits::naive;
    use assay_work::{
        ChallengeId, DeviceId, Nonce, PassSample, ProbeSeed, PublicKey, Segment, Share, UncheckedChallenge,
        UncheckedProbe,
    };

    use super::*;

    const DEVICE: DeviceId = DeviceId([3; 16]);
    const COUNT: u32 = 4;

    /// An honest miner's openings of two items of one device: the chunks in order, digests in two chunks.
    struct Opened {
        collector: Collector,
        chunks: Vec<OpeningsChunk>,
    }

    /// Positions in the chunks: the first segment, the end of its item, and the first sample.
    const SEGMENT: usize = 2;
    const END: usize = 4;
    const SAMPLE: usize = 7;

    impl Opened {
        fn new() -> Self {
            let challenge = challenge();
            let share = challenge.shares()[0];
            let (roots, slots) = naive::share(&challenge, &share);
            let probe = UncheckedProbe { seed: ProbeSeed([6; 32]), walks: 64, steps: 2, rounds: 2, link: 0 };
            let probe = Probe::try_from(probe).unwrap();
            let key = naive::key_of_probe(&challenge, &probe, DEVICE, &slots);
            let (_, answered) = naive::probe(&slots, 256, &key, &probe);
            let segments = vec![Segment { round: 1, walk: 5 }, Segment { round: 0, walk: 63 }];
            let product = |slot| PassSample::Product { slot, row: 1, column: 2, inner: 3 };
            let samples = vec![product(3), product(2)];
            let opened = naive::open_probe(&slots, 256, &key, &probe, DEVICE, &segments);
            let audited = naive::open_pass(&challenge, &share, &roots, 0, &samples);
            let id = challenge.id();
            let binding = TrustedValues {
                evidence: Arc::new(Evidence::assemble(&challenge, vec![roots])),
                answer: Arc::new(Answer::assemble(&challenge, probe, vec![answered])),
                challenge: Arc::new(challenge),
                probe,
                linked: None,
                sweep: None,
            };
            let items = [OpenTarget::Segments(segments), OpenTarget::Samples { iteration: 0, samples }];
            let items = items.into_iter().map(|what| OpenItem { device_id: DEVICE, what }).collect();
            let digests = |digests: &[Digest]| {
                [&digests[..1], &digests[1..]].map(|digests| OpeningsPart::SlotDigests(digests.to_vec()))
            };
            let segments = opened.segments.into_iter().map(OpeningsPart::Segment);
            let samples = audited.samples.into_iter().map(OpeningsPart::Sample);
            let first = digests(&opened.slot_digests).into_iter().chain(segments).chain([OpeningsPart::End]);
            let second = digests(&audited.slot_digests).into_iter().chain(samples).chain([OpeningsPart::End]);
            let chunk = |item| move |part| OpeningsChunk { challenge_id: id, item, part };
            let chunks = first.map(chunk(0)).chain(second.map(chunk(1))).collect();
            Self { collector: Collector::new(binding, items), chunks }
        }

        /// Takes chunks in turn and checks each at once; returns the reason, and the count of chunks taken before.
        fn take(&mut self, chunks: &[OpeningsChunk]) -> Result<(), (usize, ReasonCode)> {
            for (i, chunk) in chunks.iter().enumerate() {
                let job = self.collector.take(Arc::new(chunk.clone())).map_err(|reason| (i, reason.code))?;
                job.map_or(Ok(()), CheckJob::run).map_err(|reason| (i, reason.code))?;
            }
            Ok(())
        }
    }

    fn challenge() -> Challenge {
        let unchecked = UncheckedChallenge {
            version: 1,
            challenge_id: ChallengeId([1; 16]),
            nonce: Nonce([2; 32]),
            validator_key: PublicKey([4; 32]),
            miner_key: PublicKey([5; 32]),
            precision: 1,
            n: 256,
            iterations: 1,
            shares: vec![Share { device_id: DEVICE, offset: 0, count: COUNT }],
        };
        Challenge::try_from(unchecked).unwrap()
    }

    fn refused(change: impl FnOnce(&mut Vec<OpeningsChunk>)) -> (usize, ReasonCode) {
        let mut opened = Opened::new();
        let mut chunks = opened.chunks.clone();
        change(&mut chunks);
        opened.take(&chunks).expect_err("it is refused")
    }

    #[test]
    fn what_was_asked_for_is_taken_and_nothing_after_it() {
        let mut opened = Opened::new();
        let chunks = opened.chunks.clone();
        assert_eq!(opened.take(&chunks), Ok(()));
        assert!(opened.collector.is_complete());
        assert_eq!(opened.take(&chunks[..1]), Err((0, ReasonCode::AuditRows)));
    }

    #[test]
    fn what_is_not_next_is_refused_when_it_comes() {
        use ReasonCode::{AuditRows, ResidencyDigests, ResidencyRows};
        assert_eq!(refused(|c| drop(c.remove(1))), (1, ResidencyDigests), "a segment before all digests");
        assert_eq!(refused(|c| c.insert(1, c[1].clone())), (2, ResidencyDigests), "more digests than slots");
        assert_eq!(refused(|c| c.insert(SEGMENT, c[0].clone())), (SEGMENT, ResidencyDigests), "digests once more");
        assert_eq!(refused(|c| c[0].part = OpeningsPart::SlotDigests(Vec::new())), (0, ResidencyDigests));
        assert_eq!(refused(|c| c[0].part = OpeningsPart::End), (0, ResidencyDigests), "the end before all digests");
        assert_eq!(refused(|c| c.swap(SEGMENT, SEGMENT + 1)), (SEGMENT, ResidencyRows), "another order");
        assert_eq!(refused(|c| c.insert(END, c[SEGMENT].clone())), (END, ResidencyRows), "more than were drawn");
        assert_eq!(refused(|c| drop(c.remove(SEGMENT + 1))), (SEGMENT + 1, ResidencyRows), "fewer than were drawn");
        assert_eq!(refused(|c| c[SEGMENT].part = c[SAMPLE].part.clone()), (SEGMENT, ResidencyRows), "a sample");
        assert_eq!(refused(|c| c[SEGMENT].item = 1), (SEGMENT, ResidencyRows), "another item");
        assert_eq!(refused(|c| c.swap(SAMPLE, SAMPLE + 1)), (SAMPLE, AuditRows));
        assert_eq!(refused(|c| drop(c.remove(SAMPLE))), (SAMPLE, AuditRows));
    }

    /// Excess parts, and parts of another shape, do not reach a check, which may have to wait for a core.
    #[test]
    fn what_is_of_another_shape_is_not_kept_for_its_check() {
        let mut opened = Opened::new();
        let mut chunks = opened.chunks.clone();
        let OpeningsPart::Segment(segment) = &mut chunks[SEGMENT].part else { panic!("a segment") };
        segment.lines[1].bytes.push(0);
        let OpeningsPart::Sample(sample) = &mut chunks[SAMPLE].part else { panic!("a sample") };
        sample.openings[0].siblings.pop();
        assert_eq!(opened.take(&chunks[..1]), Ok(()));
        let whole = OpeningsPart::SlotDigests(vec![Digest([0; 32]); COUNT as usize]);
        let refused = |chunk: OpeningsChunk, opened: &mut Opened| {
            opened.collector.take(Arc::new(chunk)).expect_err("no job").code
        };
        let more = OpeningsChunk { part: whole, ..chunks[0].clone() };
        assert_eq!(refused(more, &mut opened), ReasonCode::ResidencyDigests);
        assert_eq!(opened.take(&chunks[1..SEGMENT]), Ok(()));
        assert_eq!(refused(chunks[SEGMENT].clone(), &mut opened), ReasonCode::ResidencyRange);
        let honest = opened.chunks.clone();
        assert_eq!(opened.take(&honest[SEGMENT..SAMPLE]), Ok(()));
        assert_eq!(refused(chunks[SAMPLE].clone(), &mut opened), ReasonCode::AuditSiblings);
    }

    /// Digests other than those committed to are refused before their samples or segments are taken.
    #[test]
    fn digests_are_checked_when_the_last_has_come() {
        let bend = |chunk: &mut OpeningsChunk| {
            let OpeningsPart::SlotDigests(digests) = &mut chunk.part else { panic!("digests") };
            digests[0].0[0] ^= 1;
        };
        assert_eq!(refused(|c| bend(&mut c[0])), (1, ReasonCode::ResidencyDigests));
        assert_eq!(refused(|c| bend(&mut c[END + 1])), (END + 2, ReasonCode::AuditDigests));
    }

    /// The first fault in WORK.md's order is known at the end only: it is named then, or when the miner stops before.
    #[test]
    fn what_samples_hold_is_named_at_the_end_of_their_item() {
        let mut opened = Opened::new();
        let mut chunks = opened.chunks.clone();
        let OpeningsPart::Sample(sample) = &mut chunks[SAMPLE].part else { panic!("a sample") };
        sample.openings[0].bytes[0] ^= 1;
        let end = chunks.len() - 1;
        assert_eq!(opened.take(&chunks[..SAMPLE]), Ok(()));
        assert_eq!(opened.collector.found(), None);
        assert_eq!(opened.take(&chunks[SAMPLE..end]), Ok(()));
        assert_eq!(opened.collector.found().map(|reason| reason.code), Some(ReasonCode::AuditPath));
        assert_eq!(opened.take(&chunks[end..]), Err((0, ReasonCode::AuditPath)));
    }

    #[test]
    fn a_chunk_that_comes_before_the_last_was_checked_is_our_mistake() {
        let mut opened = Opened::new();
        let chunks = opened.chunks.clone();
        let _ = opened.collector.take(Arc::new(chunks[0].clone())).unwrap();
        let _unchecked =
            opened.collector.take(Arc::new(chunks[1].clone())).unwrap().expect("the digests are to be checked");
        let reason = opened.collector.take(Arc::new(chunks[SEGMENT].clone())).unwrap_err();
        assert_eq!(reason.code, ReasonCode::ValidatorInternal);
    }
}
