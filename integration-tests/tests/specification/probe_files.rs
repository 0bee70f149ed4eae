//! Openings of a probe in files: the vectors, and files bent and checked.

use crate::files::{checked, vector};
use assay_kits::naive;
use assay_work::probe::probe_checksum;
use assay_work::probe_file::{DeviceSegment, DeviceSlotDigests};
use assay_work::{
    Answer, DeviceId, FaultKind, FaultPlace, Probe, ProbeFile, ProbeOpenings, Root, Segment, StandaloneError,
    check_probe_file, from_json,
};
use serde::Deserialize;
use serde::de::IgnoredAny;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Vectors {
    _comment: IgnoredAny,
    valid: ProbeFile,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    expect: String,
    what: String,
    opening: ProbeFile,
}

/// A change of a file, and the code that it is then refused with.
type Change = (fn(&mut ProbeFile), &'static str);

fn plain() -> Vectors {
    vector("segments-plain")
}

fn linked() -> Vectors {
    vector("segments-linked")
}

fn code(file: &ProbeFile) -> Result<(), &'static str> {
    check_probe_file(file).map_err(|error| error.code())
}

/// The code of the valid file, changed.
fn changed(change: impl FnOnce(&mut ProbeFile)) -> Result<(), &'static str> {
    let mut file = plain().valid;
    change(&mut file);
    code(&file)
}

/// The kind and place of the first fault in the valid file, changed.
fn fault(change: impl FnOnce(&mut ProbeFile)) -> (FaultKind, DeviceId, FaultPlace) {
    let mut file = plain().valid;
    change(&mut file);
    match check_probe_file(&file) {
        Err(StandaloneError::Fault(fault)) => (fault.kind, fault.device_id, fault.place),
        other => panic!("no fault: {other:?}"),
    }
}

fn refresh_checksum(file: &mut ProbeFile) {
    let probe = Probe::try_from(file.probe).unwrap();
    file.answer.checksum = probe_checksum(&checked(&file.challenge), probe, &file.answer.devices);
}

#[test]
pub(super) fn every_invalid_file_is_refused_for_its_reason() {
    for (vectors, cases) in [(plain(), 22), (linked(), 21)] {
        assert_eq!(code(&vectors.valid), Ok(()));
        assert_eq!(vectors.cases.len(), cases);
        for case in &vectors.cases {
            assert_eq!(code(&case.opening), Err(case.expect.as_str()), "{}", case.what);
        }
    }
}

/// The segments that a file draws of a device.
fn drawn_of(file: &ProbeFile, id: DeviceId) -> Vec<Segment> {
    let drawn = file.drawn.iter().filter(|drawn| drawn.device_id == id);
    drawn.map(|s| Segment { round: s.round, walk: s.walk }).collect()
}

/// Adds the openings of a device to a file.
fn add(file: &mut ProbeFile, device_id: DeviceId, opened: ProbeOpenings) {
    file.slot_digests.push(DeviceSlotDigests { device_id, digests: opened.slot_digests });
    file.segments.extend(opened.segments.into_iter().map(|s| DeviceSegment {
        device_id,
        round: s.round,
        walk: s.walk,
        state: s.state,
        lines: s.lines,
    }));
}

#[test]
fn a_file_is_what_the_reference_opens() {
    let valid = plain().valid;
    let (challenge, probe) = (checked(&valid.challenge), Probe::try_from(valid.probe).unwrap());
    let mut file = ProbeFile { slot_digests: Vec::new(), segments: Vec::new(), ..valid.clone() };
    let mut digests = Vec::new();
    for share in challenge.shares() {
        let (roots, slots) = naive::share(&challenge, share);
        assert_eq!(file.committed_roots[&share.device_id], roots);
        let key = naive::key_of_probe(&challenge, &probe, share.device_id, &slots);
        digests.push(naive::probe(&slots, challenge.n(), &key, &probe).1);
        let opened =
            naive::open_probe(&slots, challenge.n(), &key, &probe, share.device_id, &drawn_of(&valid, share.device_id));
        add(&mut file, share.device_id, opened);
    }
    file.answer = Answer::assemble(&challenge, probe, digests);
    // The vector draws in the order of the devices.
    assert_eq!(file, valid);
    assert_eq!(from_json::<ProbeFile>(&serde_json::to_string(&file).unwrap()).unwrap(), file);
}

