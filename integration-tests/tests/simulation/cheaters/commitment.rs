//! Commitments of another miner, of another time, or not of the computed roots.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use assay_integration_tests::dishonest::{Disguise, Lies, rewrite};
use assay_policy::Policy;
use assay_policy::challenge::LinkedPolicy;
use assay_protocol::message::{MinerMessage, ValidatorMessage};
use assay_protocol::verdict::{DeviceWork, Mode, ReasonCode, Verdict, Work};
use assay_work::{ChallengeId, Checksum, DeviceId};

use super::stage::{REPLAY_AND_AUDIT, Stage, usual};
use crate::sessions::Lag;

/// The commitment and roots of an earlier challenge.
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

/// Sends the recorded messages in place of the own commitment: under the name of the challenge that runs, or unchanged.
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

#[test]
fn another_split() {
    let mut stage = Stage::with_two_devices();
    // One slot goes from the second device to the first.
    stage.catches(&REPLAY_AND_AUDIT, ReasonCode::CommitmentSplit, |lies| {
        lies.in_what_goes_out(rewrite::each(|message| {
            if let MinerMessage::DeviceRoots(roots) = message {
                let first = roots.evidence.offset == 0;
                roots.evidence.count = if first { roots.evidence.count + 1 } else { roots.evidence.count - 1 };
                roots.evidence.offset += u32::from(!first);
            }
        }));
    });
    // All of it is done over one slot less, and signed so.
    stage.catches(&REPLAY_AND_AUDIT, ReasonCode::CommitmentSplit, |lies| {
        lies.in_what_comes_in(|mut message| {
            if let ValidatorMessage::Challenge(offer) = &mut message {
                offer.total -= 1;
            }
            message
        });
    });
}

fn word(message: &mut MinerMessage) -> Option<&mut (DeviceId, Checksum)> {
    if let MinerMessage::Progress { finished, .. } = message { finished.as_mut() } else { None }
}

/// Each device has the time of its own word, in its work and its probe: a slower one beside it excuses none.
#[test]
fn a_device_is_done_before_the_host() {
    let is_late = |message: &MinerMessage| {
        matches!(message, MinerMessage::Commitment(_) | MinerMessage::Progress { .. } | MinerMessage::ProbeAnswer(_))
    };
    let late: Lag = (is_late, Duration::from_millis(500));
    let challenge = |stage: &mut Stage| {
        let ruling = stage.challenge_with_lag(Mode::Audit, late);
        ruling.expect_pass();
        let verdict = Verdict::try_from(ruling.verdict).unwrap();
        for DeviceWork { hiding, work, .. } in &verdict.devices {
            let hiding = hiding.unwrap();
            assert!(hiding.rate_per_s >= work.tops * 1e12 / 2.0, "a late commitment makes no slow device of it");
            assert_eq!(work.probe_gb_per_s, work.probe_bytes as f64 / work.probe_seconds / 1e9);
            let moved = hiding.bus_bytes_per_s * verdict.whole.probe_seconds / work.probe_bytes as f64;
            assert!((hiding.over_buses / moved - 1.0).abs() < 1e-6, "until the answer devices may help one another");
        }
        let halves = |work: Work| [work.seconds, work.probe_seconds].map(|s| (s * 2.0).round() as u32);
        let devices = verdict.devices.into_iter().map(|device| halves(device.work)).collect::<Vec<_>>();
        (halves(verdict.whole), devices, stage.words)
    };
    let mut stage = Stage::with_two_devices();
    assert_eq!(challenge(&mut stage), ([1, 1], vec![[1, 1]; 2], 0), "without a word");
    stage.say_done();
    assert_eq!(challenge(&mut stage), ([3, 3], vec![[1, 1], [2, 2]], 4));
    // The first word of a device counts, and no other device's, before the host's answer.
    let mut last = None;
    stage.lies.in_what_goes_out(move |mut message| {
        let honest = message.clone();
        if matches!(message, MinerMessage::ProbeAnswer(_)) {
            return [message].into_iter().chain(last.take()).collect();
        }
        let Some(said) = word(&mut message) else { return vec![message] };
        said.1 = Checksum([1; 32]);
        let again = message.clone();
        last = Some(honest.clone());
        word(&mut message).into_iter().for_each(|said| said.0 = DeviceId([9; 16]));
        vec![honest, again, message]
    });
    assert_eq!(challenge(&mut stage), ([7, 7], vec![[1, 1], [4, 4]], 4));
    let mut alone = Stage::with_one_device();
    alone.say_done();
    alone.lies.in_what_goes_out(rewrite::each(|message| assert!(word(message).is_none())));
    assert_eq!(challenge(&mut alone), ([1, 1], vec![[1, 1]], 0), "one device is done with the host");
    stage.lies.stop();
    for (nth, code) in [(1, ReasonCode::CommitmentChecksum), (3, ReasonCode::ProbeChecksum)] {
        stage.catches(&[Mode::Audit], code, |lies| {
            let mut words = 0;
            lies.in_what_goes_out(rewrite::each(move |message| {
                if let Some((_, checksum)) = word(message) {
                    words += 1;
                    checksum.0[0] ^= u8::from(words == nth);
                }
            }));
        });
    }
}

