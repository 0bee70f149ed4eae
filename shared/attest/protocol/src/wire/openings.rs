//! Requests for openings, and the openings.

use std::time::Duration;

use super::error::WireError;
use super::field::{
    self, ByteString, BytesUpTo, CheckedValue, ConcatenatedBytes, FieldKind, List, NamedField, NestedMessage, NotEmpty,
    Optional, RequiredMessage,
};
use super::limits::{
    MAX_CHUNK_DIGESTS, MAX_LINES, MAX_OPEN_DRAWS, MAX_OPEN_ITEMS, MAX_RANGE_BYTES, MAX_SAMPLE_OPENINGS, MAX_SIBLINGS,
};
use super::v1;
use super::v1::open_item::What;
use super::v1::openings_chunk::Part;
use super::work::DEADLINE;
use crate::message::{OpenItem, OpenTarget, OpeningsChunk, OpeningsPart};
use assay_work::ChallengeId;
use assay_work::opening::{OpenedRange, Parents, PassSample, SampleOpenings};
use assay_work::probe::SweepSample;
use assay_work::segment::{Opening, Segment, SegmentOpenings};
use assay_work::sums::SweepOpenings;

messages! {
    v1::Open = (ChallengeId, Vec<OpenItem>, Duration) {
        challenge_id: ByteString,
        items: OpenItems,
        deadline_ms: DEADLINE,
    }
    v1::OpenItem = OpenItem { device_id: ByteString, what: RequiredMessage }
    v1::OpenSegments = (Vec<Segment>) { segments: List(MAX_OPEN_DRAWS) }
    v1::OpenSums = (Vec<SweepSample>) { samples: List(MAX_OPEN_DRAWS) }
    v1::SumSample = SweepSample { round, slot, row }
    v1::OpenSamples = (u32, Vec<PassSample>) { iteration, samples: List(MAX_OPEN_DRAWS) }
    v1::Segment = Segment { round, walk }
    v1::Segment = (u32, u32) { round, walk }

    v1::OpeningsChunk = OpeningsChunk {
        challenge_id: ByteString,
        item: CheckedValue(|field, item: &u32| field::in_range(field, 0, MAX_OPEN_ITEMS as u64 - 1, u64::from(*item))),
        part: RequiredMessage,
    }
    v1::ItemEnd = () {}
    v1::SampleOpenings = SampleOpenings {
        sample: RequiredMessage,
        parents: Optional(NestedMessage),
        openings: List(MAX_SAMPLE_OPENINGS),
    }
    v1::Parents = Parents { earlier, previous }
    v1::SegmentOpenings = SegmentOpenings {
        segment as round & walk: RequiredMessage,
        state: SlotlessRange("SegmentOpenings.state.slot"),
        lines: List(MAX_LINES),
    }
    v1::SumOpenings = SweepOpenings {
        sample: RequiredMessage,
        sum: SlotlessRange("SumOpenings.sum.slot"),
        range: RequiredMessage,
    }
    // Whether position, length and siblings are those asked for is for the audit to judge.
    v1::OpenedRange = OpenedRange {
        slot,
        first_byte,
        bytes: BytesUpTo(MAX_RANGE_BYTES),
        siblings: ConcatenatedBytes(MAX_SIBLINGS),
    }
}

oneof! {
    What = OpenTarget {
        Segments(segments),
        LinkedSegments(segments),
        Sums(samples),
        Samples { iteration, samples },
    }
}

oneof! {
    Part = OpeningsPart {
        SlotDigests(digests): NamedField("OpeningsChunk.slot_digests", NotEmpty(ConcatenatedBytes(MAX_CHUNK_DIGESTS))),
        Sample(sample),
        Segment(segment),
        Sum(sum),
        End,
    }
}

/// The items of an open, whose samples and segments are bounded together.
struct OpenItems;

impl FieldKind<Vec<v1::OpenItem>, Vec<OpenItem>> for OpenItems {
    fn read(&self, field: &'static str, items: Vec<v1::OpenItem>) -> Result<Vec<OpenItem>, WireError> {
        field::at_most(field, MAX_OPEN_ITEMS, items.len())?;
        let draws = |item: &v1::OpenItem| match &item.what {
            Some(What::Segments(segments) | What::LinkedSegments(segments)) => segments.segments.len(),
            Some(What::Samples(samples)) => samples.samples.len(),
            Some(What::Sums(sums)) => sums.samples.len(),
            None => 0,
        };
        field::at_most(field, MAX_OPEN_DRAWS, items.iter().map(draws).sum())?;
        List(MAX_OPEN_ITEMS).read(field, items)
    }

    fn write(&self, items: Vec<OpenItem>) -> Vec<v1::OpenItem> {
        List(MAX_OPEN_ITEMS).write(items)
    }
}

/// A state or a sum: an opened range whose slot, the field named here, is always 0.
struct SlotlessRange(&'static str);

impl FieldKind<Option<v1::OpenedRange>, Opening> for SlotlessRange {
    fn read(&self, field: &'static str, state: Option<v1::OpenedRange>) -> Result<Opening, WireError> {
        let OpenedRange { slot, first_byte, bytes, siblings } = RequiredMessage.read(field, state)?;
        field::in_range(self.0, 0, 0, slot.into())?;
        Ok(Opening { first_byte, bytes, siblings })
    }

    fn write(&self, state: Opening) -> Option<v1::OpenedRange> {
        let Opening { first_byte, bytes, siblings } = state;
        Some(OpenedRange { slot: 0, first_byte, bytes, siblings }.into())
    }
}

impl TryFrom<v1::Sample> for PassSample {
    type Error = WireError;

    fn try_from(sample: v1::Sample) -> Result<Self, WireError> {
        let v1::Sample { slot, row, factors } = sample;
        Ok(match factors {
            Some(v1::SampleFactors { column, inner }) => Self::Product { slot, row, column, inner },
            None => Self::Leaf { slot, row },
        })
    }
}

impl From<PassSample> for v1::Sample {
    fn from(sample: PassSample) -> Self {
        match sample {
            PassSample::Product { slot, row, column, inner } => {
                Self { slot, row, factors: Some(v1::SampleFactors { column, inner }) }
            }
            PassSample::Leaf { slot, row } => Self { slot, row, factors: None },
        }
    }
}
