//! Checking segments of a probe: single rounds of single walks, walked again (WORK.md, Residency probe).

use serde::{Deserialize, Serialize};

use super::bytes::{ChainingValue, DeviceId, Digest, ProbeKey, Root, hex_vec};
use super::challenge::{Challenge, Share};
use super::digest::pass_root;
use super::fault::{FaultKind, FaultPlace, OpeningFault};
use super::opening::{Expected, OpenedRange};
use super::probe::{LINE_BYTES, Probe, State, position, probe_key, round_key_after, start_state, state_bytes, step};
use super::tree::CHUNK_BYTES;

/// One round of one walk of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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

    /// Where in `out[r]` the walk's state stands.
    #[must_use]
    pub const fn state_byte(&self) -> u64 {
        self.walk as u64 * LINE_BYTES as u64
    }
}

/// An opened range of a hashed string that is no slot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Opening {
    /// Where in the string the range starts.
    pub first_byte: u64,
    /// The bytes of the range.
    #[serde(with = "hex_vec")]
    pub bytes: Vec<u8>,
    /// What leads from the range to the string's digest, lowest first.
    pub siblings: Vec<ChainingValue>,
}

/// What is opened for one segment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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

/// What is opened of the probe of one device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProbeOpenings {
    /// The device.
    pub device_id: DeviceId,
    /// The digests of the last pass.
    pub slot_digests: Vec<Digest>,
    /// One for each segment, in the order drawn.
    pub segments: Vec<SegmentOpenings>,
}

/// What a validator knows about a device's probe, none of it from the openings.
#[derive(Debug, Clone)]
pub struct SegmentAudit<'a> {
    n: u32,
    share: Share,
    probe: &'a Probe,
    probe_key: ProbeKey,
    last_root: Root,
    digests: &'a [Digest],
    segments: &'a [Segment],
}

impl<'a> SegmentAudit<'a> {
    /// An audit of a device that committed to `last_root` for its last iteration and answered `digests`.
    ///
    /// # Panics
    /// When the challenge has no share for the device, there is not a digest for every round, or the probe has no
    /// such segment: the answer was checked and the segments were drawn before.
    #[must_use]
    pub fn new(
        challenge: &Challenge,
        probe: &'a Probe,
        device_id: DeviceId,
        last_root: Root,
        digests: &'a [Digest],
        segments: &'a [Segment],
    ) -> Self {
        let Some(&share) = challenge.share(device_id) else { panic!("device {device_id} has no share") };
        assert_eq!(digests.len(), probe.rounds() as usize, "a digest for every round");
        assert!(segments.iter().all(|s| s.fits(probe)), "segments of the probe");
        let probe_key = probe_key(probe, challenge.work_key(), device_id, &last_root);
        Self { n: challenge.n(), share, probe, probe_key, last_root, digests, segments }
    }

    const fn fault(&self, kind: FaultKind, place: FaultPlace) -> OpeningFault {
        OpeningFault { kind, device_id: self.share.device_id, place }
    }

    /// Where the state of a segment is opened.
    fn expected_state(&self, segment: &Segment) -> Expected<'_> {
        Expected {
            first_byte: chunk_of(segment.state_byte()),
            range_bytes: CHUNK_BYTES,
            total_bytes: self.probe.out_bytes(),
            digest: &self.digests[segment.round as usize],
        }
    }
}

/// Checks everything that a device opened of its probe.
///
/// # Errors
/// The first [`OpeningFault`]: `binding`, `digests`, then segment by segment `rows` (another segment than the one
/// drawn, or another number of lines than steps), the state's `range`, `siblings` and `path`, those of each step
/// in turn, and `state`.
pub fn check_segments(audit: &SegmentAudit<'_>, given: &ProbeOpenings) -> Result<(), OpeningFault> {
    if given.device_id != audit.share.device_id {
        return Err(audit.fault(FaultKind::Binding, FaultPlace::Answer));
    }
    let mut check = SegmentCheck::begin(audit, given.slot_digests.clone())?;
    for segment in &given.segments {
        check.segment(segment)?;
    }
    check.finish()
}

