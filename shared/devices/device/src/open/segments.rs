//! Openings for the segments of a residency probe.

use super::super::device::{ProbeRound, SlotRange};
use super::{Device, DeviceError, Handle, siblings_of};
use assay_work::probe::{LINE_BYTES, position, round_key_after, start_state, state_bytes, step};
use assay_work::segment::chunk_of;
use assay_work::tree::{CHUNK_BYTES, Tree, chaining_values, row_range_bytes, subtree_values};
use assay_work::{
    ChainingValue, Challenge, DeviceId, Digest, OpenedRange, Opening, Probe, ProbeKey, ProbeOpenings, RoundKey,
    Segment, SegmentOpenings,
};

/// The probe that is opened; the last pass must be resident on the device as the probe found it.
#[derive(Debug, Clone, Copy)]
pub struct ProbedDevice<'a> {
    pub challenge: &'a Challenge,
    pub probe: &'a Probe,
    /// The device, by its name in the challenge.
    pub device_id: DeviceId,
    /// The key of the device's probe.
    pub probe_key: &'a ProbeKey,
    /// The device's answer: a digest for each round.
    pub digests: &'a [Digest],
    /// The digests of the last pass: one for each slot.
    pub slot_digests: &'a [Digest],
}

impl ProbedDevice<'_> {
    /// Openings of the probe with everything but its segments.
    pub fn header(&self) -> ProbeOpenings {
        ProbeOpenings { device_id: self.device_id, slot_digests: self.slot_digests.to_vec(), segments: Vec::new() }
    }
}

/// The states and the lines behind segments with the siblings that go with them; the lines are read segment by
/// segment.
#[derive(Debug, Clone)]
pub struct SegmentPlan {
    n: u32,
    segments: Vec<PlannedSegment>,
}

#[derive(Debug, Clone)]
struct PlannedSegment {
    segment: Segment,
    state: Opening,
    lines: Vec<PlannedLine>,
}

/// A line that a walk read, and the siblings of the row range that holds it.
#[derive(Debug, Clone)]
pub(super) struct PlannedLine {
    pub(super) slot: u32,
    pub(super) line: u32,
    pub(super) siblings: Vec<ChainingValue>,
}

impl SegmentPlan {
    /// Plans the openings of segments: walks each drawn round once more on the device, and each drawn walk on the host.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] when the probe has no such segment, [`DeviceError::Sick`] when a round, a walk or a
    /// slot does not come out as before, and the device's own errors.
    pub fn new(
        device: &mut dyn Device,
        probed: &ProbedDevice<'_>,
        segments: &[Segment],
        handle: &Handle,
    ) -> Result<Self, DeviceError> {
        if let Some(segment) = segments.iter().find(|s| !s.fits(probed.probe)) {
            return Err(DeviceError::Unsupported(format!("the probe has no segment {segment:?}")));
        }
        let n = probed.challenge.n();
        let mut planned: Vec<Option<(PlannedSegment, Walk)>> = vec![None; segments.len()];
        let mut by_round: Vec<usize> = (0..segments.len()).collect();
        by_round.sort_by_key(|&i| segments[i].round);
        for of_round in by_round.chunk_by(|&a, &b| segments[a].round == segments[b].round) {
            let round = segments[of_round[0]].round;
            let key = round_key_after(probed.probe_key, round, probed.digests);
            let states = walk_again(device, probed, round, &key, handle)?;
            let tree = Tree::new(chaining_values(&states, CHUNK_BYTES));
            for &i in of_round {
                let state = open_state(&states, &tree, &segments[i]);
                let end = state_of(&states, &segments[i]);
                let walk = Walk { state: start_state(&key, segments[i].walk), end };
                planned[i] = Some((PlannedSegment { segment: segments[i], state, lines: Vec::new() }, walk));
            }
        }
        let (mut segments, walks): (Vec<_>, Vec<_>) = planned.into_iter().flatten().unzip();
        add_lines(device, probed, &mut segments, walks, handle)?;
        add_siblings(device, probed, &mut segments, handle)?;
        Ok(Self { n, segments })
    }

    pub const fn len(&self) -> usize {
        self.segments.len()
    }

    pub const fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Reads the lines of segment `index`.
    ///
    /// # Panics
    /// When there is no such segment.
    pub fn open(&self, device: &mut dyn Device, index: usize) -> Result<SegmentOpenings, DeviceError> {
        let PlannedSegment { segment, state, lines } = &self.segments[index];
        let ranges: Vec<_> = lines.iter().map(|line| row_range_of(self.n, line)).collect();
        let rows = device.read_all(&ranges)?;
        let rows = rows.chunks_exact(row_range_bytes(self.n) as usize);
        let lines = lines.iter().zip(rows).map(|(line, row)| open_line(self.n, line, row)).collect();
        Ok(SegmentOpenings { round: segment.round, walk: segment.walk, state: state.clone(), lines })
    }
}

/// The openings of all drawn segments of a device's probe: for openings that fit in memory at once.
///
/// # Errors
/// As [`SegmentPlan::new`], and [`DeviceError::Cancelled`].
pub fn open_segments(
    device: &mut dyn Device,
    probed: &ProbedDevice<'_>,
    segments: &[Segment],
    handle: &Handle,
) -> Result<ProbeOpenings, DeviceError> {
    let plan = SegmentPlan::new(device, probed, segments, handle)?;
    let mut openings = probed.header();
    for index in 0..plan.len() {
        handle.check()?;
        openings.segments.push(plan.open(device, index)?);
    }
    Ok(openings)
}

