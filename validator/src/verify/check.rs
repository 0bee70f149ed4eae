//! Collects openings chunk by chunk, within what was asked, and checks each item once it is whole.

use std::sync::Arc;

use assay_protocol::message::{OpenItem, OpenWhat, OpeningsChunk, OpeningsPart};
use assay_protocol::verdict::{Reason, ReasonCode};
use assay_work::audit::{Audit, PassCheck};
use assay_work::commitment::Evidence;
use assay_work::fault::{FaultKind, OpeningFault};
use assay_work::opening::SampleOpenings;
use assay_work::probe::{Answer, Probe};
use assay_work::segment::{SegmentAudit, SegmentCheck, SegmentOpenings};
use assay_work::{Challenge, Digest, Root};

/// Everything that the miner is bound by when it opens.
#[derive(Debug, Clone)]
pub struct TrustedValues {
    /// The challenge.
    pub challenge: Arc<Challenge>,
    /// The commitment, checked.
    pub evidence: Arc<Evidence>,
    /// The probe.
    pub probe: Probe,
    /// The answer to it, checked.
    pub answer: Arc<Answer>,
}

/// The items asked for, and what came of the current one.
#[derive(Debug)]
pub struct Collector {
    binding: TrustedValues,
    items: Vec<OpenItem>,
    current: usize,
    slot_digests: Vec<Digest>,
    samples: Vec<SampleOpenings>,
    segments: Vec<SegmentOpenings>,
}

/// One item, whole, to be checked.
#[derive(Debug)]
pub struct CheckJob {
    binding: TrustedValues,
    item: OpenItem,
    slot_digests: Vec<Digest>,
    samples: Vec<SampleOpenings>,
    segments: Vec<SegmentOpenings>,
}

impl Collector {
    /// Waits for these items, in this order.
    #[must_use]
    pub const fn new(binding: TrustedValues, items: Vec<OpenItem>) -> Self {
        Self { binding, items, current: 0, slot_digests: Vec::new(), samples: Vec::new(), segments: Vec::new() }
    }

    /// The most chunks that may still come.
    #[must_use]
    pub fn chunks_due(&self) -> u64 {
        let due = |item: &OpenItem| {
            let count = self.binding.challenge.share(item.device_id).map_or(0, |share| u64::from(share.count));
            let draws = match &item.what {
                OpenWhat::Segments(segments) => segments.len(),
                OpenWhat::Samples { samples, .. } => samples.len(),
            };
            // Each chunk of digests has one at least; the end is a chunk of its own.
            count + draws as u64 + 1
        };
        self.items[self.current..].iter().map(due).sum()
    }

    /// Whether every item came.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.current == self.items.len()
    }

    /// Takes the next chunk; gives the item's check when it is its end.
    ///
    /// # Errors
    /// The reason when the chunk is not one that an honest miner sends next: nothing beyond what was asked is kept.
    pub fn take(&mut self, chunk: OpeningsChunk) -> Result<Option<CheckJob>, Reason> {
        let Some(item) = self.items.get(self.current) else {
            return Err(Reason::new(ReasonCode::AuditRows, "openings came after the last item"));
        };
        let device_id = item.device_id;
        let refuse = |kind, detail: String| Err(Reason::on_device(reason_code(&item.what, kind), device_id, detail));
        if chunk.item as usize != self.current {
            return refuse(FaultKind::Rows, format!("item {} came where item {} was due", chunk.item, self.current));
        }
        // The challenge has a share for every device asked about.
        let count = self.binding.challenge.share(device_id).map_or(0, |s| s.count as usize);
        match (chunk.part, &item.what) {
            (OpeningsPart::SlotDigests(digests), _) => {
                if self.slot_digests.len() + digests.len() > count {
                    return refuse(FaultKind::Digests, format!("more than {count} digests came"));
                }
                self.slot_digests.extend(digests);
            }
            (OpeningsPart::Sample(sample), OpenWhat::Samples { samples, .. }) => {
                if self.samples.len() == samples.len() {
                    return refuse(FaultKind::Rows, format!("more than {} samples came", samples.len()));
                }
                self.samples.push(sample);
            }
            (OpeningsPart::Segment(segment), OpenWhat::Segments(segments)) => {
                if self.segments.len() == segments.len() {
                    return refuse(FaultKind::Rows, format!("more than {} segments came", segments.len()));
                }
                self.segments.push(segment);
            }
            (OpeningsPart::End, _) => return Ok(Some(self.finish_item())),
            (OpeningsPart::Sample(_) | OpeningsPart::Segment(_), _) => {
                return refuse(FaultKind::Rows, "a sample and a segment were mixed up".into());
            }
        }
        Ok(None)
    }

    fn finish_item(&mut self) -> CheckJob {
        let job = CheckJob {
            binding: self.binding.clone(),
            item: self.items[self.current].clone(),
            slot_digests: std::mem::take(&mut self.slot_digests),
            samples: std::mem::take(&mut self.samples),
            segments: std::mem::take(&mut self.segments),
        };
        self.current += 1;
        job
    }
}

