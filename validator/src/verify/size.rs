//! How many bytes openings have: what came, and the most that may still come. Keys and lengths of the encoding, a few
//! percent, are left out.

use assay_protocol::message::{OpenItem, OpenWhat, OpeningsPart};
use assay_protocol::wire::limits::MAX_CHUNK_DIGESTS;
use assay_work::Challenge;
use assay_work::opening::OpenedRange;
use assay_work::probe::{LINE_BYTES, Probe};
use assay_work::tree::CHUNK_BYTES;

/// A hash.
const HASH_BYTES: u64 = 32;
/// The most rows of a sample.
const MAX_ROWS: u64 = 7;
/// A draw in a request for openings: its numbers, with keys and lengths.
const DRAW_BYTES: u64 = 32;

/// The bytes of a part.
#[must_use]
pub fn part_bytes(part: &OpeningsPart) -> u64 {
    let ranges = |ranges: &[OpenedRange]| ranges.iter().map(|r| r.bytes.len() + 32 * r.siblings.len()).sum::<usize>();
    let bytes = match part {
        OpeningsPart::SlotDigests(digests) => 32 * digests.len(),
        OpeningsPart::Sample(sample) => ranges(&sample.openings),
        OpeningsPart::Segment(segment) => {
            segment.state.bytes.len() + 32 * segment.state.siblings.len() + ranges(&segment.lines)
        }
        OpeningsPart::End => 0,
    };
    bytes as u64
}

/// The most bytes of a chunk of so many digests that are due.
#[must_use]
pub fn most_digest_bytes(due: u64) -> u64 {
    HASH_BYTES * due.min(MAX_CHUNK_DIGESTS as u64)
}

/// The most bytes of one sample or segment of an item.
#[must_use]
pub fn most_draw_bytes(challenge: &Challenge, probe: &Probe, what: &OpenWhat) -> u64 {
    let range = |bytes: u64, of: u64| bytes + HASH_BYTES * u64::from(of.div_ceil(bytes).max(1).ilog2() + 1);
    let (chunk, slot) = (CHUNK_BYTES, challenge.slot_bytes());
    match what {
        OpenWhat::Samples { .. } => MAX_ROWS * range(chunk.max(u64::from(challenge.n())), slot),
        OpenWhat::Segments(_) => {
            let states = u64::from(probe.walks()) * LINE_BYTES as u64;
            range(chunk, states) + u64::from(probe.steps()) * range(chunk, slot)
        }
    }
}

/// The most bytes of all items.
#[must_use]
pub fn most_bytes(challenge: &Challenge, probe: &Probe, items: &[OpenItem]) -> u64 {
    let item = |item: &OpenItem| {
        let count = challenge.share(item.device_id).map_or(0, |share| u64::from(share.count));
        HASH_BYTES * count + draws(&item.what) * most_draw_bytes(challenge, probe, &item.what)
    };
    items.iter().map(item).sum()
}

/// About how many bytes the request for these items has.
#[must_use]
pub fn request_bytes(items: &[OpenItem]) -> u64 {
    items.iter().map(|item| DRAW_BYTES * (1 + draws(&item.what))).sum()
}

const fn draws(what: &OpenWhat) -> u64 {
    match what {
        OpenWhat::Segments(segments) => segments.len() as u64,
        OpenWhat::Samples { samples, .. } => samples.len() as u64,
    }
}
