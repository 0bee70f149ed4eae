//! Checking segments of a probe: single rounds of single walks, walked again (WORK.md, Residency probe).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::bytes::{ChainingValue, DeviceId, Digest, ProbeKey, Root, RoundKey, hex_vec};
use super::challenge::{Challenge, Share};
use super::digest::pass_root;
use super::fault::{FaultKind, FaultPlace, OpeningFault};
use super::opening::{ExpectedRange, OpenedRange};
use super::probe::{
    Answer, LINE_BYTES, Link, Probe, WalkState, linked_probe_key, linked_round_key, position, probe_key,
    round_key_after, start_state, state_bytes, step,
};
use super::tree::{CHUNK_BYTES, RangePath, digests_of_ranges};

/// One round of one walk of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Segment {
    /// `r`.
    pub round: u32,
    /// `j`.
    pub walk: u32,
}

impl Segment {
    /// Whether a probe has this segment.
    #[must_use]
    pub fn fits(&self, probe: &Probe) -> bool {
        self.round < probe.rounds() && self.walk < probe.walks()
    }

    /// Offset of the walk's state in `out[r]`, in bytes.
    pub const fn state_byte(&self) -> u64 {
        self.walk as u64 * LINE_BYTES as u64
    }
}

/// An opened range of a hashed string that is no slot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Opening {
    /// Offset of the range in the string, in bytes.
    pub first_byte: u64,
    /// The bytes of the range.
    #[serde(with = "hex_vec")]
    pub bytes: Vec<u8>,
    /// The chaining values from the range up to the string's digest, lowest first.
    pub siblings: Vec<ChainingValue>,
}

/// The openings of one segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentOpenings {
    /// `r`.
    pub round: u32,
    /// `j`.
    pub walk: u32,
    /// The 1024 bytes of `out[r]` that hold state `j`.
    pub state: Opening,
    /// For each step, the 1024 bytes of the slot that hold the line read.
    pub lines: Vec<OpenedRange>,
}

/// The openings of the probe of one device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeOpenings {
    /// The device that opened them.
    pub device_id: DeviceId,
    /// The digests of the last pass.
    pub slot_digests: Vec<Digest>,
    /// One for each segment, in the order drawn.
    pub segments: Vec<SegmentOpenings>,
}

/// The validator's own knowledge of a device's probe; nothing in it comes from the openings.
#[derive(Debug, Clone)]
pub struct SegmentAudit<'a> {
    n: u32,
    share: Share,
    probe: &'a Probe,
    probe_key: ProbeKey,
    last_root: Root,
    digests: &'a [Digest],
    /// The answer of all devices, where the probe is linked.
    linked: Option<&'a Answer>,
    segments: &'a [Segment],
}

/// The digests of the slots that a probe walks over, each list checked against its committed root: those of one device,
/// or of all devices in the order of the shares. 32 bytes a slot, shared by the checks of all devices of a linked probe.
#[derive(Debug, PartialEq, Eq)]
pub struct SlotDigests(Vec<Digest>);

impl SlotDigests {
    /// Number of slots that the walks cover.
    fn slots(&self) -> u32 {
        // A checked challenge has at most 2^20.
        self.0.len() as u32
    }
}

/// Checks the digests of the last pass of every device of a linked probe: `last_roots` are `root[iterations-1]` in the
/// order of the shares, `lists` the miner's lists, in the order in which they came.
///
/// # Errors
/// `digests` of the first device, in the order of the shares, whose list is missing, is another device's, or is not that
/// of its root; then of a list too many.
///
/// # Panics
/// When there is not a root for every share: the commitment was checked before.
pub fn check_slot_digests<'a>(
    challenge: &Challenge,
    last_roots: &[Root],
    lists: impl IntoIterator<Item = (DeviceId, &'a [Digest])>,
) -> Result<Arc<SlotDigests>, OpeningFault> {
    assert_eq!(last_roots.len(), challenge.shares().len(), "a root of every device");
    let fault = |device_id| OpeningFault { kind: FaultKind::Digests, device_id, place: FaultPlace::Answer };
    let mut lists = lists.into_iter();
    let mut all = Vec::new();
    for (share, root) in challenge.shares().iter().zip(last_roots) {
        let list = lists.next().filter(|(id, digests)| *id == share.device_id && are_of_pass(digests, share, root));
        let (_, digests) = list.ok_or_else(|| fault(share.device_id))?;
        all.extend_from_slice(digests);
    }
    match lists.next() {
        None => Ok(Arc::new(SlotDigests(all))),
        Some((device_id, _)) => Err(fault(device_id)),
    }
}

/// Whether these are the digests of a device's pass.
pub(crate) fn are_of_pass(digests: &[Digest], share: &Share, root: &Root) -> bool {
    digests.len() == share.count as usize && pass_root(digests) == *root
}

