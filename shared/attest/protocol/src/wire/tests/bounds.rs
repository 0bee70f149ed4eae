//! Every bound: a value at it is read, and a value beyond it is refused with the field's name.

use super::super::limits::*;
use super::super::v1::openings_chunk::Part;
use super::super::{FieldProblem, WireError, v1};
use super::{Read, samples};
use crate::message::{Inventory, MATRIX_SIZES};
use assay_work::Precision;
use assay_work::probe::Link;

/// Refused with this field's name.
#[track_caller]
fn refused<M: Read>(message: M, field: &str) -> FieldProblem {
    let error: WireError = message.read().expect_err(field);
    assert_eq!(error.field, field, "{error}");
    error.problem
}

/// `set(message, max)` is read, `set(message, max + 1)` is not.
#[track_caller]
fn at_most<M: Read>(message: M, field: &str, max: usize, set: impl Fn(&mut M, usize)) {
    let with = |count| {
        let mut message = message.clone();
        set(&mut message, count);
        message
    };
    assert_eq!(with(max).read(), Ok(()), "{field} at its bound");
    let problem = refused(with(max + 1), field);
    let expected = [FieldProblem::TooMany { max, found: max + 1 }, FieldProblem::TooLong { max, found: max + 1 }];
    assert!(expected.contains(&problem), "{field}: {problem:?}");
}

/// Only exactly `len` bytes are read.
#[track_caller]
fn exactly<M: Read>(message: M, field: &str, len: usize, set: impl Fn(&mut M, Vec<u8>)) {
    assert_eq!(message.clone().read(), Ok(()), "{field} untouched");
    for found in [0, len - 1, len + 1] {
        let mut message = message.clone();
        set(&mut message, vec![0; found]);
        assert_eq!(refused(message, field), FieldProblem::Length { expected: len, found });
    }
}

/// The same, for one that may be absent.
#[track_caller]
fn exactly_or_none<M: Read>(message: M, field: &str, len: usize, set: impl Fn(&mut M, Vec<u8>)) {
    let with = |found| {
        let mut message = message.clone();
        set(&mut message, vec![0; found]);
        message
    };
    assert_eq!((with(0).read(), with(len).read()), (Ok(()), Ok(())), "{field}");
    for found in [1, len - 1, len + 1] {
        assert_eq!(refused(with(found), field), FieldProblem::Length { expected: len, found });
    }
}

/// A text of `max` bytes is read; a longer one, or one with characters that are not printable, is refused.
#[track_caller]
fn text<M: Read>(message: M, field: &str, max: usize, set: impl Fn(&mut M, String)) {
    at_most(message.clone(), field, max, |m, len| set(m, "x".repeat(len)));
    for bad in [
        "two\nlines",
        "\u{1b}[2J",
        "bell\u{7}",
        "\u{7f}",
        "\u{9b}2J",
        "\u{202e}gpj",
        "nul\0",
        "\u{61c}",
        "a\u{200b}b",
        "\u{e000}",
        "\u{a0}",
    ] {
        let mut message = message.clone();
        set(&mut message, bad.into());
        assert_eq!(refused(message, field), FieldProblem::Unprintable, "{bad:?}");
    }
}

/// `min` and `max` are read, `min - 1` and `max + 1` refused.
#[track_caller]
fn range<M: Read>(message: M, field: &str, min: u64, max: u64, set: impl Fn(&mut M, u64)) {
    let with = |number| {
        let mut message = message.clone();
        set(&mut message, number);
        message
    };
    assert_eq!(with(min).read(), Ok(()), "{field} at its lower bound");
    assert_eq!(with(max).read(), Ok(()), "{field} at its upper bound");
    for found in min.checked_sub(1).into_iter().chain([max + 1]) {
        assert_eq!(refused(with(found), field), FieldProblem::OutOfRange { min, max, found });
    }
}

fn to_u32(number: u64) -> u32 {
    number.try_into().expect("the bound is one of 32 bits")
}

fn ids(count: usize) -> impl Iterator<Item = u8> {
    0..u8::try_from(count).expect("a small count")
}

