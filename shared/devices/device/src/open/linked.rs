//! Openings for the segments of a linked probe: the rounds drawn are walked once more by all devices together, and each
//! device opens the lines that it holds, whosever walk read them.

use super::super::device::StateBytes;
use super::super::linked::{LinkedPart, VisitingStates};
use super::segments::{PlannedLine, line_byte, open_line, open_state, row_range_of};
use super::{Device, DeviceError, Handle, siblings_of};
use assay_work::digest::slot_digest;
use assay_work::probe::{LINE_BYTES, LinkedSlots, start_state, state_bytes, state_from_bytes, step};
use assay_work::tree::{CHUNK_BYTES, Tree, chaining_values, row_range_bytes};
use assay_work::{Answer, Digest, OpenedRange, Opening, Probe, RoundKey, Segment, SegmentOpenings};

/// A segment of one of the devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkedSegment {
    /// Whose walk it is, in the order of the shares.
    pub device: usize,
    pub segment: Segment,
}

/// The linked probe that is opened, on one of its devices; the last pass must be resident on all of them as the probe
/// found it.
#[derive(Debug, Clone, Copy)]
pub struct OpenedLinkedProbe<'a> {
    pub n: u32,
    pub probe: &'a Probe,
    pub answer: &'a Answer,
    /// The digests of this device's last pass: one for each slot.
    pub slot_digests: &'a [Digest],
}

/// One device's part of the openings of segments of all devices: the states of its own walks, and its own lines, with
/// their siblings; the lines are read segment by segment.
#[derive(Debug, Clone)]
pub struct LinkedPlan {
    n: u32,
    offset: u32,
    pieces: Vec<PlannedPiece>,
}

#[derive(Debug, Clone, Default)]
struct PlannedPiece {
    start: Option<SegmentStart>,
    /// Each with its step.
    lines: Vec<(u32, PlannedLine)>,
}

/// Where the walk of a segment starts, and the range that holds the state that it ended in.
#[derive(Debug, Clone)]
struct SegmentStart {
    key: RoundKey,
    state: Opening,
}

/// One device's part of the opening of a segment.
#[derive(Debug, Clone)]
pub struct SegmentPiece {
    /// On the device whose walk it is: the key that the walk started from, and the state that it ended in.
    start: Option<SegmentStart>,
    lines: Vec<(u32, OpenedRange)>,
}

impl LinkedPlan {
    /// Plans this device's part of the openings of segments of all devices, which all other parts must plan at the same
    /// time: walks each drawn round once more, then the drawn walks, to find their lines.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] when the probe has no such segment, [`DeviceError::Sick`] when a round, a walk or a
    /// slot does not come out as before, [`DeviceError::Cancelled`] when another device failed, and the device's own
    /// errors.
    pub fn new(
        device: &mut dyn Device,
        mut part: LinkedPart,
        probed: &OpenedLinkedProbe<'_>,
        segments: &[LinkedSegment],
        handle: &Handle,
    ) -> Result<Self, DeviceError> {
        let devices = part.slots().shares().len();
        if let Some(drawn) = segments.iter().find(|s| !s.segment.fits(probed.probe) || s.device >= devices) {
            return Err(DeviceError::Unsupported(format!("the probe has no segment {drawn:?}")));
        }
        let mut pieces = vec![PlannedPiece::default(); segments.len()];
        let again =
            |device: &mut dyn Device, maps| walk_again(device, (&part, maps), probed, segments, &mut pieces, handle);
        let starts = part.with_mappings(device, handle, again)?;
        find_lines(device, &part, segments, starts, &mut pieces, handle)?;
        part.end();
        add_siblings(device, probed, &mut pieces, handle)?;
        let offset = part.slots().shares()[part.index()].offset;
        Ok(Self { n: probed.n, offset, pieces })
    }

    pub const fn len(&self) -> usize {
        self.pieces.len()
    }

    pub const fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Reads the lines of segment `index` that this device holds.
    ///
    /// # Panics
    /// When there is no such segment.
    pub fn piece(&self, device: &mut dyn Device, index: usize) -> Result<SegmentPiece, DeviceError> {
        let PlannedPiece { start, lines } = &self.pieces[index];
        let ranges: Vec<_> = lines.iter().map(|(_, line)| row_range_of(self.n, line)).collect();
        let rows = device.read_all(&ranges)?;
        let rows = rows.chunks_exact(row_range_bytes(self.n) as usize);
        let opened = lines.iter().zip(rows).map(|((step, line), row)| {
            let opened = open_line(self.n, line, row);
            // In the whole challenge.
            (*step, OpenedRange { slot: self.offset + opened.slot, ..opened })
        });
        Ok(SegmentPiece { start: start.clone(), lines: opened.collect() })
    }
}