impl<'a> SegmentAudit<'a> {
    /// An audit of a linked probe, of the segments of one device: `last_roots` are the commitments of every device for
    /// its last iteration, in the order of the shares, and `answer` is the answer of all devices.
    ///
    /// # Panics
    /// When the probe is not linked, the challenge has no share for the device, there is not a root for every share,
    /// the answer has not a digest for every round of every device, or the probe has no such segment: all of these were
    /// checked before.
    pub fn linked(
        challenge: &Challenge,
        probe: &'a Probe,
        device_id: DeviceId,
        last_roots: &[Root],
        answer: &'a Answer,
        segments: &'a [Segment],
    ) -> Self {
        assert_eq!(probe.link(), Link::All, "a linked probe");
        let shares = challenge.shares();
        assert!(last_roots.len() == shares.len() && answer.devices.len() == shares.len(), "all devices");
        assert!(answer.devices.iter().all(|d| d.digests.len() == probe.rounds() as usize), "a digest for every round");
        assert!(segments.iter().all(|s| s.fits(probe)), "segments of the probe");
        let index = shares.iter().position(|share| share.device_id == device_id);
        let Some(index) = index else { panic!("device {device_id} has no share") };
        Self {
            n: challenge.n(),
            share: shares[index],
            probe,
            probe_key: linked_probe_key(probe, challenge.work_key(), device_id, last_roots),
            last_root: last_roots[index],
            digests: &answer.devices[index].digests,
            linked: Some(answer),
            segments,
        }
    }

    /// The key of a round, from the digests answered.
    fn round_key(&self, round: u32) -> RoundKey {
        match self.linked {
            None => round_key_after(&self.probe_key, round, self.digests),
            Some(answer) => linked_round_key(&self.probe_key, round, &answer.link_digest_before(round)),
        }
    }

    /// An audit of a device that committed to `last_root` for its last iteration and answered `digests`.
    ///
    /// # Panics
    /// When the probe is linked, the challenge has no share for the device, there is not a digest for every round, or
    /// the probe has no such segment: the answer was checked and the segments were drawn before.
    pub fn new(
        challenge: &Challenge,
        probe: &'a Probe,
        device_id: DeviceId,
        last_root: Root,
        digests: &'a [Digest],
        segments: &'a [Segment],
    ) -> Self {
        let Some(&share) = challenge.share(device_id) else { panic!("device {device_id} has no share") };
        assert_eq!(probe.link(), Link::Own, "a probe of each device's own slots");
        let key = probe_key(probe, challenge.work_key(), device_id, &last_root);
        Self::of_pass(challenge.n(), share, (probe, key), last_root, digests, segments)
    }

    /// An audit of a probe that belongs to no challenge: its key and the root of the pass are known otherwise.
    ///
    /// # Panics
    /// When there is not a digest for every round, or the probe has no such segment.
    pub fn of_pass(
        n: u32,
        share: Share,
        (probe, probe_key): (&'a Probe, ProbeKey),
        last_root: Root,
        digests: &'a [Digest],
        segments: &'a [Segment],
    ) -> Self {
        assert_eq!(digests.len(), probe.rounds() as usize, "a digest for every round");
        assert!(segments.iter().all(|s| s.fits(probe)), "segments of the probe");
        Self { n, share, probe, probe_key, last_root, digests, linked: None, segments }
    }

    const fn fault(&self, kind: FaultKind, place: FaultPlace) -> OpeningFault {
        OpeningFault { kind, device_id: self.share.device_id, place }
    }
}

/// Checks all openings of a device's probe.
///
/// # Errors
/// The first [`OpeningFault`]: `binding`, `digests`, `rows` over all segments (another segment than the one drawn, or
/// another number of lines than steps), then segment by segment the state's `range`, `siblings` and `path`, those of
/// each step in turn, and `state`.
///
/// # Panics
/// When the probe is linked: its digests are those of all devices.
pub fn check_segments(audit: &SegmentAudit<'_>, given: &ProbeOpenings) -> Result<(), OpeningFault> {
    if given.device_id != audit.share.device_id {
        return Err(audit.fault(FaultKind::Binding, FaultPlace::Answer));
    }
    let mut check = SegmentCheck::begin(audit, given.slot_digests.clone())?;
    let segments = 0..audit.segments.len().max(given.segments.len());
    let is_other = |&index: &usize| given.segments.get(index).is_none_or(|given| check.drawn(index, given).is_err());
    if let Some(segment) = segments.into_iter().find(is_other) {
        return Err(audit.fault(FaultKind::Rows, FaultPlace::Segment { segment }));
    }
    for segment in &given.segments {
        check.segment(segment)?;
    }
    check.finish()
}

/// A check that takes the segments one by one, in the order drawn, so that no more than one need be in memory.
///
/// It keeps the segments drawn and the digests of the last pass, which are shared where the probe is linked, but no
/// part of a segment.
#[derive(Debug)]
pub struct SegmentCheck {
    n: u32,
    share: Share,
    probe: Probe,
    drawn: Vec<WalkSegment>,
    slot_digests: Arc<SlotDigests>,
    seen: usize,
}

/// A segment, with the key that its walk starts from and the digest of the states that it ends in.
#[derive(Debug)]
struct WalkSegment {
    segment: Segment,
    round_key: RoundKey,
    out_digest: Digest,
}

/// The fault of a segment, and the index of the step that has it.
type SegmentFault = (FaultKind, Option<usize>);

impl SegmentCheck {
    /// Checks the digests of the last pass, which the lines lead to.
    ///
    /// # Errors
    /// `digests`.
    ///
    /// # Panics
    /// When the probe is linked: [`SegmentCheck::linked`] begins those.
    pub fn begin(audit: &SegmentAudit<'_>, slot_digests: Vec<Digest>) -> Result<Self, OpeningFault> {
        assert!(audit.linked.is_none(), "digests of one device");
        if !are_of_pass(&slot_digests, &audit.share, &audit.last_root) {
            return Err(audit.fault(FaultKind::Digests, FaultPlace::Answer));
        }
        Ok(Self::over(audit, Arc::new(SlotDigests(slot_digests))))
    }