#[test]
fn lists_of_a_handshake() {
    at_most(samples::hello(), "Hello.versions", MAX_VERSIONS, |m, n| m.versions = vec![1; n]);
    at_most(samples::hello(), "Hello.successors", MAX_SUCCESSORS, |m, n| m.successors = vec![vec![1; 136]; n]);
    at_most(samples::welcome(), "Welcome.successors", MAX_SUCCESSORS, |m, n| m.successors = vec![vec![1; 136]; n]);
    at_most(samples::inventory(1), "Inventory.devices", MAX_DEVICES, |m, n| {
        m.devices = ids(n).map(samples::device).collect();
    });
    for found in [0, SLOT_ENTRIES - 1, SLOT_ENTRIES + 1] {
        let mut inventory = samples::inventory(1);
        inventory.devices[0].slots = vec![1; found];
        assert_eq!(refused(inventory, "Device.slots"), FieldProblem::Count { expected: SLOT_ENTRIES, found });
    }
    let kinds = |precisions: &[u32]| {
        let mut inventory = samples::inventory(3);
        inventory.devices[0].precisions = precisions.to_vec();
        inventory
    };
    let read = |precisions| Inventory::try_from(kinds(precisions)).unwrap().devices[0].precisions.clone();
    assert_eq!(read(&[]), [Precision::Int8], "a miner of before the other kinds");
    assert_eq!(read(&[1, 2, 3, 5, 6, 7, 8, u32::MAX]), Precision::ALL, "numbers that nobody knows are passed over");
    for no_known_kind in [&[0][..], &[3], &[9, u32::MAX]] {
        assert_eq!(read(no_known_kind), [], "a device that takes part in nothing known is not one of INT8");
    }
    assert_eq!(refused(kinds(&[1; 9]), "Device.precisions"), FieldProblem::TooMany { max: MAX_PRECISIONS, found: 9 });
    for (at, unordered) in [(1, [1, 1, 2]), (2, [1, 5, 2])] {
        assert_eq!(refused(kinds(&unordered), "Device.precisions"), FieldProblem::NotAscending(at));
    }
}

#[test]
fn lists_of_a_challenge() {
    let digests = |count| samples::chunk(Part::SlotDigests(vec![1; 32 * count]));
    at_most(samples::device_roots(), "DeviceRoots.roots", MAX_ROOTS, |m, n| m.roots = vec![1; 32 * n]);
    at_most(samples::device_digests(), "DeviceDigests.digests", MAX_PROBE_DIGESTS, |m, n| {
        m.digests = vec![1; 32 * n];
    });
    at_most(digests(1), "OpeningsChunk.slot_digests", MAX_CHUNK_DIGESTS, |m, n| *m = digests(n));
    assert_eq!(refused(digests(0), "OpeningsChunk.slot_digests"), FieldProblem::Empty);
    at_most(samples::open(), "Open.items", MAX_OPEN_ITEMS, |m, n| m.items = vec![samples::segments(1); n]);
    // Samples and segments are counted together.
    at_most(samples::open(), "Open.items", MAX_OPEN_DRAWS, |m, n| {
        m.items = vec![samples::samples(n - 5), samples::segments(5)];
    });
}

#[test]
fn lists_of_openings() {
    let sample = |openings| samples::chunk(Part::Sample(openings));
    let segment = |lines| samples::chunk(Part::Segment(samples::segment_openings(lines)));
    let ranges = |range| sample(v1::SampleOpenings { openings: vec![range], ..samples::sample_openings(0) });
    at_most(sample(samples::sample_openings(0)), "SampleOpenings.openings", MAX_SAMPLE_OPENINGS, |m, n| {
        *m = sample(samples::sample_openings(n));
    });
    at_most(segment(0), "SegmentOpenings.lines", MAX_LINES, |m, n| *m = segment(n));
    at_most(segment(0), "OpenedRange.bytes", MAX_RANGE_BYTES, |m, n| *m = ranges(samples::range(n, 1)));
    at_most(segment(0), "OpenedRange.siblings", MAX_SIBLINGS, |m, n| *m = ranges(samples::range(1024, n)));
}

