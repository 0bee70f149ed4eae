//! Codes, names and parts that are missing or of another version.

use super::super::codes::OptionalCode;
use super::super::field::FieldKind;
use super::super::v1::openings_chunk::Part;
use super::super::{FieldProblem, WireError, v1};
use super::{Read, samples};
use crate::claims::{Hardware, ThrottleReason};
use crate::message::{DeviceRoots, Inventory, MinerMessage, RefusedCode, StopCode, ValidatorMessage};
use crate::verdict::{Mode, Outcome, Reason, ReasonCode, Verdict, outcome_of};

#[track_caller]
fn is_refused(message: impl Read, field: &'static str, problem: FieldProblem) {
    assert_eq!(message.read(), Err(WireError { field, problem }));
}

#[test]
fn an_envelope_without_a_message() {
    let request = MinerMessage::try_from(v1::SessionRequest { message: None });
    assert_eq!(request, Err(WireError::new("SessionRequest.message", FieldProblem::Missing)));
    let response = ValidatorMessage::try_from(v1::SessionResponse { message: None });
    assert_eq!(response, Err(WireError::new("SessionResponse.message", FieldProblem::Missing)));
}

#[test]
fn a_message_without_one_of_its_parts() {
    let missing = |message: v1::OpeningsChunk, field| is_refused(message, field, FieldProblem::Missing);
    let sample = v1::SampleOpenings { sample: None, ..samples::sample_openings(1) };
    missing(samples::chunk(Part::Sample(sample)), "SampleOpenings.sample");
    let segment = v1::SegmentOpenings { segment: None, ..samples::segment_openings(1) };
    missing(samples::chunk(Part::Segment(segment)), "SegmentOpenings.segment");
    let segment = v1::SegmentOpenings { state: None, ..samples::segment_openings(1) };
    missing(samples::chunk(Part::Segment(segment)), "SegmentOpenings.state");
    let chunk = samples::chunk(Part::End(v1::ItemEnd {}));
    missing(v1::OpeningsChunk { part: None, ..chunk }, "OpeningsChunk.part");

    is_refused(v1::Hello { inventory: None, ..samples::hello() }, "Hello.inventory", FieldProblem::Missing);
    is_refused(v1::DeviceRoots { share: None, ..samples::device_roots() }, "DeviceRoots.share", FieldProblem::Missing);
    is_refused(v1::Verdict { whole: None, ..samples::verdict() }, "Verdict.whole", FieldProblem::Missing);
    let mut verdict = samples::verdict();
    verdict.devices[0].work = None;
    is_refused(verdict, "DeviceWork.work", FieldProblem::Missing);
    let mut open = samples::open();
    open.items[1].what = None;
    is_refused(open, "OpenItem.what", FieldProblem::Missing);
}

#[test]
fn codes_that_are_unspecified_or_unknown() {
    for code in [0, -1, 99] {
        let unknown = || FieldProblem::UnknownCode(code);
        is_refused(v1::Refused { code, ..samples::refused() }, "Refused.code", unknown());
        is_refused(v1::Declined { code, ..samples::declined() }, "Declined.code", unknown());
        is_refused(v1::Abort { code, ..samples::abort() }, "Abort.code", unknown());
        is_refused(v1::Goodbye { code, ..samples::goodbye() }, "Goodbye.code", unknown());
        is_refused(v1::Verdict { outcome: code, ..samples::verdict() }, "Verdict.outcome", unknown());
    }
    // An unspecified mode is that of a challenge that ended before the check.
    is_refused(v1::Verdict { mode: 99, ..samples::verdict() }, "Verdict.mode", FieldProblem::UnknownCode(99));
    let verdict = Verdict::try_from(v1::Verdict { mode: 0, ..samples::verdict() }).unwrap();
    assert_eq!(verdict.mode, None);
}

