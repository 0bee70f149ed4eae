//! Sizes of openings in bytes: of the received ones, and the most that may still come. Keys and lengths of the
//! encoding, a few percent, are left out.

use assay_protocol::message::{OpenItem, OpenTarget, OpeningsPart};
use assay_protocol::wire::limits::MAX_CHUNK_DIGESTS;
use assay_work::audit::SAMPLE_ELEMENTS;
use assay_work::opening::OpenedRange;
use assay_work::probe::{LINE_BYTES, Probe, Sweep, sums_bytes};
use assay_work::rule::network::FILTER_PIXELS;
use assay_work::tree::CHUNK_BYTES;
use assay_work::{Challenge, Precision, Share, SweepOpenings};

const HASH_BYTES: u64 = 32;
/// The most rows of a sample: its own, and two for each of three elements.
const MAX_ROWS: u64 = 7;
/// Pieces behind an element of a convolution, in place of a row.
const PIECES: u64 = FILTER_PIXELS as u64;
/// A draw in a request for openings: its numbers, with keys and lengths.
const DRAW_BYTES: u64 = 32;

/// The probes that segments are of.
#[derive(Debug, Clone, Copy)]
pub struct Probes<'a> {
    /// Over each device's own slots.
    pub own: &'a Probe,
    /// Over the slots of all devices, where there was one.
    pub linked: Option<&'a Probe>,
    /// The sweep, where there was one.
    pub sweep: Option<&'a Sweep>,
}

pub fn part_bytes(part: &OpeningsPart) -> u64 {
    let ranges = |ranges: &[OpenedRange]| ranges.iter().map(|r| r.bytes.len() + 32 * r.siblings.len()).sum::<usize>();
    let bytes = match part {
        OpeningsPart::SlotDigests(digests) => 32 * digests.len(),
        OpeningsPart::Sample(sample) => ranges(&sample.openings),
        OpeningsPart::Segment(segment) => {
            segment.state.bytes.len() + 32 * segment.state.siblings.len() + ranges(&segment.lines)
        }
        OpeningsPart::Sum(SweepOpenings { sum, range, .. }) => {
            sum.bytes.len() + 32 * sum.siblings.len() + ranges(std::slice::from_ref(range))
        }
        OpeningsPart::End => 0,
    };
    bytes as u64
}

/// The most bytes of a chunk when `due` digests are due.
pub fn most_digest_bytes(due: u64) -> u64 {
    HASH_BYTES * due.min(MAX_CHUNK_DIGESTS as u64)
}

/// The most bytes of one sample or segment of an item.
pub fn most_draw_bytes(challenge: &Challenge, probes: Probes<'_>, what: &OpenTarget) -> u64 {
    let range = |bytes: u64, of: u64| bytes + HASH_BYTES * u64::from(of.div_ceil(bytes).max(1).ilog2() + 1);
    let (chunk, slot) = (CHUNK_BYTES, challenge.slot_bytes());
    match what {
        OpenTarget::Samples { .. } => {
            let n = u64::from(challenge.n());
            let row = range(chunk.max(n), slot);
            match challenge.precision() {
                Precision::Network => {
                    let elements = SAMPLE_ELEMENTS as u64;
                    (MAX_ROWS - elements) * row + elements * row.max(PIECES * range(chunk.max(n / 4), slot))
                }
                _ => MAX_ROWS * row,
            }
        }
        OpenTarget::Sums(_) => {
            let sums = |share: &Share| sums_bytes(challenge.n(), share.count);
            let sums = challenge.shares().iter().map(sums).max().unwrap_or(chunk);
            range(chunk, sums) + range(chunk.max(u64::from(challenge.n())), slot)
        }
        OpenTarget::Segments(_) | OpenTarget::LinkedSegments(_) => {
            let probe =
                if matches!(what, OpenTarget::Segments(_)) { probes.own } else { probes.linked.unwrap_or(probes.own) };
            let states = u64::from(probe.walks()) * LINE_BYTES as u64;
            range(chunk, states) + u64::from(probe.steps()) * range(chunk, slot)
        }
    }
}

/// The most bytes of all items.
pub fn most_bytes(challenge: &Challenge, probes: Probes<'_>, items: &[OpenItem]) -> u64 {
    let item = |(index, item): (usize, &OpenItem)| {
        HASH_BYTES * digests_of(challenge, items, index)
            + draws(&item.what) * most_draw_bytes(challenge, probes, &item.what)
    };
    items.iter().enumerate().map(item).sum()
}

/// Number of digests that come before an item's samples or segments: those of the device's pass, or of the last pass of
/// all devices, once, where the probe is linked.
pub fn digests_of(challenge: &Challenge, items: &[OpenItem], index: usize) -> u64 {
    let is_linked = |item: &OpenItem| matches!(item.what, OpenTarget::LinkedSegments(_));
    match items.get(index) {
        Some(item) if !is_linked(item) => challenge.share(item.device_id).map_or(0, |share| u64::from(share.count)),
        Some(_) if !items[..index].iter().any(is_linked) => challenge.slots(),
        _ => 0,
    }
}

/// Approximate bytes of the request for these items.
pub fn request_bytes(items: &[OpenItem]) -> u64 {
    items.iter().map(|item| DRAW_BYTES * (1 + draws(&item.what))).sum()
}

/// Number of samples or segments that an item asks for.
pub const fn draws(what: &OpenTarget) -> u64 {
    match what {
        OpenTarget::Segments(segments) | OpenTarget::LinkedSegments(segments) => segments.len() as u64,
        OpenTarget::Sums(samples) => samples.len() as u64,
        OpenTarget::Samples { samples, .. } => samples.len() as u64,
    }
}