/// `out[round]`, which must hash to the digest in the answer.
fn walk_again(
    device: &mut dyn Device,
    probed: &ProbedDevice<'_>,
    round: u32,
    key: &RoundKey,
    handle: &Handle,
) -> Result<Vec<u8>, DeviceError> {
    let request = ProbeRound { key: *key, walks: probed.probe.walks(), steps: probed.probe.steps() };
    if device.probe_round(&request, handle)? != probed.digests[round as usize] {
        return Err(DeviceError::Sick(format!("round {round} of the probe gave another digest than before")));
    }
    let states = device.probe_states()?;
    if states.len() as u64 != probed.probe.out_bytes() {
        return Err(DeviceError::Sick(format!("round {round} of the probe gave {} bytes of states", states.len())));
    }
    Ok(states)
}

pub(super) fn open_state(states: &[u8], tree: &Tree, segment: &Segment) -> Opening {
    let first_byte = chunk_of(segment.state_byte());
    let start = first_byte as usize;
    let bytes = states[start..start + CHUNK_BYTES as usize].to_vec();
    Opening { first_byte, bytes, siblings: tree.siblings((first_byte / CHUNK_BYTES) as usize) }
}

/// A walk on the host, and the state that it ended in on the device.
#[derive(Debug, Clone)]
struct Walk {
    state: [u32; 16],
    end: [u8; LINE_BYTES],
}

fn state_of(states: &[u8], segment: &Segment) -> [u8; LINE_BYTES] {
    let mut state = [0; LINE_BYTES];
    state.copy_from_slice(&states[segment.state_byte() as usize..][..LINE_BYTES]);
    state
}

/// Fills in the lines that the walks read, found by walking them on the host, all of them step by step together; each
/// must end as it did on the device.
fn add_lines(
    device: &mut dyn Device,
    probed: &ProbedDevice<'_>,
    segments: &mut [PlannedSegment],
    mut walks: Vec<Walk>,
    handle: &Handle,
) -> Result<(), DeviceError> {
    let count = probed.slot_digests.len() as u32;
    for _ in 0..probed.probe.steps() {
        handle.check()?;
        let at: Vec<_> = walks.iter().map(|walk| position(&walk.state, count, probed.challenge.n())).collect();
        let range =
            |&(slot, line): &(u32, u32)| SlotRange { slot, first_byte: line_byte(line), bytes: LINE_BYTES as u64 };
        let read = device.read_all(&at.iter().map(range).collect::<Vec<_>>())?;
        for (((walk, segment), (slot, line)), bytes) in
            walks.iter_mut().zip(&mut *segments).zip(at).zip(read.as_chunks::<LINE_BYTES>().0)
        {
            step(&mut walk.state, bytes);
            segment.lines.push(PlannedLine { slot, line, siblings: Vec::new() });
        }
    }
    let astray = walks.iter().zip(segments).filter(|(walk, _)| walk.end != state_bytes(&walk.state));
    // The first one that the probe came to, whatever order they were drawn in.
    match astray.map(|(_, planned)| planned.segment).min_by_key(|segment| segment.round) {
        None => Ok(()),
        Some(Segment { round, walk }) => {
            Err(DeviceError::Sick(format!("walk {walk} of round {round} ends elsewhere than its lines lead")))
        }
    }
}

/// Fills in the siblings of all lines, slot by slot over all segments.
fn add_siblings(
    device: &mut dyn Device,
    probed: &ProbedDevice<'_>,
    segments: &mut [PlannedSegment],
    handle: &Handle,
) -> Result<(), DeviceError> {
    let n = probed.challenge.n();
    let ranges: Vec<_> = segments.iter().flat_map(|s| &s.lines).map(|line| row_range_of(n, line)).collect();
    let siblings = siblings_of(device, n, probed.slot_digests, &ranges, handle)?;
    for (line, siblings) in segments.iter_mut().flat_map(|s| &mut s.lines).zip(siblings) {
        line.siblings = siblings;
    }
    Ok(())
}

/// The row range that holds a line.
pub(super) fn row_range_of(n: u32, line: &PlannedLine) -> SlotRange {
    let bytes = row_range_bytes(n);
    SlotRange { slot: line.slot, first_byte: line_byte(line.line) / bytes * bytes, bytes }
}

/// Opens a line's 1024 bytes in the row range that holds it. The siblings below the row range are hashed here, so that a
/// slot's tree need not be held down to its chunks.
pub(super) fn open_line(n: u32, line: &PlannedLine, row: &[u8]) -> OpenedRange {
    let first_byte = chunk_of(line_byte(line.line));
    let range_start = row_range_of(n, line).first_byte;
    let start = (first_byte - range_start) as usize;
    let mut siblings = Vec::new();
    if row.len() as u64 > CHUNK_BYTES {
        let values = subtree_values(row, range_start, CHUNK_BYTES);
        siblings = Tree::new(values).siblings(start / CHUNK_BYTES as usize);
    }
    siblings.extend(&line.siblings);
    let bytes = row[start..start + CHUNK_BYTES as usize].to_vec();
    OpenedRange { slot: line.slot, first_byte, bytes, siblings }
}

pub(super) fn line_byte(line: u32) -> u64 {
    u64::from(line) * LINE_BYTES as u64
}