#[test]
fn lists_of_a_verdict() {
    let bound = v1::Bound { fraction: 0.1, log2_probability: -1.0 };
    let verdict = samples::verdict;
    at_most(verdict(), "Verdict.reasons", MAX_REASONS, |m, n| m.reasons = vec![samples::reason(); n]);
    at_most(verdict(), "Verdict.not_challenged", MAX_DEVICES, |m, n| {
        let device = |device_id| v1::NotChallenged { device_id, ..Default::default() };
        m.not_challenged = ids(n).map(|id| device(vec![id; 16])).collect();
    });
    at_most(verdict(), "Verdict.devices", MAX_DEVICES, |m, n| m.devices = ids(n).map(samples::device_work).collect());
    at_most(verdict(), "Verdict.work_bounds", MAX_BOUNDS, |m, n| m.work_bounds = vec![bound; n]);
    at_most(verdict(), "Verdict.iteration_bounds", MAX_BOUNDS, |m, n| m.iteration_bounds = vec![bound; n]);
    at_most(verdict(), "Verdict.probe_bounds", MAX_BOUNDS, |m, n| m.probe_bounds = vec![bound; n]);
    at_most(verdict(), "Link.bounds", MAX_BOUNDS, |m, n| {
        m.link = Some(v1::Link { bounds: vec![bound; n], ..samples::link() })
    });
}

#[test]
fn texts() {
    let one = || samples::inventory(1);
    text(samples::hello(), "Hello.agent", MAX_AGENT_BYTES, |m, t| m.agent = t);
    text(samples::welcome(), "Welcome.agent", MAX_AGENT_BYTES, |m, t| m.agent = t);
    text(samples::verdict(), "Verdict.receipt", MAX_RECEIPT_BYTES, |m, t| m.receipt = Some(t));
    text(one(), "Device.name", MAX_NAME_BYTES, |m, t| m.devices[0].name = t);
    text(one(), "Device.backend", MAX_BACKEND_BYTES, |m, t| m.devices[0].backend = t);
    text(one(), "Device.detail", MAX_DEVICE_DETAIL_BYTES, |m, t| m.devices[0].detail = t);
    text(samples::refused(), "Refused.detail", MAX_DETAIL_BYTES, |m, t| m.detail = t);
    text(samples::declined(), "Declined.detail", MAX_DETAIL_BYTES, |m, t| m.detail = t);
    text(samples::abort(), "Abort.detail", MAX_DETAIL_BYTES, |m, t| m.detail = t);
    text(samples::goodbye(), "Goodbye.detail", MAX_DETAIL_BYTES, |m, t| m.detail = t);
    text(samples::verdict(), "Reason.code", MAX_REASON_CODE_BYTES, |m, t| m.reasons[0].code = t);
    text(samples::verdict(), "Reason.detail", MAX_DETAIL_BYTES, |m, t| m.reasons[0].detail = t);
    text(samples::verdict(), "DeviceWork.name", MAX_NAME_BYTES, |m, t| m.devices[0].name = t);
}

#[test]
fn texts_about_hardware() {
    let one = || samples::inventory(1);
    fn hardware(inventory: &mut v1::Inventory) -> &mut v1::Hardware {
        inventory.devices[0].claimed_hardware.as_mut().expect("the sample has some")
    }
    let max = MAX_HARDWARE_TEXT_BYTES;
    text(one(), "Hardware.model", MAX_NAME_BYTES, |m, t| hardware(m).model = Some(t));
    text(one(), "Hardware.uuid", max, |m, t| hardware(m).uuid = Some(t));
    text(one(), "Hardware.serial", max, |m, t| hardware(m).serial = Some(t));
    text(one(), "Hardware.pci_address", max, |m, t| hardware(m).pci_address = Some(t));
    text(one(), "Hardware.driver_version", max, |m, t| hardware(m).driver_version = Some(t));
    text(one(), "Hardware.vbios_version", max, |m, t| hardware(m).vbios_version = Some(t));
}