/// A check that takes the segments one by one, in the order drawn.
#[derive(Debug)]
pub struct SegmentCheck<'a> {
    audit: &'a SegmentAudit<'a>,
    slot_digests: Vec<Digest>,
    seen: usize,
}

impl<'a> SegmentCheck<'a> {
    /// Checks the digests of the last pass, which the lines lead to.
    ///
    /// # Errors
    /// `digests`.
    pub fn begin(audit: &'a SegmentAudit<'a>, slot_digests: Vec<Digest>) -> Result<Self, OpeningFault> {
        if slot_digests.len() != audit.share.count as usize || pass_root(&slot_digests) != audit.last_root {
            return Err(audit.fault(FaultKind::Digests, FaultPlace::Answer));
        }
        Ok(Self { audit, slot_digests, seen: 0 })
    }

    /// Checks the next segment.
    ///
    /// # Errors
    /// The segment's first [`OpeningFault`], which is the answer's: what comes after it need not be looked at.
    pub fn segment(&mut self, given: &SegmentOpenings) -> Result<(), OpeningFault> {
        let index = self.seen;
        self.seen += 1;
        let whole = FaultPlace::Segment { segment: index };
        let fail = |kind| self.audit.fault(kind, whole);
        let segment = self.audit.segments.get(index).ok_or_else(|| fail(FaultKind::Rows))?;
        let same = given.round == segment.round && given.walk == segment.walk;
        if !same || given.lines.len() != self.audit.probe.steps() as usize {
            return Err(fail(FaultKind::Rows));
        }
        let Opening { first_byte, bytes, siblings } = &given.state;
        check_opening(&self.audit.expected_state(segment), *first_byte, bytes, siblings).map_err(fail)?;
        let end = self
            .walk(segment, &given.lines)
            .map_err(|(kind, step)| self.audit.fault(kind, FaultPlace::Step { segment: index, step }))?;
        let start = (segment.state_byte() - first_byte) as usize;
        if bytes[start..start + LINE_BYTES] == state_bytes(&end) { Ok(()) } else { Err(fail(FaultKind::State)) }
    }

    /// What was found, once every segment was given.
    ///
    /// # Errors
    /// `rows` when a segment was left out.
    pub fn finish(self) -> Result<(), OpeningFault> {
        if self.seen < self.audit.segments.len() {
            return Err(self.audit.fault(FaultKind::Rows, FaultPlace::Segment { segment: self.seen }));
        }
        Ok(())
    }

    /// Walks a segment over the lines opened, each checked before it is used, to the state it ends in.
    fn walk(&self, segment: &Segment, lines: &[OpenedRange]) -> Result<State, (FaultKind, usize)> {
        let audit = self.audit;
        let key = round_key_after(&audit.probe_key, segment.round, audit.digests);
        let mut state = start_state(&key, segment.walk);
        for (index, opened) in lines.iter().enumerate() {
            let (slot, line) = position(&state, audit.share.count, audit.n);
            let line_byte = u64::from(line) * LINE_BYTES as u64;
            let expected = Expected {
                first_byte: chunk_of(line_byte),
                range_bytes: CHUNK_BYTES,
                total_bytes: u64::from(audit.n) * u64::from(audit.n),
                digest: &self.slot_digests[slot as usize],
            };
            if opened.slot != slot {
                return Err((FaultKind::Range, index));
            }
            check_opening(&expected, opened.first_byte, &opened.bytes, &opened.siblings).map_err(|k| (k, index))?;
            step(&mut state, &line_in(&opened.bytes, line_byte));
        }
        Ok(state)
    }
}

/// Where the 1024 bytes that hold a byte start.
#[must_use]
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

fn check_opening(
    expected: &Expected<'_>,
    first_byte: u64,
    bytes: &[u8],
    siblings: &[ChainingValue],
) -> Result<(), FaultKind> {
    expected.check_range(first_byte, bytes)?;
    expected.check_siblings(siblings)?;
    expected.check_path(bytes, siblings)
}
