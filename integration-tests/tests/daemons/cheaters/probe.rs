//! Probes answered without the memory. The work is right, and the lines opened are those that the validator's walk
//! leads to, so that only the state at its end can give the miner away.

use std::time::Duration;

use assay_integration_tests::dishonest::{ProbeLie, rewrite};
use assay_integration_tests::stage::{REPLAY_AND_AUDIT, Stage};
use assay_integration_tests::validator::Policy;
use assay_protocol::message::MinerMessage;
use assay_protocol::verdict::{Mode, ReasonCode};
use assay_work::ChallengeId;

async fn caught(stage: &Stage, lie: ProbeLie) {
    stage.catches(&REPLAY_AND_AUDIT, ReasonCode::ResidencyState, |lies| lies.in_probe(lie)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_memory() {
    let stage = Stage::with_two_devices().await;
    caught(&stage, ProbeLie::OtherMemory).await;
    // The states that it should have had do not lead to the digests that it answered.
    let lie = ProbeLie::OtherMemory;
    stage.catches(&[Mode::Audit], ReasonCode::ResidencyPath, |lies| lies.in_probe_only(lie)).await;
}

/// A hello that claims more memory than there is: the work is done through the part that is there.
#[tokio::test(flavor = "multi_thread")]
async fn memory_that_is_claimed_but_not_there() {
    caught(&Stage::with_one_device().await, ProbeLie::Spilled(6)).await;
}

/// Every second segment gives it away: 32 segments miss all with a probability of 2⁻³².
#[tokio::test(flavor = "multi_thread")]
async fn walks_merged() {
    caught(&Stage::with_one_device().await, ProbeLie::MergedWalks).await;
}

/// Two of three rounds give it away.
#[tokio::test(flavor = "multi_thread")]
async fn rounds_that_do_not_wait_for_one_another() {
    caught(&Stage::with_one_device().await, ProbeLie::RoundsAtOnce).await;
}

/// One walk of 64, in its one round, is known to meet the line: 1024 segments miss it with a probability of 2⁻²³.
#[tokio::test(flavor = "multi_thread")]
async fn one_wrong_line() {
    let policy = Policy { max_matrices: 3, segments: 1024, probe_steps: 32, ..Policy::default() };
    caught(&Stage::new(&policy, &[6]).await, ProbeLie::WrongLine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_after_the_deadline() {
    let policy = Policy { probe_deadline_ms: 2000, ..Policy::default() };
    let stage = Stage::new(&policy, &[14]).await;
    let lie = ProbeLie::Slow(Duration::from_secs(30));
    stage.catches(&REPLAY_AND_AUDIT, ReasonCode::ProbeLate, |lies| lies.in_probe(lie)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_not_what_was_signed() {
    let stage = Stage::with_two_devices().await;
    let bent = |bend: fn(&mut MinerMessage)| move |lies: &_| bends(lies, bend);
    stage
        .catches(
            &[Mode::Audit],
            ReasonCode::ProbeChecksum,
            bent(|m| {
                if let MinerMessage::DeviceDigests(digests) = m {
                    digests.answer.digests[0].0[9] ^= 1;
                }
            }),
        )
        .await;
    stage
        .catches(
            &[Mode::Audit],
            ReasonCode::ProbeDigests,
            bent(|m| {
                if let MinerMessage::DeviceDigests(digests) = m {
                    digests.answer.digests.pop();
                }
            }),
        )
        .await;
    stage
        .catches(
            &[Mode::Audit],
            ReasonCode::ProbeSignature,
            bent(|m| {
                if let MinerMessage::ProbeAnswer(answer) = m {
                    answer.signature.0[9] ^= 1;
                }
            }),
        )
        .await;
    stage
        .catches(
            &[Mode::Audit],
            ReasonCode::ProbeChallenge,
            bent(|m| {
                if let MinerMessage::ProbeAnswer(answer) = m {
                    answer.challenge_id = ChallengeId([9; 16]);
                }
            }),
        )
        .await;
}

fn bends(lies: &assay_integration_tests::dishonest::Lies, bend: fn(&mut MinerMessage)) {
    lies.in_what_goes_out(rewrite::each(bend));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_answer() {
    let stage = Stage::with_one_device().await;
    stage
        .catches(&[Mode::Audit], ReasonCode::ProbeTwice, |lies| {
            lies.in_what_goes_out(|message| match message {
                MinerMessage::ProbeAnswer(_) => vec![message.clone(), message],
                other => vec![other],
            });
        })
        .await;
}

/// Whoever answers before the question has guessed it.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_before_the_probe() {
    let stage = Stage::with_one_device().await;
    stage
        .catches(&[Mode::Audit], ReasonCode::Protocol, |lies| {
            lies.in_what_goes_out(|message| match message {
                MinerMessage::Commitment(answer) => vec![MinerMessage::ProbeAnswer(answer)],
                other => vec![other],
            });
        })
        .await;
}