#[test]
fn lists_and_spreads_of_telemetry() {
    fn telemetry(roots: &mut v1::DeviceRoots) -> &mut v1::Telemetry {
        roots.claimed_telemetry.as_mut().expect("the sample has some")
    }
    let roots = samples::device_roots;
    at_most(roots(), "Telemetry.throttle_reasons", MAX_THROTTLE_REASONS, |m, n| {
        telemetry(m).throttle_reasons = (1..).take(n).collect();
    });
    at_most(roots(), "Telemetry.xids", MAX_XIDS, |m, n| telemetry(m).xids = (1..).take(n).collect());
    let mut twice = roots();
    telemetry(&mut twice).xids = vec![13, 79, 79];
    assert_eq!(refused(twice, "Telemetry.xids"), FieldProblem::NotAscending(2));

    type Set = fn(&mut v1::Telemetry, v1::Spread);
    let spreads: [(&str, Set); 6] = [
        ("Telemetry.temperature_c", |t, spread| t.temperature_c = Some(spread)),
        ("Telemetry.power_mw", |t, spread| t.power_mw = Some(spread)),
        ("Telemetry.sm_clock_mhz", |t, spread| t.sm_clock_mhz = Some(spread)),
        ("Telemetry.memory_clock_mhz", |t, spread| t.memory_clock_mhz = Some(spread)),
        ("Telemetry.gpu_utilisation_percent", |t, spread| t.gpu_utilisation_percent = Some(spread)),
        ("Telemetry.memory_utilisation_percent", |t, spread| t.memory_utilisation_percent = Some(spread)),
    ];
    for (field, set) in spreads {
        let with = |(min, mean, max)| {
            let mut roots = roots();
            set(telemetry(&mut roots), v1::Spread { min, mean, max });
            roots
        };
        for sound in [(0, 0, 0), (1, 2, 3), (2, 2, 3), (2, 3, 3), (u32::MAX, u32::MAX, u32::MAX)] {
            assert_eq!(with(sound).read(), Ok(()), "{field} {sound:?}");
        }
        for unsound in [(2, 1, 3), (1, 3, 2), (3, 2, 1)] {
            assert_eq!(refused(with(unsound), field), FieldProblem::Contradicts("itself"), "{unsound:?}");
        }
    }
}

#[test]
fn ids_keys_and_signatures_of_a_session() {
    exactly(samples::hello(), "Hello.miner_key", 32, |m, b| m.miner_key = b);
    exactly(samples::hello(), "Hello.miner_nonce", 32, |m, b| m.miner_nonce = b);
    exactly_or_none(samples::hello(), "Hello.resumes", 32, |m, b| m.resumes = b);
    exactly(samples::welcome(), "Welcome.validator_key", 32, |m, b| m.validator_key = b);
    exactly(samples::welcome(), "Welcome.nonce", 32, |m, b| m.nonce = b);
    exactly(samples::welcome(), "Welcome.signature", 64, |m, b| m.signature = b);
    exactly(samples::hello(), "Hello.successors", 136, |m, b| m.successors = vec![vec![1; 136], b]);
    exactly(samples::welcome(), "Welcome.successors", 136, |m, b| m.successors = vec![b]);
    exactly(samples::proof(), "Proof.signature", 64, |m, b| m.signature = b);
    text(samples::proof(), "Proof.join_token", MAX_JOIN_TOKEN_BYTES, |m, t| m.join_token = t);
    exactly(samples::inventory(1), "Device.device_id", 16, |m, b| m.devices[0].device_id = b);
    exactly(samples::declined(), "Declined.challenge_id", 16, |m, b| m.challenge_id = b);
    exactly(samples::abort(), "Abort.challenge_id", 16, |m, b| m.challenge_id = b);
    exactly(samples::verdict(), "Verdict.challenge_id", 16, |m, b| m.challenge_id = b);
    exactly(samples::verdict(), "Verdict.miner_key", 32, |m, b| m.miner_key = b);
    exactly(samples::verdict(), "Verdict.validator_key", 32, |m, b| m.validator_key = b);
    exactly(samples::verdict(), "Reason.device_id", 16, |m, b| m.reasons[0].device_id = Some(b));
    exactly(samples::verdict(), "DeviceWork.device_id", 16, |m, b| m.devices[0].device_id = b);
}