/// Joins all devices' parts of a segment: its walk must end as it did before over the very lines opened.
///
/// # Errors
/// [`DeviceError::Sick`] when it does not, or a device left something out.
pub fn join_segment(
    slots: &LinkedSlots,
    segment: Segment,
    pieces: Vec<SegmentPiece>,
) -> Result<SegmentOpenings, DeviceError> {
    let Segment { round, walk } = segment;
    let astray = || DeviceError::Sick(format!("walk {walk} of round {round} ends elsewhere than its lines lead"));
    let (starts, lines): (Vec<_>, Vec<_>) = pieces.into_iter().map(|piece| (piece.start, piece.lines)).unzip();
    let mut lines: Vec<_> = lines.into_iter().flatten().collect();
    lines.sort_by_key(|(step, _)| *step);
    let SegmentStart { key, state: end } = starts.into_iter().flatten().next().ok_or_else(astray)?;
    let mut state = start_state(&key, walk);
    for (_, opened) in &lines {
        let (a, line) = slots.position(&state);
        let bytes = line_of(opened, a, line_byte(line)).ok_or_else(astray)?;
        step(&mut state, bytes);
    }
    let ended = (segment.state_byte() - end.first_byte) as usize;
    if end.bytes[ended..ended + LINE_BYTES] != state_bytes(&state) {
        return Err(astray());
    }
    Ok(SegmentOpenings { round, walk, state: end, lines: lines.into_iter().map(|(_, line)| line).collect() })
}

/// The line of slot `a` at `byte`, when the range opened holds it.
fn line_of(opened: &OpenedRange, a: u32, byte: u64) -> Option<&[u8; LINE_BYTES]> {
    let start = byte.checked_sub(opened.first_byte).filter(|_| opened.slot == a)?;
    opened.bytes.get(start as usize..)?.first_chunk()
}

/// Walks every round that was drawn once more, in order, and opens the states of this device's walks. Gives the walks of
/// this device, by their places among the segments, as they start.
fn walk_again(
    device: &mut dyn Device,
    (part, maps): (&LinkedPart, bool),
    probed: &OpenedLinkedProbe<'_>,
    segments: &[LinkedSegment],
    pieces: &mut [PlannedPiece],
    handle: &Handle,
) -> Result<Vec<(u32, StateBytes)>, DeviceError> {
    let mut by_round: Vec<usize> = (0..segments.len()).collect();
    by_round.sort_by_key(|&i| segments[i].segment.round);
    let digests = probed.answer.devices.get(part.index()).map_or(&[][..], |device| &device.digests);
    let mut starts = Vec::new();
    for of_round in by_round.chunk_by(|&a, &b| segments[a].segment.round == segments[b].segment.round) {
        let round = segments[of_round[0]].segment.round;
        let key = part.round_key(round, &probed.answer.link_digest_before(round));
        let states = part.walk_round(device, &key, maps, handle)?;
        // The slots of a device that has ended hold something else.
        handle.check()?;
        let states = states.as_flattened();
        if digests.get(round as usize) != Some(&slot_digest(states)) {
            return Err(DeviceError::Sick(format!("round {round} of the probe gave another digest than before")));
        }
        let tree = Tree::new(chaining_values(states, CHUNK_BYTES));
        for &i in of_round.iter().filter(|&&i| segments[i].device == part.index()) {
            let segment = &segments[i].segment;
            pieces[i].start = Some(SegmentStart { key, state: open_state(states, &tree, segment) });
            // An Open has far fewer segments than 32 bits count.
            starts.push((i as u32, state_bytes(&start_state(&key, segment.walk))));
        }
    }
    Ok(starts)
}

/// Walks the segments alone, all at once, and notes the lines that they read on this device.
fn find_lines(
    device: &mut dyn Device,
    part: &LinkedPart,
    segments: &[LinkedSegment],
    starts: Vec<(u32, StateBytes)>,
    pieces: &mut [PlannedPiece],
    handle: &Handle,
) -> Result<(), DeviceError> {
    let offset = part.slots().shares()[part.index()].offset;
    let note = |step: u32, visitors: &VisitingStates| {
        for (&i, state) in visitors.walks.iter().zip(&visitors.states) {
            let (a, line) = part.slots().position(&state_from_bytes(state));
            let planned = PlannedLine { slot: a - offset, line, siblings: Vec::new() };
            pieces[i as usize].lines.push((step, planned));
        }
    };
    part.exchange(device, starts.into_iter(), &|i| segments[i as usize].device, note, handle)?;
    Ok(())
}

/// Fills in the siblings of all lines that this device holds, slot by slot over all segments.
fn add_siblings(
    device: &mut dyn Device,
    probed: &OpenedLinkedProbe<'_>,
    pieces: &mut [PlannedPiece],
    handle: &Handle,
) -> Result<(), DeviceError> {
    let n = probed.n;
    let range_of = |(_, line): &(u32, PlannedLine)| row_range_of(n, line);
    let ranges: Vec<_> = pieces.iter().flat_map(|piece| &piece.lines).map(range_of).collect();
    let siblings = siblings_of(device, n, probed.slot_digests, &ranges, handle)?;
    for ((_, line), siblings) in pieces.iter_mut().flat_map(|piece| &mut piece.lines).zip(siblings) {
        line.siblings = siblings;
    }
    Ok(())
}
