//! Files of openings of a probe or a sweep (WORK.md, JSON): those of every device of a host, with the validator's own
//! values.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::bytes::{DeviceId, Digest, Root};
use super::challenge::{Challenge, Share, UncheckedChallenge};
use super::fault::{FaultKind, FaultPlace, OpeningFault};
use super::opening::OpenedRange;
use super::probe::{
    Answer, DeviceAnswer, Link, MemoryProbe, Probe, Sweep, SweepSample, UncheckedProbe, UncheckedSweep,
};
use super::segment::{Opening, Segment, SegmentAudit, SegmentCheck, SegmentOpenings, check_slot_digests};
use super::standalone::{StandaloneError, check_committed_roots};
use super::sums::{SweepAudit, SweepCheck, SweepOpenings};

/// A drawn segment of one of the devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DrawnSegment {
    /// The device that opens it.
    pub device_id: DeviceId,
    /// `r`.
    pub round: u32,
    /// `j`.
    pub walk: u32,
}

/// The digests of the last pass of one of the devices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceSlotDigests {
    /// The device of the slots.
    pub device_id: DeviceId,
    /// `digest[0 … count-1]`.
    pub digests: Vec<Digest>,
}

/// The openings of a segment of one of the devices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceSegment {
    /// The device that opened it.
    pub device_id: DeviceId,
    /// `r`.
    pub round: u32,
    /// `j`.
    pub walk: u32,
    /// The 1024 bytes of `out[r]` that hold state `j`.
    pub state: Opening,
    /// For each step, the 1024 bytes of the slot that hold the line read.
    pub lines: Vec<OpenedRange>,
}

/// A host's openings of a probe, and the values to check them against. Its serde form is the interchange form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProbeFile {
    /// The challenge, as issued.
    pub challenge: UncheckedChallenge,
    /// The roots that every device committed to.
    pub committed_roots: BTreeMap<DeviceId, Vec<Root>>,
    /// The probe, as sent.
    pub probe: UncheckedProbe,
    /// The answer to it. Its signature is checked elsewhere.
    pub answer: Answer,
    /// The segments drawn, in order.
    pub drawn: Vec<DrawnSegment>,
    /// Opened: the digests of the last pass of every device, in order.
    pub slot_digests: Vec<DeviceSlotDigests>,
    /// Opened: one for each segment, in the order drawn.
    pub segments: Vec<DeviceSegment>,
}

impl DrawnSegment {
    const fn segment(&self) -> Segment {
        Segment { round: self.round, walk: self.walk }
    }
}

impl DeviceSegment {
    fn openings(&self) -> SegmentOpenings {
        let Self { device_id: _, round, walk, state, lines } = self.clone();
        SegmentOpenings { round, walk, state, lines }
    }
}

impl ProbeFile {
    /// The segments drawn of one device that the probe has. Others are no rows of any answer.
    fn drawn_of(&self, device_id: DeviceId, probe: &Probe) -> Vec<Segment> {
        let of_device = self.drawn.iter().filter(|s| s.device_id == device_id);
        of_device.map(DrawnSegment::segment).filter(|s| s.fits(probe)).collect()
    }
}

/// Checks a host's openings of a probe.
///
/// # Errors
/// [`StandaloneError`]: the challenge's or the probe's own rule, then the first fault in WORK.md's order: `binding`,
/// `digests` of each device in order, `rows` over all segments, then segment by segment the state's `range`, `siblings`
/// and `path`, those of each step in turn, and `state`.
pub fn check_probe_file(file: &ProbeFile) -> Result<(), StandaloneError> {
    let challenge = Challenge::try_from(file.challenge.clone())?;
    let probe = Probe::try_from(file.probe)?;
    probe.check_devices(challenge.shares().len())?;
    let drawn = file.drawn.iter().map(|drawn| drawn.device_id);
    check_binding(&challenge, &file.committed_roots, (&probe.into(), &file.answer), drawn)?;
    let mut checks = match probe.link() {
        Link::Own => check_digests(&challenge, &file.slot_digests, &file.answer, |share, answer, slot_digests| {
            let (device_id, drawn) = (share.device_id, file.drawn_of(share.device_id, &probe));
            let last_root = last_root(&file.committed_roots, &challenge, device_id);
            let audit = SegmentAudit::new(&challenge, &probe, device_id, last_root, &answer.digests, &drawn);
            SegmentCheck::begin(&audit, slot_digests)
        })?,
        Link::All => check_linked_digests(file, &challenge, &probe)?,
    };
    check_rows(file, &probe)?;
    Ok(check_segments(file, &mut checks)?)
}