    /// A check of one device's segments of a linked probe, whose lines lead to the digests of all devices.
    ///
    /// # Panics
    /// When the probe is not linked, or the digests end before the device's own: they are another challenge's.
    pub fn linked(audit: &SegmentAudit<'_>, slot_digests: Arc<SlotDigests>) -> Self {
        assert!(audit.linked.is_some(), "an audit of a linked probe");
        assert!(slot_digests.slots() >= audit.share.offset + audit.share.count, "digests of all devices");
        Self::over(audit, slot_digests)
    }

    /// The digests that the lines lead to.
    pub fn slot_digests(&self) -> Arc<SlotDigests> {
        self.slot_digests.clone()
    }

    fn over(audit: &SegmentAudit<'_>, slot_digests: Arc<SlotDigests>) -> Self {
        let drawn = |&segment: &Segment| WalkSegment {
            segment,
            round_key: audit.round_key(segment.round),
            out_digest: audit.digests[segment.round as usize],
        };
        let drawn = audit.segments.iter().map(drawn).collect();
        Self { n: audit.n, share: audit.share, probe: *audit.probe, drawn, slot_digests, seen: 0 }
    }

    /// Checks that the next segment is the one drawn, with as many lines as steps, and ranges of the right lengths: a
    /// few comparisons, which keep nothing else. Only the walk determines which ranges the lines must be.
    ///
    /// # Errors
    /// `rows`, `range` or `siblings`.
    pub fn check_shape(&self, given: &SegmentOpenings) -> Result<(), OpeningFault> {
        self.shape(self.seen, given).map_err(|fault| self.fault(self.seen, fault))
    }

    /// Checks the next segment whole.
    ///
    /// # Errors
    /// The segment's first [`OpeningFault`], which is the answer's: later segments need no check.
    pub fn segment(&mut self, given: &SegmentOpenings) -> Result<(), OpeningFault> {
        let index = self.seen;
        self.seen += 1;
        self.check_segment(index, given).map_err(|fault| self.fault(index, fault))
    }

    /// Returns the verdict over all segments.
    ///
    /// # Errors
    /// `rows` when a segment was left out.
    pub fn finish(self) -> Result<(), OpeningFault> {
        if self.seen < self.drawn.len() {
            return Err(self.fault(self.seen, (FaultKind::Rows, None)));
        }
        Ok(())
    }

    const fn fault(&self, segment: usize, (kind, step): SegmentFault) -> OpeningFault {
        let place = match step {
            Some(step) => FaultPlace::Step { segment, step },
            None => FaultPlace::Segment { segment },
        };
        OpeningFault { kind, device_id: self.share.device_id, place }
    }

    /// The segment drawn, when the one given is that with as many lines as steps.
    fn drawn(&self, index: usize, given: &SegmentOpenings) -> Result<&WalkSegment, SegmentFault> {
        let rows = (FaultKind::Rows, None);
        let drawn = self.drawn.get(index).ok_or(rows)?;
        let same = given.round == drawn.segment.round && given.walk == drawn.segment.walk;
        if same && given.lines.len() == self.probe.steps() as usize { Ok(drawn) } else { Err(rows) }
    }