impl CheckJob {
    /// Checks the item: milliseconds of one core.
    ///
    /// # Errors
    /// The first fault, as a reason.
    pub fn run(self) -> Result<(), Reason> {
        let (what, device_id) = (self.item.what.clone(), self.item.device_id);
        self.check().map_err(|fault| Reason::on_device(reason_code(&what, fault.kind), device_id, fault.to_string()))
    }

    /// The samples or segments are checked one by one, each dropped before the next. They are checked once the item is
    /// whole, so that what is too much of an item is named before what is wrong in it.
    fn check(self) -> Result<(), OpeningFault> {
        let TrustedValues { challenge, evidence, probe, answer } = &self.binding;
        let device_id = self.item.device_id;
        // Evidence and answer were checked: both have every device of the challenge.
        let roots: &[Root] = evidence.device(device_id).map_or(&[], |d| &d.roots);
        match &self.item.what {
            OpenWhat::Segments(drawn) => {
                let digests: &[Digest] = answer.device(device_id).map_or(&[], |d| &d.digests);
                let last_root = roots.last().copied().unwrap_or(Root::BEFORE_FIRST);
                let audit = SegmentAudit::new(challenge, probe, device_id, last_root, digests, drawn);
                let mut check = SegmentCheck::begin(&audit, self.slot_digests)?;
                for segment in self.segments {
                    check.segment(&segment)?;
                }
                check.finish()
            }
            OpenWhat::Samples { iteration, samples } => {
                let audit = Audit::new(challenge, device_id, *iteration, roots, samples);
                let mut check = PassCheck::begin(&audit, self.slot_digests)?;
                for sample in self.samples {
                    check.sample(&sample);
                }
                check.finish()
            }
        }
    }
}

/// The reason for a fault in an audit's or a probe's openings.
///
/// Chunks name neither device nor root, so that none can be bound to another: such openings have other digests.
const fn reason_code(what: &OpenWhat, kind: FaultKind) -> ReasonCode {
    match (what, kind) {
        (OpenWhat::Samples { .. }, FaultKind::Binding | FaultKind::Digests) => ReasonCode::AuditDigests,
        (OpenWhat::Samples { .. }, FaultKind::Rows) => ReasonCode::AuditRows,
        (OpenWhat::Samples { .. }, FaultKind::Range) => ReasonCode::AuditRange,
        (OpenWhat::Samples { .. }, FaultKind::Siblings) => ReasonCode::AuditSiblings,
        (OpenWhat::Samples { .. }, FaultKind::Path) => ReasonCode::AuditPath,
        (OpenWhat::Samples { .. }, FaultKind::Leaf) => ReasonCode::AuditLeaf,
        (OpenWhat::Samples { .. }, FaultKind::Element | FaultKind::State) => ReasonCode::AuditElement,
        (OpenWhat::Segments(_), FaultKind::Binding | FaultKind::Digests) => ReasonCode::ResidencyDigests,
        (OpenWhat::Segments(_), FaultKind::Rows) => ReasonCode::ResidencyRows,
        (OpenWhat::Segments(_), FaultKind::Range) => ReasonCode::ResidencyRange,
        (OpenWhat::Segments(_), FaultKind::Siblings) => ReasonCode::ResidencySiblings,
        (OpenWhat::Segments(_), FaultKind::Path) => ReasonCode::ResidencyPath,
        (OpenWhat::Segments(_), FaultKind::Leaf | FaultKind::Element | FaultKind::State) => ReasonCode::ResidencyState,
    }
}