#[test]
fn every_code_of_the_wire_is_read() {
    for code in 1..=8 {
        assert_eq!(v1::Refused { code, ..samples::refused() }.read(), Ok(()));
    }
    for code in 1..=10 {
        assert_eq!(v1::Goodbye { code, ..samples::goodbye() }.read(), Ok(()));
    }
    assert!(v1::RefusedCode::try_from(12).is_err() && v1::StopCode::try_from(11).is_err(), "a code was added");
    assert_eq!(v1::RefusedCode::from(RefusedCode::InChallenge) as i32, 7);
    assert_eq!(v1::RefusedCode::from(RefusedCode::Overloaded) as i32, 8);
    assert_eq!(v1::RefusedCode::from(RefusedCode::Pending) as i32, 9);
    assert_eq!(v1::RefusedCode::from(RefusedCode::JoinToken) as i32, 11);
    assert_eq!(v1::StopCode::from(StopCode::Internal) as i32, 9);
    assert_eq!(v1::StopCode::from(StopCode::Declined) as i32, 10);
    for (mode, code) in [(None, 0), (Some(Mode::Replay), 1), (Some(Mode::ReplaySample), 2), (Some(Mode::Audit), 3)] {
        assert_eq!(OptionalCode.write(mode), code);
        assert_eq!(OptionalCode.read("Verdict.mode", code), Ok(mode));
    }
    for (outcome, code) in [(Outcome::Pass, 1), (Outcome::Fail, 2), (Outcome::Inconclusive, 3)] {
        assert_eq!(v1::Outcome::from(outcome) as i32, code);
    }
}

#[test]
fn every_reason_comes_back_as_itself() {
    for code in ReasonCode::ALL {
        let reason = Reason::new(code, "why");
        assert_eq!(Reason::try_from(v1::Reason::from(reason.clone())), Ok(reason));
    }
}

/// An older miner reads the verdict of a newer validator, with its outcome.
#[test]
fn a_reason_that_only_a_newer_validator_knows_keeps_class_and_text() {
    for (class, fails) in
        [("forged", true), ("late", true), ("sick", false), ("busy", false), ("network", false), ("ours", false)]
    {
        let wire = v1::Reason { code: "from_2031".into(), class: class.into(), ..samples::reason() };
        let reason = Reason::try_from(wire).unwrap();
        assert_eq!(reason.code.class().name(), class);
        assert_eq!(reason.detail, "from_2031: slot 4, row 7");
        assert_eq!(outcome_of(&[reason]) == Outcome::Fail, fails);
    }
    let wire = v1::Reason { code: "from_2031".into(), detail: "x".repeat(1024), ..samples::reason() };
    assert_eq!(Reason::try_from(wire).unwrap().detail.len(), 1024);
}

#[test]
fn a_class_that_is_unknown_or_not_the_codes() {
    let verdict = |class: &str| {
        let mut verdict = samples::verdict();
        verdict.reasons[0].class = class.into();
        verdict
    };
    is_refused(verdict("evil"), "Reason.class", FieldProblem::UnknownName("evil".into()));
    is_refused(verdict(""), "Reason.class", FieldProblem::UnknownName(String::new()));
    is_refused(verdict("ours"), "Reason.class", FieldProblem::Contradicts("code"));
    is_refused(verdict(&"x".repeat(17)), "Reason.class", FieldProblem::TooLong { max: 16, found: 17 });
}

#[test]
fn an_error_tells_the_field_and_the_problem() {
    let error = samples::chunk(Part::SlotDigests(vec![0; 33])).read().unwrap_err();
    assert_eq!(error.to_string(), "OpeningsChunk.slot_digests: has 33 bytes, which is no multiple of 32");
}

/// No verdict rests on claims: a newer miner is not refused for unknown ones, nor an older one for missing ones.
#[test]
fn claims_of_another_version() {
    let mut roots = samples::device_roots();
    let telemetry = roots.claimed_telemetry.as_mut().unwrap();
    telemetry.throttle_reasons = vec![0, 99, v1::ThrottleReason::HwThermal.into(), -1, 99];
    let read = DeviceRoots::try_from(roots.clone()).unwrap().claimed_telemetry.unwrap();
    assert_eq!(read.throttle_reasons, [ThrottleReason::HwThermal].into());
    roots.claimed_telemetry = None;
    assert_eq!(DeviceRoots::try_from(roots).unwrap().claimed_telemetry, None);

    let mut inventory = samples::inventory(1);
    inventory.devices[0].claimed_hardware.as_mut().unwrap().confidential_computing = 99;
    let read = Inventory::try_from(inventory.clone()).unwrap();
    assert_eq!(read.devices[0].claimed_hardware.as_ref().unwrap().confidential_computing, None);
    inventory.devices[0].claimed_hardware = None;
    assert_eq!(Inventory::try_from(inventory).unwrap().devices[0].claimed_hardware, None);
    // Nothing known is not the same as nothing said.
    let mut inventory = samples::inventory(1);
    inventory.devices[0].claimed_hardware = Some(Box::default());
    assert_eq!(Inventory::try_from(inventory).unwrap().devices[0].claimed_hardware, Some(Hardware::default()));
}
