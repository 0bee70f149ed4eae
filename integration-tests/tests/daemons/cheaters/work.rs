//! Work that was not done, or done on the wrong bytes: by audit an element or a leaf is wrong, by replay the root
//! differs, unless the few samples before it see as much.

use assay_integration_tests::dishonest::{Lies, WorkLie};
use assay_integration_tests::stage::Stage;
use assay_integration_tests::validator::Policy;
use assay_protocol::verdict::{Mode, ReasonCode};
use assay_work::Precision;

/// What a lie is caught for by replay and by audit.
async fn caught(stage: &Stage, lie: WorkLie, audit: ReasonCode) {
    stage.catches_in_replay(audit, |lies| lies.in_work(lie)).await;
    stage.catches(&[Mode::Audit], audit, |lies| lies.in_work(lie)).await;
}

/// Of a sample 14 % touch one of them: 128 samples miss all with a probability of 2⁻²⁷.
#[tokio::test(flavor = "multi_thread")]
async fn a_twentieth_of_the_elements_left_out() {
    caught(&Stage::with_one_device().await, WorkLie::SkipElements, ReasonCode::AuditElement).await;
}

/// Sixteen samples of 655360 elements do not see one.
#[tokio::test(flavor = "multi_thread")]
async fn one_wrong_element() {
    let stage = Stage::with_one_device().await;
    stage.catches(&[Mode::Replay], ReasonCode::RootMismatch, |lies| lies.in_work(WorkLie::OneElement)).await;
    let policy = Policy { max_matrices: 6, iterations: 3, sampled_iterations: 3, ..Policy::default() };
    let stage = Stage::new(&policy, &[6]).await;
    stage.catches(&[Mode::ReplaySample], ReasonCode::RootMismatch, |lies| lies.in_work(WorkLie::OneElement)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn leaves_of_zeros() {
    caught(&Stage::with_one_device().await, WorkLie::ZeroLeaves, ReasonCode::AuditLeaf).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_leaves_of_another_device() {
    caught(&Stage::with_two_devices().await, WorkLie::OtherLeaves, ReasonCode::AuditLeaf).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_shares_of_two_devices_swapped() {
    caught(&Stage::with_two_devices().await, WorkLie::OtherShare, ReasonCode::AuditLeaf).await;
}

/// Wherever in the chain it is. An audit of 128 samples over 10 products misses one slot, even one that no other
/// uses, with a probability of 2⁻¹⁹.
#[tokio::test(flavor = "multi_thread")]
async fn a_slot_of_zeros() {
    let stage = Stage::with_one_device().await;
    for slot in [&[2][..], &[5], &[11]] {
        caught(&stage, WorkLie::ZeroSlots(slot), ReasonCode::AuditElement).await;
    }
    caught(&stage, WorkLie::ZeroSlots(&[1]), ReasonCode::AuditLeaf).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_iteration_for_every_iteration() {
    let policy = Policy { max_matrices: 6, iterations: 3, sampled_iterations: 3, ..Policy::default() };
    let stage = Stage::new(&policy, &[6]).await;
    caught(&stage, WorkLie::FirstIterationAgain, ReasonCode::AuditLeaf).await;
    let lie = WorkLie::FirstIterationAgain;
    stage.catches(&[Mode::ReplaySample], ReasonCode::AuditLeaf, |lies| lies.in_work(lie)).await;
}

/// Slots of keystream need no memory: every line that the probe asks for can be computed. The probe reads those of the
/// last iteration, so that one is examined whatever is drawn.
#[tokio::test(flavor = "multi_thread")]
async fn keystream_in_the_last_iteration() {
    let policy = Policy { max_matrices: 6, iterations: 4, ..Policy::default() };
    let stage = Stage::new(&policy, &[6]).await;
    for _ in 0..4 {
        let lie = |lies: &Lies| lies.in_work(WorkLie::KeystreamIn(3));
        stage.catches(&[Mode::Audit, Mode::ReplaySample], ReasonCode::AuditElement, lie).await;
    }
}

/// One iteration drawn of two beside the last: the second is not what it should be.
#[tokio::test(flavor = "multi_thread")]
async fn a_faked_iteration_is_caught_when_it_is_drawn() {
    let policy = Policy { max_matrices: 4, iterations: 3, ..Policy::default() };
    let stage = Stage::new(&policy, &[6]).await;
    stage.miner.lies.in_work(WorkLie::KeystreamIn(1));
    let (mut passed, mut caught) = (0, 0);
    for _ in 0..40 {
        let ruling = stage.challenge(Mode::ReplaySample).await;
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

/// A hello claims memory that is not there when the work needs it: that is no pass, nor is it forged.
#[tokio::test(flavor = "multi_thread")]
async fn memory_that_is_not_there_for_the_work() {
    let stage = Stage::with_one_device().await;
    stage.catches(&[Mode::Audit], ReasonCode::NotEnoughMemory, |lies| lies.in_work(WorkLie::NoMemory)).await;
}

/// A kind of work that a device has no fast unit for is computed as another one.
#[tokio::test(flavor = "multi_thread")]
async fn another_kind_of_work_than_the_one_asked_for() {
    let policy = Policy { max_matrices: 6, flags: vec!["--kinds=f16".to_owned()], ..Policy::default() };
    let stage = Stage::new(&policy, &[6]).await;
    caught(&stage, WorkLie::OtherKind(Precision::Int8), ReasonCode::AuditElement).await;
}

/// Bytes are compared whole: memory without the bits that no operand depends on would be a quarter smaller.
#[tokio::test(flavor = "multi_thread")]
async fn the_bits_that_no_operand_depends_on_left_out() {
    let policy = Policy { max_matrices: 6, flags: vec!["--kinds=fp8".to_owned()], ..Policy::default() };
    let stage = Stage::new(&policy, &[6]).await;
    caught(&stage, WorkLie::DropIgnoredBits, ReasonCode::AuditElement).await;
}
