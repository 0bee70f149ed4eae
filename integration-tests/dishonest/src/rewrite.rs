//! Rewrites of single messages, for [`crate::Lies::in_what_goes_out`].

use assay_protocol::message::{MinerMessage, OpeningsChunk, OpeningsPart};
use assay_work::Digest;
use assay_work::opening::SampleOpenings;
use assay_work::segment::SegmentOpenings;

/// Bends every message, and sends each.
pub fn each(mut bend: impl FnMut(&mut MinerMessage) + Send) -> impl FnMut(MinerMessage) -> Vec<MinerMessage> + Send {
    move |mut message| {
        bend(&mut message);
        vec![message]
    }
}

/// Bends the first sample of each challenge.
pub fn first_sample(bend: impl Fn(&mut SampleOpenings) + Send) -> impl FnMut(MinerMessage) -> Vec<MinerMessage> + Send {
    let mut at = First::default();
    each(move |message| {
        if let MinerMessage::OpeningsChunk(OpeningsChunk { part: OpeningsPart::Sample(sample), .. }) = message
            && at.is_first()
        {
            bend(sample);
        }
    })
}

/// Bends the first segment of each challenge.
pub fn first_segment(
    bend: impl Fn(&mut SegmentOpenings) + Send,
) -> impl FnMut(MinerMessage) -> Vec<MinerMessage> + Send {
    let mut at = First::default();
    each(move |message| {
        if let MinerMessage::OpeningsChunk(OpeningsChunk { part: OpeningsPart::Segment(segment), .. }) = message
            && at.is_first()
        {
            bend(segment);
        }
    })
}

/// Bends the digests of the last item that is opened in an audit of one device (samples, 1), or of the first
/// (segments, 0).
pub fn digests_of(
    item: u32,
    bend: impl Fn(&mut Vec<Digest>) + Send,
) -> impl FnMut(MinerMessage) -> Vec<MinerMessage> + Send {
    each(move |message| {
        if let MinerMessage::OpeningsChunk(OpeningsChunk { item: of, part: OpeningsPart::SlotDigests(digests), .. }) =
            message
            && *of == item
        {
            bend(digests);
        }
    })
}

/// True once.
#[derive(Debug, Default)]
struct First(bool);

impl First {
    const fn is_first(&mut self) -> bool {
        !std::mem::replace(&mut self.0, true)
    }
}
