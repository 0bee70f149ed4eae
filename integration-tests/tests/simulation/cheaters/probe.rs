//! Probes answered without the memory. The work is right, and the lines opened are those that the validator's walk
//! leads to, so that only the state at its end can give the miner away.

use std::time::Duration;

use assay_integration_tests::dishonest::{ProbeLie, rewrite};
use assay_policy::challenge::{Policy, ProbePolicy};
use assay_protocol::message::{MinerMessage, SignedChecksum};
use assay_protocol::verdict::{Mode, ReasonCode};
use assay_work::{ChallengeId, Digest};

use super::stage::{REPLAY_AND_AUDIT, Stage, usual};

fn caught(stage: &mut Stage, lie: ProbeLie) {
    stage.catches(&REPLAY_AND_AUDIT, ReasonCode::ResidencyState, |lies| lies.in_probe(lie));
}

#[test]
fn another_memory() {
    let mut stage = Stage::with_two_devices();
    caught(&mut stage, ProbeLie::OtherMemory);
    // The states that it should have had do not lead to the digests that it answered.
    let lie = ProbeLie::OtherMemory;
    stage.catches(&[Mode::Audit], ReasonCode::ResidencyPath, |lies| lies.in_probe_only(lie));
}

/// A hello that claims more memory than there is: the work is done through the part that is there.
#[test]
fn memory_that_is_claimed_but_not_there() {
    caught(&mut Stage::with_one_device(), ProbeLie::Spilled(6));
}

/// Every second segment gives it away: 32 segments miss all with a probability of 2⁻³².
#[test]
fn walks_merged() {
    caught(&mut Stage::with_one_device(), ProbeLie::MergedWalks);
}

/// Two of three rounds give it away.
#[test]
fn rounds_that_do_not_wait_for_one_another() {
    caught(&mut Stage::with_one_device(), ProbeLie::RoundsAtOnce);
}

/// As many segments as rounds are one in each round, and more of them more.
#[test]
fn a_digest_that_is_made_up() {
    let policy = Policy { segments: 1024, ..usual() };
    caught(&mut Stage::new(policy, &[14]), ProbeLie::InventedDigest);
}

/// One walk of 64, in its one round, is known to meet the line: 1024 segments miss it with a probability of 2⁻²³.
#[test]
fn one_wrong_line() {
    let probe = ProbePolicy { steps: 32, ..usual().probe };
    let policy = Policy { max_matrices: 3, segments: 1024, probe, ..usual() };
    caught(&mut Stage::new(policy, &[6]), ProbeLie::WrongLine);
}

#[test]
fn an_answer_after_the_deadline() {
    let probe = ProbePolicy { deadline: Duration::from_secs(2), ..usual().probe };
    let mut stage = Stage::new(Policy { probe, ..usual() }, &[14]);
    let is_answer = |message: &MinerMessage| matches!(message, MinerMessage::ProbeAnswer(_));
    stage.catches_late(&REPLAY_AND_AUDIT, ReasonCode::ProbeLate, (is_answer, Duration::from_millis(2500)));
}

/// The work ends with the commitment, and the probe begins there.
#[test]
fn work_and_probe_are_timed_apart() {
    let mut stage = Stage::with_one_device();
    let mut timed = |is_late: fn(&MinerMessage) -> bool, seconds| {
        let ruling = stage.challenge_with_lag(Mode::Audit, (is_late, Duration::from_secs(seconds)));
        let whole = ruling.expect_pass().verdict.whole.unwrap();
        [whole.seconds, whole.probe_seconds].map(|seconds| (10.0 * seconds).round() / 10.0)
    };
    assert_eq!(timed(|message| matches!(message, MinerMessage::Commitment(_)), 3), [3.0, 0.0]);
    assert_eq!(timed(|message| matches!(message, MinerMessage::ProbeAnswer(_)), 1), [0.0, 1.0]);
}

#[test]
fn an_answer_that_is_not_what_was_signed() {
    type Bend = fn(&mut MinerMessage);
    let mut stage = Stage::with_two_devices();
    let bends: [(ReasonCode, Bend); 4] = [
        (ReasonCode::ProbeChecksum, |m| digests(m, |d| d[0].0[9] ^= 1)),
        (ReasonCode::ProbeDigests, |m| digests(m, |d| d.truncate(1))),
        (ReasonCode::ProbeSignature, |m| answer(m, |a| a.signature.0[9] ^= 1)),
        (ReasonCode::ProbeChallenge, |m| answer(m, |a| a.challenge_id = ChallengeId([9; 16]))),
    ];
    for (code, bend) in bends {
        stage.catches(&[Mode::Audit], code, |lies| lies.in_what_goes_out(rewrite::each(bend)));
    }
}

/// They would be kept until those of the last device are there.
#[test]
fn more_digests_than_rounds_before_those_of_a_device_that_never_come() {
    let mut stage = Stage::with_two_devices();
    stage.catches(&[Mode::Audit], ReasonCode::ProbeDigests, |lies| {
        let mut is_first = true;
        lies.in_what_goes_out(move |message| match message {
            MinerMessage::DeviceDigests(mut digests) if std::mem::take(&mut is_first) => {
                digests.answer.digests.extend(vec![Digest([0; 32]); 1000]);
                vec![MinerMessage::DeviceDigests(digests)]
            }
            MinerMessage::DeviceDigests(_) => Vec::new(),
            other => vec![other],
        });
    });
}

fn digests(message: &mut MinerMessage, bend: fn(&mut Vec<Digest>)) {
    if let MinerMessage::DeviceDigests(digests) = message {
        bend(&mut digests.answer.digests);
    }
}

fn answer(message: &mut MinerMessage, bend: fn(&mut SignedChecksum)) {
    if let MinerMessage::ProbeAnswer(answer) = message {
        bend(answer);
    }
}