/// In the probe of a device's own slots: words of any other stage change nothing.
#[test]
fn a_device_that_is_done_says_so_in_its_own_probe() {
    let linked = Some(LinkedPolicy { expect_gb_per_s: 0.01, min_gb_per_s: 0.0 });
    let mut stage = Stage::new(Policy { linked, sweep: true, ..usual() }, &[14, 14]);
    stage.say_done();
    stage.challenge(Mode::Audit).expect_pass();
    assert_eq!(stage.words, 4);
    let (said, mut kept) = (Arc::new(Mutex::new(0)), Vec::new());
    let count = said.clone();
    stage.lies.in_what_goes_out(move |mut message| {
        if word(&mut message).is_some() {
            *count.lock().unwrap() += 1;
            kept.push(message);
            return if kept.len() > 2 { Vec::new() } else { vec![kept[kept.len() - 1].clone()] };
        }
        let is_answer = matches!(message, MinerMessage::ProbeAnswer(_));
        [message].into_iter().chain(kept.iter().skip(2).filter(|_| is_answer).cloned()).collect()
    });
    let ruling = stage.challenge(Mode::Audit);
    ruling.expect_pass();
    let verdict = Verdict::try_from(ruling.verdict).unwrap();
    assert!(verdict.link.is_some() && verdict.devices.iter().all(|device| device.sweep.is_some()));
    let is_whole = |device: &DeviceWork| device.work.probe_seconds == verdict.whole.probe_seconds;
    assert!(verdict.devices.iter().all(is_whole));
    assert_eq!((stage.words, *said.lock().unwrap()), (2, 4));
}

#[test]
fn another_miners_commitment() {
    // Both show one device, so that their work differs in its key alone.
    let disguised = |seed| Stage::of(usual(), &Disguise { seed, ..Disguise::new(&[14]) });
    let (mut victim, mut thief) = (disguised(2), disguised(3));
    let stolen = record(&victim.lies);
    victim.challenge(Mode::Audit).expect_pass();
    let plays = |under_own_name| {
        let stolen = stolen.clone();
        move |lies: &Lies| play(lies, &stolen, under_own_name)
    };
    thief.catches(&REPLAY_AND_AUDIT, ReasonCode::CommitmentChallenge, plays(false));
    // The challenge's id goes into the checksum: under another name it no longer is one of these roots.
    thief.catches(&REPLAY_AND_AUDIT, ReasonCode::CommitmentChecksum, plays(true));
}

#[test]
fn a_replayed_commitment() {
    let mut stage = Stage::with_one_device();
    let old = record(&stage.lies);
    stage.challenge(Mode::Audit).expect_pass();
    stage.lies.stop();
    stage.catches(&REPLAY_AND_AUDIT, ReasonCode::CommitmentChallenge, |lies| play(lies, &old, false));
    stage.catches(&REPLAY_AND_AUDIT, ReasonCode::CommitmentChecksum, |lies| play(lies, &old, true));
}

/// It is on its way when the deadline passes, and comes after the verdict, where it changes nothing.
#[test]
fn a_commitment_after_the_deadline() {
    let mut stage = Stage::new(Policy { commit_deadline: Duration::from_secs(2), ..usual() }, &[14]);
    let is_commitment = |message: &MinerMessage| matches!(message, MinerMessage::Commitment(_));
    stage.catches_late(&REPLAY_AND_AUDIT, ReasonCode::CommitmentLate, (is_commitment, Duration::from_millis(2500)));
}

#[test]
fn the_roots_of_two_devices_swapped() {
    let mut stage = Stage::with_two_devices();
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
    stage.catches(&REPLAY_AND_AUDIT, ReasonCode::CommitmentChecksum, roots);
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
    stage.catches(&[Mode::Audit], ReasonCode::CommitmentSplit, order);
}

#[test]
fn fewer_roots_than_iterations() {
    let policy = Policy { iterations: 2, ..usual() };
    let mut stage = Stage::new(policy, &[14]);
    stage.catches(&[Mode::Audit], ReasonCode::CommitmentRoots, |lies| {
        lies.in_what_goes_out(rewrite::each(|message| {
            if let MinerMessage::DeviceRoots(roots) = message {
                roots.evidence.roots.pop();
            }
        }));
    });
}

/// They would be kept until those of the last device are there.
#[test]
fn more_roots_than_iterations_before_those_of_a_device_that_never_come() {
    let mut stage = Stage::with_two_devices();
    stage.catches(&[Mode::Audit], ReasonCode::CommitmentRoots, |lies| {
        let mut is_first = true;
        lies.in_what_goes_out(move |message| match message {
            MinerMessage::DeviceRoots(mut roots) if std::mem::take(&mut is_first) => {
                roots.evidence.roots.extend(vec![roots.evidence.roots[0]; 1000]);
                vec![MinerMessage::DeviceRoots(roots)]
            }
            MinerMessage::DeviceRoots(_) => Vec::new(),
            other => vec![other],
        });
    });
}

/// The session is proved with one key, the work is signed with another.
#[test]
fn a_signature_by_another_key() {
    let disguise = Disguise { seed: 5, signing_seed: Some(1), ..Disguise::new(&[14]) };
    let mut stage = Stage::of(usual(), &disguise);
    for mode in REPLAY_AND_AUDIT {
        stage.challenge(mode).expect(ReasonCode::CommitmentSignature);
    }
}
