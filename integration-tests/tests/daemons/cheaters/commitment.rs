//! Commitments that are another one's, of another time, or not of what was computed.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use assay_integration_tests::dishonest::{Disguise, DishonestMiner, Lies, WorkLie, rewrite};
use assay_integration_tests::stage::{REPLAY_AND_AUDIT, Stage};
use assay_integration_tests::validator::{Policy, TestValidator};
use assay_protocol::message::{MinerMessage, ValidatorMessage};
use assay_protocol::verdict::{Mode, ReasonCode};
use assay_work::ChallengeId;

/// What a miner committed to once.
type Record = Arc<Mutex<Vec<MinerMessage>>>;

/// Keeps a copy of the commitment and the roots that go out.
fn record(lies: &Lies) -> Record {
    let record = Record::default();
    let copy = record.clone();
    lies.in_what_goes_out(move |message| {
        if matches!(message, MinerMessage::Commitment(_) | MinerMessage::DeviceRoots(_)) {
            copy.lock().unwrap().push(message.clone());
        }
        vec![message]
    });
    record
}

/// Sends what was recorded in place of the own commitment: under the name of the challenge that runs, or as it was.
fn play(lies: &Lies, record: &Record, under_own_name: bool) {
    let recorded = record.lock().unwrap().clone();
    lies.in_what_goes_out(move |message| match message {
        MinerMessage::Commitment(own) => {
            let mut recorded = recorded.clone();
            if under_own_name {
                recorded.iter_mut().for_each(|message| rename(message, own.challenge_id));
            } else {
                // The verdict comes with the commitment; roots of a challenge that never ran would end the session.
                recorded.truncate(1);
            }
            recorded
        }
        MinerMessage::DeviceRoots(_) => Vec::new(),
        other => vec![other],
    });
}