    fn shape(&self, index: usize, given: &SegmentOpenings) -> Result<(), SegmentFault> {
        let state = self.expected_state(self.drawn(index, given)?);
        let fail = |kind| (kind, None);
        state.check_range(given.state.first_byte, &given.state.bytes).map_err(fail)?;
        state.check_siblings(&given.state.siblings).map_err(fail)?;
        for (index, opened) in given.lines.iter().enumerate() {
            if opened.slot >= self.slot_digests.slots() {
                return Err((FaultKind::Range, Some(index)));
            }
            let expected = self.expected_line(opened.slot, chunk_of(opened.first_byte));
            expected.check_range(opened.first_byte, &opened.bytes).map_err(|kind| (kind, Some(index)))?;
            expected.check_siblings(&opened.siblings).map_err(|kind| (kind, Some(index)))?;
        }
        Ok(())
    }

    fn check_segment(&self, index: usize, given: &SegmentOpenings) -> Result<(), SegmentFault> {
        let drawn = self.drawn(index, given)?;
        let Opening { first_byte, bytes, .. } = &given.state;
        check_opening(&self.expected_state(drawn), &given.state).map_err(|kind| (kind, None))?;
        let end = self.walk(drawn, &given.lines).map_err(|(kind, step)| (kind, Some(step)))?;
        let start = (drawn.segment.state_byte() - first_byte) as usize;
        if bytes[start..start + LINE_BYTES] == state_bytes(&end) { Ok(()) } else { Err((FaultKind::State, None)) }
    }

    /// Where the state of a segment is opened.
    const fn expected_state<'a>(&self, drawn: &'a WalkSegment) -> ExpectedRange<'a> {
        ExpectedRange {
            first_byte: chunk_of(drawn.segment.state_byte()),
            range_bytes: CHUNK_BYTES,
            total_bytes: self.probe.out_bytes(),
            digest: &drawn.out_digest,
        }
    }

    /// Where a line of a slot is opened.
    fn expected_line(&self, slot: u32, line_byte: u64) -> ExpectedRange<'_> {
        ExpectedRange {
            first_byte: chunk_of(line_byte),
            range_bytes: CHUNK_BYTES,
            total_bytes: u64::from(self.n) * u64::from(self.n),
            digest: &self.slot_digests.0[slot as usize],
        }
    }

    /// The digests that lines lead to, up to the first one that is no range of a slot.
    fn digests(&self, lines: &[OpenedRange]) -> Vec<Digest> {
        let is_range = |opened: &&OpenedRange| {
            let expected = self.expected_line(0, opened.first_byte);
            let lies_within = opened.first_byte < expected.total_bytes;
            lies_within
                && expected.check_range(opened.first_byte, &opened.bytes).is_ok()
                && expected.check_siblings(&opened.siblings).is_ok()
        };
        let mut ranges = Vec::with_capacity(lines.len());
        for OpenedRange { bytes, first_byte, siblings, .. } in lines.iter().take_while(is_range) {
            ranges.push(RangePath { bytes, first_byte: *first_byte, siblings });
        }
        digests_of_ranges(&ranges, u64::from(self.n) * u64::from(self.n))
    }

    /// Walks a segment over the lines opened, each checked before it is used, to the state it ends in.
    fn walk(&self, drawn: &WalkSegment, lines: &[OpenedRange]) -> Result<WalkState, (FaultKind, usize)> {
        let mut state = start_state(&drawn.round_key, drawn.segment.walk);
        let digests = self.digests(lines);
        for (index, opened) in lines.iter().enumerate() {
            let (slot, line) = position(&state, self.slot_digests.slots(), self.n);
            let line_byte = u64::from(line) * LINE_BYTES as u64;
            if opened.slot != slot {
                return Err((FaultKind::Range, index));
            }
            let expected = self.expected_line(slot, line_byte);
            expected.check_range(opened.first_byte, &opened.bytes).map_err(|kind| (kind, index))?;
            expected.check_siblings(&opened.siblings).map_err(|kind| (kind, index))?;
            if digests.get(index) != Some(expected.digest) {
                return Err((FaultKind::Path, index));
            }
            step(&mut state, &line_in(&opened.bytes, line_byte));
        }
        Ok(state)
    }
}

/// Where the 1024 bytes that hold a byte start.
pub const fn chunk_of(byte: u64) -> u64 {
    byte / CHUNK_BYTES * CHUNK_BYTES
}

/// The line that starts at `line_byte` of a slot, out of the 1024 bytes that hold it.
fn line_in(chunk: &[u8], line_byte: u64) -> [u8; LINE_BYTES] {
    let start = (line_byte % CHUNK_BYTES) as usize;
    let mut line = [0; LINE_BYTES];
    line.copy_from_slice(&chunk[start..start + LINE_BYTES]);
    line
}

pub(crate) fn check_opening(expected: &ExpectedRange<'_>, given: &Opening) -> Result<(), FaultKind> {
    expected.check_range(given.first_byte, &given.bytes)?;
    expected.check_siblings(&given.siblings)?;
    expected.check_path(&given.bytes, &given.siblings)
}