/// Roots, an answer and draws of the devices of the challenge.
fn check_binding(
    challenge: &Challenge,
    committed_roots: &BTreeMap<DeviceId, Vec<Root>>,
    (probe, answer): (&MemoryProbe, &Answer),
    mut drawn: impl Iterator<Item = DeviceId>,
) -> Result<(), OpeningFault> {
    check_committed_roots(challenge, committed_roots)?;
    let unbound = |device_id| OpeningFault { kind: FaultKind::Binding, device_id, place: FaultPlace::Answer };
    if answer.check(challenge, probe).is_err() {
        return Err(unbound(challenge.shares()[0].device_id));
    }
    drawn.find(|id| challenge.share(*id).is_none()).map_or(Ok(()), |id| Err(unbound(id)))
}

/// `root[iterations-1]` of a device of the challenge, all of which are committed.
fn last_root(committed_roots: &BTreeMap<DeviceId, Vec<Root>>, challenge: &Challenge, device_id: DeviceId) -> Root {
    committed_roots[&device_id][challenge.iterations() as usize - 1]
}

/// The digests of each device in order, each of which begins a check of its own openings.
fn check_digests<C>(
    challenge: &Challenge,
    slot_digests: &[DeviceSlotDigests],
    answer: &Answer,
    begin: impl Fn(&Share, &DeviceAnswer, Vec<Digest>) -> Result<C, OpeningFault>,
) -> Result<BTreeMap<DeviceId, C>, OpeningFault> {
    let fault = |device_id| OpeningFault { kind: FaultKind::Digests, device_id, place: FaultPlace::Answer };
    let mut checks = BTreeMap::new();
    for (index, (share, answer)) in challenge.shares().iter().zip(&answer.devices).enumerate() {
        let list = slot_digests.get(index).filter(|list| list.device_id == share.device_id);
        let list = list.ok_or_else(|| fault(share.device_id))?;
        checks.insert(share.device_id, begin(share, answer, list.digests.clone())?);
    }
    slot_digests.get(challenge.shares().len()).map_or(Ok(checks), |list| Err(fault(list.device_id)))
}

/// The digests of every device, over which each device's segments are checked.
fn check_linked_digests(
    file: &ProbeFile,
    challenge: &Challenge,
    probe: &Probe,
) -> Result<BTreeMap<DeviceId, SegmentCheck>, OpeningFault> {
    let ids = challenge.shares().iter().map(|share| share.device_id);
    let last_roots: Vec<_> =
        ids.clone().map(|device_id| last_root(&file.committed_roots, challenge, device_id)).collect();
    let lists = file.slot_digests.iter().map(|list| (list.device_id, &list.digests[..]));
    let slot_digests = check_slot_digests(challenge, &last_roots, lists)?;
    let check = |device_id| {
        let drawn = file.drawn_of(device_id, probe);
        let audit = SegmentAudit::linked(challenge, probe, device_id, &last_roots, &file.answer, &drawn);
        (device_id, SegmentCheck::linked(&audit, slot_digests.clone()))
    };
    Ok(ids.map(check).collect())
}

fn check_rows(file: &ProbeFile, probe: &Probe) -> Result<(), OpeningFault> {
    let fault = |device_id, segment| {
        let place = FaultPlace::Segment { segment };
        Err(OpeningFault { kind: FaultKind::Rows, device_id, place })
    };
    for (index, drawn) in file.drawn.iter().enumerate() {
        let holds = file.segments.get(index).is_some_and(|given| {
            (given.device_id, given.round, given.walk) == (drawn.device_id, drawn.round, drawn.walk)
                && given.lines.len() == probe.steps() as usize
        });
        if !holds || !drawn.segment().fits(probe) {
            return fault(drawn.device_id, index);
        }
    }
    file.segments.get(file.drawn.len()).map_or(Ok(()), |given| fault(given.device_id, file.drawn.len()))
}

/// Each segment in order, by the check of its device, which counts its own segments alone.
fn check_segments(file: &ProbeFile, checks: &mut BTreeMap<DeviceId, SegmentCheck>) -> Result<(), OpeningFault> {
    for (segment, given) in file.segments.iter().enumerate() {
        // The rows held: every segment is one drawn, of a device of the challenge.
        let Some(check) = checks.get_mut(&given.device_id) else { continue };
        check.segment(&given.openings()).map_err(|fault| OpeningFault { place: at(fault.place, segment), ..fault })?;
    }
    Ok(())
}

/// A place in the openings of one device, as a place in those of the file.
const fn at(place: FaultPlace, index: usize) -> FaultPlace {
    match place {
        FaultPlace::Segment { .. } => FaultPlace::Segment { segment: index },
        FaultPlace::Step { step, .. } => FaultPlace::Step { segment: index, step },
        FaultPlace::Sample { .. } => FaultPlace::Sample { sample: index },
        other => other,
    }
}