fn rename(message: &mut MinerMessage, id: ChallengeId) {
    match message {
        MinerMessage::Commitment(commitment) => commitment.challenge_id = id,
        MinerMessage::DeviceRoots(roots) => roots.challenge_id = id,
        _ => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_split() {
    let stage = Stage::with_two_devices().await;
    // One slot goes from the second device to the first.
    stage
        .catches(&REPLAY_AND_AUDIT, ReasonCode::CommitmentSplit, |lies| {
            lies.in_what_goes_out(rewrite::each(|message| {
                if let MinerMessage::DeviceRoots(roots) = message {
                    let first = roots.evidence.offset == 0;
                    roots.evidence.count = if first { roots.evidence.count + 1 } else { roots.evidence.count - 1 };
                    roots.evidence.offset += u32::from(!first);
                }
            }));
        })
        .await;
    // All of it is done over one slot less, and signed so.
    stage
        .catches(&REPLAY_AND_AUDIT, ReasonCode::CommitmentSplit, |lies| {
            lies.in_what_comes_in(|mut message| {
                if let ValidatorMessage::Challenge(offer) = &mut message {
                    offer.total -= 1;
                }
                message
            });
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_miners_commitment() {
    // Both show one device, so that their work differs in its key alone. By itself that would fail the thief.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("fleet.toml");
    let policy = "[[group]]\nname = \"default\"\n[group.identity]\ndevice_at_two_miners = \"record\"\n";
    std::fs::write(&file, policy).unwrap();
    let flags = vec![format!("--fleet-policy={}", file.display())];
    let validator = TestValidator::start(&Policy { flags, ..Policy::default() }).await;
    let victim = DishonestMiner::connect(validator.address, &Disguise { seed: 2, ..Disguise::new(&[14]) }).await;
    let thief = DishonestMiner::connect(validator.address, &Disguise { seed: 3, ..Disguise::new(&[14]) }).await;
    for miner in [&victim, &thief] {
        validator.wait_for_miner(miner.key, true).await;
        validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap().expect_pass();
    }
    let stolen = record(&victim.lies);
    validator.challenge(victim.key, Some(Mode::Audit)).await.unwrap().expect_pass();
    victim.lies.stop();
    for mode in REPLAY_AND_AUDIT {
        play(&thief.lies, &stolen, false);
        validator.challenge(thief.key, Some(mode)).await.unwrap().expect(ReasonCode::CommitmentChallenge);
        // The challenge's id goes into the checksum: under another name it no longer is one of these roots.
        play(&thief.lies, &stolen, true);
        validator.challenge(thief.key, Some(mode)).await.unwrap().expect(ReasonCode::CommitmentChecksum);
    }
    thief.lies.stop();
    validator.challenge(thief.key, Some(Mode::Audit)).await.unwrap().expect_pass();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replayed_commitment() {
    let stage = Stage::with_one_device().await;
    let old = record(&stage.miner.lies);
    stage.challenge(Mode::Audit).await.expect_pass();
    stage.miner.lies.stop();
    stage.catches(&REPLAY_AND_AUDIT, ReasonCode::CommitmentChallenge, |lies| play(lies, &old, false)).await;
    stage.catches(&REPLAY_AND_AUDIT, ReasonCode::CommitmentChecksum, |lies| play(lies, &old, true)).await;
}

/// It is on its way when the deadline passes, and comes after the verdict, where it changes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_commitment_after_the_deadline() {
    let policy = Policy { commit_deadline_s: 2, ..Policy::default() };
    let stage = Stage::new(&policy, &[14]).await;
    let delayed = |lies: &Lies| {
        lies.in_what_goes_out(|message| {
            if matches!(message, MinerMessage::Commitment(_)) {
                std::thread::sleep(Duration::from_millis(2500));
            }
            vec![message]
        });
    };
    stage.catches(&[Mode::Audit], ReasonCode::CommitmentLate, delayed).await;
    // A miner that gives up by itself is as late.
    let slow = |lies: &Lies| lies.in_work(WorkLie::Slow(Duration::from_secs(30)));
    stage.catches(&[Mode::Replay], ReasonCode::CommitmentLate, slow).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_commitment() {
    let stage = Stage::with_two_devices().await;
    let at_once = |lies: &Lies| {
        lies.in_what_goes_out(|message| match message {
            MinerMessage::Commitment(_) => vec![message.clone(), message],
            other => vec![other],
        });
    };
    stage.catches(&REPLAY_AND_AUDIT, ReasonCode::CommitmentTwice, at_once).await;
    let after_the_probe = |lies: &Lies| {
        let mut first = None;
        lies.in_what_goes_out(move |message| match message {
            MinerMessage::Commitment(_) => {
                first = Some(message.clone());
                vec![message]
            }
            MinerMessage::ProbeAnswer(_) => first.take().into_iter().chain([message]).collect(),
            other => vec![other],
        });
    };
    stage.catches(&[Mode::Audit], ReasonCode::CommitmentTwice, after_the_probe).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_roots_of_two_devices_swapped() {
    let stage = Stage::with_two_devices().await;
    // The roots change places, the rest stays.
    let roots = |lies: &Lies| {
        let mut first = None;
        lies.in_what_goes_out(move |message| match message {
            MinerMessage::DeviceRoots(mut roots) => match first.take() {
                None => {
                    first = Some(roots);
                    Vec::new()
                }
                Some(mut before) => {
                    std::mem::swap(&mut before.evidence.roots, &mut roots.evidence.roots);
                    vec![MinerMessage::DeviceRoots(before), MinerMessage::DeviceRoots(roots)]
                }
            },
            other => vec![other],
        });
    };
    stage.catches(&REPLAY_AND_AUDIT, ReasonCode::CommitmentChecksum, roots).await;
    // The devices come in the other order.
    let order = |lies: &Lies| {
        let mut first = None;
        lies.in_what_goes_out(move |message| match message {
            MinerMessage::DeviceRoots(_) if first.is_none() => {
                first = Some(message);
                Vec::new()
            }
            MinerMessage::DeviceRoots(_) => [Some(message), first.take()].into_iter().flatten().collect(),
            other => vec![other],
        });
    };
    stage.catches(&[Mode::Audit], ReasonCode::CommitmentSplit, order).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fewer_roots_than_iterations() {
    let policy = Policy { iterations: 2, ..Policy::default() };
    let stage = Stage::new(&policy, &[14]).await;
    stage
        .catches(&[Mode::Audit], ReasonCode::CommitmentRoots, |lies| {
            lies.in_what_goes_out(rewrite::each(|message| {
                if let MinerMessage::DeviceRoots(roots) = message {
                    roots.evidence.roots.pop();
                }
            }));
        })
        .await;
}

/// The session is proved with one key, the work is signed with another.
#[tokio::test(flavor = "multi_thread")]
async fn a_signature_by_another_key() {
    let validator = TestValidator::start(&Policy::default()).await;
    let honest = Disguise::new(&[14]);
    let disguises = [honest.clone(), Disguise { seed: 5, signing_seed: Some(1), ..honest }];
    let reasons = [None, Some(ReasonCode::CommitmentSignature)];
    for (disguise, reason) in disguises.iter().zip(reasons) {
        let miner = DishonestMiner::connect(validator.address, disguise).await;
        validator.wait_for_miner(miner.key, true).await;
        for mode in REPLAY_AND_AUDIT {
            let ruling = validator.challenge(miner.key, Some(mode)).await.unwrap();
            match reason {
                None => ruling.expect_pass(),
                Some(code) => ruling.expect(code),
            };
        }
    }
}
