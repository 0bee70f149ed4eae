//! What is to be opened, and what is opened.

use std::time::Duration;

use super::error::{Problem, WireError};
use super::limits::{
    MAX_CHUNK_DIGESTS, MAX_LINES, MAX_OPEN_DRAWS, MAX_OPEN_ITEMS, MAX_RANGE_BYTES, MAX_SAMPLE_OPENINGS, MAX_SIBLINGS,
};
use super::v1::open_item::What;
use super::v1::openings_chunk::Part;
use super::work::{read_deadline, write_deadline};
use super::{field, v1};
use crate::message::{OpenItem, OpenWhat, OpeningsChunk, OpeningsPart};
use assay_work::ChallengeId;
use assay_work::opening::{OpenedRange, Parents, Sample, SampleOpenings};
use assay_work::segment::{Opening, Segment, SegmentOpenings};

pub(super) fn read_open(open: v1::Open) -> Result<(ChallengeId, Vec<OpenItem>, Duration), WireError> {
    let v1::Open { challenge_id, items, deadline_ms } = open;
    field::at_most("Open.items", MAX_OPEN_ITEMS, items.len())?;
    let draws = |item: &v1::OpenItem| match &item.what {
        Some(What::Segments(segments)) => segments.segments.len(),
        Some(What::Samples(samples)) => samples.samples.len(),
        None => 0,
    };
    field::at_most("Open.items", MAX_OPEN_DRAWS, items.iter().map(draws).sum())?;
    let items = items.into_iter().map(OpenItem::try_from).collect::<Result<_, _>>()?;
    Ok((field::fixed("Open.challenge_id", &challenge_id)?, items, read_deadline("Open.deadline_ms", deadline_ms)?))
}

pub(super) fn write_open(challenge_id: ChallengeId, items: Vec<OpenItem>, deadline: Duration) -> v1::Open {
    v1::Open {
        challenge_id: challenge_id.0.to_vec(),
        items: items.into_iter().map(Into::into).collect(),
        deadline_ms: write_deadline(deadline),
    }
}

impl TryFrom<v1::OpenItem> for OpenItem {
    type Error = WireError;

    fn try_from(item: v1::OpenItem) -> Result<Self, WireError> {
        let v1::OpenItem { device_id, what } = item;
        let what = match field::required("OpenItem.what", what)? {
            What::Segments(v1::OpenSegments { segments }) => {
                OpenWhat::Segments(segments.into_iter().map(Into::into).collect())
            }
            What::Samples(v1::OpenSamples { iteration, samples }) => {
                OpenWhat::Samples { iteration, samples: samples.into_iter().map(Into::into).collect() }
            }
        };
        Ok(Self { device_id: field::fixed("OpenItem.device_id", &device_id)?, what })
    }
}

impl From<OpenItem> for v1::OpenItem {
    fn from(item: OpenItem) -> Self {
        let OpenItem { device_id, what } = item;
        let what = match what {
            OpenWhat::Segments(segments) => {
                What::Segments(v1::OpenSegments { segments: segments.into_iter().map(Into::into).collect() })
            }
            OpenWhat::Samples { iteration, samples } => {
                What::Samples(v1::OpenSamples { iteration, samples: samples.into_iter().map(Into::into).collect() })
            }
        };
        Self { device_id: device_id.0.to_vec(), what: Some(what) }
    }
}

impl From<v1::Segment> for Segment {
    fn from(segment: v1::Segment) -> Self {
        let v1::Segment { round, walk } = segment;
        Self { round, walk }
    }
}

impl From<Segment> for v1::Segment {
    fn from(segment: Segment) -> Self {
        let Segment { round, walk } = segment;
        Self { round, walk }
    }
}

impl From<v1::Sample> for Sample {
    fn from(sample: v1::Sample) -> Self {
        let v1::Sample { slot, row, factors } = sample;
        match factors {
            Some(v1::SampleFactors { column, inner }) => Self::Product { slot, row, column, inner },
            None => Self::Leaf { slot, row },
        }
    }
}

impl From<Sample> for v1::Sample {
    fn from(sample: Sample) -> Self {
        match sample {
            Sample::Product { slot, row, column, inner } => {
                Self { slot, row, factors: Some(v1::SampleFactors { column, inner }) }
            }
            Sample::Leaf { slot, row } => Self { slot, row, factors: None },
        }
    }
}

impl TryFrom<v1::OpeningsChunk> for OpeningsChunk {
    type Error = WireError;