#[test]
fn ids_checksums_and_signatures_of_a_challenge() {
    let share = |m: &mut v1::DeviceRoots, b| m.share = Some(v1::Share { device_id: b, offset: 0, count: 3 });
    exactly(samples::challenge(), "Challenge.challenge_id", 16, |m, b| m.challenge_id = b);
    exactly(samples::challenge(), "Challenge.nonce", 32, |m, b| m.nonce = b);
    exactly(samples::progress(), "Progress.challenge_id", 16, |m, b| m.challenge_id = b);
    let device = |m: &mut v1::Progress, b| m.finished.as_mut().unwrap().device_id = b;
    exactly(samples::progress(), "FinishedDevice.device_id", 16, device);
    let checksum = |m: &mut v1::Progress, b| m.finished.as_mut().unwrap().checksum = b;
    exactly(samples::progress(), "FinishedDevice.checksum", 32, checksum);
    exactly(samples::commitment(), "Commitment.challenge_id", 16, |m, b| m.challenge_id = b);
    exactly(samples::commitment(), "Commitment.checksum", 32, |m, b| m.checksum = b);
    exactly(samples::commitment(), "Commitment.signature", 64, |m, b| m.signature = b);
    exactly(samples::probe_answer(), "ProbeAnswer.challenge_id", 16, |m, b| m.challenge_id = b);
    exactly(samples::probe_answer(), "ProbeAnswer.checksum", 32, |m, b| m.checksum = b);
    exactly(samples::probe_answer(), "ProbeAnswer.signature", 64, |m, b| m.signature = b);
    exactly(samples::device_roots(), "DeviceRoots.challenge_id", 16, |m, b| m.challenge_id = b);
    exactly(samples::device_roots(), "DeviceRoots.checksum", 32, |m, b| m.checksum = b);
    exactly(samples::device_roots(), "Share.device_id", 16, share);
    exactly(samples::device_digests(), "DeviceDigests.challenge_id", 16, |m, b| m.challenge_id = b);
    exactly(samples::device_digests(), "DeviceDigests.device_id", 16, |m, b| m.device_id = b);
    exactly(samples::probe(), "Probe.challenge_id", 16, |m, b| m.challenge_id = b);
    exactly(samples::probe(), "Probe.seed", 32, |m, b| m.seed = b);
    exactly(samples::sweep(), "Sweep.challenge_id", 16, |m, b| m.challenge_id = b);
    exactly(samples::sweep(), "Sweep.seed", 32, |m, b| m.seed = b);
    exactly(samples::open(), "Open.challenge_id", 16, |m, b| m.challenge_id = b);
    exactly(samples::open(), "OpenItem.device_id", 16, |m, b| m.items[0].device_id = b);
    let end = samples::chunk(Part::End(v1::ItemEnd {}));
    exactly(end, "OpeningsChunk.challenge_id", 16, |m, b| m.challenge_id = b);
}

#[test]
fn a_sequence_whose_last_value_is_cut_off() {
    let cut_off = FieldProblem::CutOff { unit: 32, found: 63 };
    assert_eq!(
        refused(v1::DeviceRoots { roots: vec![0; 63], ..samples::device_roots() }, "DeviceRoots.roots"),
        cut_off
    );
    let digests = v1::DeviceDigests { digests: vec![0; 63], ..samples::device_digests() };
    assert_eq!(refused(digests, "DeviceDigests.digests"), cut_off);
    assert_eq!(refused(samples::chunk(Part::SlotDigests(vec![0; 63])), "OpeningsChunk.slot_digests"), cut_off);
    let mut segment = samples::segment_openings(1);
    segment.lines[0].siblings = vec![0; 63].into();
    assert_eq!(refused(samples::chunk(Part::Segment(segment)), "OpenedRange.siblings"), cut_off);
}

