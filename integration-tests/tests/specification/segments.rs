//! Segments of a probe: built from a device, bent and checked.

use assay_kits::naive;
use std::sync::LazyLock;

use assay_device::open::{ProbedDevice, SegmentPlan, open_segments};
use assay_device::{Device, DeviceError, Handle};
use assay_kits::reference::ReferenceDevice;
use assay_kits::{FakeDevice, WorkedExample, probe};
use assay_work::digest::slot_digest;
use assay_work::probe::probe_key;
use assay_work::{
    Digest, FaultKind, FaultPlace, OpeningFault, Probe, ProbeKey, ProbeOpenings, Segment, SegmentAudit, SegmentCheck,
    check_segments,
};
use proptest::prelude::*;

/// A device that answered a probe.
struct Probed {
    worked: WorkedExample,
    probe: Probe,
    key: ProbeKey,
    outs: Vec<Vec<u8>>,
    digests: Vec<Digest>,
    segments: Vec<Segment>,
    honest: ProbeOpenings,
}

impl Probed {
    fn new(n: u32, count: u32, probe: Probe) -> Self {
        let worked = WorkedExample::new(n, 1, count);
        let id = worked.share.device_id;
        let key = probe_key(&probe, worked.challenge.work_key(), id, &worked.last_root());
        let (outs, digests) = naive::probe(&worked.slots, n, &key, &probe);
        let (last_round, last_walk) = (probe.rounds() - 1, probe.walks() - 1);
        // In no order, one of them twice, all corners.
        let segments =
            [(last_round, 17), (0, last_walk), (0, 0), (last_round, last_walk), (0, 0), (last_round / 2, 16)];
        let segments: Vec<_> = segments.into_iter().map(|(round, walk)| Segment { round, walk }).collect();
        let honest = naive::open_probe(&worked.slots, n, &key, &probe, id, &segments);
        Self { worked, probe, key, outs, digests, segments, honest }
    }

    fn audit(&self) -> SegmentAudit<'_> {
        self.audit_of(&self.digests)
    }

    fn audit_of<'a>(&'a self, digests: &'a [Digest]) -> SegmentAudit<'a> {
        let Self { worked, probe, segments, .. } = self;
        SegmentAudit::new(&worked.challenge, probe, worked.share.device_id, worked.last_root(), digests, segments)
    }

    fn asked(&self) -> ProbedDevice<'_> {
        ProbedDevice {
            challenge: &self.worked.challenge,
            probe: &self.probe,
            device_id: self.worked.share.device_id,
            probe_key: &self.key,
            digests: &self.digests,
            slot_digests: &self.worked.digests,
        }
    }

    fn judge(&self, change: impl FnOnce(&mut ProbeOpenings)) -> Result<(), OpeningFault> {
        let mut given = self.honest.clone();
        change(&mut given);
        check_segments(&self.audit(), &given)
    }

    fn fault(&self, kind: FaultKind, place: FaultPlace) -> Result<(), OpeningFault> {
        Err(OpeningFault { kind, device_id: self.worked.share.device_id, place })
    }
}

/// One chunk a row, several rows a chunk, several chunks a row.
fn sizes() -> &'static [Probed] {
    static SIZES: LazyLock<Vec<Probed>> = LazyLock::new(|| {
        vec![
            Probed::new(256, 5, probe(64, 5, 3)),
            Probed::new(512, 3, probe(256, 1, 2)),
            Probed::new(1024, 3, probe(128, 16, 1)),
            Probed::new(2048, 3, probe(64, 24, 2)),
        ]
    });
    &SIZES
}

#[test]
fn what_a_device_opens_is_what_the_reference_opens_and_passes() {
    for probed in sizes() {
        let mut device = probed.worked.device();
        let opened = open_segments(&mut device, &probed.asked(), &probed.segments, &Handle::default()).unwrap();
        assert_eq!(opened, probed.honest, "n = {}", probed.worked.challenge.n());
        assert_eq!(check_segments(&probed.audit(), &opened), Ok(()));
    }
}