#[test]
fn a_file_of_a_linked_probe_is_what_the_reference_opens() {
    let valid = linked().valid;
    let (challenge, probe) = (checked(&valid.challenge), Probe::try_from(valid.probe).unwrap());
    let mut file = ProbeFile { slot_digests: Vec::new(), segments: Vec::new(), ..valid.clone() };
    let of_shares: Vec<_> = challenge.shares().iter().map(|share| naive::share(&challenge, share)).collect();
    let (roots, slots): (Vec<_>, Vec<_>) = of_shares.into_iter().unzip();
    for (device, (share, roots)) in challenge.shares().iter().zip(roots).enumerate() {
        let device_id = share.device_id;
        assert_eq!(file.committed_roots[&device_id], roots);
        let opened = naive::open_linked_probe(&challenge, &slots, &probe, device, &drawn_of(&valid, device_id));
        add(&mut file, device_id, opened);
    }
    file.answer = naive::answer(&challenge, &probe);
    // The vector draws in the order of the devices.
    assert_eq!(file, valid);
}

/// Each change comes on top of those before it, and is named first: the digests of any device before the segments of
/// all.
#[test]
fn faults_of_a_linked_probe_come_in_the_order_of_the_specification() {
    let mut file = linked().valid;
    let changes: [Change; 8] = [
        (|f| f.segments[0].lines[1].bytes[0] ^= 1, "path"),
        (|f| f.segments[0].lines[0].slot = 11, "range"),
        (|f| drop(f.segments[1].lines.pop()), "rows"),
        (|f| f.slot_digests[2].digests[4].0[0] ^= 1, "digests"),
        (|f| f.slot_digests.swap(0, 1), "digests"),
        (|f| f.answer.devices[1].digests[0].0[0] ^= 1, "binding"),
        (|f| f.challenge.shares.truncate(1), "link"),
        (|f| f.probe.steps = 0, "steps"),
    ];
    for (index, (change, expected)) in changes.into_iter().enumerate() {
        change(&mut file);
        assert_eq!(code(&file), Err(expected), "change {index}");
    }
    // One digest of one device is under the lines that all devices read.
    let mut file = linked().valid;
    file.slot_digests[2].digests[4].0[0] ^= 1;
    let Err(StandaloneError::Fault(fault)) = check_probe_file(&file) else { panic!("accepted") };
    assert_eq!((fault.kind, fault.device_id), (FaultKind::Digests, file.challenge.shares[2].device_id));
    let mut file = linked().valid;
    file.slot_digests.push(file.slot_digests[0].clone());
    assert_eq!(code(&file), Err("digests"), "a list of digests too many");
    let mut file = linked().valid;
    file.probe.link = 0;
    assert_eq!(code(&file), Err("range"), "the same openings are none of a plain probe");
}

/// Each change comes on top of those before it, and is named first.
#[test]
fn faults_come_in_the_order_of_the_specification() {
    let mut file = plain().valid;
    let (first, last) = (file.challenge.shares[0].device_id, file.challenge.shares[2].device_id);
    let changes: [Change; 12] = [
        (|f| f.segments[1].lines[1].siblings[0].0[0] ^= 1, "path"),
        (|f| f.segments[1].lines[0].siblings.truncate(1), "siblings"),
        (|f| f.segments[1].state.first_byte ^= 1024, "range"),
        (|f| f.segments[0].lines[0].bytes[0] ^= 1, "path"),
        (|f| f.segments[0].state.siblings.extend_from_within(..1), "siblings"),
        (|f| drop(f.segments[1].lines.pop()), "rows"),
        (|f| f.slot_digests[2].digests[2].0[0] ^= 1, "digests"),
        (|f| f.slot_digests[0].digests.truncate(3), "digests"),
        (|f| f.answer.checksum.0[0] ^= 1, "binding"),
        (|f| f.probe.link = 2, "link"),
        (|f| f.probe.rounds = 0, "rounds"),
        (|f| f.challenge.precision = 3, "precision"),
    ];
    for (index, (change, expected)) in changes.into_iter().enumerate() {
        change(&mut file);
        assert_eq!(code(&file), Err(expected), "change {index}");
    }
    let step = |segment, step| FaultPlace::Step { segment, step };
    let bent = |f: &mut ProbeFile| f.segments[1].lines[1].siblings[0].0[0] ^= 1;
    assert_eq!(fault(bent), (FaultKind::Path, last, step(1, 1)), "a segment counts among those of all devices");
    let shortened = |f: &mut ProbeFile| f.slot_digests[0].digests.truncate(3);
    assert_eq!(fault(shortened), (FaultKind::Digests, first, FaultPlace::Answer));
}