#[test]
fn durations_and_counts() {
    let day = MAX_DEADLINE_MS;
    range(samples::challenge(), "Challenge.deadline_ms", 1, day, |m, ms| m.deadline_ms = to_u32(ms));
    range(samples::probe(), "Probe.deadline_ms", 1, day, |m, ms| m.deadline_ms = to_u32(ms));
    range(samples::sweep(), "Sweep.deadline_ms", 1, day, |m, ms| m.deadline_ms = to_u32(ms));
    range(samples::open(), "Open.deadline_ms", 1, day, |m, ms| m.deadline_ms = to_u32(ms));
    let accepted = v1::Accepted { ping_interval_ms: 0 };
    let (shortest, longest) = (MIN_PING_INTERVAL_MS, MAX_PING_INTERVAL_MS);
    range(accepted, "Accepted.ping_interval_ms", shortest, longest, |m, ms| m.ping_interval_ms = to_u32(ms));
    range(samples::refused(), "Refused.retry_after_ms", 0, MAX_RETRY_AFTER_MS, |m, ms| m.retry_after_ms = to_u32(ms));
    range(samples::commitment(), "Commitment.claimed_ms", 0, MAX_CLAIMED_MS, |m, ms| m.claimed_ms = ms);
    range(samples::probe_answer(), "ProbeAnswer.claimed_ms", 0, MAX_CLAIMED_MS, |m, ms| m.claimed_ms = ms);
    range(samples::device_roots(), "DeviceRoots.claimed_ms", 0, MAX_CLAIMED_MS, |m, ms| m.claimed_ms = ms);
    range(samples::device_digests(), "DeviceDigests.claimed_ms", 0, MAX_CLAIMED_MS, |m, ms| m.claimed_ms = ms);
    let end = samples::chunk(Part::End(v1::ItemEnd {}));
    range(end, "OpeningsChunk.item", 0, MAX_OPEN_ITEMS as u64 - 1, |m, item| m.item = to_u32(item));
    let none_done = v1::Progress { done_slots: 0, ..samples::progress() };
    range(none_done, "Progress.all_slots", 0, MAX_PROGRESS_SLOTS, |m, slots| m.all_slots = slots);
}

#[test]
fn numbers_that_another_field_bounds() {
    let done = |done_slots| v1::Progress { done_slots, ..samples::progress() };
    assert_eq!(done(9).read(), Ok(()));
    assert_eq!(refused(done(10), "Progress.done_slots"), FieldProblem::MoreThan("all_slots"));

    let mut inventory = samples::inventory(1);
    inventory.devices[0].free_bytes = inventory.devices[0].total_bytes;
    assert_eq!(inventory.clone().read(), Ok(()));
    inventory.devices[0].free_bytes += 1;
    assert_eq!(refused(inventory, "Device.free_bytes"), FieldProblem::MoreThan("total_bytes"));

    // Slots of each size are held against the free bytes.
    for (size, n) in MATRIX_SIZES.into_iter().enumerate() {
        let with = |slots, free_bytes| {
            let mut inventory = samples::inventory(1);
            inventory.devices[0].free_bytes = free_bytes;
            inventory.devices[0].slots = (0..8).map(|i| if i == size { slots } else { 0 }).collect();
            inventory
        };
        let bytes = 3 * u64::from(n) * u64::from(n);
        assert_eq!(with(3, bytes).read(), Ok(()), "n = {n}");
        for (slots, free_bytes) in [(4, bytes), (3, bytes - 1), (1, 0), (u32::MAX, bytes)] {
            assert_eq!(
                refused(with(slots, free_bytes), "Device.slots"),
                FieldProblem::Contradicts("free_bytes"),
                "n = {n}"
            );
        }
    }

    let mut segment = samples::segment_openings(1);
    segment.state = Some(v1::OpenedRange { slot: 1, ..samples::range(1024, 1) });
    let problem = refused(samples::chunk(Part::Segment(segment)), "SegmentOpenings.state.slot");
    assert_eq!(problem, FieldProblem::OutOfRange { min: 0, max: 0, found: 1 });
    let mut opened = samples::sum_openings();
    opened.sum = Some(v1::OpenedRange { slot: 1, ..samples::range(1024, 1) });
    let problem = refused(samples::chunk(Part::Sum(opened)), "SumOpenings.sum.slot");
    assert_eq!(problem, FieldProblem::OutOfRange { min: 0, max: 0, found: 1 });
}

#[test]
fn devices_out_of_order_or_named_twice() {
    let mut inventory = samples::inventory(3);
    inventory.devices.swap(1, 2);
    assert_eq!(refused(inventory, "Inventory.devices"), FieldProblem::NotAscending(2));
    let mut inventory = samples::inventory(3);
    inventory.devices[1] = samples::device(0);
    assert_eq!(refused(inventory.clone(), "Inventory.devices"), FieldProblem::NotAscending(1));
    let hello = v1::Hello { inventory: Some(inventory), ..samples::hello() };
    assert_eq!(refused(hello, "Inventory.devices"), FieldProblem::NotAscending(1));
    let mut verdict = samples::verdict();
    verdict.devices.reverse();
    assert_eq!(refused(verdict, "Verdict.devices"), FieldProblem::NotAscending(1));
}