#[test]
fn segments_can_be_opened_and_checked_one_by_one() {
    let probed = &sizes()[0];
    let mut device = probed.worked.device();
    let plan = SegmentPlan::new(&mut device, &probed.asked(), &probed.segments, &Handle::default()).unwrap();
    let audit = probed.audit();
    let mut check = SegmentCheck::begin(&audit, probed.worked.digests.clone()).unwrap();
    for index in 0..plan.len() {
        check.segment(&plan.open(&mut device, index).unwrap()).unwrap();
    }
    assert_eq!(check.finish(), Ok(()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn one_flipped_bit_is_found(size in 0_usize..5, choice: (usize, usize, usize), what in 0_usize..7) {
        let probed = &sizes()[size % sizes().len()];
        let (a, b, bit) = choice;
        let segment = a % probed.segments.len();
        let step = b % probed.probe.steps() as usize;
        let flip = |bytes: &mut [u8]| bytes[bit / 8 % bytes.len()] ^= 1 << (bit % 8);
        let (at_state, at_step) = (FaultPlace::Segment { segment }, FaultPlace::Step { segment, step });
        let (kind, place) = match what {
            0 | 1 => (FaultKind::Path, at_state),
            2 => (FaultKind::Range, at_state),
            3 | 4 => (FaultKind::Path, at_step),
            5 => (FaultKind::Range, at_step),
            _ => (FaultKind::Digests, FaultPlace::Answer),
        };
        let judged = probed.judge(|given| {
            let (state, line) = {
                let opened = &mut given.segments[segment];
                (&mut opened.state, &mut opened.lines[step])
            };
            match what {
                0 => flip(&mut state.bytes),
                1 => flip(&mut state.siblings[b % 2].0),
                2 => state.first_byte ^= 1 << (bit % 64),
                3 => flip(&mut line.bytes),
                4 => flip(&mut line.siblings[bit % 4].0),
                5 if bit % 2 == 0 => line.first_byte ^= 1 << (bit % 64),
                5 => line.slot ^= 1 << (bit % 32),
                _ => flip(&mut given.slot_digests[b % 3].0),
            }
        });
        prop_assert_eq!(judged, probed.fault(kind, place));
    }

    /// A state that was not walked to, hashed and answered as if it were: found in the segment that opens it.
    #[test]
    fn a_forged_state_is_found(size in 0_usize..3, walk in 0_u32..64, bit in 0_usize..512) {
        let probed = &sizes()[size];
        let round = probed.probe.rounds() - 1;
        let mut out = probed.outs[round as usize].clone();
        out[walk as usize * 64 + bit / 8] ^= 1 << (bit % 8);
        let mut digests = probed.digests.clone();
        digests[round as usize] = slot_digest(&out);
        let segments = [Segment { round, walk: walk ^ 1 }, Segment { round, walk }];
        let worked = &probed.worked;
        let (id, n) = (worked.share.device_id, worked.challenge.n());
        let mut given = naive::open_probe(&worked.slots, n, &probed.key, &probed.probe, id, &segments);
        for opened in &mut given.segments {
            opened.state = naive::open(&out, u64::from(opened.walk) / 16 * 1024, 1024);
        }
        let root = worked.last_root();
        let audit = SegmentAudit::new(&worked.challenge, &probed.probe, id, root, &digests, &segments);
        // The neighbour in the same range was walked to, and passes.
        let expected = probed.fault(FaultKind::State, FaultPlace::Segment { segment: 1 });
        prop_assert_eq!(check_segments(&audit, &given), expected);
    }
}

/// A miner that lost its slots and walks over zeros, consistently, down to the digests that it answers: the lines are
/// checked against its commitment.
#[test]
fn walking_over_other_slots_is_found() {
    let probed = &sizes()[0];
    let worked = &probed.worked;
    let slots = vec![vec![0; worked.slots[0].len()]; worked.slots.len()];
    let (id, n) = (worked.share.device_id, worked.challenge.n());
    let (_, digests) = naive::probe(&slots, n, &probed.key, &probed.probe);
    let mut given = naive::open_probe(&slots, n, &probed.key, &probed.probe, id, &probed.segments);
    let judged = check_segments(&probed.audit_of(&digests), &given);
    assert_eq!(judged, probed.fault(FaultKind::Digests, FaultPlace::Answer));
    given.slot_digests.clone_from(&worked.digests);
    let judged = check_segments(&probed.audit_of(&digests), &given);
    assert_eq!(judged, probed.fault(FaultKind::Path, FaultPlace::Step { segment: 0, step: 0 }));
}

#[test]
fn faults_come_segment_by_segment() {
    let probed = &sizes()[0];
    let step = |segment, step| FaultPlace::Step { segment, step };
    let judged = probed.judge(|given| {
        given.segments[2].state.siblings.pop();
        given.segments[1].lines[3].siblings.pop();
    });
    assert_eq!(judged, probed.fault(FaultKind::Siblings, step(1, 3)), "the first segment before the second");
    let judged = probed.judge(|given| {
        given.segments[1].lines[2].bytes[7] ^= 1;
        given.segments[1].lines[3].bytes.pop();
    });
    assert_eq!(judged, probed.fault(FaultKind::Path, step(1, 2)), "the first step before the second");
    let judged = probed.judge(|given| {
        given.segments[1].lines[0].bytes.pop();
        given.segments[1].state.siblings.pop();
    });
    let state = FaultPlace::Segment { segment: 1 };
    assert_eq!(judged, probed.fault(FaultKind::Siblings, state), "the state's path before the steps");
}

/// Before any path is checked, in any segment.
#[test]
fn other_segments_than_those_drawn_are_named_first() {
    let probed = &sizes()[0];
    let bent = |given: &mut ProbeOpenings| given.segments[0].state.bytes[0] ^= 1;
    let judged = |change: fn(&mut ProbeOpenings)| {
        probed.judge(|given| {
            bent(given);
            change(given);
        })
    };
    assert_eq!(judged(|_| ()), probed.fault(FaultKind::Path, FaultPlace::Segment { segment: 0 }));
    let rows = |segment| probed.fault(FaultKind::Rows, FaultPlace::Segment { segment });
    assert_eq!(judged(|given| drop(given.segments.pop())), rows(5));
    assert_eq!(judged(|given| given.segments.push(given.segments[0].clone())), rows(6));
    assert_eq!(judged(|given| given.segments[3].walk ^= 1), rows(3));
    assert_eq!(judged(|given| drop(given.segments[4].lines.pop())), rows(4));
}

#[test]
fn only_the_segments_drawn_are_an_answer() {
    let probed = &sizes()[0];
    let rows = |segment| probed.fault(FaultKind::Rows, FaultPlace::Segment { segment });
    assert_eq!(probed.judge(|_| ()), Ok(()));
    assert_eq!(probed.judge(|given| given.segments.swap(1, 2)), rows(1));
    assert_eq!(probed.judge(|given| given.segments.truncate(2)), rows(2));
    assert_eq!(probed.judge(|given| given.segments.push(given.segments[0].clone())), rows(6));
    assert_eq!(probed.judge(|given| drop(given.segments[4].lines.pop())), rows(4));
    assert_eq!(probed.judge(|given| given.segments[4].lines.extend_from_within(..1)), rows(4));
    let binding = probed.fault(FaultKind::Binding, FaultPlace::Answer);
    assert_eq!(probed.judge(|given| given.device_id.0[3] ^= 1), binding);
    let digests = probed.fault(FaultKind::Digests, FaultPlace::Answer);
    assert_eq!(probed.judge(|given| given.slot_digests.truncate(4)), digests);
}

/// Its reads are not of the memory that its kernels see.
#[test]
fn a_device_that_reads_other_bytes_is_found_sick() {
    let probed = &sizes()[0];
    let read = |inner: &mut ReferenceDevice, slot, first_byte, out: &mut [u8]| {
        inner.read(slot, first_byte, out)?;
        out[0] ^= 1;
        Ok(())
    };
    let mut device = FakeDevice { read: Box::new(read), ..FakeDevice::new(probed.worked.device()) };
    let error = open_segments(&mut device, &probed.asked(), &probed.segments, &Handle::default()).unwrap_err();
    let expected = "walk 63 of round 0 ends elsewhere than its lines lead";
    assert_eq!(error, DeviceError::Sick(expected.into()));
}

#[test]
fn a_device_that_walks_elsewhere_is_found_sick() {
    let probed = &sizes()[0];
    let handle = Handle::default();
    let sick = |asked: &ProbedDevice<'_>| {
        let error = open_segments(&mut probed.worked.device(), asked, &probed.segments, &handle).unwrap_err();
        let DeviceError::Sick(why) = error else { panic!("{error}") };
        why
    };
    let mut digests = probed.digests.clone();
    digests[2].0[0] ^= 1;
    let asked = ProbedDevice { digests: &digests, ..probed.asked() };
    assert_eq!(sick(&asked), "round 2 of the probe gave another digest than before");
    let mut slot_digests = probed.worked.digests.clone();
    slot_digests[1].0[0] ^= 1;
    let asked = ProbedDevice { slot_digests: &slot_digests, ..probed.asked() };
    assert_eq!(sick(&asked), "slot 1 no longer hashes to its digest");
}

#[test]
fn segments_that_cannot_be_opened_are_errors() {
    let probed = &sizes()[0];
    let mut device = probed.worked.device();
    let handle = Handle::default();
    for (round, walk) in [(3, 0), (0, 64), (u32::MAX, u32::MAX)] {
        let error = open_segments(&mut device, &probed.asked(), &[Segment { round, walk }], &handle).unwrap_err();
        assert!(matches!(error, DeviceError::Unsupported(_)), "{error}");
    }
    handle.cancel();
    let error = open_segments(&mut device, &probed.asked(), &probed.segments, &handle).unwrap_err();
    assert_eq!(error, DeviceError::Cancelled);
}
