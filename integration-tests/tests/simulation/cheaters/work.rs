//! Work that was not done, or done on the wrong bytes: by audit an element or a leaf is wrong, by replay the root
//! differs, unless the few samples before it see as much.

use assay_integration_tests::dishonest::{Lies, WorkLie};
use assay_policy::Policy;
use assay_protocol::verdict::{Mode, ReasonCode};
use assay_work::Precision;

use super::stage::{Stage, usual};

/// Expects that replay and audit catch a lie, the audit with this reason.
fn caught(stage: &mut Stage, lie: WorkLie, audit: ReasonCode) {
    stage.catches_in_replay(audit, |lies| lies.in_work(lie));
    stage.catches(&[Mode::Audit], audit, |lies| lies.in_work(lie));
}

/// Of a sample 14 % touch one of them: 128 samples miss all with a probability of 2⁻²⁷.
#[test]
fn a_twentieth_of_the_elements_left_out() {
    caught(&mut Stage::with_one_device(), WorkLie::SkipElements, ReasonCode::AuditElement);
}

/// Sixteen samples of 655360 elements do not see one.
#[test]
fn one_wrong_element() {
    let mut stage = Stage::with_one_device();
    stage.catches(&[Mode::Replay], ReasonCode::RootMismatch, |lies| lies.in_work(WorkLie::OneElement));
    let policy = Policy { max_matrices: 6, iterations: 3, sampled_iterations: 3, ..usual() };
    let mut stage = Stage::new(policy, &[6]);
    stage.catches(&[Mode::ReplaySample], ReasonCode::RootMismatch, |lies| lies.in_work(WorkLie::OneElement));
}

#[test]
fn leaves_of_zeros() {
    caught(&mut Stage::with_one_device(), WorkLie::ZeroLeaves, ReasonCode::AuditLeaf);
}

#[test]
fn the_leaves_of_another_device() {
    caught(&mut Stage::with_two_devices(), WorkLie::OtherLeaves, ReasonCode::AuditLeaf);
}

#[test]
fn the_shares_of_two_devices_swapped() {
    caught(&mut Stage::with_two_devices(), WorkLie::OtherShare, ReasonCode::AuditLeaf);
}

/// Wherever in the chain it is. An audit of 128 samples over 10 products misses one slot, even one that no other
/// uses, with a probability of 2⁻¹⁹.
#[test]
fn a_slot_of_zeros() {
    let mut stage = Stage::with_one_device();
    for slot in [&[2][..], &[5], &[11]] {
        caught(&mut stage, WorkLie::ZeroSlots(slot), ReasonCode::AuditElement);
    }
    caught(&mut stage, WorkLie::ZeroSlots(&[1]), ReasonCode::AuditLeaf);
}

#[test]
fn the_first_iteration_for_every_iteration() {
    let policy = Policy { max_matrices: 6, iterations: 3, sampled_iterations: 3, ..usual() };
    let mut stage = Stage::new(policy, &[6]);
    caught(&mut stage, WorkLie::FirstIterationAgain, ReasonCode::AuditLeaf);
    let lie = WorkLie::FirstIterationAgain;
    stage.catches(&[Mode::ReplaySample], ReasonCode::AuditLeaf, |lies| lies.in_work(lie));
}

/// Slots of keystream need no memory: every line that the probe asks for can be computed. The probe reads those of the
/// last iteration, so that one is examined in any draw.
#[test]
fn keystream_in_the_last_iteration() {
    let policy = Policy { max_matrices: 6, iterations: 4, ..usual() };
    let mut stage = Stage::new(policy, &[6]);
    for _ in 0..4 {
        let lie = |lies: &Lies| lies.in_work(WorkLie::KeystreamIn(3));
        stage.catches(&[Mode::Audit, Mode::ReplaySample], ReasonCode::AuditElement, lie);
    }
}

/// An audit of all iterations asks for the early ones too, and a replay computes those that no sample is drawn of.
#[test]
fn keystream_in_an_early_iteration() {
    let policy = Policy { max_matrices: 6, iterations: 3, sampled_iterations: 3, ..usual() };
    let mut stage = Stage::new(policy, &[6]);
    for iteration in [0, 1] {
        let lie = |lies: &Lies| lies.in_work(WorkLie::KeystreamIn(iteration));
        stage.catches(&[Mode::Audit], ReasonCode::AuditElement, lie);
    }
    let policy = Policy { max_matrices: 6, iterations: 8, sampled_iterations: 0, ..usual() };
    let mut stage = Stage::new(policy, &[6]);
    stage.catches(&[Mode::Replay], ReasonCode::RootMismatch, |lies| lies.in_work(WorkLie::KeystreamIn(1)));
}

/// One iteration is drawn of two beside the last: the second is false.
#[test]
fn a_faked_iteration_is_caught_when_it_is_drawn() {
    let policy = Policy { max_matrices: 4, iterations: 3, ..usual() };
    let mut stage = Stage::new(policy, &[6]);
    stage.lies.in_work(WorkLie::KeystreamIn(1));
    let (mut passed, mut caught) = (0, 0);
    for _ in 0..40 {
        let ruling = stage.challenge(Mode::ReplaySample);
        if ruling.verdict.reasons.is_empty() {
            passed += 1;
        } else {
            ruling.expect(ReasonCode::RootMismatch);
            caught += 1;
        }
    }
    // 20 expected of each; all of one kind has a probability of 2⁻³⁹.
    assert!(passed > 0 && caught > 0, "{passed} passed, {caught} caught");
}

/// A hello claims memory that is not there when the work needs it: that is neither a pass nor a forgery.
#[test]
fn memory_that_is_not_there_for_the_work() {
    let mut stage = Stage::with_one_device();
    stage.catches(&[Mode::Audit], ReasonCode::NotEnoughMemory, |lies| lies.in_work(WorkLie::NoMemory));
}

/// A kind of work that a device has no fast unit for is computed as another one.
#[test]
fn another_kind_of_work_than_the_one_asked_for() {
    let policy = Policy { max_matrices: 6, kinds: vec![Precision::F16], ..usual() };
    let mut stage = Stage::new(policy, &[6]);
    caught(&mut stage, WorkLie::OtherKind(Precision::Int8), ReasonCode::AuditElement);
}

/// Bytes are compared whole: memory without the bits that no operand depends on would be a quarter smaller.
#[test]
fn the_bits_that_no_operand_depends_on_left_out() {
    let policy = Policy { max_matrices: 6, kinds: vec![Precision::Fp8], ..usual() };
    let mut stage = Stage::new(policy, &[6]);
    caught(&mut stage, WorkLie::DropIgnoredBits, ReasonCode::AuditElement);
}

fn of_kind(precision: Precision) -> Stage {
    Stage::new(Policy { max_matrices: 6, kinds: vec![precision], ..usual() }, &[8])
}

/// The field's part of a product is most of its time.
#[test]
fn squarings_of_the_field_left_out() {
    let mut stage = of_kind(Precision::Field);
    caught(&mut stage, WorkLie::HalfOfSquarings, ReasonCode::AuditElement);
    caught(&mut stage, WorkLie::OtherKind(Precision::Int8), ReasonCode::AuditElement);
}

/// The bytes of slots in place of convolutions, softmax and noise, and noise that was computed for another slot.
#[test]
fn layers_of_the_network_left_out() {
    let mut stage = of_kind(Precision::Network);
    caught(&mut stage, WorkLie::OtherKind(Precision::Int8), ReasonCode::AuditElement);
    caught(&mut stage, WorkLie::EarlierNoise, ReasonCode::AuditElement);
}