#[test]
fn a_file_is_bound_to_its_challenge_and_commitment() {
    let id = plain().valid.challenge.shares[1].device_id;
    let stranger = DeviceId([0xEE; 16]);
    assert_eq!(changed(|f| drop(f.committed_roots.remove(&id))), Err("binding"));
    assert_eq!(changed(|f| f.committed_roots.get_mut(&id).unwrap().push(Root([0; 32]))), Err("binding"));
    assert_eq!(changed(|f| drop(f.committed_roots.insert(stranger, vec![Root([0; 32])]))), Err("binding"));
    let renamed = |f: &mut ProbeFile| {
        f.answer.devices[1].device_id = stranger;
        refresh_checksum(f);
    };
    assert_eq!(changed(renamed), Err("binding"), "an answer of another device");
    let longer = |f: &mut ProbeFile| {
        let digest = f.answer.devices[1].digests[0];
        f.answer.devices[1].digests.push(digest);
        refresh_checksum(f);
    };
    assert_eq!(changed(longer), Err("binding"), "a digest of a round too many");
    assert_eq!(changed(|f| f.drawn[0].device_id = stranger), Err("binding"), "a segment of another device");
    // A commitment to other slots, whose digests are right.
    let other_root = |f: &mut ProbeFile| f.committed_roots.get_mut(&id).unwrap()[0].0[0] ^= 1;
    assert_eq!(changed(other_root), Err("digests"));
    let another_nonce = |f: &mut ProbeFile| f.challenge.nonce.0[0] ^= 1;
    assert_eq!(changed(another_nonce), Err("range"), "the walks lead elsewhere");
}

#[test]
fn only_what_was_drawn_is_opened() {
    // Named before the faults in a segment.
    let rows = |segment, change: fn(&mut ProbeFile)| {
        let (kind, _, place) = fault(|f| {
            f.segments[0].state.bytes[0] ^= 1;
            change(f);
        });
        assert_eq!((kind, place), (FaultKind::Rows, FaultPlace::Segment { segment }));
    };
    rows(2, |f| f.segments.push(f.segments[0].clone()));
    rows(1, |f| drop(f.segments.pop()));
    rows(0, |f| f.segments[0].device_id = f.segments[1].device_id);
    rows(0, |f| f.drawn.clear());
    let outside = |f: &mut ProbeFile| {
        f.drawn[1].walk = f.probe.walks;
        f.segments[1].walk = f.probe.walks;
    };
    rows(1, outside);
    let more = |f: &mut ProbeFile| f.slot_digests.push(f.slot_digests[0].clone());
    assert_eq!(changed(more), Err("digests"), "a list of digests too many");
    assert_eq!(changed(|f| f.slot_digests[1].device_id.0[0] ^= 1), Err("digests"), "a list of another device");
    let repeated = |f: &mut ProbeFile| {
        f.drawn.push(f.drawn[0]);
        f.segments.push(f.segments[0].clone());
    };
    assert_eq!(changed(repeated), Ok(()), "a segment drawn twice is opened twice");
    let mixed = |f: &mut ProbeFile| {
        f.drawn.reverse();
        f.segments.reverse();
    };
    assert_eq!(changed(mixed), Ok(()), "in the order drawn, whatever the devices");
}