/// A miner of a newer version may walk more.
#[test]
fn a_further_link_than_is_known_is_the_furthest_known() {
    for (max_link, link) in [(0, Link::Own), (1, Link::All), (2, Link::All), (u32::MAX, Link::All)] {
        let inventory = v1::Inventory { max_link, ..samples::inventory(1) };
        assert_eq!(Inventory::try_from(inventory).map(|inventory| inventory.max_link), Ok(link));
    }
}

#[test]
fn probes_that_break_a_rule_of_the_work() {
    let ok = samples::probe();
    for walks in [64, 1 << 22] {
        assert_eq!(v1::Probe { walks, ..ok.clone() }.read(), Ok(()));
    }
    for walks in [0, 32, 65, 1 << 23] {
        refused(v1::Probe { walks, ..ok.clone() }, "Probe.walks");
    }
    for steps in [0, 1025] {
        refused(v1::Probe { steps, ..ok.clone() }, "Probe.steps");
    }
    for rounds in [0, 65_537] {
        refused(v1::Probe { rounds, ..ok.clone() }, "Probe.rounds");
    }
    assert_eq!(v1::Probe { link: 1, ..ok.clone() }.read(), Ok(()));
    for link in [2, u32::MAX] {
        refused(v1::Probe { link, ..ok.clone() }, "Probe.link");
    }
    for rounds in [0, 65_537] {
        refused(v1::Sweep { rounds, ..samples::sweep() }, "Sweep.rounds");
    }
    assert_eq!(v1::Sweep { rounds: 65_536, ..samples::sweep() }.read(), Ok(()));
}

#[test]
fn numbers_that_are_not_finite() {
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let refuse = |field: &str, set: fn(&mut v1::Verdict, f64)| {
            let mut verdict = samples::verdict();
            set(&mut verdict, bad);
            assert_eq!(refused(verdict, field), FieldProblem::NotFinite);
        };
        refuse("Verdict.round_trip_ms", |v, x| v.round_trip_ms = x);
        refuse("Verdict.handover_ms", |v, x| v.handover_ms = Some(x));
        refuse("Verdict.roots_ms", |v, x| v.roots_ms = Some(x));
        refuse("Verdict.digests_ms", |v, x| v.digests_ms = Some(x));
        refuse("Hiding.share", |v, x| v.devices[0].hiding = Some(v1::Hiding { share: x, ..Default::default() }));
        refuse("Link.seconds", |v, x| v.link = Some(v1::Link { seconds: x, ..samples::link() }));
        refuse("Link.gb_per_s", |v, x| v.link = Some(v1::Link { gb_per_s: x, ..samples::link() }));
        refuse("SweepWork.share", |v, x| {
            v.devices[0].sweep = Some(v1::SweepWork { share: x, ..samples::sweep_work() })
        });
        refuse("SweepWork.seconds", |v, x| {
            v.devices[0].sweep = Some(v1::SweepWork { seconds: x, ..samples::sweep_work() })
        });
        refuse("Bound.fraction", |v, x| v.work_bounds[0].fraction = x);
        refuse("Bound.log2_probability", |v, x| v.probe_bounds[0].log2_probability = x);
        refuse("Work.seconds", |v, x| v.whole = Some(v1::Work { seconds: x, ..samples::work() }));
        refuse("Work.tops", |v, x| v.devices[0].work = Some(v1::Work { tops: x, ..samples::work() }));
        refuse("Work.probe_seconds", |v, x| v.whole = Some(v1::Work { probe_seconds: x, ..samples::work() }));
        refuse("Work.probe_gb_per_s", |v, x| v.whole = Some(v1::Work { probe_gb_per_s: x, ..samples::work() }));
        refuse("Work.claimed_seconds", |v, x| v.whole = Some(v1::Work { claimed_seconds: Some(x), ..samples::work() }));
    }
}

#[test]
fn evidence_of_the_largest_challenge() {
    assert_eq!(MAX_EVIDENCE_BYTES, 128 << 20);
}