    fn try_from(chunk: v1::OpeningsChunk) -> Result<Self, WireError> {
        let v1::OpeningsChunk { challenge_id, item, part } = chunk;
        field::in_range("OpeningsChunk.item", 0, MAX_OPEN_ITEMS as u64 - 1, item.into())?;
        let part = match field::required("OpeningsChunk.part", part)? {
            Part::SlotDigests(digests) => {
                OpeningsPart::SlotDigests(field::sequence("OpeningsChunk.slot_digests", &digests, MAX_CHUNK_DIGESTS)?)
            }
            Part::Sample(sample) => OpeningsPart::Sample(sample.try_into()?),
            Part::Segment(segment) => OpeningsPart::Segment(segment.try_into()?),
            Part::End(v1::ItemEnd {}) => OpeningsPart::End,
        };
        Ok(Self { challenge_id: field::fixed("OpeningsChunk.challenge_id", &challenge_id)?, item, part })
    }
}

impl From<OpeningsChunk> for v1::OpeningsChunk {
    fn from(chunk: OpeningsChunk) -> Self {
        let OpeningsChunk { challenge_id, item, part } = chunk;
        let part = match part {
            OpeningsPart::SlotDigests(digests) => Part::SlotDigests(field::concat(&digests)),
            OpeningsPart::Sample(sample) => Part::Sample(sample.into()),
            OpeningsPart::Segment(segment) => Part::Segment(segment.into()),
            OpeningsPart::End => Part::End(v1::ItemEnd {}),
        };
        Self { challenge_id: challenge_id.0.to_vec(), item, part: Some(part) }
    }
}

impl TryFrom<v1::SampleOpenings> for SampleOpenings {
    type Error = WireError;

    fn try_from(sample: v1::SampleOpenings) -> Result<Self, WireError> {
        let v1::SampleOpenings { sample, parents, openings } = sample;
        Ok(Self {
            sample: field::required("SampleOpenings.sample", sample)?.into(),
            parents: parents.map(|v1::Parents { earlier, previous }| Parents { earlier, previous }),
            openings: field::list("SampleOpenings.openings", MAX_SAMPLE_OPENINGS, openings)?,
        })
    }
}

impl From<SampleOpenings> for v1::SampleOpenings {
    fn from(sample: SampleOpenings) -> Self {
        let SampleOpenings { sample, parents, openings } = sample;
        Self {
            sample: Some(sample.into()),
            parents: parents.map(|Parents { earlier, previous }| v1::Parents { earlier, previous }),
            openings: openings.into_iter().map(Into::into).collect(),
        }
    }
}

impl TryFrom<v1::SegmentOpenings> for SegmentOpenings {
    type Error = WireError;

    fn try_from(segment: v1::SegmentOpenings) -> Result<Self, WireError> {
        let v1::SegmentOpenings { segment, state, lines } = segment;
        let v1::Segment { round, walk } = field::required("SegmentOpenings.segment", segment)?;
        let state = OpenedRange::try_from(field::required("SegmentOpenings.state", state)?)?;
        let OpenedRange { slot, first_byte, bytes, siblings } = state;
        if slot != 0 {
            let problem = Problem::OutOfRange { min: 0, max: 0, found: slot.into() };
            return Err(WireError::new("SegmentOpenings.state.slot", problem));
        }
        Ok(Self {
            round,
            walk,
            state: Opening { first_byte, bytes, siblings },
            lines: field::list("SegmentOpenings.lines", MAX_LINES, lines)?,
        })
    }
}

impl From<SegmentOpenings> for v1::SegmentOpenings {
    fn from(segment: SegmentOpenings) -> Self {
        let SegmentOpenings { round, walk, state, lines } = segment;
        let Opening { first_byte, bytes, siblings } = state;
        Self {
            segment: Some(v1::Segment { round, walk }),
            state: Some(v1::OpenedRange { slot: 0, first_byte, bytes, siblings: field::concat(&siblings) }),
            lines: lines.into_iter().map(Into::into).collect(),
        }
    }
}

impl TryFrom<v1::OpenedRange> for OpenedRange {
    type Error = WireError;

    /// Only bounds: whether position, length and siblings are those asked for is for the audit to judge.
    fn try_from(range: v1::OpenedRange) -> Result<Self, WireError> {
        let v1::OpenedRange { slot, first_byte, bytes, siblings } = range;
        if bytes.len() > MAX_RANGE_BYTES {
            let problem = Problem::TooLong { max: MAX_RANGE_BYTES, found: bytes.len() };
            return Err(WireError::new("OpenedRange.bytes", problem));
        }
        let siblings = field::sequence("OpenedRange.siblings", &siblings, MAX_SIBLINGS)?;
        Ok(Self { slot, first_byte, bytes, siblings })
    }
}

impl From<OpenedRange> for v1::OpenedRange {
    fn from(range: OpenedRange) -> Self {
        let OpenedRange { slot, first_byte, bytes, siblings } = range;
        Self { slot, first_byte, bytes, siblings: field::concat(&siblings) }
    }
}