/// A drawn sample of a sweep of one of the devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DrawnSum {
    /// The device that opens it.
    pub device_id: DeviceId,
    /// `r`.
    pub round: u32,
    /// `u`.
    pub slot: u32,
    /// `i`.
    pub row: u32,
}

/// The openings of a sample of a sweep of one of the devices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceSum {
    /// The device that opened it.
    pub device_id: DeviceId,
    /// `r`.
    pub round: u32,
    /// `u`.
    pub slot: u32,
    /// `i`.
    pub row: u32,
    /// The 1024 bytes of `sums[r]` that hold the sum.
    pub sum: Opening,
    /// The range of the slot that holds the row.
    pub range: OpenedRange,
}

/// A host's openings of a sweep, and the values to check them against. Its serde form is the interchange form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SweepFile {
    /// The challenge, as issued.
    pub challenge: UncheckedChallenge,
    /// The roots that every device committed to.
    pub committed_roots: BTreeMap<DeviceId, Vec<Root>>,
    /// The sweep, as sent.
    pub sweep: UncheckedSweep,
    /// The answer to it. Its signature is checked elsewhere.
    pub answer: Answer,
    /// The samples drawn, in order.
    pub drawn: Vec<DrawnSum>,
    /// Opened: the digests of the last pass of every device, in order.
    pub slot_digests: Vec<DeviceSlotDigests>,
    /// Opened: one for each sample, in the order drawn.
    pub samples: Vec<DeviceSum>,
}

impl DrawnSum {
    const fn sample(&self) -> SweepSample {
        SweepSample { round: self.round, slot: self.slot, row: self.row }
    }
}

impl DeviceSum {
    const fn drawn(&self) -> DrawnSum {
        let Self { device_id, round, slot, row, .. } = *self;
        DrawnSum { device_id, round, slot, row }
    }
}

/// Checks a host's openings of a sweep.
///
/// # Errors
/// [`StandaloneError`]: the challenge's or the sweep's own rule, then the first fault in WORK.md's order: `binding`,
/// `digests` of each device in order, `rows` over all samples, then sample by sample the sum's `range`, `siblings` and
/// `path`, those of its row, and `sum`.
pub fn check_sweep_file(file: &SweepFile) -> Result<(), StandaloneError> {
    let challenge = Challenge::try_from(file.challenge.clone())?;
    let sweep = Sweep::try_from(file.sweep)?;
    let drawn = file.drawn.iter().map(|drawn| drawn.device_id);
    check_binding(&challenge, &file.committed_roots, (&sweep.into(), &file.answer), drawn)?;
    let fits = |drawn: &DrawnSum, share: &Share| drawn.sample().fits(&sweep, challenge.n(), share.count);
    let mut checks = check_digests(&challenge, &file.slot_digests, &file.answer, |share, answer, slot_digests| {
        let of_device = file.drawn.iter().filter(|drawn| drawn.device_id == share.device_id && fits(drawn, share));
        let drawn: Vec<_> = of_device.map(DrawnSum::sample).collect();
        let last_root = last_root(&file.committed_roots, &challenge, share.device_id);
        let audit = SweepAudit::new(&challenge, &sweep, share.device_id, last_root, &answer.digests, &drawn);
        SweepCheck::begin(&audit, slot_digests)
    })?;
    for index in 0..file.drawn.len().max(file.samples.len()) {
        let (drawn, given) = (file.drawn.get(index), file.samples.get(index).map(DeviceSum::drawn));
        let share = drawn.and_then(|drawn| challenge.share(drawn.device_id));
        let is_right = drawn.zip(share).is_some_and(|(drawn, share)| fits(drawn, share) && given == Some(*drawn));
        if !is_right {
            let device_id = drawn.copied().or(given).map_or(challenge.shares()[0].device_id, |sum| sum.device_id);
            let place = FaultPlace::Sample { sample: index };
            return Err(OpeningFault { kind: FaultKind::Rows, device_id, place }.into());
        }
    }
    for (index, given) in file.samples.iter().enumerate() {
        // The rows held: every sample is one drawn, of a device of the challenge.
        let Some(check) = checks.get_mut(&given.device_id) else { continue };
        let DeviceSum { sum, range, .. } = given.clone();
        let openings = SweepOpenings { sample: given.drawn().sample(), sum, range };
        check.sample(&openings).map_err(|fault| OpeningFault { place: at(fault.place, index), ..fault })?;
    }
    Ok(())
}
